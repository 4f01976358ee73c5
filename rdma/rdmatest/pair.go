package rdmatest

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// Params are the properties of an in-memory connection. Zero means the value
// given in parentheses.
type Params struct {
	MaxSegment int        // (1 GiB)
	MaxGather  int        // (4)
	AnyMemory  bool       // (no: local memory has to come from Memory)
	Memory     [2]*Memory // of the connecting and of the accepting end (new)
}

// NewPair returns the two ends of an in-memory connection: the first as if it
// had connected, the second as if it had accepted.
//
// Work requests are carried out within Post, by the goroutine that posts. The
// pair refuses what a strict device would, and ends the connection where a
// device would: a message without a receive buffer or too long for it, access
// to memory that is not exposed, not exposed for this, or not that far.
func NewPair(client, server rdma.Options, p Params) (*QueuePair, *QueuePair, error) {
	if p.MaxSegment == 0 {
		p.MaxSegment = 1 << 30
	}
	if p.MaxGather == 0 {
		p.MaxGather = 4
	}
	l := &link{}
	a := newQueuePair(l, p, 0, client, server)
	b := newQueuePair(l, p, 1, server, client)
	a.peer, b.peer = b, a
	for _, end := range []struct {
		qp *QueuePair
		o  rdma.Options
	}{{b, server}, {a, client}} {
		if end.o.Prepare == nil {
			continue
		}
		if err := end.o.Prepare(end.qp); err != nil {
			a.Close()
			b.Close()
			return nil, nil, err
		}
	}
	return a, b, nil
}

// link is what the two ends share. Its lock guards both ends and is the last
// one taken.
type link struct{ mu sync.Mutex }

// QueuePair is one end of an in-memory connection.
type QueuePair struct {
	link  *link
	peer  *QueuePair
	info  rdma.Info
	mem   *Memory
	limit rdma.Options

	cond     sync.Cond
	recvs    []*ulb.Buffer
	done     []rdma.Completion
	held     []rdma.Completion // of the kinds in hold
	hold     []rdma.Op
	sends    int // work requests posted whose completions were not polled
	reads    int // Reads among them
	regions  map[rdma.Handle]*region
	spent    map[rdma.Handle]bool // handles that were in use before
	err      error                // why the connection ended
	violated error                // the first rule that the user of this end broke
}

type region struct {
	buf    *ulb.Buffer
	off, n int
	base   uint64 // offset under which the peer knows the first byte
	access rdma.Access
}

func newQueuePair(l *link, p Params, side int, own, peer rdma.Options) *QueuePair {
	mem := p.Memory[side]
	if mem == nil {
		mem = &Memory{}
	}
	names := [2]string{"memory:client", "memory:server"}
	q := &QueuePair{
		link: l, mem: mem, limit: own,
		regions: make(map[rdma.Handle]*region),
		spent:   make(map[rdma.Handle]bool),
		info: rdma.Info{
			Provider: "memory", Device: names[side],
			LocalAddr: names[side], RemoteAddr: names[1-side],
			PrivateData: append([]byte(nil), peer.PrivateData...),
			MaxSegment:  p.MaxSegment, MaxGather: p.MaxGather, AnyMemory: p.AnyMemory,
			ReadDepth: min(own.ORD, peer.IRD), MaxSends: own.MaxSends,
		},
	}
	q.cond.L = &l.mu
	return q
}

// Info implements rdma.QueuePair.
func (q *QueuePair) Info() rdma.Info { return q.info }

// Memory implements rdma.QueuePair.
func (q *QueuePair) Memory() ulb.Memory { return q.mem }

// Exposed returns the number of handles that give the peer access now.
func (q *QueuePair) Exposed() int {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	return len(q.regions)
}

// Posted returns the number of receive buffers posted.
func (q *QueuePair) Posted() int {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	return len(q.recvs)
}

// Violation returns the first rule of the interface that the user of this end
// broke, or nil.
func (q *QueuePair) Violation() error {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	return q.violated
}

// Hold keeps completions of some kinds of work requests back, which a device
// may report late: a Send after the reply to its call, for example. Those of
// other kinds, held by an earlier Hold, are let go. When the connection ends
// they come as flushed.
func (q *QueuePair) Hold(ops ...rdma.Op) {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	q.hold = ops
	held := q.held
	q.held = nil
	for _, c := range held {
		if slices.Contains(ops, c.Op) {
			q.held = append(q.held, c)
		} else {
			q.complete(c)
		}
	}
}

func (q *QueuePair) violate(format string, args ...any) error {
	err := fmt.Errorf("rdmatest: "+format, args...)
	if q.violated == nil {
		q.violated = err
	}
	return err
}

// Receive implements rdma.QueuePair.
func (q *QueuePair) Receive(bufs ...*ulb.Buffer) error {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	if len(q.recvs)+len(bufs) > q.limit.MaxReceives {
		return q.violate("%d receive buffers posted, MaxReceives is %d", len(q.recvs)+len(bufs), q.limit.MaxReceives)
	}
	for i, b := range bufs {
		for _, other := range append(q.recvs, bufs[:i]...) {
			if b == other {
				return q.violate("receive buffer posted twice")
			}
		}
		if err := q.local(rdma.Gather{Buf: b, Len: len(b.Data)}); err != nil {
			return err
		}
	}
	q.recvs = append(q.recvs, bufs...)
	return nil
}

func (q *QueuePair) local(g rdma.Gather) error {
	if g.Buf == nil || g.Off < 0 || g.Len < 0 || g.Off+g.Len > len(g.Buf.Data) {
		return q.violate("local memory out of bounds")
	}
	if g.Len > 0 && !q.info.AnyMemory && !q.mem.owns(g.Buf) {
		return q.violate("local memory is not of this provider, or was freed")
	}
	return nil
}

// Expose implements rdma.QueuePair.
func (q *QueuePair) Expose(buf *ulb.Buffer, off, n int, access rdma.Access) (rdma.Remote, error) {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	if q.err != nil {
		return rdma.Remote{}, q.err
	}
	if n < 1 || n > q.info.MaxSegment {
		return rdma.Remote{}, q.violate("%d bytes exposed, MaxSegment is %d", n, q.info.MaxSegment)
	}
	if access != rdma.RemoteRead && access != rdma.RemoteWrite {
		return rdma.Remote{}, q.violate("exposed for access %d", access)
	}
	if err := q.local(rdma.Gather{Buf: buf, Off: off, Len: n}); err != nil {
		return rdma.Remote{}, err
	}
	h := rdma.Handle(rand.Uint32())
	for q.spent[h] {
		h = rdma.Handle(rand.Uint32())
	}
	q.spent[h] = true
	// Offsets mean nothing to the peer: make sure that nobody takes them for
	// zero-based, nor their sums for 32 bits wide.
	r := &region{buf: buf, off: off, n: n, base: rand.Uint64() >> 1, access: access}
	q.regions[h] = r
	return rdma.Remote{Handle: h, Offset: r.base}, nil
}

// access finds n bytes of this end's memory that the peer wants to reach.
func (q *QueuePair) access(r rdma.Remote, n int, want rdma.Access) ([]byte, error) {
	reg := q.regions[r.Handle]
	switch {
	case reg == nil:
		return nil, &rdma.ProtocolError{Layer: "RDMAP", Reason: fmt.Sprintf("invalid handle %#x", r.Handle)}
	case reg.access != want:
		return nil, &rdma.ProtocolError{Layer: "RDMAP", Reason: "access violation"}
	case r.Offset < reg.base || r.Offset-reg.base > uint64(reg.n) || uint64(n) > uint64(reg.n)-(r.Offset-reg.base):
		return nil, &rdma.ProtocolError{Layer: "DDP", Reason: "base or bounds violation"}
	}
	at := reg.off + int(r.Offset-reg.base)
	return reg.buf.Data[at : at+n], nil
}

// Post implements rdma.QueuePair.
func (q *QueuePair) Post(batch []rdma.WorkRequest) error {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	if q.err != nil {
		return q.err
	}
	reads := q.reads
	for i := range batch {
		if err := q.check(&batch[i]); err != nil {
			return err
		}
		if batch[i].Op == rdma.OpRead {
			reads++
		}
	}
	if q.sends+len(batch) > q.info.MaxSends {
		return q.violate("%d work requests outstanding, MaxSends is %d", q.sends+len(batch), q.info.MaxSends)
	}
	if reads > q.info.ReadDepth {
		return q.violate("%d Reads outstanding, ReadDepth is %d", reads, q.info.ReadDepth)
	}
	q.sends += len(batch)
	q.reads = reads
	for i := range batch {
		wr := &batch[i]
		c := rdma.Completion{Op: wr.Op, Cookie: wr.Cookie}
		if q.err != nil {
			c.Err = rdma.ErrFlushed
		} else if err := q.carryOut(wr); err != nil {
			c.Err = err
			var fault *rdma.ProtocolError
			if errors.As(err, &fault) { // the peer's end found it
				q.peer.end(err, fmt.Errorf("terminated by the peer: %w", err))
			} else {
				q.end(err, errors.New("terminated by the peer"))
			}
		}
		if c.Err == nil && slices.Contains(q.hold, c.Op) {
			q.held = append(q.held, c)
			continue
		}
		q.complete(c)
	}
	return nil
}

func (q *QueuePair) check(wr *rdma.WorkRequest) error {
	if len(wr.Local) > q.info.MaxGather {
		return q.violate("%d Gather elements, MaxGather is %d", len(wr.Local), q.info.MaxGather)
	}
	for _, g := range wr.Local {
		if err := q.local(g); err != nil {
			return err
		}
	}
	switch wr.Op {
	case rdma.OpSend, rdma.OpSendInvalidate, rdma.OpWrite:
	case rdma.OpRead:
		if len(wr.Local) != 1 {
			return q.violate("Read with %d Gather elements", len(wr.Local))
		}
	case rdma.OpInvalidate:
		if len(wr.Local) != 0 {
			return q.violate("Invalidate with memory")
		}
	default:
		return q.violate("unknown work request %d", wr.Op)
	}
	return nil
}

func (q *QueuePair) carryOut(wr *rdma.WorkRequest) error {
	n := 0
	for _, g := range wr.Local {
		n += g.Len
	}
	switch wr.Op {
	case rdma.OpInvalidate:
		if q.regions[wr.Remote.Handle] == nil {
			return q.violate("local invalidate of handle %#x, which is not in force", wr.Remote.Handle)
		}
		delete(q.regions, wr.Remote.Handle)
		return nil
	case rdma.OpRead:
		src, err := q.peer.access(wr.Remote, n, rdma.RemoteRead)
		if err != nil {
			return err
		}
		g := wr.Local[0]
		copy(g.Buf.Data[g.Off:g.Off+g.Len], src)
		return nil
	case rdma.OpWrite:
		dst, err := q.peer.access(wr.Remote, n, rdma.RemoteWrite)
		if err != nil {
			return err
		}
		for _, g := range wr.Local {
			dst = dst[copy(dst, g.Buf.Data[g.Off:g.Off+g.Len]):]
		}
		return nil
	}
	// Send, with or without Invalidate.
	p := q.peer
	if len(p.recvs) == 0 {
		return &rdma.ProtocolError{Layer: "DDP", Reason: "message without a receive buffer"}
	}
	buf := p.recvs[0]
	if n > len(buf.Data) {
		return &rdma.ProtocolError{Layer: "DDP", Reason: "message too long for the receive buffer"}
	}
	c := rdma.Completion{Op: rdma.OpReceive, Buf: buf, Len: n}
	if wr.Op == rdma.OpSendInvalidate {
		if p.regions[wr.Remote.Handle] == nil {
			return &rdma.ProtocolError{Layer: "RDMAP", Reason: "invalidate of an unknown handle"}
		}
		delete(p.regions, wr.Remote.Handle)
		c.Invalidated, c.HasInvalidated = wr.Remote.Handle, true
	}
	p.recvs = p.recvs[1:]
	at := 0
	for _, g := range wr.Local {
		at += copy(buf.Data[at:], g.Buf.Data[g.Off:g.Off+g.Len])
	}
	p.complete(c)
	return nil
}

func (q *QueuePair) complete(c rdma.Completion) {
	q.done = append(q.done, c)
	q.cond.Broadcast()
}

// Poll implements rdma.QueuePair.
func (q *QueuePair) Poll(dst []rdma.Completion) (int, error) {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	for len(q.done) == 0 && q.err == nil {
		q.cond.Wait()
	}
	if len(q.done) == 0 {
		return 0, q.err
	}
	n := copy(dst, q.done)
	for _, c := range q.done[:n] {
		switch c.Op {
		case rdma.OpReceive:
			continue
		case rdma.OpRead:
			q.reads--
		}
		q.sends--
	}
	q.done = q.done[:copy(q.done, q.done[n:])]
	return n, nil
}

// Disconnect implements rdma.QueuePair.
func (q *QueuePair) Disconnect(cause error) {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	var fault *rdma.ProtocolError
	switch {
	case cause == nil:
		q.end(rdma.ErrClosed, io.EOF)
	case errors.As(cause, &fault):
		q.end(cause, fmt.Errorf("terminated by the peer: %s", fault.Reason))
	default:
		q.end(cause, io.EOF)
	}
}

// Cut ends the connection at both ends as a broken network would.
func (q *QueuePair) Cut(err error) {
	q.link.mu.Lock()
	defer q.link.mu.Unlock()
	q.end(err, err)
}

// end ends the connection at both ends: own is what this end reports.
func (q *QueuePair) end(own, peer error) {
	for _, e := range []struct {
		qp  *QueuePair
		err error
	}{{q, own}, {q.peer, peer}} {
		if e.qp.err != nil {
			continue
		}
		e.qp.err = e.err
		clear(e.qp.regions)
		for _, c := range e.qp.held {
			c.Err = rdma.ErrFlushed
			e.qp.done = append(e.qp.done, c)
		}
		e.qp.held = nil
		for _, b := range e.qp.recvs {
			e.qp.done = append(e.qp.done, rdma.Completion{Op: rdma.OpReceive, Buf: b, Err: rdma.ErrFlushed})
		}
		e.qp.recvs = nil
		e.qp.cond.Broadcast()
	}
}

// Close implements rdma.QueuePair.
func (q *QueuePair) Close() error {
	q.Disconnect(nil)
	return nil
}
