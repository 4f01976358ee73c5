//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"nfsrdma-fuse/rdma"
)

// Poll implements rdma.QueuePair.
func (q *QP) Poll(dst []rdma.Completion) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if n := q.take(dst); n > 0 {
			return n, nil
		}
		if q.state == stateEnded {
			return 0, q.err
		}
		idle := q.reap()
		q.judge()
		if len(q.done) > 0 || q.state == stateEnded || !idle {
			continue
		}
		q.wait()
	}
}

// wait waits for an event of the completion queue, which was asked for, until
// q.until or until wake is called. The caller holds q.mu.
func (q *QP) wait() {
	if q.woken {
		q.woken = false
		return
	}
	if q.until != q.armed {
		q.armed = q.until
		q.cq.deadline(q.until)
	}
	c := q.c
	q.mu.Unlock()
	err := q.cq.await(func() C.int { return C.vb_cq_event(c) })
	q.mu.Lock()
	switch {
	case err == nil, errors.Is(err, os.ErrDeadlineExceeded):
	case errors.Is(err, os.ErrClosed):
		// Close is at work, and will have ended everything when it lets go.
		for q.state != stateEnded {
			q.ended.Wait()
		}
	default:
		q.signs.note(fmt.Errorf("verbs: waiting for completions: %w", err))
	}
}

// take moves completions to dst. The caller holds q.mu.
func (q *QP) take(dst []rdma.Completion) int {
	n := copy(dst, q.done)
	for i := range dst[:n] {
		switch dst[i].Op {
		case rdma.OpReceive:
			continue
		case rdma.OpRead:
			q.reads--
		}
		q.users--
	}
	rest := copy(q.done, q.done[n:])
	clear(q.done[rest:])
	q.done = q.done[:rest]
	return n
}

// reap takes completions from the device and reports whether there were none,
// in which case an event comes with the next one. The caller holds q.mu.
func (q *QP) reap() (idle bool) {
	if q.c == nil {
		return true
	}
	n := int(C.vb_poll(q.c))
	if n < 0 {
		q.signs.note(errors.New("verbs: the completion queue cannot be polled"))
		return true
	}
	wcs := unsafe.Slice(q.c.wcs, C.VB_BATCH)
	for i := range n {
		q.completed(&wcs[i])
	}
	q.pump()
	return n == 0
}

// completed handles a completion of the device. The caller holds q.mu.
func (q *QP) completed(wc *C.struct_vb_wc) {
	id, status := uint64(wc.wr_id), Status(wc.status)
	if id&recvBit != 0 {
		q.received(wc, status)
		return
	}
	if id < q.sq.head || id >= q.sq.posted {
		q.signs.note(fmt.Errorf("verbs: completion of work request %d, which is not outstanding", id))
		return
	}
	w := q.sq.at(id)
	err := q.failure(w, status, wc)
	switch w.kind {
	case ofUser:
		if w.op == rdma.OpInvalidate && err != nil {
			q.handles[w.remote.Handle] = exposure{win: w.win, mr: w.mr} // for finish
		} else {
			if w.mr != nil {
				q.drop(drop{mr: w.mr})
			}
			if w.op == rdma.OpInvalidate {
				q.win.give(w.win)
			}
		}
		q.done = append(q.done, rdma.Completion{Op: w.op, Cookie: w.cookie, Err: err})
	case telling:
		q.signs.told = true
	}
	q.sq.retire(id)
}

// received handles the completion of a receive buffer. They come in the order
// of posting. The caller holds q.mu.
func (q *QP) received(wc *C.struct_vb_wc, status Status) {
	if q.rq.len() == 0 {
		q.signs.note(errors.New("verbs: completion of a receive buffer, and none is posted"))
		return
	}
	c := rdma.Completion{Op: rdma.OpReceive, Buf: q.rq.pop()}
	switch status {
	case C.VB_WC_SUCCESS:
		c.Len = int(wc.byte_len)
		if q.nudge != nil {
			q.nudge.received()
		}
		c.Invalidated, c.HasInvalidated = q.invalidated(wc)
		if c.HasInvalidated {
			q.withdrawn(c.Invalidated)
		}
	case flushed:
		c.Err = rdma.ErrFlushed
		q.signs.flushed = true
	default:
		c.Err = &WorkError{Op: rdma.OpReceive, Name: opName(rdma.OpReceive), Status: status, Vendor: uint32(wc.vendor_err)}
		q.signs.note(fmt.Errorf("%w: %w", &rdma.ProtocolError{Layer: "RDMA", Reason: "a message could not be received"}, c.Err))
	}
	q.done = append(q.done, c)
}

// invalidated returns the handle that a received message has withdrawn, if it
// has withdrawn one. rxe says so with the flag that this has inside the kernel;
// it never uses that bit for what it means outside. The caller holds q.mu.
func (q *QP) invalidated(wc *C.struct_vb_wc) (rdma.Handle, bool) {
	h := rdma.Handle(wc.invalidated_rkey)
	if wc.wc_flags&C.VB_WC_WITH_INV != 0 {
		return h, true
	}
	if q.dev.lim.rxe && wc.wc_flags&C.VB_WC_WITH_INV_KERNEL != 0 {
		_, ok := q.handles[h]
		return h, ok
	}
	return 0, false
}

// failure returns the error of a work request's completion. The caller holds
// q.mu.
func (q *QP) failure(w *work, status Status, wc *C.struct_vb_wc) error {
	switch {
	case status == C.VB_WC_SUCCESS:
		return nil
	case status == flushed:
		q.signs.flushed = true
		return rdma.ErrFlushed
	case w.kind == telling:
		return nil // as it was meant
	}
	err := &WorkError{Op: w.op, Name: opName(w.op), Status: status, Vendor: uint32(wc.vendor_err)}
	q.signs.note(err)
	return err
}

// judge moves the connection on towards its end if there is a reason. The
// caller holds q.mu.
func (q *QP) judge() {
	if q.state == stateOpen {
		if err := q.verdict(); err != nil {
			q.teardown(err)
		}
	}
	late := q.late()
	if q.state == stateTelling && (late || q.signs.ending() || q.signs.told && !q.dev.lim.iwarp) {
		q.teardown(q.err)
		late = false
	}
	if q.state != stateDraining {
		return
	}
	if q.sq.head == q.sq.posted && q.rq.len() == 0 && !q.drops.busy {
		q.finish()
	} else if late {
		// Nothing refers to a buffer when the queue pair is gone.
		for !q.reap() {
			continue
		}
		_ = q.destroy() // Close can do no more about it either
		q.finish()
	}
}

// destroy destroys the queue pair in the device. The caller holds q.mu.
//
// The windows go first: rxe takes a bound window for a user of its queue pair,
// and waits for it in vain.
func (q *QP) destroy() error {
	if q.c == nil {
		return nil
	}
	err := q.win.close()
	c := q.c
	q.c = nil
	return errors.Join(err, errno(C.vb_conn_free(c)))
}

// finish completes everything that did not come back, and withdraws all handles.
// The queue pair must be in the error state with nothing left in the device, or
// destroyed. The caller holds q.mu.
func (q *QP) finish() {
	if q.state == stateEnded {
		return
	}
	if q.c != nil && q.dev.lim.rxe {
		// Their registrations cannot be taken back while windows are bound.
		q.signs.noteIf(q.win.close())
	}
	for h, e := range q.handles {
		if e.mr != nil {
			q.drop(drop{mr: e.mr})
		}
		delete(q.handles, h)
	}
	for i := q.sq.head; i < q.sq.tail; i++ {
		w := q.sq.at(i)
		if w.kind == ofUser && w.mr != nil {
			q.drop(drop{mr: w.mr})
		}
		if w.kind == ofUser && !w.done {
			q.done = append(q.done, rdma.Completion{Op: w.op, Cookie: w.cookie, Err: rdma.ErrFlushed})
		}
	}
	q.sq.head, q.sq.posted = q.sq.tail, q.sq.tail
	for q.rq.len() > 0 {
		q.done = append(q.done, rdma.Completion{Op: rdma.OpReceive, Buf: q.rq.pop(), Err: rdma.ErrFlushed})
	}
	for q.drops.busy {
		q.drops.idle.Wait()
	}
	if q.err == nil {
		q.err = fmt.Errorf("verbs: %w", rdma.ErrClosed)
	}
	if q.state != stateEnded {
		q.enter(stateEnded)
	}
	q.ended.Broadcast()
}
