package rdma

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// The way of a call:
//
//	Send     plan its form; take memory for what travels by chunk beside the
//	         payload buffers, then a credit, then places in the send queue
//	         register the call under its XID
//	         expose memory, build the header, post the Send
//	poller   reply: check it against what was offered, give the credit back,
//	         post invalidations of the handles that the peer has not withdrawn
//	         Send and invalidations completed: finish, that is, call Done
//
// From registration on the call is finished by the poller, whatever happens: if
// anything fails then, the connection is given up, and with it all its calls.

// call is the transport's state of a ulb.Call. It stays with the Call and is
// used again.
type call struct {
	conn *Conn
	c    *ulb.Call
	xid  uint32

	plan    ulb.Plan
	header  rpcrdma.Header
	offered ulb.Offered
	write   [1]rpcrdma.Chunk
	sink    rpcrdma.Chunk // segments of the Write chunk
	chunk   rpcrdma.Chunk // segments of the Reply chunk

	send    *ulb.Buffer // header, and the message if it goes inline
	long    *ulb.Buffer // Position-Zero Read chunk, Reply chunk, argument if it had to be copied
	replyAt int         // of the Reply chunk in long
	argAt   int         // of the argument in long
	argWrap ulb.Buffer  // around an argument in ordinary memory
	rest    []xdr.Bulk  // bulk items of a long call without the argument

	gather  [1]Gather
	request [1]WorkRequest
	w       waiter

	exposed []exposure

	// The following is guarded by conn.mu.

	posted       bool // a reply may come in
	sending      bool // the Send is not completed
	replied      bool
	longLen      int // bytes of a reply that lies in the Reply chunk
	invalidating int // handles whose invalidation is not completed
	reply        ulb.Reply
	err          error
}

type exposure struct {
	handle Handle
	gone   bool // withdrawn, or about to be
}

// live returns the number of handles that are in force.
func (cl *call) live() int {
	n := cl.invalidating
	for _, e := range cl.exposed {
		if !e.gone {
			n++
		}
	}
	return n
}

var (
	errNotCall   = errors.New("rdma: the message is not an RPC call")
	errDuplicate = errors.New("rdma: a call with the same XID is outstanding")
)

// RPC message types (RFC 5531 section 9).
const (
	msgCall  = 0
	msgReply = 1
)

// Send sends a call. It waits while the peer's credits or the memory for long
// messages are used up, until ctx is done; afterwards ctx does not matter. An
// error means that nothing was sent and Done will not be called: ctx's own,
// ErrTooLarge of package ulb, or a *ulb.ConnError.
func (c *Conn) Send(ctx context.Context, uc *ulb.Call) error {
	s := uc.Msg.Stream
	if len(s) < 8 || binary.BigEndian.Uint32(s[4:]) != msgCall || uc.Done == nil {
		return errNotCall
	}
	plan, err := ulb.PlanCall(uc, c.sizes)
	if err != nil {
		return err
	}
	cl, ok := uc.Transport.(*call)
	if !ok {
		cl = &call{w: newWaiter()}
		uc.Transport = cl
	}
	cl.begin(c, uc, plan)
	if err := cl.prepare(ctx); err != nil {
		cl.release()
		return err
	}
	if err := c.admit(ctx, cl); err != nil {
		cl.release()
		return err
	}
	// From here on the call is outstanding.
	if err := cl.post(); err != nil {
		c.fail(err)
	}
	c.mu.Lock()
	if c.senders--; c.senders == 0 {
		c.idle.Broadcast()
	}
	c.mu.Unlock()
	return nil
}

func (cl *call) begin(c *Conn, uc *ulb.Call, plan ulb.Plan) {
	cl.conn, cl.c, cl.plan = c, uc, plan
	cl.xid = binary.BigEndian.Uint32(uc.Msg.Stream)
	cl.sink, cl.chunk, cl.exposed = cl.sink[:0], cl.chunk[:0], cl.exposed[:0]
	cl.offered = ulb.Offered{}
	cl.posted, cl.sending, cl.replied, cl.invalidating = false, false, false, 0
	cl.reply, cl.longLen, cl.err = ulb.Reply{}, 0, nil
}

// prepare takes the memory that the call needs beside the owner's buffers.
func (cl *call) prepare(ctx context.Context) error {
	p, n := &cl.plan, 0
	n += p.Long
	cl.replyAt = align(n)
	if p.Reply > 0 {
		n = cl.replyAt + p.Reply
	}
	cl.argAt = -1
	if p.Arg >= 0 && !cl.conn.info.AnyMemory && cl.argOffset() < 0 {
		cl.argAt = align(n)
		n = cl.argAt + len(cl.c.Msg.Bulk[p.Arg].Data)
	}
	if n > 0 {
		if n > cl.conn.long.Max() {
			return fmt.Errorf("%w: %d bytes in chunks of their own", ulb.ErrTooLarge, n)
		}
		var err error
		if cl.long, err = cl.conn.long.Get(ctx, n); err != nil {
			return err
		}
		if p.Long > 0 {
			cl.copyMessage(cl.long.Data[:0])
		}
		if cl.argAt >= 0 {
			m := copy(cl.long.Data[cl.argAt:], cl.c.Msg.Bulk[p.Arg].Data)
			cl.conn.count.bytesCopied.Add(uint64(m))
		}
	}
	var err error
	cl.send, err = cl.conn.getSend()
	return err
}

func align(n int) int { return (n + ulb.PageSize - 1) &^ (ulb.PageSize - 1) }

// argOffset returns where in ArgBuf the argument of the Read chunk lies, or -1.
func (cl *call) argOffset() int {
	b, data := cl.c.ArgBuf, cl.c.Msg.Bulk[cl.plan.Arg].Data
	if b == nil || len(b.Data) == 0 {
		return -1
	}
	start := uintptr(unsafe.Pointer(unsafe.SliceData(b.Data)))
	at := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	if at < start || at-start+uintptr(len(data)) > uintptr(len(b.Data)) {
		return -1
	}
	return int(at - start)
}

// message returns the message without the argument that has a Read chunk of
// its own.
func (cl *call) message() xdr.Message {
	m := cl.c.Msg
	if cl.plan.Arg < 0 {
		return m
	}
	cl.rest = append(append(cl.rest[:0], m.Bulk[:cl.plan.Arg]...), m.Bulk[cl.plan.Arg+1:]...)
	return xdr.Message{Stream: m.Stream, Bulk: cl.rest}
}

// copyMessage appends the message to dst.
func (cl *call) copyMessage(dst []byte) []byte {
	m := cl.message()
	for i := range m.Bulk {
		cl.conn.count.bytesCopied.Add(uint64(len(m.Bulk[i].Data)))
	}
	return m.AppendTo(dst)
}

// admit waits until the call may be sent and registers it.
func (c *Conn) admit(ctx context.Context, cl *call) error {
	c.mu.Lock()
	switch {
	case c.ended || c.err != nil:
		err := c.err
		c.mu.Unlock()
		return err
	case c.calls[cl.xid] != nil:
		c.mu.Unlock()
		return errDuplicate
	}
	ok := c.credits.take(&cl.w, cl.c.Probe)
	c.mu.Unlock()
	if !ok {
		if err := c.wait(ctx, &cl.w, func() bool { return c.credits.cancel(&cl.w) }); err != nil {
			return err
		}
	}
	places := cl.places()
	err := c.takeSends(ctx, &cl.w, places)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
	case c.ended:
		err = c.err
	case c.calls[cl.xid] != nil: // sent by somebody else meanwhile
		c.sq.give(places)
		err = errDuplicate
	default:
		c.calls[cl.xid] = cl
		c.senders++
		return nil
	}
	if !c.ended {
		c.credits.give()
	}
	return err
}

// places returns the number of work requests that the call leads to: the
// Send, and an invalidation for every handle.
func (cl *call) places() int {
	p, n := &cl.plan, 1
	if p.Arg >= 0 {
		n += cl.segments(len(cl.c.Msg.Bulk[p.Arg].Data))
	}
	return n + cl.segments(p.Long) + cl.segments(p.Sink) + cl.segments(p.Reply)
}

func (cl *call) segments(n int) int {
	max := cl.conn.info.MaxSegment
	return (n + max - 1) / max
}

// post exposes memory, builds the message and posts the Send. An error leaves
// the connection unusable.
func (cl *call) post() error {
	c, p, h := cl.conn, &cl.plan, &cl.header
	h.Reset()
	h.XID, h.Vers, h.Credits, h.Proc = cl.xid, c.codec.Version, uint32(c.credits.asked), rpcrdma.Msg
	var err error
	if p.Long > 0 {
		h.Proc = rpcrdma.NoMsg
		err = cl.exposeRead(0, cl.long, 0, p.Long)
	}
	if p.Arg >= 0 && err == nil {
		buf, off := cl.argument()
		err = cl.exposeRead(p.Position, buf, off, len(cl.c.Msg.Bulk[p.Arg].Data))
	}
	if p.Sink > 0 && err == nil {
		cl.sink, err = cl.exposeWrite(cl.sink, cl.c.Sink, 0, p.Sink)
		cl.write[0] = cl.sink
		cl.offered.Write = cl.write[:]
		h.Write = append(h.Write, cl.sink)
	}
	if p.Reply > 0 && err == nil {
		cl.chunk, err = cl.exposeWrite(cl.chunk, cl.long, cl.replyAt, p.Reply)
		cl.offered.Reply = cl.chunk
		h.Reply = cl.chunk
	}
	if err != nil {
		return err
	}
	out := c.codec.Append(cl.send.Data[:0], h)
	if p.Long == 0 {
		out = cl.copyMessage(out)
	}
	if len(out) > len(cl.send.Data) {
		return fmt.Errorf("rdma: planned message of %d bytes exceeds %d", len(out), len(cl.send.Data))
	}
	cl.gather[0] = Gather{Buf: cl.send, Len: len(out)}
	cl.request[0] = WorkRequest{Op: OpSend, Cookie: cl, Local: cl.gather[:]}
	c.countCall(p, cl)
	c.mu.Lock()
	cl.posted, cl.sending = true, true
	c.mu.Unlock()
	// As soon as it is posted, the call can be finished and used again.
	if err := c.qp.Post(cl.request[:]); err != nil {
		c.mu.Lock()
		cl.sending = false
		c.mu.Unlock()
		return err
	}
	return nil
}

func (c *Conn) countCall(p *ulb.Plan, cl *call) {
	n := &c.count
	n.calls.Add(1)
	if !p.Chunks() {
		n.inline.Add(1)
		return
	}
	if p.Arg >= 0 {
		n.readChunks.Add(1)
		n.bytesPulled.Add(uint64(len(cl.c.Msg.Bulk[p.Arg].Data)))
	}
	if p.Long > 0 {
		n.longCalls.Add(1)
		n.bytesPulled.Add(uint64(p.Long))
	}
	if p.Sink > 0 {
		n.writeChunks.Add(1)
	}
	if p.Reply > 0 {
		n.replyChunks.Add(1)
	}
}

// argument returns where the argument of the Read chunk lies.
func (cl *call) argument() (*ulb.Buffer, int) {
	if off := cl.argOffset(); off >= 0 {
		return cl.c.ArgBuf, off
	}
	if cl.argAt >= 0 {
		return cl.long, cl.argAt
	}
	cl.argWrap = ulb.Buffer{Data: cl.c.Msg.Bulk[cl.plan.Arg].Data}
	return &cl.argWrap, 0
}

func (cl *call) exposeRead(position int, buf *ulb.Buffer, off, n int) error {
	for n > 0 {
		s, err := cl.expose(buf, off, n, RemoteRead)
		if err != nil {
			return err
		}
		cl.header.Read = append(cl.header.Read, rpcrdma.ReadSegment{Position: uint32(position), Segment: s})
		off, n = off+int(s.Length), n-int(s.Length)
	}
	return nil
}

func (cl *call) exposeWrite(dst rpcrdma.Chunk, buf *ulb.Buffer, off, n int) (rpcrdma.Chunk, error) {
	for n > 0 {
		s, err := cl.expose(buf, off, n, RemoteWrite)
		if err != nil {
			return dst, err
		}
		dst = append(dst, s)
		off, n = off+int(s.Length), n-int(s.Length)
	}
	return dst, nil
}

func (cl *call) expose(buf *ulb.Buffer, off, n int, a Access) (rpcrdma.Segment, error) {
	n = min(n, cl.conn.info.MaxSegment)
	r, err := cl.conn.qp.Expose(buf, off, n, a)
	if err != nil {
		return rpcrdma.Segment{}, err
	}
	cl.conn.count.exposed.Add(1)
	cl.exposed = append(cl.exposed, exposure{handle: r.Handle})
	return rpcrdma.Segment{Handle: uint32(r.Handle), Length: uint32(n), Offset: r.Offset}, nil
}

// answered takes the reply to the call, or the error that stands for it, and
// appends the invalidations that are due to out. It reports whether the call is
// over already. Called by the poller with conn.mu held.
func (cl *call) answered(reply ulb.Reply, err error, out *[]WorkRequest) bool {
	cl.replied, cl.reply, cl.err = true, reply, err
	for i := range cl.exposed {
		e := &cl.exposed[i]
		if e.gone {
			continue
		}
		e.gone = true
		cl.invalidating++
		*out = append(*out, WorkRequest{Op: OpInvalidate, Cookie: cl, Remote: Remote{Handle: e.handle}})
	}
	return cl.over()
}

// over reports whether nothing refers to the call's memory any more.
func (cl *call) over() bool { return cl.replied && !cl.sending && cl.invalidating == 0 }

// invalidated marks a handle that the peer has withdrawn. It reports whether
// it was one of the call's.
func (cl *call) invalidated(h Handle) bool {
	for i := range cl.exposed {
		if e := &cl.exposed[i]; e.handle == h && !e.gone {
			e.gone = true
			return true
		}
	}
	return false
}

// finish gives the call back to its owner.
func (cl *call) finish() {
	c, reply, err := cl.c, cl.reply, cl.err
	if err == nil && cl.longLen > 0 {
		reply, err = cl.longReply()
	}
	cl.reply = ulb.Reply{}
	cl.release()
	cl.c = nil
	c.Done(c, reply, err)
}

// longReply completes a reply that lies in the Reply chunk, which can be looked
// at only now that the peer has no access to it any more.
func (cl *call) longReply() (ulb.Reply, error) {
	s := cl.long.Data[cl.replyAt : cl.replyAt+cl.longLen]
	if len(s) < 8 || binary.BigEndian.Uint32(s) != cl.xid || binary.BigEndian.Uint32(s[4:]) != msgReply {
		return ulb.Reply{}, cl.conn.violation("what lies in the Reply chunk is not the reply to the call")
	}
	if cl.conn.long.Tight() {
		// The reply may be kept for long; the memory is needed for others.
		return ulb.NewReply(xdr.Message{Stream: append([]byte(nil), s...)}, nil), nil
	}
	h := cl.conn.getHeld()
	h.long, cl.long = cl.long, nil
	return ulb.NewReply(xdr.Message{Stream: s}, h.release), nil
}

// release gives back what the call has taken.
func (cl *call) release() {
	cl.conn.putSend(cl.send)
	if cl.long != nil {
		cl.long.Release()
	}
	cl.send, cl.long = nil, nil
	cl.argWrap = ulb.Buffer{}
	clear(cl.rest)
	cl.gather[0], cl.request[0] = Gather{}, WorkRequest{}
}
