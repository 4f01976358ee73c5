package nfstest

import (
	"slices"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// referral names the request that a delegation was granted in: the client may not
// have seen the reply when it is recalled (RFC 8881 section 2.10.6.3).
type referral struct {
	sess *session
	slot uint32
	seq  uint32
}

// list returns the referral as CB_SEQUENCE has it, or nil when the client has
// used the slot again and so has seen the reply. s.mu is held.
func (r *referral) list() []nfs4.ReferringCallList {
	if r == nil || int(r.slot) >= len(r.sess.slots) || r.sess.slots[r.slot].seq != r.seq {
		return nil
	}
	return []nfs4.ReferringCallList{{SessionID: r.sess.id,
		Calls: []nfs4.ReferringCall{{SequenceID: r.seq, SlotID: r.slot}}}}
}

// grant decides about a delegation for an open that was just made (RFC 8881
// section 10.4). s.mu is held.
func (c *compound) grant(st *state, want uint32) nfs4.Delegation {
	s, f := c.s, st.file
	none := func(why nfs4.WhyNoDelegation) nfs4.Delegation {
		if want&nfs4.WantDelegMask == 0 {
			return nfs4.Delegation{Type: nfs4.DelegateNone}
		}
		return nfs4.Delegation{Type: nfs4.DelegateNoneExt, Why: why}
	}
	switch want & nfs4.WantDelegMask {
	case nfs4.WantNoDeleg:
		return none(nfs4.WhyNotWanted)
	case nfs4.WantCancel:
		return none(nfs4.WhyCancelled)
	}
	write := st.access&nfs4.ShareAccessWrite != 0 && want&nfs4.WantDelegMask != nfs4.WantReadDeleg
	switch {
	case s.opt.Delegations == DelegateNever || !s.canCall(c.cl) || len(c.cl.states) > maxStates/2:
		return none(nfs4.WhyResource)
	case write && s.opt.Delegations == DelegateReads:
		return none(nfs4.WhyWriteDelegNotSupp)
	case c.now.Before(s.holdOff[f.o.n]):
		return none(nfs4.WhyContention)
	}
	for _, d := range f.delegs {
		if d.client == c.cl || write || d.write {
			return none(nfs4.WhyContention)
		}
	}
	for _, o := range f.opens {
		if write && o.client != c.cl || !write && o.access&nfs4.ShareAccessWrite != 0 || o.deny != 0 && o.client != c.cl {
			return none(nfs4.WhyContention)
		}
	}
	d := s.newState(delegState, c.cl, f)
	d.write = write
	d.origin = &referral{c.sess, c.seq.SlotID, c.seq.SequenceID}
	attr := f.o.n.Attr()
	d.change, d.size = attr.Change, attr.Size
	return d.delegation(attr)
}

// delegation describes a delegation to the client. The entry for the permissions
// says what the mode of the file allows its owner, so that a client may let that
// user open the file without asking.
func (d *state) delegation(attr memfs.Attr) nfs4.Delegation {
	del := nfs4.Delegation{Type: nfs4.DelegateRead, StateID: d.id(),
		Permissions: nfs4.ACE{Type: nfs4.ACEAllow, Who: "OWNER@"}}
	if attr.Mode&0o400 != 0 {
		del.Permissions.Mask |= nfs4.ACEReadData
	}
	if attr.Mode&0o100 != 0 {
		del.Permissions.Mask |= nfs4.ACEExecute
	}
	if d.write {
		del.Type = nfs4.DelegateWrite
		del.LimitBy, del.LimitFileSize = nfs4.LimitSize, memfs.MaxSize
		if attr.Mode&0o200 != 0 {
			del.Permissions.Mask |= nfs4.ACEWriteData | nfs4.ACEAppendData
		}
	}
	return del
}

// breakDelegations recalls the delegations that other clients hold of a file and
// that do not allow for it to be read, or written. It returns ErrDelay while
// there are any. A nil c stands for somebody who is no client. s.mu is held.
func (s *Server) breakDelegations(c *compound, f *file, write bool) nfs4.Status {
	if f == nil {
		return nfs4.OK
	}
	status := nfs4.OK
	for _, d := range slices.Clone(f.delegs) {
		if c != nil && d.client == c.cl || !write && !d.write {
			continue
		}
		if s.evictExpired(d) {
			continue
		}
		s.recall(d)
		status = nfs4.ErrDelay
	}
	return status
}

// breakFor is breakDelegations for an object that may have no state. s.mu is not
// held.
func (c *compound) breakFor(o object, write bool) nfs4.Status {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.breakDelegations(c, c.s.files[o.n], write)
}

// recall begins to recall a delegation, unless that is going on. s.mu is held.
func (s *Server) recall(d *state) {
	if d.recalled {
		return
	}
	now := s.now()
	d.recalled, d.recalledAt = true, now
	d.client.recalls++
	s.holdOff[d.file.o.n] = now.Add(s.opt.DelegationHoldOff)
	s.sendRecall(d, 0)
}

// sendRecall sends CB_RECALL. A client that cannot serve it yet, or does not know
// the delegation yet, is asked again.
func (s *Server) sendRecall(d *state, tries int) {
	// The sequence number of a stateid in a callback is zero (RFC 8881
	// section 8.2.2).
	s.call(&callback{client: d.client, refer: d.origin.list(),
		op:    &nfs4.CBRecallArgs{StateID: nfs4.StateID{Other: d.other}, FH: d.file.o.handle()},
		stale: func() bool { return !d.recalled },
		done: func(res nfs4.CBRes) {
			if res == nil || res.Result() == nfs4.OK || !d.recalled || tries > 200 {
				return // the delegation comes back, or is revoked in the end
			}
			s.later(func() {
				if d.recalled {
					s.sendRecall(d, tries+1)
				}
			})
		}})
}

// delegReturn carries out DELEGRETURN (RFC 8881 section 18.6).
func (c *compound) delegReturn(a *nfs4.DelegReturnArgs) nfs4.Res {
	id, status := c.current(a.StateID, true)
	if status != nfs4.OK {
		return fail(nfs4.OpDelegReturn, status)
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	st, status := c.find(id, delegState)
	if status != nfs4.OK {
		return fail(nfs4.OpDelegReturn, status)
	}
	s.dropState(st)
	return &nfs4.DelegReturnRes{}
}

// RecallAll recalls all delegations, and returns how many there are.
func (s *Server) RecallAll() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, st := range s.states {
		if st.kind == delegState && st.revoked == nfs4.OK {
			s.recall(st)
			n++
		}
	}
	return n
}

// RecallAny asks every client to return delegations until it has no more than
// this many (CB_RECALL_ANY). It returns the number of clients asked.
func (s *Server) RecallAny(keep uint32) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, cl := range s.clients {
		if !s.canCall(cl) {
			continue
		}
		args := &nfs4.CBRecallAnyArgs{ObjectsToKeep: keep}
		args.TypeMask.SetBit(nfs4.RecallReadDeleg)
		args.TypeMask.SetBit(nfs4.RecallWriteDeleg)
		s.call(&callback{client: cl, op: args})
		n++
	}
	return n
}

// heldAttrs are the attributes that the holder of a write delegation knows better
// than the server.
var heldAttrs = nfs4.MakeBitmap(nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrTimeModify, nfs4.AttrTimeMetadata, nfs4.AttrSpaceUsed)

// askHolder asks another client that holds a write delegation of the current file
// for the attributes that only it knows, and corrects attr (RFC 8881 section
// 10.4.3). A holder that does not answer in time gets the delegation recalled.
func (c *compound) askHolder(attr *memfs.Attr) nfs4.Status {
	s := c.s
	s.mu.Lock()
	var d *state
	if f := s.files[c.cur.n]; f != nil {
		for _, held := range f.delegs {
			if held.write && held.client != c.cl {
				d = held
			}
		}
	}
	if d == nil || s.evictExpired(d) {
		s.mu.Unlock()
		return nfs4.OK
	}
	if d.recalled || !s.canCall(d.client) {
		s.recall(d)
		s.mu.Unlock()
		return nfs4.ErrDelay
	}
	answer := make(chan *nfs4.CBGetAttrRes, 1)
	args := &nfs4.CBGetAttrArgs{FH: c.cur.handle(), AttrRequest: nfs4.MakeBitmap(nfs4.AttrChange, nfs4.AttrSize)}
	s.call(&callback{client: d.client, refer: d.origin.list(), op: args, done: func(res nfs4.CBRes) {
		r, _ := res.(*nfs4.CBGetAttrRes)
		answer <- r
	}})
	s.mu.Unlock()
	timer := time.NewTimer(holderTimeout)
	defer timer.Stop()
	var res *nfs4.CBGetAttrRes
	select {
	case res = <-answer:
	case <-timer.C:
	case <-c.ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.states[d.other] != d || d.revoked != nfs4.OK { // returned meanwhile
		*attr = c.cur.n.Attr()
		return nfs4.OK
	}
	if res == nil || res.Status != nfs4.OK || !res.Attrs.Has(nfs4.AttrChange) || !res.Attrs.Has(nfs4.AttrSize) {
		s.recall(d)
		return nfs4.ErrDelay
	}
	if d.heldChange == 0 && res.Attrs.Change == d.change {
		// Nothing is waiting at the holder: what it has written is here.
		*attr = c.cur.n.Attr()
		return nfs4.OK
	}
	if res.Attrs.Change != d.heldChange || res.Attrs.Size != d.heldSize {
		// The client has changed the file since it was asked last: so does
		// the server's own change attribute, which the client never sees
		// while it has the delegation.
		if res.Attrs.Change != d.change || int64(res.Attrs.Size) != d.size || d.heldChange != 0 {
			c.cur.n.Touch()
		}
		d.heldChange, d.heldSize = res.Attrs.Change, res.Attrs.Size
	}
	*attr = c.cur.n.Attr()
	attr.Size = int64(min(res.Attrs.Size, memfs.MaxSize))
	return nfs4.OK
}

// holderTimeout is how long a GETATTR waits for the holder of a delegation.
const holderTimeout = time.Second
