package nfsclient

import (
	"context"
	"errors"
	"slices"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// This file serves the back channel: the calls that the server makes to the
// client on the same connection (RFC 8881 section 20). Nothing here waits for
// the server; what takes time (returning delegations) is done by a job.

// serveCallback is the ulb.Handler of every connection.
func (c *Client) serveCallback(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	c.mu.Lock()
	c.health.heard(time.Now())
	c.mu.Unlock()
	c.stats.callbacks.Add(1)
	var enc xdr.Encoder
	if !c.callback(req, &enc) {
		return
	}
	if err := respond(enc.Message()); err != nil {
		c.log.WithError(err).Debug("callback not answered")
	}
}

// callback answers one RPC call. It returns false if there is nothing that
// could be sent back.
func (c *Client) callback(req *ulb.Request, enc *xdr.Encoder) bool {
	var dec xdr.Decoder
	dec.Reset(req.Msg)
	var call rpc.CallHeader
	call.Decode(&dec)
	reply := rpc.ReplyHeader{XID: call.XID}
	if err := dec.Err(); err != nil {
		var refusal *rpc.Error
		if !errors.As(err, &refusal) {
			return false
		}
		reply.Status = *refusal
		reply.Encode(enc)
		return true
	}
	switch {
	case call.Cred.Flavor != rpc.FlavorNone && call.Cred.Flavor != rpc.FlavorSys:
		reply.Status = rpc.Error{Stat: rpc.AuthError, Auth: rpc.AuthRejectedCred}
	case call.Prog != rpc.CallbackBase:
		reply.Status.Stat = rpc.ProgUnavail
	case call.Vers != rpc.VersionCallback && call.Vers != rpc.VersionNFS4:
		// Some servers number the program like NFS itself.
		reply.Status = rpc.Error{Stat: rpc.ProgMismatch, Low: rpc.VersionCallback, High: rpc.VersionCallback}
	case call.Proc == rpc.ProcNull:
	case call.Proc != rpc.ProcCompound:
		reply.Status.Stat = rpc.ProcUnavail
	default:
		var args nfs4.CBCompoundArgs
		args.Decode(&dec)
		if dec.Err() != nil && len(args.Ops) == 0 {
			reply.Status.Stat = rpc.GarbageArgs
			break
		}
		body := c.cbCompound(&args)
		reply.Encode(enc)
		enc.Fixed(body)
		return true
	}
	reply.Encode(enc)
	return true
}

// cbCompound carries out a CB_COMPOUND and returns its encoded result. It obeys
// the slots of the back channel: what has been done is not done again.
func (c *Client) cbCompound(args *nfs4.CBCompoundArgs) []byte {
	res := &nfs4.CBCompoundRes{Tag: args.Tag}
	if args.Minor != c.minor.Load() {
		res.Status = nfs4.ErrMinorVersMismatch
		return encodeCB(res)
	}
	if len(args.Ops) == 0 {
		return encodeCB(res)
	}
	seq, ok := args.Ops[0].(*nfs4.CBSequenceArgs)
	if !ok {
		addCB(res, cbFailure(args.Ops[0], nfs4.ErrOpNotInSession))
		return encodeCB(res)
	}
	s := c.cbSession(seq.SessionID)
	if s == nil {
		addCB(res, &nfs4.CBSequenceRes{Status: nfs4.ErrBadSession})
		return encodeCB(res)
	}
	c.cbMu.Lock()
	verdict, cached := s.cb.begin(seq.SlotID, seq.SequenceID)
	if verdict == cbReplay {
		cached = slices.Clone(cached)
	}
	c.cbMu.Unlock()
	status := nfs4.OK
	switch verdict {
	case cbReplay:
		return cached
	case cbInProgress:
		status = nfs4.ErrDelay
	case cbMisordered:
		status = nfs4.ErrSeqMisordered
	case cbBadSlot:
		status = nfs4.ErrBadSlot
	}
	if status != nfs4.OK {
		addCB(res, &nfs4.CBSequenceRes{Status: status})
		return encodeCB(res)
	}
	addCB(res, &nfs4.CBSequenceRes{
		SessionID: s.id, SequenceID: seq.SequenceID, SlotID: seq.SlotID,
		HighestSlotID: s.cb.highest(), TargetHighestSlotID: s.cb.highest(),
	})
	raced := c.raced(seq.Referring)
	for i, op := range args.Ops[1:] {
		var r nfs4.CBRes
		switch {
		case i+1 >= maxCBOps(s):
			r = cbFailure(op, nfs4.ErrTooManyOps)
		default:
			r = c.cbOp(s, op, raced)
		}
		addCB(res, r)
		if res.Status != nfs4.OK {
			break
		}
	}
	body := encodeCB(res)
	c.cbMu.Lock()
	s.cb.finish(seq.SlotID, body)
	c.cbMu.Unlock()
	return body
}

// maxCBOps is the number of operations that a CB_COMPOUND may have.
func maxCBOps(s *session) int {
	return min(max(int(s.back.MaxOperations), 2), nfs4.MaxOps)
}

// cbSession returns the session with that id, or nil.
func (c *Client) cbSession(id nfs4.SessionID) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sess != nil && !c.sess.gone && c.sess.id == id {
		return c.sess
	}
	for _, s := range c.old {
		if s.id == id && !s.gone {
			return s
		}
	}
	return nil
}

// raced tells whether a request that the callback refers to is still
// outstanding: then the callback may be about state that its reply is bringing
// (RFC 8881 section 2.10.6.3).
func (c *Client) raced(lists []nfs4.ReferringCallList) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range lists {
		if c.sess == nil || l.SessionID != c.sess.id {
			continue
		}
		for _, call := range l.Calls {
			if c.sess.table.outstanding(call.SlotID, call.SequenceID) {
				return true
			}
		}
	}
	return false
}

// cbOp carries out one operation behind CB_SEQUENCE.
func (c *Client) cbOp(s *session, op nfs4.CBArgs, raced bool) nfs4.CBRes {
	switch a := op.(type) {
	case *nfs4.CBIllegalArgs:
		return a.Res()
	case *nfs4.CBSequenceArgs:
		return &nfs4.CBSequenceRes{Status: nfs4.ErrSequencePos}
	case *nfs4.CBRecallArgs:
		return &nfs4.CBRecallRes{Status: c.cbRecall(a, raced)}
	case *nfs4.CBGetAttrArgs:
		return c.cbGetAttr(a, raced)
	case *nfs4.CBRecallAnyArgs:
		return &nfs4.CBRecallAnyRes{Status: c.cbRecallAny(a)}
	case *nfs4.CBRecallSlotArgs:
		c.mu.Lock()
		s.table.setTarget(a.TargetHighestSlotID)
		if s == c.sess {
			c.renewed = time.Time{} // tell the server at once
			c.lease.last = c.lease.last.Add(-c.lease.period / 2)
			c.wakeManager()
		}
		c.mu.Unlock()
		return &nfs4.CBRecallSlotRes{}
	case *nfs4.CBNotifyLockArgs:
		c.notifyLock(a.FH, a.Owner.Owner)
		return &nfs4.CBNotifyLockRes{}
	}
	return cbFailure(op, nfs4.ErrNotSupp)
}

// cbRecall begins to return a delegation.
func (c *Client) cbRecall(a *nfs4.CBRecallArgs, raced bool) nfs4.Status {
	s := &c.state
	s.mu.Lock()
	d := s.delegs.find(a.StateID)
	s.mu.Unlock()
	switch {
	case d == nil && (raced || s.anyOpening()):
		// The OPEN that brings the delegation may still be under way, even
		// if the server does not say so. It will ask again.
		return nfs4.ErrDelay
	case d == nil:
		return nfs4.ErrBadStateID
	case string(d.node.fh) != string(a.FH):
		return nfs4.ErrBadHandle
	}
	c.stats.recalls.Add(1)
	c.giveBack(d)
	return nfs4.OK
}

// cbGetAttr tells the server the attributes that it cannot know while a client has
// a write delegation. This client writes through, so the server knows best:
// it is told what it said when it gave the delegation, which means that nothing
// is waiting here.
func (c *Client) cbGetAttr(a *nfs4.CBGetAttrArgs, raced bool) *nfs4.CBGetAttrRes {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	var d *delegation
	if n := s.nodes[string(a.FH)]; n != nil {
		d = n.deleg
	}
	switch {
	case d == nil && raced:
		return &nfs4.CBGetAttrRes{Status: nfs4.ErrDelay}
	case d == nil || d.typ != nfs4.DelegateWrite || !d.known:
		return &nfs4.CBGetAttrRes{Status: nfs4.ErrBadHandle}
	}
	return &nfs4.CBGetAttrRes{Attrs: nfs4.Attrs{
		Mask:   a.AttrRequest.And(nfs4.MakeBitmap(nfs4.AttrChange, nfs4.AttrSize)),
		Change: d.change, Size: d.size,
	}}
}

// cbRecallAny returns some delegations, of the client's choice.
func (c *Client) cbRecallAny(a *nfs4.CBRecallAnyArgs) nfs4.Status {
	match := func(d *delegation) bool {
		if d.typ == nfs4.DelegateRead {
			return a.TypeMask.HasBit(nfs4.RecallReadDeleg)
		}
		return a.TypeMask.HasBit(nfs4.RecallWriteDeleg)
	}
	s := &c.state
	s.mu.Lock()
	back := s.delegs.surplus(int(a.ObjectsToKeep), match)
	s.mu.Unlock()
	for _, d := range back {
		c.stats.recalls.Add(1)
		c.giveBack(d)
	}
	return nfs4.OK
}

// cbFailure is the result of an operation that failed with nothing but a
// status to tell.
func cbFailure(op nfs4.CBArgs, status nfs4.Status) nfs4.CBRes {
	return &nfs4.CBIllegalRes{Number: op.Op(), Status: status}
}

func addCB(res *nfs4.CBCompoundRes, r nfs4.CBRes) {
	res.Ops = append(res.Ops, r)
	res.Status = r.Result()
}

func encodeCB(res *nfs4.CBCompoundRes) []byte {
	var e xdr.Encoder
	res.Encode(&e)
	return e.Bytes()
}
