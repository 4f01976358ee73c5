package nfstest

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// callbackSlots are the slots of a session's back channel.
type callbackSlots struct {
	seqs  []uint32 // of the last request of every slot
	busy  []bool
	fault bool // the client does not agree about a slot: the session is of no use for callbacks
	gone  bool // the session was destroyed
}

func (cs *callbackSlots) init(n int) {
	cs.seqs, cs.busy = make([]uint32, n), make([]bool, n)
}

func (cs *callbackSlots) size() int { return len(cs.seqs) }

func (cs *callbackSlots) close() { cs.gone = true }

func (cs *callbackSlots) take() (slot int, ok bool) {
	slot = slices.Index(cs.busy, false)
	if slot < 0 || cs.gone || cs.fault {
		return 0, false
	}
	cs.busy[slot] = true
	return slot, true
}

// callback is a request of the server to a client: one operation behind
// CB_SEQUENCE.
//
//	           no path, no slot          path, slot
//	queued ◀────────────────── waiting ◀──────────── queued
//	                              │ reply
//	                              ▼
//	                            done
type callback struct {
	client *client
	op     nfs4.CBArgs
	refer  []nfs4.ReferringCallList
	// stale tells that the callback is of no use any more; nil means never.
	stale func() bool
	// done is called with the result, or with nil when the client is gone.
	// It is called with s.mu held.
	done func(res nfs4.CBRes)

	sess *session // that the callback was sent on, until it is answered
	slot int
}

// maxCallbackReply is more than the reply to any callback is long, bytes, and
// fits into an inline message of RPC-over-RDMA whatever the threshold: there is no
// other way back (RFC 8167 section 5.3).
const maxCallbackReply = 900

var lastXID atomic.Uint32

// call sends a callback, now or when there is a path to the client. s.mu is held.
func (s *Server) call(cb *callback) {
	cb.client.callbacks = append(cb.client.callbacks, cb)
	s.runCallbacks(cb.client)
}

// runCallbacks starts those of the client's callbacks that can be sent. s.mu is
// held.
func (s *Server) runCallbacks(cl *client) {
	if !s.serving {
		return
	}
	var rest []*callback
	for _, cb := range cl.callbacks {
		if cb.sess == nil && cb.stale != nil && cb.stale() {
			continue // what was sent once must be sent until it is answered
		}
		p := s.pathFor(cb)
		if p == nil {
			rest = append(rest, cb)
			continue
		}
		s.calls.Add(1)
		go s.send(cb, p)
	}
	cl.callbacks = rest
}

// pathFor finds a connection and a slot for a callback. One that was sent already
// stays with its session and slot, unless the session is gone. s.mu is held.
func (s *Server) pathFor(cb *callback) *peer {
	if cb.sess != nil {
		if !cb.sess.cb.gone && !cb.sess.cb.fault {
			if n := len(cb.sess.backConns); n > 0 {
				return cb.sess.backConns[n-1]
			}
			return nil
		}
		cb.sess = nil
	}
	for _, sess := range cb.client.sessions {
		n := len(sess.backConns)
		if n == 0 {
			continue
		}
		if slot, ok := sess.cb.take(); ok {
			cb.sess, cb.slot = sess, slot
			return sess.backConns[n-1]
		}
	}
	return nil
}

// canCall tells whether there is a path for callbacks to a client. s.mu is held.
func (s *Server) canCall(cl *client) bool {
	for _, sess := range cl.sessions {
		if len(sess.backConns) > 0 && !sess.cb.fault {
			return true
		}
	}
	return false
}

// retryRecalls is called when a client has got a path for callbacks. s.mu is held.
func (s *Server) retryRecalls(cl *client) { s.runCallbacks(cl) }

// send carries a callback to the client, and its result to where it belongs.
func (s *Server) send(cb *callback, p *peer) {
	defer s.calls.Done()
	s.mu.Lock()
	sess, slot := cb.sess, cb.slot
	seq := sess.cb.seqs[slot] + 1
	sec, prog, minor := sess.cbSec, sess.cbProgram, sess.minor
	cred, err := callbackCred(sec)
	s.mu.Unlock()
	var res nfs4.CBCompoundRes
	if err == nil {
		args := nfs4.CBCompoundArgs{Minor: minor, Ops: []nfs4.CBArgs{
			&nfs4.CBSequenceArgs{SessionID: sess.id, SequenceID: seq, SlotID: uint32(slot),
				HighestSlotID: uint32(slot), Referring: cb.refer}, cb.op}}
		ctx, cancel := context.WithTimeout(p.ctx, callbackTimeout)
		res, err = p.callback(ctx, cred, prog, min(int(sess.back.MaxResponseSize), maxCallbackReply), &args)
		cancel()
	}
	s.logCallback(p, cb, seq, &res, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		// It is not known whether the client has carried it out: it has to be
		// sent again, with the same slot, on another connection (RFC 8881
		// section 2.10.6.2).
		p.giveUp(sess)
		s.again(cb)
		return
	}
	switch {
	case len(res.Ops) > 0 && res.Ops[0].Result() == nfs4.OK:
		sess.cb.seqs[slot] = seq
		sess.cb.busy[slot] = false
		cb.sess = nil
		var r nfs4.CBRes
		if len(res.Ops) > 1 {
			r = res.Ops[1]
		}
		if cb.done != nil {
			cb.done(r)
		}
	case len(res.Ops) > 0 && res.Ops[0].Result() == nfs4.ErrDelay || res.Status == nfs4.ErrDelay:
		s.later(func() { s.again(cb) })
		return
	default:
		sess.cb.fault = true
		s.again(cb)
		return
	}
	s.runCallbacks(cb.client)
}

// again queues a callback that was tried already, unless its client is gone. s.mu
// is held.
func (s *Server) again(cb *callback) {
	if s.clients[cb.client.id] != cb.client {
		if cb.done != nil {
			cb.done(nil)
		}
		return
	}
	s.call(cb)
}

// later calls fn after a while, with s.mu held, unless the server is closed
// before. s.mu is held.
func (s *Server) later(fn func()) {
	if !s.serving {
		fn() // nothing is sent now
		return
	}
	s.calls.Add(1)
	go func() {
		defer s.calls.Done()
		t := time.NewTimer(callbackRetryWait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		fn()
	}()
}

// giveUp takes a connection out of a session's back channel on which a callback
// was not answered. s.mu is held.
func (p *peer) giveUp(sess *session) {
	if i := slices.Index(sess.backConns, p); i >= 0 {
		sess.backConns = slices.Delete(sess.backConns, i, i+1)
		sess.backLost = len(sess.backConns) == 0
	}
}

func callbackCred(sec nfs4.CallbackSec) (rpc.OpaqueAuth, error) {
	if sec.Flavor != nfs4.FlavorSys {
		return rpc.OpaqueAuth{}, nil
	}
	sys := rpc.AuthSys{Stamp: sec.Stamp, Machine: sec.Machine, UID: sec.UID, GID: sec.GID, GIDs: sec.GIDs}
	return sys.Auth()
}

var errCallbackReply = errors.New("nfstest: malformed reply to a callback")

// callback sends a CB_COMPOUND and waits for the reply.
func (p *peer) callback(ctx context.Context, cred rpc.OpaqueAuth, prog uint32, replyMax int, args *nfs4.CBCompoundArgs) (res nfs4.CBCompoundRes, err error) {
	select {
	case <-p.ready:
	case <-ctx.Done():
		return res, ctx.Err()
	}
	var e xdr.Encoder
	h := rpc.CallHeader{XID: lastXID.Add(1), Prog: prog, Vers: nfs4.CallbackVersion, Proc: nfs4.ProcCompound, Cred: cred}
	h.Encode(&e)
	args.Encode(&e)
	if err := e.Err(); err != nil {
		return res, err
	}
	type outcome struct {
		res nfs4.CBCompoundRes
		err error
	}
	got := make(chan outcome, 1)
	call := &ulb.Call{Msg: e.Message(), ReplyMax: replyMax, Done: func(_ *ulb.Call, r ulb.Reply, err error) {
		var o outcome
		if o.err = err; err == nil {
			var d xdr.Decoder
			d.Reset(r.Msg)
			var rh rpc.ReplyHeader
			rh.Decode(&d)
			if d.Err() == nil && rh.Err() != nil {
				o.err = rh.Err()
			} else {
				o.res.Decode(&d)
				detach(&o.res)
			}
			if o.err == nil && d.Err() != nil {
				o.err = errors.Join(errCallbackReply, d.Err())
			}
			r.Release()
		}
		got <- o
	}}
	if err := p.conn.Send(ctx, call); err != nil {
		return res, err
	}
	select {
	case o := <-got:
		return o.res, o.err
	case <-ctx.Done():
		return res, ctx.Err()
	}
}

// detach copies what aliases the stream of a reply and is used later.
func detach(res *nfs4.CBCompoundRes) {
	for _, r := range res.Ops {
		if g, ok := r.(*nfs4.CBGetAttrRes); ok {
			g.Attrs.FileHandle = g.Attrs.FileHandle.Clone()
			g.Attrs.SecLabel.Data = slices.Clone(g.Attrs.SecLabel.Data)
		}
	}
}

func (s *Server) logCallback(p *peer, cb *callback, seq uint32, res *nfs4.CBCompoundRes, err error) {
	ev := Event{Time: s.now(), Peer: p.name, Client: cb.client.id, Session: cb.sess.id, Slot: uint32(cb.slot),
		Sequence: seq, Callback: true, Mute: err != nil, Status: res.Status}
	op := OpEvent{CBOp: cb.op.Op()}
	if len(res.Ops) > 1 {
		op.Status = res.Ops[1].Result()
	} else {
		op.Status = res.Status
	}
	ev.Ops = []OpEvent{{CBOp: nfs4.CBOpSequence}, op}
	s.log.add(ev)
}
