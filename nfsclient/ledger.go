package nfsclient

import (
	"cmp"
	"slices"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// ledger is the list of what the server has acknowledged of one file but not
// yet committed to stable storage: every such byte is in a buffer that the
// ledger owns, until a COMMIT returns the verifier that came with the WRITE. If
// it returns another one the server has restarted in between, and the data
// has to be written again (RFC 8881 section 18.3.3). A ledger does no I/O and
// is not safe for concurrent use.
type ledger struct {
	entries []dirty // by order
	size    int     // bytes of memory held
	acked   uint64  // WRITEs added so far
}

// dirty is the data of one WRITE.
type dirty struct {
	// order is the order in which WRITEs were issued. Data that is written
	// again must not replace what was issued later.
	order uint64
	acked uint64 // how many WRITEs had been acknowledged with this one; set by add
	off   int64
	n     int // bytes at the start of buf
	buf   *ulb.Buffer
	verf  nfs4.Verifier
	file  *File // whose stateid and credential to write it with again
}

func (d *dirty) end() int64 { return d.off + int64(d.n) }

// add takes over the data of an acknowledged WRITE. Older data that it covers
// completely is not needed any more, and released.
func (l *ledger) add(d dirty) {
	l.entries = slices.DeleteFunc(l.entries, func(e dirty) bool {
		if e.order < d.order && e.off >= d.off && e.end() <= d.end() {
			l.drop(e)
			return true
		}
		return false
	})
	l.acked++
	d.acked = l.acked
	// WRITEs that ran side by side may be answered in any order.
	i, _ := slices.BinarySearchFunc(l.entries, d, func(a, b dirty) int { return cmp.Compare(a.order, b.order) })
	l.entries = slices.Insert(l.entries, i, d)
	l.size += len(d.buf.Data)
}

func (l *ledger) drop(e dirty) {
	l.size -= len(e.buf.Data)
	e.buf.Release()
}

// mark returns a mark for what has been acknowledged up to now: only that is
// covered by a COMMIT that is sent afterwards.
func (l *ledger) mark() uint64 { return l.acked }

// empty tells whether there is nothing to commit.
func (l *ledger) empty() bool { return len(l.entries) == 0 }

// committed takes the verifier of a COMMIT that was sent at mark. What it
// confirms is released. It tells whether something remains that the server has
// lost.
func (l *ledger) committed(mark uint64, verf nfs4.Verifier) (stale bool) {
	l.forget(func(e dirty) bool {
		if e.acked > mark {
			return false
		}
		stale = stale || e.verf != verf
		return e.verf == verf
	})
	return stale
}

// next returns the first entry behind order that a COMMIT sent at mark has
// found to be lost: the next to write again.
func (l *ledger) next(order, mark uint64, verf nfs4.Verifier) (dirty, bool) {
	for _, e := range l.entries {
		if e.order > order && e.acked <= mark && e.verf != verf {
			return e, true
		}
	}
	return dirty{}, false
}

// rewritten notes that the data of an entry is on stable storage now.
func (l *ledger) rewritten(order uint64) { l.forget(func(e dirty) bool { return e.order == order }) }

// discard gives up what had been acknowledged at mark: the data is lost.
func (l *ledger) discard(mark uint64) { l.forget(func(e dirty) bool { return e.acked <= mark }) }

func (l *ledger) forget(which func(dirty) bool) {
	l.entries = slices.DeleteFunc(l.entries, func(e dirty) bool {
		if which(e) {
			l.drop(e)
			return true
		}
		return false
	})
}
