package nfsclient

import (
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// delegation is the record of a delegation (RFC 8881 section 10.4).
//
//	         recall, limit, close         DELEGRETURN answered
//	held --------------------> returning ----------------------> gone
//	  |                                                            ^
//	  +------------------------------------------------------------+
//	                 revoked, client id lost
type delegation struct {
	node  *node
	sid   nfs4.StateID
	typ   nfs4.DelegationType
	phase delegPhase
	used  uint64    // when it was last used, in uses of any delegation
	at    time.Time // when it was last used
	cred  *credential
	// change and size are the attributes at the time of the grant, for
	// CB_GETATTR; known tells whether they are.
	change, size uint64
	known        bool
}

type delegPhase uint8

const (
	delegHeld delegPhase = iota
	delegReturning
	delegGone
)

func (p delegPhase) String() string {
	switch p {
	case delegHeld:
		return "held"
	case delegReturning:
		return "returning"
	}
	return "gone"
}

// covers tells whether the delegation's stateid can be used for that access.
func (d *delegation) covers(access uint32) bool {
	return d.phase == delegHeld &&
		(access&nfs4.ShareAccessWrite == 0 || d.typ == nfs4.DelegateWrite)
}

// delegations are those that the client has, by the unchanging part of their
// stateid. It is a machine without I/O, not safe for concurrent use.
type delegations struct {
	byID map[[12]byte]*delegation
	uses uint64
	held int
}

// grant records a delegation, or a newer seqid of one that is known. If the
// file had another one, that is returned: it has been replaced and has to be
// given back.
func (t *delegations) grant(d *delegation, now time.Time) (replaced *delegation) {
	if t.byID == nil {
		t.byID = make(map[[12]byte]*delegation)
	}
	if known := t.byID[d.sid.Other]; known != nil {
		if newerSeq(d.sid.Seq, known.sid.Seq) {
			known.sid.Seq, known.typ = d.sid.Seq, d.typ
		}
		return nil
	}
	replaced = d.node.deleg
	t.byID[d.sid.Other] = d
	t.held++
	d.node.deleg = d
	t.use(d, now)
	return replaced
}

// use notes that a delegation was of use.
func (t *delegations) use(d *delegation, now time.Time) {
	t.uses++
	d.used, d.at = t.uses, now
}

// begin takes a delegation out of use: it is going to be returned. It returns
// false if that is under way or over already.
func (t *delegations) begin(d *delegation) bool {
	if d.phase != delegHeld {
		return false
	}
	d.phase = delegReturning
	t.held--
	if d.node.deleg == d {
		d.node.deleg = nil
	}
	return true
}

// gone forgets a delegation that the server does not have any more.
func (t *delegations) gone(d *delegation) {
	t.begin(d)
	d.phase = delegGone
	if t.byID[d.sid.Other] == d {
		delete(t.byID, d.sid.Other)
	}
}

// find returns the delegation with a stateid, or nil.
func (t *delegations) find(sid nfs4.StateID) *delegation { return t.byID[sid.Other] }

// surplus returns the delegations longest unused of those that match, so many
// that no more than keep of them remain.
func (t *delegations) surplus(keep int, match func(*delegation) bool) []*delegation {
	var all []*delegation
	for _, d := range t.byID {
		if d.phase == delegHeld && match(d) {
			all = append(all, d)
		}
	}
	if len(all) <= keep {
		return nil
	}
	sortByUse(all)
	return all[:len(all)-keep]
}
