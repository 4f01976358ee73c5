//go:build cgo && linux

package verbs

import (
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"nfsrdma-fuse/ulb"
)

// fakeDevice registers nothing, and counts.
type fakeDevice struct {
	live int
	fail error
}

func (d *fakeDevice) register(addr uintptr, _ int) (registration, error) {
	if d.fail != nil {
		return registration{}, d.fail
	}
	d.live++
	return registration{dev: d, key: uint32(addr >> 12), drop: func() error { d.live--; return nil }}, nil
}

// Buffers are page-aligned, do not overlap, keep their bytes, and everything is
// given back in the end but one arena.
func TestMemory(t *testing.T) {
	var m Memory
	dev := new(fakeDevice)
	type held struct {
		buf  ulb.Buffer
		mark byte
	}
	var all []held
	for i := range 2000 {
		if len(all) > 0 && rand.IntN(5) < 2 {
			k := rand.IntN(len(all))
			h := all[k]
			for _, at := range []int{0, len(h.buf.Data) / 2, len(h.buf.Data) - 1} {
				if h.buf.Data[at] != h.mark {
					t.Fatalf("byte %d of a buffer of %d was overwritten", at, len(h.buf.Data))
				}
			}
			m.Free(h.buf.Data, h.buf.Region)
			all[k] = all[len(all)-1]
			all = all[:len(all)-1]
			continue
		}
		n := 1 + rand.IntN(1<<rand.IntN(20))
		if i%97 == 0 {
			n += arenaSize
		}
		data, region, err := m.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		if len(data) != n || cap(data) != n || uintptr(unsafe.Pointer(unsafe.SliceData(data)))%ulb.PageSize != 0 {
			t.Fatalf("buffer of %d bytes has %d, not at a page", n, len(data))
		}
		h := held{ulb.Buffer{Data: data, Region: region}, byte(i)}
		for j := range data {
			data[j] = h.mark
		}
		if at, _, err := m.locate(dev, &h.buf, n/2, n-n/2); err != nil || at != uintptr(unsafe.Pointer(unsafe.SliceData(data)))+uintptr(n/2) {
			t.Fatalf("located at %#x, %v", at, err)
		}
		all = append(all, h)
	}
	for _, h := range all {
		m.Free(h.buf.Data, h.buf.Region)
	}
	if n := m.InUse(); n != 0 {
		t.Errorf("%d bytes are still handed out", n)
	}
	if len(m.arenas) > 1 || dev.live != len(m.arenas) {
		t.Errorf("%d arenas and %d registrations are left", len(m.arenas), dev.live)
	}
	if err := m.unregister(dev); err != nil || dev.live != 0 {
		t.Errorf("%d registrations after the device has gone, %v", dev.live, err)
	}
}

// Memory that is not there is refused.
func TestLocate(t *testing.T) {
	var m Memory
	dev := new(fakeDevice)
	data, r, err := m.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	other, r2, err := m.Alloc(5000)
	if err != nil {
		t.Fatal(err)
	}
	good := ulb.Buffer{Data: data, Region: r}
	for _, c := range []struct {
		name   string
		buf    ulb.Buffer
		off, n int
	}{
		{"before the buffer", good, -1, 10},
		{"negative length", good, 0, -1},
		{"behind the buffer", good, 4999, 2},
		{"far behind", good, 1 << 60, 1},
		{"of the Go heap", ulb.Buffer{Data: make([]byte, 100)}, 0, 100},
		{"of another region", ulb.Buffer{Data: other, Region: r}, 0, 100},
	} {
		if _, _, err := m.locate(dev, &c.buf, c.off, c.n); err == nil {
			t.Errorf("%s: located", c.name)
		}
	}
	dev.fail = errors.New("no")
	if _, _, err := m.locate(dev, &good, 0, 1); !errors.Is(err, dev.fail) {
		t.Errorf("registration failed, and locate says %v", err)
	}
	m.Free(data, r)
	if _, _, err := m.locate(dev, &good, 0, 1); err == nil {
		t.Error("located after Free")
	}
	m.Free(other, r2)
	defer func() {
		if recover() == nil {
			t.Error("freed twice without a panic")
		}
	}()
	m.Free(other, r2)
}
