package tcp

import (
	"context"
	"errors"
	"fmt"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpc"
)

// call is the transport's state of a ulb.Call. It stays with the Call and is
// used again.
//
//	        Send           writer has taken it      writer is through with it
//	(free) ------> queued -------------------> writing ------------> written
//	  ^                                                                 |
//	  +-----------------------------------------------------------------+
//	                    reply, or end of the connection
//
// A reply that comes while the call is still being written is kept until the
// writer is through: until then it refers to the memory of the call.
type call struct {
	c     *ulb.Call
	xid   uint32
	bound int  // longest reply, bytes
	probe bool // it has the place of the probe

	// The following is guarded by Conn.mu until the call is finished.

	state   callState
	replied bool
	reply   ulb.Reply
	err     error
}

type callState uint8

const (
	queued callState = iota
	writing
	written
)

var (
	errNotCall   = errors.New("tcp: the message is not an RPC call")
	errDuplicate = errors.New("tcp: a call with the same XID is outstanding")
	errSink      = errors.New("tcp: sink smaller than the result that it is for")
)

// Send sends a call. It waits while as many calls are outstanding as Config
// allows, until ctx is done; afterwards ctx does not matter. An error means that
// nothing was sent and Done will not be called: ctx's own, ErrTooLarge of
// package ulb, or a *ulb.ConnError.
//
// A reply that is longer than ReplyMax allows makes the call fail with
// ErrReplyTooLarge; with ReplySoft any reply is taken that the connection can
// carry. Done may run on the writer's goroutine instead of the reader's.
func (c *Conn) Send(ctx context.Context, uc *ulb.Call) error {
	xid, typ, ok := rpc.Peek(uc.Msg.Stream)
	if !ok || typ != rpc.Call || uc.Done == nil {
		return errNotCall
	}
	if n := uc.Msg.Len(); n > c.cfg.maxRecord() {
		return fmt.Errorf("%w: a call of %d bytes, %d are possible", ulb.ErrTooLarge, n, c.cfg.maxRecord())
	}
	if uc.Sink != nil && (uc.SinkLen < 0 || uc.SinkLen > len(uc.Sink.Data)) {
		return errSink
	}
	cl, ok := uc.Transport.(*call)
	if !ok {
		cl = new(call)
		uc.Transport = cl
	}
	*cl = call{c: uc, xid: xid, bound: c.cfg.maxRecord()}
	if !uc.ReplySoft {
		cl.bound = min(cl.bound, uc.ReplyMax+replySlack)
		if uc.Sink != nil {
			cl.bound = min(c.cfg.maxRecord(), cl.bound+uc.SinkLen)
		}
	}
	if err := c.take(ctx, cl); err != nil {
		return err
	}
	c.mu.Lock()
	err := c.err
	if err == nil && c.calls[xid] != nil {
		err = errDuplicate
	}
	if err != nil {
		c.mu.Unlock()
		c.giveBack(cl.probe)
		return err
	}
	c.calls[xid] = cl
	c.enqueueLocked(item{msg: uc.Msg, call: cl})
	c.mu.Unlock()
	c.count.calls.Add(1)
	return nil
}

// take waits for a place among the outstanding calls.
func (c *Conn) take(ctx context.Context, cl *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case c.places <- struct{}{}:
		return nil
	default:
	}
	var probe chan struct{} // nil waits for ever
	if cl.c.Probe {
		probe = c.probe
	}
	select {
	case c.places <- struct{}{}:
	case probe <- struct{}{}:
		cl.probe = true
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return c.Err()
	}
	return nil
}

func (c *Conn) giveBack(probe bool) {
	if probe {
		<-c.probe
	} else {
		<-c.places
	}
}

// claim returns the call that a reply is for, or nil. A call that is not even
// being written cannot have been answered.
func (c *Conn) claim(xid uint32) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.calls[xid]
	if cl == nil || cl.state == queued || cl.replied {
		return nil
	}
	return cl
}

// readReply takes a reply, of which c.head was read.
func (c *Conn) readReply(xid uint32) error {
	cl := c.claim(xid)
	if cl == nil {
		c.count.unknown.Add(1)
		return c.in.skip()
	}
	reply, err := c.receive(cl)
	var failed error
	if errors.Is(err, errTooLong) {
		failed = fmt.Errorf("%w: more than %d bytes", ulb.ErrReplyTooLarge, cl.bound)
		err = c.in.skip()
	}
	if err != nil {
		return err
	}
	c.count.replies.Add(1)
	c.mu.Lock()
	cl.reply, cl.err, cl.replied = reply, failed, true
	done := cl.state == written
	c.mu.Unlock()
	if done {
		c.finish(cl)
	}
	return nil
}

// receive reads the message of a reply; an eligible result goes to the sink if
// there is one and the result can be found.
func (c *Conn) receive(cl *call) (ulb.Reply, error) {
	if c.in.length > cl.bound {
		return ulb.Reply{}, errTooLong
	}
	n := len(c.head)
	size := n + c.in.left
	locate := cl.c.Sink != nil && size > ulb.LocateHead
	if locate {
		size = 2 * ulb.LocateHead // head, and a tail of some length
	}
	rec := newRecord(size)
	copy(rec.buf, c.head[:])
	var data []byte
	if locate {
		k, err := c.in.read(rec.buf[n:ulb.LocateHead])
		if n += k; err == nil {
			data, n, err = c.place(cl, rec.buf[:n])
		}
		if err != nil {
			rec.free()
			return ulb.Reply{}, err
		}
	}
	rec, err := c.in.rest(rec, n, cl.bound)
	if err != nil {
		rec.free()
		return ulb.Reply{}, err
	}
	msg := xdr.Message{Stream: rec.message()}
	if data != nil {
		rec.bulk[0] = xdr.Bulk{Pos: xdr.AnyPos, Data: data}
		msg.Bulk = rec.bulk[:]
		c.count.placed.Add(uint64(len(data)))
	}
	return ulb.NewReply(msg, rec.free), nil
}

// place reads the eligible result of a reply that begins with head into the
// sink. It returns the data and how much of head is to be kept: what stands
// before the data, and all of it if nothing was placed, because the result
// cannot be found, is larger than the sink, or has come with the head.
func (c *Conn) place(cl *call, head []byte) (data []byte, keep int, err error) {
	pos, n, ok := ulb.LocateResult(head)
	if !ok || n > cl.c.SinkLen || pos+n < len(head) {
		return nil, len(head), nil
	}
	data = cl.c.Sink.Data[:n:n]
	have := copy(data, head[pos:])
	if got, err := c.in.read(data[have:]); err != nil {
		return nil, 0, err
	} else if have+got < n {
		return nil, 0, fmt.Errorf("%w: it ends inside a result", ErrRecord)
	}
	_, err = c.in.read(c.pad[:xdr.PadLen(n)-n])
	return data, pos, err
}

// finish gives the place of a call back and calls its Done. From then on the
// call belongs to its owner.
func (c *Conn) finish(cl *call) {
	c.mu.Lock()
	delete(c.calls, cl.xid)
	c.mu.Unlock()
	c.giveBack(cl.probe)
	uc, reply, err := cl.c, cl.reply, cl.err
	*cl = call{}
	uc.Done(uc, reply, err)
}
