package nfsclient

import (
	"bytes"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// disk is a file at a server that loses what was not committed when it
// restarts.
type disk struct {
	cache, stable [64]byte
	verf          nfs4.Verifier
}

func (d *disk) restart() {
	d.cache = d.stable
	d.verf[0]++
}

// The ledger against a server that restarts at any time: after a COMMIT and
// what has to be written again, the file holds what the last WRITE of each byte
// has put there.
func TestLedgerAgainstDisk(t *testing.T) {
	pool := ulb.NewPool(ulb.HeapMemory{}, 64<<20)
	defer pool.Close()
	rapid.Check(t, func(t *rapid.T) {
		l := ledger{clock: new(atomic.Uint64)}
		var d disk
		var want [64]byte
		var order uint64
		defer func() {
			l.discard(l.mark())
			if n := pool.InUse(); n != 0 || l.size != 0 {
				t.Errorf("%d buffers left, %d bytes counted", n, l.size)
			}
		}()
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				off := rapid.IntRange(0, 63).Draw(t, "off")
				n := rapid.IntRange(1, 64-off).Draw(t, "n")
				b, err := pool.Get(t.Context(), n)
				if err != nil {
					t.Fatal(err)
				}
				order++
				for i := range n {
					b.Data[i] = byte(order)
				}
				copy(want[off:], b.Data[:n])
				copy(d.cache[off:], b.Data[:n])
				if rapid.IntRange(0, 5).Draw(t, "stable") == 0 {
					copy(d.stable[off:], b.Data[:n])
					l.stable(int64(off), n, order)
					b.Release()
				} else {
					l.add(int64(off), n, b, order, d.verf, nil)
				}
			},
			"truncate": func(t *rapid.T) { // SETATTR goes to stable storage at once
				mark := l.mark()
				size := rapid.IntRange(0, 63).Draw(t, "size")
				clear(want[size:])
				clear(d.cache[size:])
				clear(d.stable[size:])
				l.truncate(int64(size), mark)
			},
			"restart": func(*rapid.T) { d.restart() },
			"sync": func(t *rapid.T) {
				mark := l.mark()
				d.stable = d.cache
				verf := d.verf
				if rapid.Bool().Draw(t, "restart behind COMMIT") {
					d.restart()
				}
				stale := l.committed(mark, verf)
				var again []dirty
				for off := int64(0); ; {
					p, ok := l.next(off, mark, verf)
					if !ok {
						break
					}
					off = p.end
					again = append(again, p)
				}
				if stale != (len(again) > 0) {
					t.Fatalf("stale %v, %d pieces", stale, len(again))
				}
				for _, p := range again {
					copy(d.cache[p.off:], p.data())
					copy(d.stable[p.off:], p.data())
					l.rewritten(p)
				}
				if !l.empty() {
					t.Fatalf("%d pieces left", len(l.pieces))
				}
				if d.stable != want {
					t.Fatalf("on disk\n%x, want\n%x", d.stable, want)
				}
			},
			"": func(t *rapid.T) {
				end, size := int64(0), 0
				seen := map[*heldBuffer]int{}
				for _, p := range l.pieces {
					if p.off < end || p.end <= p.off || len(p.data()) != int(p.end-p.off) {
						t.Fatalf("piece from %d to %d behind %d", p.off, p.end, end)
					}
					end = p.end
					if !bytes.Equal(p.data(), want[p.off:p.end]) {
						t.Fatalf("piece at %d is not what was written last", p.off)
					}
					if seen[p.buf]++; seen[p.buf] == 1 {
						size += len(p.buf.Data)
					}
				}
				for b, n := range seen {
					if b.refs != n {
						t.Fatalf("%d references to a buffer, counted %d", n, b.refs)
					}
				}
				if size != l.size {
					t.Fatalf("%d bytes held, counted %d", size, l.size)
				}
			},
		})
	})
}

// A WRITE that was acknowledged while a COMMIT was under way is not covered by
// it, even if the verifier is the same.
func TestLedgerCommitCoversOnlyWhatWasAcknowledged(t *testing.T) {
	pool := ulb.NewPool(ulb.HeapMemory{}, 1<<20)
	get := func() *ulb.Buffer {
		b, err := pool.Get(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	l := ledger{clock: new(atomic.Uint64)}
	var verf nfs4.Verifier
	l.add(0, 10, get(), 2, verf, nil)
	mark := l.mark()
	l.add(100, 10, get(), 1, verf, nil) // issued before, acknowledged after
	if l.committed(mark, verf) || len(l.pieces) != 1 || l.pieces[0].off != 100 {
		t.Errorf("%+v", l.pieces)
	}
	// One that was issued earlier does not take bytes from a later one.
	l.add(95, 10, get(), 4, verf, nil)
	l.add(90, 30, get(), 3, verf, nil)
	for _, p := range l.pieces {
		if p.off == 95 && p.order != 4 || p.off != 95 && p.order != 3 {
			t.Errorf("bytes from %d to %d belong to WRITE %d", p.off, p.end, p.order)
		}
	}
	if len(l.pieces) != 3 {
		t.Errorf("%d pieces", len(l.pieces))
	}
	l.discard(l.mark())
	if pool.InUse() != 0 {
		t.Error("buffers left")
	}
}
