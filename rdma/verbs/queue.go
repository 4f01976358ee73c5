//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// work is a work request in the send queue.
type work struct {
	kind     workKind
	op       rdma.Op
	cookie   any
	local    []piece // memory kept for the next user of the slot
	remote   rdma.Remote
	win      *window         // bound or invalidated by it
	mr       *C.struct_vb_mr // in which the bytes to bind lie; of a Read sink
	access   rdma.Access     // binding
	signaled bool
	done     bool
}

type workKind uint8

const (
	ofUser  workKind = iota
	binding          // of a memory window
	telling          // tells the peer of a fault, see QP.tell
	nudging          // wakes the peer up, see nudge
)

// piece is local memory as a device knows it.
type piece struct {
	addr uintptr
	n    int
	key  uint32
}

// sendQueue is a ring of work requests in the order of posting. It grows; what
// it may hold is bounded by whoever pushes.
//
//	head ≤ posted ≤ tail
//	[head, posted)  with the device
//	[posted, tail)  waiting for room there
type sendQueue struct {
	ring               []work // its length is a power of two
	head, posted, tail uint64
}

func (s *sendQueue) at(i uint64) *work { return &s.ring[i&uint64(len(s.ring)-1)] }

// push returns the next slot, empty.
func (s *sendQueue) push() *work {
	if int(s.tail-s.head) == len(s.ring) {
		ring := make([]work, max(64, 2*len(s.ring)))
		for i := s.head; i < s.tail; i++ {
			ring[i&uint64(len(ring)-1)] = *s.at(i)
		}
		s.ring = ring
	}
	w := s.at(s.tail)
	*w = work{local: w.local[:0]}
	s.tail++
	return w
}

// retire marks work request i as completed, and drops what the device is done
// with: completions come in the order of posting, and one that was asked for
// stands for those before it that were not.
func (s *sendQueue) retire(i uint64) {
	s.at(i).done = true
	for s.head < s.posted && (s.at(s.head).done || !s.at(s.head).signaled && s.head < i) {
		w := s.at(s.head)
		w.cookie, w.win, w.mr = nil, nil, nil
		s.head++
	}
}

// recvQueue is a ring of receive buffers, with the same indices.
type recvQueue struct {
	ring       []*ulb.Buffer
	head, tail uint64
}

func (r *recvQueue) at(i uint64) **ulb.Buffer { return &r.ring[i%uint64(len(r.ring))] }

func (r *recvQueue) len() int { return int(r.tail - r.head) }

func (r *recvQueue) pop() *ulb.Buffer {
	p := r.at(r.head)
	b := *p
	*p = nil
	r.head++
	return b
}
