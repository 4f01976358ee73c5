package fusefs

import (
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// validity tells for how long the attributes of an object may be used without
// asking the server again, as nfs(5) describes it: the shortest time that was
// asked for after a change, twice as long each time that they have run out and
// turn out to be the same, up to the longest.
//
//	             other change attribute              ran out, same change attribute
//	(any span) -------------------------> shortest ---------------------------------> doubled, up to longest
//
// The time counts from when the server was asked, not from when its answer came.
type validity struct {
	span   time.Duration
	since  time.Time
	change uint64
	known  bool
}

// observe takes attributes that the server was asked for at sent.
func (v *validity) observe(a *nfs4.Attrs, sent time.Time, shortest, longest time.Duration) {
	if sent.Before(v.since) {
		return // newer ones came first
	}
	switch {
	case !v.known || !a.Has(nfs4.AttrChange) || a.Change != v.change:
		v.span = shortest
	case sent.Sub(v.since) >= v.span:
		v.span = min(2*v.span, longest)
	}
	v.since = sent
	v.change, v.known = a.Change, a.Has(nfs4.AttrChange)
}

// advance says that nothing but an own change has led to change.
func (v *validity) advance(change uint64, now time.Time) { v.change, v.since = change, now }

// left tells for how long the attributes may still be used.
func (v *validity) left(now time.Time) time.Duration { return max(0, v.since.Add(v.span).Sub(now)) }
