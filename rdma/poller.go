package rdma

import (
	"encoding/binary"
	"errors"
	"fmt"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// poller handles completions. It is used by one goroutine; what it keeps here
// is scratch memory.
type poller struct {
	c     *Conn
	repl  []*ulb.Buffer // receive buffers to post
	out   []WorkRequest // invalidations to post
	ready []*call       // calls to finish
}

// handle takes a batch of completions: it first replaces the receive buffers
// that were filled, so that no credit is given back before its buffer is there,
// then looks at each, posts what is due in one batch, and finishes calls.
func (p *poller) handle(done []Completion) {
	c := p.c
	for i := range done {
		d := &done[i]
		if d.Op != OpReceive || d.Err != nil {
			continue
		}
		r := c.spare()
		if r == nil { // too many are held: this one goes back at once
			old := c.recvs[d.Buf]
			d.Cookie = c.copyOf(old, d.Len)
			r = old
		} else {
			d.Cookie = c.recvs[d.Buf]
		}
		p.repl = append(p.repl, r.buf)
	}
	if len(p.repl) > 0 {
		if err := c.qp.Receive(p.repl...); err != nil {
			for _, b := range p.repl {
				c.putRecv(c.recvs[b])
			}
			c.fail(err)
		}
	}
	for i := range done {
		p.completed(&done[i])
	}
	if len(p.out) > 0 {
		if err := c.qp.Post(p.out); err != nil {
			// Memory that cannot be withdrawn costs the connection (RFC 8166
			// section 4.5.4); the calls are finished when it has ended.
			c.fail(err)
		}
	}
	for i, cl := range p.ready {
		cl.finish()
		p.ready[i] = nil
	}
	clear(p.repl)
	clear(p.out)
	p.repl, p.out, p.ready = p.repl[:0], p.out[:0], p.ready[:0]
}

func (p *poller) completed(d *Completion) {
	c := p.c
	if d.Err != nil && !errors.Is(d.Err, ErrFlushed) {
		// The connection ends; what ended it is said by this first of all.
		c.mu.Lock()
		c.noteLocked(d.Err)
		c.mu.Unlock()
	}
	if d.Op == OpReceive {
		if d.Err != nil {
			c.putRecv(c.recvs[d.Buf])
			return
		}
		p.received(d.Cookie.(*recv), d)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sq.give(1)
	switch k := d.Cookie.(type) {
	case *call:
		if d.Op == OpInvalidate {
			if d.Err == nil {
				k.invalidating--
				c.count.localInvals.Add(1)
				c.count.exposed.Add(-1)
			}
		} else {
			k.sending = false
		}
		if k.over() {
			p.over(k)
		}
	case *served:
		if d.Op == OpRead {
			c.reads.give(1)
		}
		k.completed(d.Err)
	}
}

// over takes a call out of the list; it is finished at the end of the batch.
func (p *poller) over(cl *call) {
	delete(p.c.calls, cl.xid)
	p.ready = append(p.ready, cl)
}

// violation ends the connection because of a fault of the peer.
func (c *Conn) violation(format string, args ...any) error {
	err := &ProtocolError{Layer: "RPC-over-RDMA", Reason: fmt.Sprintf(format, args...)}
	c.fail(err)
	return err
}

// received takes a message. Calls and replies are told apart by the message
// type of the RPC message, or, where that lies in a chunk, by the kind of the
// chunk: XIDs say nothing, as both ends choose them on their own (RFC 8167
// section 2).
func (p *poller) received(r *recv, d *Completion) {
	c := p.c
	payload, err := c.codec.Decode(&r.header, r.buf.Data[:d.Len])
	r.payload = payload
	h := &r.header
	isReply := false
	switch {
	case errors.Is(err, rpcrdma.ErrShort):
		// Not even the XID can be trusted (RFC 8166 section 4.5).
	case h.Proc == rpcrdma.Error:
		isReply = err == nil
	case err != nil || h.Proc == rpcrdma.MsgP:
		if err == nil {
			err = rpcrdma.ErrHeader
		}
	case h.Proc == rpcrdma.Msg:
		isReply, err = replyOrCall(h.XID, payload)
	case h.Proc == rpcrdma.NoMsg:
		isReply = len(h.Read) == 0
	}
	if isReply && err == nil {
		p.reply(r, d)
		return
	}
	if d.HasInvalidated {
		c.violation("a message that is no reply withdraws handle %#x", d.Invalidated)
	}
	if errors.Is(err, rpcrdma.ErrShort) || h.Proc == rpcrdma.Error || h.Proc == rpcrdma.Done ||
		err != nil && !c.back {
		// A connecting end takes what it does not understand for a reply,
		// which is to be dropped in silence (RFC 8166 section 4.5).
		c.count.malformed.Add(1)
		c.putRecv(r)
		return
	}
	c.serve(r, err)
}

var errMessage = errors.New("neither an RPC call nor a reply with the header's XID")

func replyOrCall(xid uint32, payload []byte) (isReply bool, err error) {
	if len(payload) < 8 || binary.BigEndian.Uint32(payload) != xid {
		return false, errMessage
	}
	switch binary.BigEndian.Uint32(payload[4:]) {
	case msgCall:
		return false, nil
	case msgReply:
		return true, nil
	}
	return false, errMessage
}

// reply takes a reply, or an RDMA_ERROR in its place.
func (p *poller) reply(r *recv, d *Completion) {
	c, h := p.c, &r.header
	c.mu.Lock()
	cl := c.calls[h.XID]
	if cl == nil || !cl.posted || cl.replied {
		c.mu.Unlock()
		c.count.unknown.Add(1)
		c.putRecv(r)
		if d.HasInvalidated {
			c.violation("reply to no outstanding call withdraws handle %#x", d.Invalidated)
		}
		return
	}
	if d.HasInvalidated {
		if !cl.invalidated(d.Invalidated) {
			c.mu.Unlock()
			c.putRecv(r)
			c.violation("reply to call %#x withdraws handle %#x of another", cl.xid, d.Invalidated)
			return
		}
		c.sq.give(1) // the place of its invalidation
		c.count.remoteInvals.Add(1)
		c.count.exposed.Add(-1)
	}
	var reply ulb.Reply
	var err error
	if h.Proc == rpcrdma.Error {
		err = refusal(h, cl.c.ReplySoft)
		c.count.refused.Add(1)
	} else {
		got, bad := ulb.CheckReply(h, cl.offered)
		if bad != nil {
			c.mu.Unlock()
			c.putRecv(r)
			c.violation("reply to call %#x: %v", cl.xid, bad)
			return
		}
		c.count.replies.Add(1)
		c.count.bytesPlaced.Add(uint64(got.Placed + got.Long))
		if got.Inline {
			msg := xdr.Message{Stream: r.payload}
			if got.Placed > 0 {
				r.bulk[0] = xdr.Bulk{Pos: xdr.AnyPos, Data: cl.c.Sink.Data[:got.Placed]}
				msg.Bulk = r.bulk[:]
			}
			reply = ulb.NewReply(msg, r.release)
			reply.SinkOffered = cl.plan.Sink > 0
		} else {
			cl.longLen = got.Long
			c.count.longReplies.Add(1)
		}
	}
	c.credits.replied(h.Credits)
	if cl.answered(reply, err, &p.out) {
		p.over(cl)
	}
	inline := reply.Msg.Stream != nil
	c.mu.Unlock()
	if !inline {
		c.putRecv(r)
	}
}

// refusal returns the error that an RDMA_ERROR stands for (RFC 8267 sections
// 3.1, 6.4.2 and 6.6).
func refusal(h *rpcrdma.Header, soft bool) error {
	switch {
	case h.Err == rpcrdma.ErrVers:
		return &ulb.VersionError{Low: h.VersLow, High: h.VersHigh}
	case soft:
		return ulb.ErrReplyTooLarge
	}
	return ulb.ErrChunk
}
