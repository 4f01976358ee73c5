package nfstest

import (
	"context"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// compound is a COMPOUND that is being carried out.
//
// The way of it: serve decodes the arguments; sequence takes the slot, or finds
// the reply in the reply cache; run carries out one operation after the other;
// finish keeps the reply in the slot and answers.
type compound struct {
	s   *Server
	p   *peer
	ctx context.Context
	req *ulb.Request
	m   *scratch

	xid       uint32
	cred      memfs.Cred
	principal string
	minor     uint32
	now       time.Time
	args      nfs4.CompoundArgs
	w         nfs4.ResWriter
	limit     int // bytes of the reply, RPC header and bulk data included
	tooBig    nfs4.Status

	sess  *session
	slot  *slot
	seq   *nfs4.SequenceArgs
	cl    *client
	inUse *client // counted in its use until finish

	cur, saved           object
	curState, savedState nfs4.StateID // the current stateid, if the flag is set
	hasState, hasSaved   bool

	event  Event
	mute   bool
	cut    bool
	garble func([]byte) []byte
}

func (c *compound) serve(respond func(xdr.Message) error) {
	c.args.Decode(&c.m.dec)
	if c.m.dec.Err() != nil && len(c.args.Ops) == 0 {
		reply := rpc.ReplyHeader{XID: c.xid, Status: rpc.Error{Stat: rpc.GarbageArgs}}
		reply.Encode(&c.m.enc)
		_ = respond(c.m.enc.Message())
		return
	}
	if c.m.dec.Err() != nil {
		if _, ok := c.args.Ops[len(c.args.Ops)-1].(*nfs4.IllegalArgs); !ok { // cut off between two operations
			c.args.Ops = append(c.args.Ops, &nfs4.IllegalArgs{Number: nfs4.OpIllegal, Status: nfs4.ErrBadXDR})
		}
	}
	c.m.data = c.m.data[:0]
	c.minor, c.now = c.args.Minor, c.s.now()
	c.event = Event{Time: c.now, Peer: c.p.name, UID: c.cred.UID}
	reply := rpc.ReplyHeader{XID: c.xid}
	reply.Encode(&c.m.enc)
	c.w = nfs4.BeginCompoundRes(&c.m.enc, c.args.Tag)
	c.limit, c.tooBig = c.s.opt.MaxPayload+headerRoom, nfs4.ErrRepTooBig

	switch {
	case c.minor == 0 || c.minor > c.s.opt.MaxMinor:
		c.event.Status = nfs4.ErrMinorVersMismatch
		c.w.End(nfs4.ErrMinorVersMismatch)
	case len(c.args.Ops) == 0:
		c.w.End(nfs4.OK)
	default:
		if c.run() {
			return // the call was lost
		}
	}
	c.finish(respond)
}

// run carries out the operations. It returns true if the call is to be
// forgotten.
func (c *compound) run() (lost bool) {
	status := nfs4.OK
	for i, args := range c.args.Ops {
		verdict := c.s.hooks.ask(c.ctx, func() *Op { return c.hookOp(i, args) })
		if verdict.Lose && i == 0 || c.ctx.Err() != nil && i == 0 {
			return true
		}
		c.mute = c.mute || verdict.Mute || verdict.Lose
		c.cut = c.cut || verdict.Cut
		if verdict.Garble != nil {
			c.garble = verdict.Garble
		}
		ev := OpEvent{Op: args.Op()}
		ev.describe(args)
		if c.cur.valid() {
			ev.FileID = c.cur.n.Ino()
		}

		var res nfs4.Res
		switch {
		case verdict.Status != nfs4.OK:
			res = fail(args.Op(), verdict.Status)
		case c.room() < leastRoom(args):
			res = fail(args.Op(), c.tooBig)
		default:
			if i == 0 {
				res = c.first(args)
				if res == nil {
					return false // answered from the reply cache
				}
			} else {
				res = c.exec(args)
			}
			if verdict.Edit != nil {
				verdict.Edit(res)
			}
		}
		mark := c.w.Mark()
		c.w.Add(res)
		if c.room() < 0 {
			c.w.Undo(mark)
			res = fail(args.Op(), c.tooBig)
			c.w.Add(res)
		}
		status = res.Result()
		ev.Status = status
		c.event.Ops = append(c.event.Ops, ev)
		if status != nfs4.OK {
			break
		}
	}
	c.event.Status = status
	c.w.End(status)
	return false
}

// room returns how many bytes the reply may still grow.
func (c *compound) room() int { return c.limit - c.m.enc.Message().Len() }

// leastRoom returns how many bytes the result of an operation needs that must
// not be carried out if its result could not be returned.
func leastRoom(args nfs4.Args) int {
	switch args.Op() {
	case nfs4.OpSequence:
		return 0 // its own check comes later
	case nfs4.OpOpen:
		return 320 // with a delegation, and the GETFH that must follow
	case nfs4.OpCreate, nfs4.OpRename:
		return 128
	case nfs4.OpExchangeID, nfs4.OpCreateSession:
		return 384
	}
	return 48
}

// fail returns the result of an operation that failed with no more than a status.
func fail(op nfs4.OpNum, status nfs4.Status) nfs4.Res {
	if op == nfs4.OpCopy { // of which one failure says more
		return &nfs4.CopyRes{Status: status}
	}
	return &nfs4.IllegalRes{Number: op, Status: status}
}

func (c *compound) hookOp(i int, args nfs4.Args) *Op {
	op := &Op{Peer: c.p.name, Minor: c.minor, UID: c.cred.UID, Index: i, Count: len(c.args.Ops), Args: args}
	if c.cl != nil {
		op.Client = c.cl.id
	}
	seq := c.seq
	if seq == nil {
		seq, _ = args.(*nfs4.SequenceArgs)
	}
	if seq != nil {
		op.Session, op.Slot, op.Sequence = seq.SessionID, seq.SlotID, seq.SequenceID
	}
	if c.cur.valid() {
		op.Handle = c.cur.handle()
	}
	return op
}

// first carries out the first operation, which decides what kind of COMPOUND it
// is (RFC 8881 section 2.10.2.1 and 18.46.3). A nil result means that the whole
// reply was in the reply cache and is in the encoder now.
func (c *compound) first(args nfs4.Args) nfs4.Res {
	switch a := args.(type) {
	case *nfs4.SequenceArgs:
		return c.sequence(a)
	case *nfs4.IllegalArgs:
		return a.Res()
	case *nfs4.BindConnToSessionArgs, *nfs4.ExchangeIDArgs, *nfs4.CreateSessionArgs,
		*nfs4.DestroySessionArgs, *nfs4.DestroyClientIDArgs:
		if c.args.Count != 1 {
			return fail(args.Op(), nfs4.ErrNotOnlyOp)
		}
		return c.exec(args)
	}
	return fail(args.Op(), nfs4.ErrOpNotInSession)
}

// finish keeps the reply in the slot, notes the event and answers.
func (c *compound) finish(respond func(xdr.Message) error) {
	msg := c.m.enc.Message()
	if c.slot != nil && !c.event.Replay {
		c.s.mu.Lock()
		c.slot.complete(msg, c.seq.CacheThis || len(c.event.Ops) < 2)
		c.s.mu.Unlock()
	}
	if c.inUse != nil {
		c.s.mu.Lock()
		c.inUse.use--
		c.s.mu.Unlock()
	}
	c.event.Mute = c.mute || c.cut || c.ctx.Err() != nil
	c.s.log.add(c.event)
	if c.garble != nil {
		msg = xdr.Message{Stream: c.garble(msg.AppendTo(nil))}
	}
	switch {
	case c.cut:
		c.p.cancel()
	case !c.mute && c.ctx.Err() == nil:
		_ = respond(msg) // the connection's end is seen elsewhere
	}
	clear(c.m.ents)
}
