package iwarp

import (
	"errors"
	"fmt"

	"nfsrdma-fuse/rdma"
)

// The right to send (QP.sending) has one holder at a time: a goroutine in Post,
// which tries to write its work at once, or the sending goroutine. The holder
// fills a batch and writes it, until there is nothing left, and then releases
// the right; what it could not finish goes to the sending goroutine.
//
// Post ── sendInline ──> pump(block = false) ──> release ─┬─> nobody
// wake ── handover ───> sendLoop: pump(block = true) ─────┴─> handover: sendLoop

// canSend reports whether there is something that may be sent now. The caller
// holds q.mu.
func (q *QP) canSend() bool {
	return q.state == stateOpen && q.sendErr == nil && !q.quiet && (q.nudgeDue || q.workReady() || !q.resp.empty())
}

// workReady reports whether work requests are waiting. The caller holds q.mu.
func (q *QP) workReady() bool { return q.sq.begun < q.sq.tail }

// wake starts the sending goroutine if there is something to do and nobody is
// at it. The caller holds q.mu.
func (q *QP) wake() {
	if !q.sending && q.canSend() {
		q.sending = true
		q.handOver()
	}
}

// handOver passes the right to send on to the sending goroutine. The caller
// holds q.mu and the right.
func (q *QP) handOver() {
	q.handover = true
	q.sendCond.Signal()
}

// release gives up the right to send, which the caller has.
func (q *QP) release() {
	unfinished := q.tx.unfinished()
	q.mu.Lock()
	defer q.mu.Unlock()
	if unfinished || q.state != stateOpen || q.canSend() {
		q.handOver()
		return
	}
	q.sending = false
}

// sendInline writes what can be written at once. The caller has the right to
// send, and loses it.
func (q *QP) sendInline() {
	if err := q.pump(false); err != nil {
		q.sendFailed(err)
	}
	q.release()
}

// sendLoop is the sending goroutine.
func (q *QP) sendLoop() {
	defer q.wg.Done()
	for q.awaitTurn() {
		if err := q.pump(true); err != nil {
			q.sendFailed(err)
		}
		q.release()
	}
	q.finish()
	q.stop()
}

// awaitTurn waits until the sending goroutine has the right to send. It reports
// false when the connection is to be ended and nobody else is sending.
func (q *QP) awaitTurn() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.state != stateOpen && (q.handover || !q.sending) || q.handover && q.sendErr == nil {
			break
		}
		q.sendCond.Wait()
	}
	q.sending, q.handover = true, false
	return q.state == stateOpen
}

// pump sends until there is nothing left to send; with block false, only one
// batch, and only while the socket takes it.
func (q *QP) pump(block bool) error {
	b := q.tx.b
	for !q.failing() {
		if b.empty() {
			if err := q.fill(); err != nil {
				return err
			}
			if b.empty() {
				return nil
			}
		}
		done, err := q.link.write(b, block)
		if err != nil || !done {
			return err
		}
		b.reset()
		q.settleWritten()
		if !block {
			break
		}
	}
	return nil
}

// fill makes a batch of what is waiting.
func (q *QP) fill() error {
	t := &q.tx
	for t.b.room() {
		if t.kind == messageNone && !q.pick() {
			break
		}
		if !t.take() {
			break
		}
		before := t.b.bytes
		if err := t.addFPDU(); err != nil {
			t.b.cut()
			return err
		}
		t.used += t.b.bytes - before
	}
	t.b.cut()
	return nil
}

// pick chooses the next message. The send queue and the RDMA Read Responses
// take turns when both have something to send; there is no order between them
// (RFC 5040 section 5.5, rule 18), only within each.
func (q *QP) pick() bool {
	t := &q.tx
	q.mu.Lock()
	defer q.mu.Unlock()
	q.invalidateEarly()
	if !q.canSend() {
		return false
	}
	if q.nudgeDue {
		q.nudgeDue = false
		t.beginNudge()
		return true
	}
	respond := !q.resp.empty()
	if respond && q.workReady() {
		respond = t.responding == (t.used < turnBytes)
	}
	if respond != t.responding {
		t.responding, t.used = respond, 0
	}
	if respond {
		// The slot is free from now on: the peer may send another request as
		// soon as it has seen the last octet of this response, which can be
		// before this goroutine runs again.
		req := q.resp.pop()
		t.beginResponse(req, q.table.find(req.srcSTag))
		return true
	}
	i := q.sq.begun
	q.sq.begun++
	w := q.sq.at(i)
	var sink uint32
	if w.op == rdma.OpRead {
		sink = q.table.sink()
		q.rd.push(pendingRead{index: i, stag: sink})
	}
	t.beginWork(w, i, sink)
	return true
}

// settleWritten completes work requests whose last octet is with the kernel.
func (q *QP) settleWritten() {
	q.mu.Lock()
	defer q.mu.Unlock()
	sends := 0
	for i := max(q.sq.head, q.tx.settled); i < q.tx.cut; i++ {
		w := q.sq.at(i)
		if w.op == rdma.OpSend || w.op == rdma.OpSendInvalidate {
			sends++
		}
		w.written = true
	}
	q.tx.settled = q.tx.cut
	q.retire()
	if sends > 0 && q.nudge != nil && q.state == stateOpen {
		q.nudge.sent(sends)
	}
}

// retire completes finished work requests in the order of posting (RFC 5040
// section 5.5, rule 15). The caller holds q.mu.
func (q *QP) retire() {
	for q.sq.head < q.sq.begun {
		w := q.sq.at(q.sq.head)
		if !w.done() {
			return
		}
		q.complete(rdma.Completion{Op: w.op, Cookie: w.cookie})
		q.sq.pop()
	}
}

// invalidateEarly carries out invalidations that have nothing before them in
// the queue, whatever is being written at the moment. A handle that the peer
// has invalidated meanwhile is no error. The caller holds q.mu.
func (q *QP) invalidateEarly() {
	any := false
	for q.sq.begun < q.sq.tail {
		w := q.sq.at(q.sq.begun)
		if w.op != rdma.OpInvalidate {
			break
		}
		q.sq.begun++
		q.table.withdraw(uint32(w.remote.Handle))
		w.written, any = true, true
	}
	if any {
		q.retire()
	}
}

// sendFailed ends the connection because nothing more can be sent.
func (q *QP) sendFailed(err error) {
	var pe *rdma.ProtocolError
	switch {
	case errors.As(err, &pe):
		q.fail(q.fault(err), &terminate{code: termCode(pe.Terminate)})
	case errors.Is(err, errWithdrawn):
		err = violation(termSTag, "memory was withdrawn while the peer was reading it")
		q.fail(q.fault(err), &terminate{code: termSTag})
	default:
		q.cannotSend(err)
	}
}

// fault adds the peer's address to a fault of it.
func (q *QP) fault(err error) error {
	return fmt.Errorf("iwarp: connection to %s: %w", q.info.RemoteAddr, err)
}

// finish writes what has been begun, so that the peer can read a Terminate
// behind it, the Terminate if there is to be one, and FIN. Nobody else sends any
// more.
func (q *QP) finish() {
	q.mu.Lock()
	term := q.term
	if q.quiet {
		term = nil
	}
	q.mu.Unlock()
	b := q.tx.b
	if !b.empty() {
		_, err := q.link.write(b, true)
		if err != nil && (b.begun || !errors.Is(err, errWithdrawn)) {
			term = nil // the stream ends within an FPDU
		}
		if err == nil {
			q.settleWritten()
		}
		b.reset()
	}
	if term != nil {
		b.terminate(term)
		_, _ = q.link.write(b, true) // the peer may be gone: then it needs no reason
		b.reset()
	}
	q.link.closeWrite()
}
