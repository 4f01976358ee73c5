package nfsclient

import (
	"context"

	"nfsrdma-fuse/xdr/nfs4"
)

// reclaimLocks has the server lock again what was locked with an open that it
// has just taken back, in its grace period (RFC 8881 section 8.4.2.1). What it
// refuses is lost. Operations of the same owners may be under way: they find
// other stateids than they came with, and are tried again.
func (c *Client) reclaimLocks(ctx context.Context, o *openShare) error {
	type wanted struct {
		l      *locker
		st     *lockState
		ranges heldRanges
	}
	s := &c.state
	s.mu.Lock()
	var all []wanted
	for _, l := range o.node.lockers {
		st := l.states[o]
		if st == nil {
			continue
		}
		st.held = false
		w := wanted{l: l, st: st}
		for _, r := range l.ranges {
			if r.via == st {
				w.ranges = append(w.ranges, r)
			}
		}
		if l.lost == nil && w.ranges != nil {
			all = append(all, w)
		}
	}
	s.mu.Unlock()
	for _, w := range all {
		for _, r := range w.ranges {
			err := c.reclaimLock(ctx, w.l, w.st, r)
			if err == nil {
				continue
			}
			status, ok := statusOf(err)
			if !ok || sessionTrouble(status) {
				return err
			}
			c.log.WithError(err).Warn("server does not give a lock back")
			s.mu.Lock()
			lost := w.l.lose(w.st)
			s.mu.Unlock()
			if lost {
				c.logLost(1)
			}
			break
		}
	}
	return nil
}

// reclaimLock carries out one LOCK that reclaims.
func (c *Client) reclaimLock(ctx context.Context, l *locker, st *lockState, r heldRange) error {
	c.state.mu.Lock()
	args, err := c.lockArgs(l, st, r.start, r.last)
	c.state.mu.Unlock()
	if err != nil {
		return err
	}
	args.Type, args.Reclaim = lockType(r.write, false), true
	var res nfs4.LockRes
	q := c.newRequest(st.share.cred)
	q.urgent = true
	q.addPutFH(l.node.fh)
	q.change(&args, &res)
	if err := c.do(ctx, q); err != nil {
		return err
	}
	q.free()
	c.state.mu.Lock()
	st.sid, st.held = res.StateID, true
	c.state.mu.Unlock()
	return nil
}

// dropLocks takes note of a lock stateid that the server has revoked.
func (c *Client) dropLocks(ctx context.Context, st *lockState, sid nfs4.StateID, status nfs4.Status) {
	s := &c.state
	s.mu.Lock()
	lost := 0
	if st.held && st.sid.Other == sid.Other {
		st.held = false
		for _, l := range st.share.node.lockers {
			if l.states[st.share] == st && l.lose(st) {
				lost++
			}
		}
	}
	s.mu.Unlock()
	c.logLost(lost)
	c.freeStateID(ctx, sid, status)
}
