package iwarp

import (
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// work is a work request in the send queue.
type work struct {
	op       rdma.Op
	cookie   any
	local    []rdma.Gather // memory kept for the next user of the slot
	length   int
	remote   rdma.Remote
	written  bool // all octets of the message are with the kernel
	answered bool // OpRead: all data is in place
}

func (w *work) done() bool { return w.written && (w.op != rdma.OpRead || w.answered) }

// sendQueue is the ring of work requests, in the order of posting:
//
//	head ≤ begun ≤ tail
//	[head, begun)  sending or sent, not completed
//	[begun, tail)  waiting
type sendQueue struct {
	ring              []work
	head, begun, tail uint64
	polled            uint64 // completions that the user has seen
}

// usualGather is how many pieces of memory a slot has room for from the start.
const usualGather = 4

func (s *sendQueue) init(n int) {
	s.ring = make([]work, n)
	room := make([]rdma.Gather, n*usualGather)
	for i := range s.ring {
		s.ring[i].local, room = room[:0:usualGather], room[usualGather:]
	}
}

func (s *sendQueue) at(i uint64) *work { return &s.ring[i%uint64(len(s.ring))] }

// room reports whether n more work requests fit. A slot is free again when its
// completion has been polled, so the completion queue cannot overflow.
func (s *sendQueue) room(n int) bool { return int(s.tail-s.polled)+n <= len(s.ring) }

func (s *sendQueue) push(r *rdma.WorkRequest) {
	w := s.at(s.tail)
	w.op, w.cookie, w.remote, w.length = r.Op, r.Cookie, r.Remote, 0
	w.written, w.answered = false, false
	w.local = append(w.local[:0], r.Local...)
	for _, g := range w.local {
		w.length += g.Len
	}
	s.tail++
}

// pop drops the oldest work request.
func (s *sendQueue) pop() {
	w := s.at(s.head)
	w.cookie = nil
	clear(w.local)
	s.head++
	s.begun = max(s.begun, s.head)
}

// recvQueue is the ring of posted receive buffers.
type recvQueue struct {
	ring       []*ulb.Buffer
	head, tail uint64
	polled     uint64
}

func (r *recvQueue) init(n int) { r.ring = make([]*ulb.Buffer, n) }

func (r *recvQueue) empty() bool { return r.head == r.tail }

func (r *recvQueue) room(n int) bool { return int(r.tail-r.polled)+n <= len(r.ring) }

func (r *recvQueue) push(b *ulb.Buffer) {
	r.ring[r.tail%uint64(len(r.ring))] = b
	r.tail++
}

// first returns the buffer for the next message, which stays in the queue.
func (r *recvQueue) first() *ulb.Buffer {
	if r.empty() {
		return nil
	}
	return r.ring[r.head%uint64(len(r.ring))]
}

func (r *recvQueue) pop() *ulb.Buffer {
	slot := &r.ring[r.head%uint64(len(r.ring))]
	b := *slot
	*slot = nil
	r.head++
	return b
}

// compQueue is the ring of completions. The rooms of the other two queues add
// up to its size.
type compQueue struct {
	ring       []rdma.Completion
	head, tail uint64
}

func (c *compQueue) init(n int) { c.ring = make([]rdma.Completion, n) }

func (c *compQueue) empty() bool { return c.head == c.tail }

func (c *compQueue) push(e rdma.Completion) {
	c.ring[c.tail%uint64(len(c.ring))] = e
	c.tail++
}

func (c *compQueue) pop() rdma.Completion {
	slot := &c.ring[c.head%uint64(len(c.ring))]
	e := *slot
	*slot = rdma.Completion{}
	c.head++
	return e
}

// responseQueue holds the peer's RDMA Read Requests that wait for their turn
// (the IRRQ of RFC 6581 section 4.1).
type responseQueue struct {
	ring       []readRequest
	head, tail uint64
}

func (r *responseQueue) init(ird int) { r.ring = make([]readRequest, ird) }

func (r *responseQueue) empty() bool { return r.head == r.tail }

func (r *responseQueue) full() bool { return int(r.tail-r.head) == len(r.ring) }

func (r *responseQueue) push(e readRequest) {
	r.ring[r.tail%uint64(len(r.ring))] = e
	r.tail++
}

func (r *responseQueue) pop() readRequest {
	e := r.ring[r.head%uint64(len(r.ring))]
	r.head++
	return e
}

// pendingRead is an RDMA Read of this end whose response is awaited.
type pendingRead struct {
	index uint64 // in the send queue
	stag  uint32 // of the sink
	got   int    // octets in place
}

// readQueue holds this end's RDMA Reads, of which Post takes no more than fit;
// responses come in their order (RFC
// 5040 section 5.5, rule 20).
type readQueue struct {
	ring       []pendingRead
	head, tail uint64
}

func (r *readQueue) init(ord int) { r.ring = make([]pendingRead, ord) }

func (r *readQueue) empty() bool { return r.head == r.tail }

func (r *readQueue) first() *pendingRead { return &r.ring[r.head%uint64(len(r.ring))] }

func (r *readQueue) push(e pendingRead) {
	r.ring[r.tail%uint64(len(r.ring))] = e
	r.tail++
}
