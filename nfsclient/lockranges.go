package nfsclient

import (
	"cmp"
	"slices"
)

// heldRange is a range of bytes that is locked at the server.
type heldRange struct {
	start, last uint64 // bytes; last is included
	write       bool
	tag         uint32     // what LockRequest.Tag was
	via         *lockState // whose stateid it was had with
}

// heldRanges are what one owner has locked of one file, in order and without
// overlap: POSIX semantics, where a new lock replaces what it covers. A machine
// without I/O, not safe for concurrent use.
type heldRanges []heldRange

// clear takes the bytes from start to last out; ranges that reach beyond are
// cut, one that lies around is split.
func (l *heldRanges) clear(start, last uint64) {
	kept := make(heldRanges, 0, len(*l)+1)
	for _, r := range *l {
		if r.last < start || r.start > last {
			kept = append(kept, r)
			continue
		}
		if r.start < start {
			left := r
			left.last = start - 1
			kept = append(kept, left)
		}
		if r.last > last {
			right := r
			right.start = last + 1
			kept = append(kept, right)
		}
	}
	*l = kept
}

// set enters a range in place of what was there, and joins it with neighbours
// of the same kind.
func (l *heldRanges) set(n heldRange) {
	l.clear(n.start, n.last)
	i, _ := slices.BinarySearchFunc(*l, n.start, func(r heldRange, at uint64) int { return cmp.Compare(r.start, at) })
	from, to := i, i
	same := func(r heldRange) bool { return r.write == n.write && r.via == n.via && r.tag == n.tag }
	if i > 0 && (*l)[i-1].last+1 == n.start && same((*l)[i-1]) {
		from--
		n.start = (*l)[from].start
	}
	if i < len(*l) && n.last+1 == (*l)[i].start && same((*l)[i]) {
		to++
		n.last = (*l)[i].last
	}
	*l = slices.Replace(*l, from, to, n)
}

// within returns the parts of ranges that lie between start and last.
func (l heldRanges) within(start, last uint64) (parts heldRanges) {
	for _, r := range l {
		if r.last < start || r.start > last {
			continue
		}
		r.start, r.last = max(r.start, start), min(r.last, last)
		parts = append(parts, r)
	}
	return parts
}

// gaps calls f for every stretch between start and last that is not locked.
func (l heldRanges) gaps(start, last uint64, f func(start, last uint64)) {
	at := start
	for _, r := range l.within(start, last) {
		if r.start > at {
			f(at, r.start-1)
		}
		if r.last == last {
			return
		}
		at = r.last + 1
	}
	f(at, last)
}

// all tells whether every byte from start to last is locked for writing.
func (l heldRanges) all(start, last uint64) bool {
	if len(l) == 0 {
		return false
	}
	whole := true
	l.gaps(start, last, func(uint64, uint64) { whole = false })
	return whole && !slices.ContainsFunc(l.within(start, last), func(r heldRange) bool { return !r.write })
}

// via tells whether anything is locked with a stateid.
func (l heldRanges) via(st *lockState) bool {
	return slices.ContainsFunc(l, func(r heldRange) bool { return r.via == st })
}
