package nfstest

import (
	"slices"

	"nfsrdma-fuse/xdr/nfs4"
)

// ranges are the locked byte ranges of a file, in ascending order of their
// starts. Those of one owner do not overlap.
type ranges struct{ list []byteRange }

type byteRange struct {
	start, last uint64 // bytes; last is included
	write       bool
	st          *state
}

// lastByte returns the last byte of a range on the wire, and false if the range
// is not a valid one (RFC 8881 section 18.10.3).
func lastByte(offset, length uint64) (uint64, bool) {
	switch {
	case length == 0:
		return 0, false
	case length == nfs4.MaxLength:
		return nfs4.MaxLength, true
	case length-1 > nfs4.MaxLength-offset:
		return 0, false
	}
	return offset + length - 1, true
}

// wire returns offset and length of the range as they stand on the wire.
func (r byteRange) wire() (offset, length uint64) {
	if r.last == nfs4.MaxLength {
		return r.start, nfs4.MaxLength
	}
	return r.start, r.last - r.start + 1
}

// sameLocker tells whether two lock states belong to one owner.
func sameLocker(a, b *state) bool { return a.client == b.client && a.owner == b.owner }

// conflict returns a range that is in the way of the one asked for, or nil.
func (l *ranges) conflict(cl *client, owner string, start, last uint64, write bool) *byteRange {
	for i := range l.list {
		r := &l.list[i]
		if r.start > last {
			break
		}
		if r.last >= start && (write || r.write) && (r.st.client != cl || r.st.owner != owner) {
			return r
		}
	}
	return nil
}

// clear takes the bytes from start to last from their owner, cutting ranges that
// reach beyond. It returns whether there were any.
func (l *ranges) clear(owner *state, start, last uint64) (changed bool) {
	kept := make([]byteRange, 0, len(l.list)+1)
	for _, r := range l.list {
		if !sameLocker(r.st, owner) || r.last < start || r.start > last {
			kept = append(kept, r)
			continue
		}
		changed = true
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
	l.list = kept
	l.sort()
	return changed
}

// set makes the bytes from start to last a range of its own, joined with
// neighbours of the same kind.
func (l *ranges) set(st *state, start, last uint64, write bool) {
	l.clear(st, start, last)
	nu := byteRange{start, last, write, st}
	kept := l.list[:0]
	for _, r := range l.list {
		if r.st == st && r.write == write {
			if r.last != nfs4.MaxLength && r.last+1 == nu.start {
				nu.start = r.start
				continue
			}
			if nu.last != nfs4.MaxLength && nu.last+1 == r.start {
				nu.last = r.last
				continue
			}
		}
		kept = append(kept, r)
	}
	l.list = append(kept, nu)
	l.sort()
}

func (l *ranges) sort() {
	slices.SortStableFunc(l.list, func(a, b byteRange) int {
		switch {
		case a.start < b.start:
			return -1
		case a.start > b.start:
			return 1
		}
		return 0
	})
}

// drop removes all ranges of a state, and tells whether there were any.
func (l *ranges) drop(st *state) bool {
	n := len(l.list)
	l.list = slices.DeleteFunc(l.list, func(r byteRange) bool { return r.st == st })
	return len(l.list) != n
}

// has tells whether a state has any range.
func (l *ranges) has(st *state) bool {
	return slices.ContainsFunc(l.list, func(r byteRange) bool { return r.st == st })
}
