package nfsclient

import (
	"cmp"
	"slices"
	"sync/atomic"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// ledger holds what the server has acknowledged of one file but not yet
// committed to stable storage: every such byte has exactly one owner here, in a
// buffer that the ledger keeps until a COMMIT returns the verifier that came
// with the WRITE. If it returns another one, the server has restarted in
// between, and the data has to be written again (RFC 8881 section 18.3.3).
//
// Where WRITEs overlap, the later one owns the bytes: what is written again can
// then go out in any order, and never replaces what was written afterwards. A
// ledger does no I/O and is not safe for concurrent use.
type ledger struct {
	pieces []dirty // by offset; they do not overlap
	size   int     // bytes of memory held
	// clock counts the WRITEs acknowledged, of all files: it tells what came
	// before a COMMIT or a truncation was sent.
	clock *atomic.Uint64

	// Memory used again, so that a WRITE allocates nothing.
	spare      []*heldBuffer
	keep, rest []dirty
}

// dirty is a range of the file and where its data is.
type dirty struct {
	off, end int64 // in the file
	at       int   // of the data in the buffer
	buf      *heldBuffer
	// order is the order in which WRITEs were issued, acked the one in which
	// they were acknowledged.
	order, acked uint64
	verf         nfs4.Verifier
	file         *File // whose stateid and credential to write it with again
}

// heldBuffer is a buffer that one or more pieces refer to.
type heldBuffer struct {
	*ulb.Buffer
	refs int
}

// data returns the bytes of a piece.
func (d *dirty) data() []byte { return d.buf.Data[d.at : d.at+int(d.end-d.off)] }

// sub returns the part of d from off to end.
func (d dirty) sub(off, end int64) dirty {
	d.at += int(off - d.off)
	d.off, d.end = off, end
	return d
}

// add takes over buf, whose first n bytes were written at off by the WRITE with
// that order.
func (l *ledger) add(off int64, n int, buf *ulb.Buffer, order uint64, verf nfs4.Verifier, file *File) {
	d := dirty{off: off, end: off + int64(n), buf: l.hold(buf), order: order, acked: l.clock.Add(1), verf: verf, file: file}
	l.size += len(buf.Data)
	d.buf.refs++ // until all parts are in
	for _, p := range l.cut(d) {
		l.insert(p)
	}
	l.unref(d.buf)
}

// stable notes that a WRITE of n bytes at off went to stable storage at once: what
// older WRITEs left there is not needed any more.
func (l *ledger) stable(off int64, n int, order uint64) {
	l.cut(dirty{off: off, end: off + int64(n), order: order})
}

// cut makes room for d: it takes the range away from older pieces, and returns
// what remains of d outside of newer ones. WRITEs that ran side by side may be
// acknowledged in another order than they were issued.
func (l *ledger) cut(d dirty) []dirty {
	i, _ := slices.BinarySearchFunc(l.pieces, d.off, func(p dirty, off int64) int { return cmp.Compare(p.end, off+1) })
	keep, rest := l.keep[:0], l.rest[:0]
	at := d.off // how far d has been dealt with
	j := i
	for ; j < len(l.pieces) && l.pieces[j].off < d.end; j++ {
		p := l.pieces[j]
		if p.order > d.order {
			if at < p.off {
				rest = append(rest, d.sub(at, p.off))
			}
			at = min(p.end, d.end)
			keep = append(keep, p)
			continue
		}
		if p.off < d.off {
			keep = append(keep, p.sub(p.off, d.off))
			p.buf.refs++
		}
		if p.end > d.end {
			keep = append(keep, p.sub(d.end, p.end))
			p.buf.refs++
		}
		l.unref(p.buf)
	}
	if at < d.end {
		rest = append(rest, d.sub(at, d.end))
	}
	l.pieces = slices.Replace(l.pieces, i, j, keep...)
	l.keep, l.rest = keep, rest
	return rest
}

// hold returns a heldBuffer for buf without references.
func (l *ledger) hold(buf *ulb.Buffer) *heldBuffer {
	if n := len(l.spare); n > 0 {
		b := l.spare[n-1]
		l.spare = l.spare[:n-1]
		b.Buffer = buf
		return b
	}
	return &heldBuffer{Buffer: buf}
}

// maxSpare bounds the spare memory of a ledger.
const maxSpare = 4096

func (l *ledger) insert(d dirty) {
	i, _ := slices.BinarySearchFunc(l.pieces, d.off, func(p dirty, off int64) int { return cmp.Compare(p.off, off) })
	l.pieces = slices.Insert(l.pieces, i, d)
	d.buf.refs++
}

func (l *ledger) unref(b *heldBuffer) {
	if b.refs--; b.refs == 0 {
		l.size -= len(b.Data)
		b.Release()
		b.Buffer = nil
		if len(l.spare) < maxSpare {
			l.spare = append(l.spare, b)
		}
	}
}

// mark returns a mark for what has been acknowledged up to now: only that is
// covered by a COMMIT that is sent afterwards.
func (l *ledger) mark() uint64 { return l.clock.Load() }

// empty tells whether there is nothing to commit.
func (l *ledger) empty() bool { return len(l.pieces) == 0 }

// committed takes the verifier of a COMMIT that was sent at mark. What it
// confirms is released. It tells whether something remains that the server has
// lost.
func (l *ledger) committed(mark uint64, verf nfs4.Verifier) (stale bool) {
	l.forget(func(p *dirty) bool {
		if p.acked > mark {
			return false
		}
		stale = stale || p.verf != verf
		return p.verf == verf
	})
	return stale
}

// next returns the first piece from off on that a COMMIT sent at mark has found
// to be lost: the next to write again.
func (l *ledger) next(off int64, mark uint64, verf nfs4.Verifier) (dirty, bool) {
	for _, p := range l.pieces {
		if p.off >= off && p.acked <= mark && p.verf != verf {
			return p, true
		}
	}
	return dirty{}, false
}

// truncate drops what had been acknowledged at mark and lies behind size: the
// file was cut there by an operation that was sent then, and must not grow again
// when lost data is written again.
func (l *ledger) truncate(size int64, mark uint64) {
	for i := range l.pieces {
		if p := &l.pieces[i]; p.acked <= mark && p.off < size && p.end > size {
			p.end = size
		}
	}
	l.forget(func(p *dirty) bool { return p.acked <= mark && p.off >= size })
}

// pin keeps the data of a piece from being released; unpin ends that.
func (l *ledger) pin(d dirty)   { d.buf.refs++ }
func (l *ledger) unpin(d dirty) { l.unref(d.buf) }

// rewritten notes that the data of a piece is on stable storage now.
func (l *ledger) rewritten(d dirty) {
	l.forget(func(p *dirty) bool { return p.off == d.off && p.order == d.order })
}

// discard gives up what had been acknowledged at mark: the data is lost.
func (l *ledger) discard(mark uint64) { l.forget(func(p *dirty) bool { return p.acked <= mark }) }

func (l *ledger) forget(which func(*dirty) bool) {
	l.pieces = slices.DeleteFunc(l.pieces, func(p dirty) bool {
		if !which(&p) {
			return false
		}
		l.unref(p.buf)
		return true
	})
}
