//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"errors"
	"fmt"
	"unsafe"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// recvBit marks the identifiers of receive buffers; the rest of an identifier is
// the index in the queue.
const recvBit = 1 << 63

// Receive implements rdma.QueuePair.
func (q *QP) Receive(bufs ...*ulb.Buffer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state > stateOpen {
		return q.refusal()
	}
	if q.rq.len()+len(bufs) > q.maxRecvs {
		return ErrQueueFull
	}
	for _, b := range bufs {
		if _, _, err := q.dev.mem.locate(q.dev, b, 0, len(b.Data)); err != nil {
			return err
		}
	}
	for len(bufs) > 0 {
		n := min(len(bufs), C.VB_BATCH)
		recvs := unsafe.Slice(q.c.recvs, C.VB_BATCH)
		sges := unsafe.Slice(q.c.sges, C.VB_BATCH)
		for i, b := range bufs[:n] {
			at, reg, err := q.dev.mem.locate(q.dev, b, 0, len(b.Data))
			if err != nil { // freed meanwhile: a fault of the caller
				q.signs.note(err)
				at, reg = 0, new(registration)
			}
			recvs[i].wr_id = C.uint64_t(q.rq.tail | recvBit)
			sges[i].addr, sges[i].length, sges[i].lkey = C.uint64_t(at), C.uint32_t(len(b.Data)), C.uint32_t(reg.key)
			*q.rq.at(q.rq.tail) = b
			q.rq.tail++
		}
		bufs = bufs[n:]
		var posted C.int
		if err := errno(C.vb_post_recv(q.c, C.int(n), &posted)); err != nil {
			// They are taken all the same, and come back with the rest.
			q.signs.note(fmt.Errorf("verbs: posting receive buffers: %w", err))
			q.wake()
		}
	}
	return nil
}

// Post implements rdma.QueuePair.
func (q *QP) Post(batch []rdma.WorkRequest) error {
	reads := 0
	for i := range batch {
		if err := q.checkWork(&batch[i]); err != nil {
			return err
		}
		if batch[i].Op == rdma.OpRead {
			reads++
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != stateOpen {
		return q.refusal()
	}
	if q.users+len(batch) > q.info.MaxSends || q.reads+reads > q.info.ReadDepth {
		return ErrQueueFull
	}
	start := q.sq.tail
	for i := range q.binds {
		w := q.sq.push()
		local := append(w.local, q.binds[i].local...)
		*w = q.binds[i]
		w.local = local
	}
	for i := range batch {
		if err := q.push(&batch[i]); err != nil {
			q.unpush(start)
			return err
		}
	}
	clear(q.binds)
	q.binds = q.binds[:0]
	// Nothing can fail from here on.
	for i := range batch {
		if w := &batch[i]; w.Op == rdma.OpInvalidate {
			q.leave(w)
		}
	}
	q.users += len(batch)
	q.reads += reads
	q.pump()
	if q.nudge != nil {
		q.nudge.sent(batch)
	}
	return nil
}

// checkWork checks a work request against what the queue pair can do.
func (q *QP) checkWork(w *rdma.WorkRequest) error {
	switch w.Op {
	case rdma.OpSend, rdma.OpSendInvalidate, rdma.OpWrite:
	case rdma.OpRead:
		if len(w.Local) != 1 {
			return fmt.Errorf("verbs: RDMA Read into %d pieces of memory instead of one", len(w.Local))
		}
	case rdma.OpInvalidate:
		if len(w.Local) > 0 {
			return errors.New("verbs: invalidation with local memory")
		}
	default:
		return fmt.Errorf("verbs: work request of unknown kind %d", w.Op)
	}
	if len(w.Local) > q.info.MaxGather {
		return fmt.Errorf("verbs: %d pieces of memory in a work request, at most %d are allowed", len(w.Local), q.info.MaxGather)
	}
	n := 0
	for _, g := range w.Local {
		if g.Len < 0 || g.Len > maxSegment {
			return fmt.Errorf("verbs: %d bytes in a work request", g.Len)
		}
		n += g.Len
	}
	if n > maxSegment {
		return fmt.Errorf("verbs: work request of %d bytes, at most %d are allowed", n, maxSegment)
	}
	return nil
}

// push puts a work request into the send queue. The caller holds q.mu.
func (q *QP) push(r *rdma.WorkRequest) error {
	var e exposure
	if r.Op == rdma.OpInvalidate {
		var ok bool
		if e, ok = q.handles[r.Remote.Handle]; !ok {
			return fmt.Errorf("verbs: invalidation of handle %#x, which is not in force", r.Remote.Handle)
		}
		if e.win == nil {
			return nil // leave gives it to another goroutine
		}
	}
	w := q.sq.push()
	w.op, w.cookie, w.remote, w.win, w.mr = r.Op, r.Cookie, r.Remote, e.win, e.mr
	for _, g := range r.Local {
		at, reg, err := q.dev.mem.locate(q.dev, g.Buf, g.Off, g.Len)
		if err != nil {
			return err
		}
		if g.Len > 0 {
			w.local = append(w.local, piece{at, g.Len, reg.key})
		}
	}
	if w.op == rdma.OpRead && q.dev.lim.iwarp && len(w.local) > 0 {
		// An iWARP device shows the peer the handle of a Read's sink, and some
		// want it to be writable by the peer: it is one of its own.
		p := &w.local[0]
		mr, err := q.dev.reg(p.addr, p.n, C.VB_ACCESS_LOCAL_WRITE|C.VB_ACCESS_REMOTE_WRITE)
		if err != nil {
			return err
		}
		w.mr, p.key = mr, uint32(mr.lkey)
	}
	return nil
}

// unpush takes back what was pushed since start. The caller holds q.mu.
func (q *QP) unpush(start uint64) {
	for q.sq.tail > start {
		q.sq.tail--
		w := q.sq.at(q.sq.tail)
		if w.op == rdma.OpRead && w.mr != nil {
			q.drop(drop{mr: w.mr})
		}
		*w = work{local: w.local[:0]}
	}
}

var opcodes = [...]C.int{
	rdma.OpSend:           C.VB_WR_SEND,
	rdma.OpSendInvalidate: C.VB_WR_SEND_WITH_INV,
	rdma.OpWrite:          C.VB_WR_RDMA_WRITE,
	rdma.OpRead:           C.VB_WR_RDMA_READ,
	rdma.OpInvalidate:     C.VB_WR_LOCAL_INV,
}

// pump hands work requests to the device as far as its queue has room. The
// caller holds q.mu.
func (q *QP) pump() {
	for q.state == stateOpen && q.sq.posted < q.sq.tail {
		n := min(int(q.sq.tail-q.sq.posted), q.depth-int(q.sq.posted-q.sq.head), C.VB_BATCH)
		if n <= 0 {
			return
		}
		sends := unsafe.Slice(q.c.sends, C.VB_BATCH)
		gather := int(q.c.gather)
		sges := unsafe.Slice(q.c.sges, C.VB_BATCH*gather)
		for i := range n {
			// A binding is followed by what it was made for, whose completion
			// will do for both.
			w := q.sq.at(q.sq.posted + uint64(i))
			w.signaled = w.kind != binding || i == n-1
			prepare(&sends[i], sges[i*gather:], w, q.sq.posted+uint64(i))
		}
		var posted C.int
		err := errno(C.vb_post_send(q.c, C.int(n), &posted))
		q.sq.posted += uint64(posted)
		if err != nil {
			// The rest comes back when the connection has ended.
			q.signs.note(fmt.Errorf("verbs: posting work requests: %w", err))
			q.wake()
			return
		}
	}
}

// prepare writes a work request as the device takes it. Fields that do not
// belong to its kind must be zero: rxe refuses others.
func prepare(s *C.struct_vb_send_wr, sges []C.struct_vb_sge, w *work, id uint64) {
	*s = C.struct_vb_send_wr{wr_id: C.uint64_t(id)}
	if w.signaled {
		s.send_flags = C.VB_SEND_SIGNALED
	}
	s.num_sge = C.int(len(w.local))
	for i, p := range w.local {
		sges[i].addr, sges[i].length, sges[i].lkey = C.uint64_t(p.addr), C.uint32_t(p.n), C.uint32_t(p.key)
	}
	if w.kind == binding {
		s.opcode = C.VB_WR_BIND_MW
		s.num_sge = 0
		s.bind.mw, s.bind.mr = w.win.mw, w.mr
		s.bind.rkey = C.uint32_t(w.remote.Handle)
		s.bind.addr, s.bind.length = C.uint64_t(w.local[0].addr), C.uint64_t(w.local[0].n)
		s.bind.access = C.uint(accessFlags(w.access))
		return
	}
	s.opcode = opcodes[w.op]
	s.rdma.remote_addr, s.rdma.rkey = C.uint64_t(w.remote.Offset), C.uint32_t(w.remote.Handle)
	s.invalidate_rkey = C.uint32_t(w.remote.Handle)
}

func accessFlags(a rdma.Access) C.int {
	if a == rdma.RemoteRead {
		return C.VB_ACCESS_REMOTE_READ
	}
	return C.VB_ACCESS_REMOTE_WRITE
}

// opName is the name of a kind of work request in errors.
func opName(op rdma.Op) string {
	switch op {
	case rdma.OpSend:
		return "Send"
	case rdma.OpSendInvalidate:
		return "Send with Invalidate"
	case rdma.OpWrite:
		return "RDMA Write"
	case rdma.OpRead:
		return "RDMA Read"
	case rdma.OpInvalidate:
		return "local invalidation"
	case rdma.OpReceive:
		return "Receive"
	}
	return "memory window binding"
}
