package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// testBatch is the number of stateids asked about at once.
const testBatch = 64

// reclaim brings the state of this client back under a new client id. After a
// restart of the server opens are reclaimed in its grace period (RFC 8881
// section 8.4.2.1). If it has not restarted, or its grace period is over, they
// are opened anew. Delegations are not reclaimed: every open is known to the
// server, so that they are no more than a convenience.
func (c *Client) reclaim(ctx context.Context) error {
	var late []*openShare
	open, given := c.toReclaim()
	for _, d := range given {
		c.delegationEnds(d)
	}
	c.mu.Lock()
	same := c.rec.same
	c.mu.Unlock()
	if same {
		// The server may have them after all, and would wait for them.
		for _, d := range given {
			c.spawn(func(ctx context.Context) { c.returnDelegation(ctx, d) })
		}
	}
	for _, o := range open {
		err := c.claim(ctx, o, nfs4.ClaimPrevious, true)
		status, ok := statusOf(err)
		if err == nil {
			err = c.reclaimLocks(ctx, o)
			status, ok = 0, false
		}
		switch {
		case err == nil, errors.Is(err, ErrStateLost):
		case ok && (status == nfs4.ErrNoGrace || status == nfs4.ErrReclaimBad || status == nfs4.ErrReclaimConflict):
			late = append(late, o)
		default:
			return err
		}
	}
	r := c.newRequest(c.self)
	r.urgent = true
	r.change(&nfs4.ReclaimCompleteArgs{}, new(nfs4.ReclaimCompleteRes))
	if err := c.do(ctx, r); err == nil {
		r.free()
	} else if !errors.Is(err, nfs4.ErrCompleteAlready) {
		return err
	}
	for _, o := range late {
		c.loseLocks(o) // others may have had them meanwhile
		if err := c.claim(ctx, o, nfs4.ClaimFH, true); err != nil && !errors.Is(err, ErrStateLost) {
			return err
		}
	}
	if err := c.restore(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	c.checked = time.Now()
	c.rec.did(actReclaim)
	c.mu.Unlock()
	return nil
}

// toReclaim takes all delegations out of use and returns what is open, and
// which delegations there were.
func (c *Client) toReclaim() (open []*openShare, given []*delegation) {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.delegs.byID {
		if d.phase == delegHeld {
			given = append(given, d)
		}
		s.delegs.gone(d)
		s.unref(d.node)
	}
	for _, n := range s.nodes {
		for _, o := range n.shares {
			if o.needed() == 0 {
				o.closed(o.sid)
			} else if o.lost == nil {
				open = append(open, o)
			}
		}
	}
	return open, given
}

// verify asks the server which stateids are still good, after it has said
// that some are not, and replaces those that are not.
func (c *Client) verify(ctx context.Context) error {
	now := time.Now()
	sids, opens, locks := c.heldStateIDs()
	for at := 0; at < len(sids); at += testBatch {
		batch := sids[at:min(at+testBatch, len(sids))]
		statuses, err := c.testStateIDs(ctx, batch)
		if err != nil {
			return err
		}
		for i, status := range statuses {
			if status == nfs4.OK || status == nfs4.ErrOldStateID {
				continue
			}
			if locks[at+i] != nil {
				c.dropLocks(ctx, locks[at+i], batch[i], status)
			} else if err := c.replace(ctx, batch[i], opens[at+i], status); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	c.checked = now
	c.rec.did(actVerify)
	c.mu.Unlock()
	return nil
}

// heldStateIDs returns the stateids of everything held at the server, and who
// holds them: an open or locks, or neither for a delegation.
func (c *Client) heldStateIDs() (sids []nfs4.StateID, opens []*openShare, locks []*lockState) {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(sid nfs4.StateID, o *openShare, st *lockState) {
		sids, opens, locks = append(sids, sid), append(opens, o), append(locks, st)
	}
	for _, d := range s.delegs.byID {
		add(d.sid, nil, nil)
	}
	for _, n := range s.nodes {
		for _, o := range n.shares {
			if o.held {
				add(o.sid, o, nil)
			}
		}
		for _, l := range n.lockers {
			for _, st := range l.states {
				if st.held {
					add(st.sid, nil, st)
				}
			}
		}
	}
	return sids, opens, locks
}

func (c *Client) testStateIDs(ctx context.Context, sids []nfs4.StateID) ([]nfs4.Status, error) {
	r := c.newRequest(c.self)
	r.urgent = true
	res := new(nfs4.TestStateIDRes)
	r.add(&nfs4.TestStateIDArgs{StateIDs: sids}, res)
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	defer r.free()
	if len(res.Statuses) != len(sids) {
		return nil, opError(nfs4.OpTestStateID, fmt.Errorf("%w: %d statuses for %d stateids", ErrProtocol, len(res.Statuses), len(sids)))
	}
	return res.Statuses, nil
}

// replace gets a new stateid for one that was revoked.
func (c *Client) replace(ctx context.Context, sid nfs4.StateID, o *openShare, status nfs4.Status) error {
	if o == nil {
		c.log.WithField("cause", status).Warn("delegation revoked")
		c.dropDelegation(ctx, sid, status)
		return nil
	}
	c.log.WithField("cause", status).Warn("open revoked, opening again")
	c.loseLocks(o)
	c.freeStateID(ctx, sid, status)
	c.state.mu.Lock()
	gone := o.sid.Other != sid.Other
	if !gone && o.needed() == 0 {
		o.closed(sid)
		gone = true
	}
	c.state.mu.Unlock()
	if gone {
		return nil
	}
	if err := c.claim(ctx, o, nfs4.ClaimFH, true); err != nil && !errors.Is(err, ErrStateLost) {
		return err
	}
	return nil
}
