//go:build cgo && linux

package verbs

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/ulb"
)

// arenaSize is the size of an arena in bytes. What needs more gets an arena of
// its own.
const arenaSize = 4 << 20

// Memory is payload memory outside the Go heap: arenas that are mapped when
// they are needed, and registered as a whole with each device that is given
// buffers from them. It outlives queue pairs and devices. It implements
// ulb.Memory; the zero value is ready for use.
type Memory struct {
	mu     sync.Mutex
	arenas []*arena
}

// shared is the memory of all queue pairs of the process.
var shared Memory

// SharedMemory returns the memory that all queue pairs of this package use.
func SharedMemory() *Memory { return &shared }

// arena is one mapping.
type arena struct {
	data []byte
	free []run // in order of offset, no two adjacent; guarded by Memory.mu
	// regs is replaced, never changed, with Memory.mu held.
	regs atomic.Pointer[[]registration]
}

// run is a free piece of an arena, in bytes.
type run struct{ off, n int }

// region is the value of ulb.Buffer.Region: a piece handed out.
type region struct {
	arena  *arena
	off, n int
	freed  atomic.Bool
}

// registrar is a device as the memory sees it.
type registrar interface {
	// register makes [addr, addr+n) usable for local access.
	register(addr uintptr, n int) (registration, error)
}

// registration is that of an arena with one device.
type registration struct {
	dev  registrar
	key  uint32 // local key
	mr   any    // the device's own
	drop func() error
}

// Alloc implements ulb.Memory.
func (m *Memory) Alloc(n int) ([]byte, any, error) {
	if n < 1 {
		return nil, nil, fmt.Errorf("verbs: buffer of %d bytes", n)
	}
	size := (n + ulb.PageSize - 1) &^ (ulb.PageSize - 1)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.arenas {
		if off, ok := a.take(size); ok {
			return a.data[off : off+n : off+n], &region{arena: a, off: off, n: size}, nil
		}
	}
	data, err := unix.Mmap(-1, 0, max(size, arenaSize), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("verbs: mapping %d bytes of buffers: %w", max(size, arenaSize), err)
	}
	a := &arena{data: data, free: []run{{0, len(data)}}}
	a.regs.Store(new([]registration))
	m.arenas = append(m.arenas, a)
	off, _ := a.take(size)
	return a.data[off : off+n : off+n], &region{arena: a, off: off, n: size}, nil
}

// take cuts size bytes from the first run that has them.
func (a *arena) take(size int) (off int, ok bool) {
	for i := range a.free {
		r := &a.free[i]
		if r.n < size {
			continue
		}
		off = r.off
		r.off, r.n = r.off+size, r.n-size
		if r.n == 0 {
			a.free = slices.Delete(a.free, i, i+1)
		}
		return off, true
	}
	return 0, false
}

// give puts a run back.
func (a *arena) give(r run) {
	i, _ := slices.BinarySearchFunc(a.free, r.off, func(f run, off int) int { return f.off - off })
	a.free = slices.Insert(a.free, i, r)
	if i+1 < len(a.free) && a.free[i].off+a.free[i].n == a.free[i+1].off {
		a.free[i].n += a.free[i+1].n
		a.free = slices.Delete(a.free, i+1, i+2)
	}
	if i > 0 && a.free[i-1].off+a.free[i-1].n == a.free[i].off {
		a.free[i-1].n += a.free[i].n
		a.free = slices.Delete(a.free, i, i+1)
	}
}

func (a *arena) empty() bool { return len(a.free) == 1 && a.free[0].n == len(a.data) }

// Free implements ulb.Memory. Memory that is not handed out panics: somebody
// else may own it already.
func (m *Memory) Free(_ []byte, r any) {
	reg := r.(*region)
	if reg.freed.Swap(true) {
		panic("verbs: buffer freed twice")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a := reg.arena
	a.give(run{reg.off, reg.n})
	if !a.empty() {
		return
	}
	// One arena of the ordinary size is kept for the next buffers.
	if len(a.data) == arenaSize && !slices.ContainsFunc(m.arenas, func(b *arena) bool { return b != a && b.empty() }) {
		return
	}
	for _, g := range *a.regs.Load() {
		if g.drop() != nil {
			return // a device that does not let go may still use it
		}
	}
	a.regs.Store(new([]registration))
	m.arenas = slices.DeleteFunc(m.arenas, func(b *arena) bool { return b == a })
	_ = unix.Munmap(a.data) // it is mapped, so this cannot fail
}

// InUse returns the number of bytes handed out, whole pages.
func (m *Memory) InUse() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := 0
	for _, a := range m.arenas {
		n += len(a.data)
		for _, r := range a.free {
			n -= r.n
		}
	}
	return n
}

var errForeign = errors.New("verbs: the buffer is not from Memory, or was freed")

// locate returns the address of bytes off to off+n of buf, and the
// registration with dev of the arena in which they lie.
func (m *Memory) locate(dev registrar, buf *ulb.Buffer, off, n int) (uintptr, *registration, error) {
	if off < 0 || n < 0 || off > len(buf.Data) || n > len(buf.Data)-off {
		return 0, nil, fmt.Errorf("verbs: bytes %d+%d of a buffer of %d", off, n, len(buf.Data))
	}
	r, ok := buf.Region.(*region)
	if !ok || r.freed.Load() {
		return 0, nil, errForeign
	}
	a := r.arena
	at := uintptr(unsafe.Pointer(unsafe.SliceData(buf.Data)))
	base := uintptr(unsafe.Pointer(unsafe.SliceData(a.data))) + uintptr(r.off)
	if at < base || at+uintptr(len(buf.Data)) > base+uintptr(r.n) {
		return 0, nil, errForeign
	}
	at += uintptr(off)
	for regs := *a.regs.Load(); ; {
		for i := range regs {
			if regs[i].dev == dev {
				return at, &regs[i], nil
			}
		}
		var err error
		if regs, err = m.register(dev, a); err != nil {
			return 0, nil, err
		}
	}
}

// register registers an arena with a device and returns all registrations.
func (m *Memory) register(dev registrar, a *arena) ([]registration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := *a.regs.Load()
	if slices.ContainsFunc(old, func(g registration) bool { return g.dev == dev }) {
		return old, nil
	}
	g, err := dev.register(uintptr(unsafe.Pointer(unsafe.SliceData(a.data))), len(a.data))
	if err != nil {
		return nil, err
	}
	regs := append(slices.Clone(old), g)
	a.regs.Store(&regs)
	return regs, nil
}

// unregister takes back all registrations with a device.
func (m *Memory) unregister(dev registrar) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, a := range m.arenas {
		regs := slices.Clone(*a.regs.Load())
		i := slices.IndexFunc(regs, func(g registration) bool { return g.dev == dev })
		if i < 0 {
			continue
		}
		errs = append(errs, regs[i].drop())
		regs = slices.Delete(regs, i, i+1)
		a.regs.Store(&regs)
	}
	return errors.Join(errs...)
}
