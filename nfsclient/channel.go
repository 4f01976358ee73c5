package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// This file is the fore channel: how a request gets a slot, goes out, comes
// back, and goes out again after a loss of the connection. The flow:
//
//  1. exec       build anew and retry, as the outcome asks for
//  2. roundTrip  one request in one slot, from acquire to completion
//  3. acquire    wait for the session to be usable and for a slot
//  4. send       encode, wait for a credit, hand over to the connection
//  5. done       called by the connection: with the reply or without
//  6. answered   take SEQUENCE's result; the slot moves on or not
//  7. park       keep the request for the next connection (loss.go, resend.go)
//  8. complete   wake whoever waits, or clean up if nobody does
//
// Only steps 1 to 4 run on the caller's goroutine and may wait.

var (
	errWrongSlot = errors.New("nfsclient: SEQUENCE result of another slot")
	errNoConn    = errors.New("nfsclient: not connected")
)

// session is what the client knows of a session. The slot table is guarded by
// Client.mu; the rest does not change.
type session struct {
	id     nfs4.SessionID
	table  *slotTable
	fore   nfs4.ChannelAttrs
	back   nfs4.ChannelAttrs
	cb     *cbSlotTable // guarded by Client.cbMu
	parked []*request   // to be sent on the next connection, or later on this one
	gone   bool         // the server does not have it any more, or it was given up
}

// Limits of retries within one operation.
const (
	// maxIssues is how often a request is issued anew because it was not
	// carried out (lost sessions, retired slots).
	maxIssues = 16
	// maxAgain is how often a request is sent again in its slot because the
	// server says that it is still at it; with the pause between, minutes.
	maxAgain = 256
)

// exec carries out a request and returns how many of its operations succeeded,
// and the status of the one that failed, if any. Transient statuses are waited
// out. If the error is not nil the request is not the caller's any more;
// otherwise the caller uses the results and calls free.
func (c *Client) exec(ctx context.Context, r *request) (done int, status nfs4.Status, err error) {
	if c.opt.Soft {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.opt.Timeout*time.Duration(c.opt.Retrans+1))
		defer cancel()
	}
	var pause backoff
	for issues := 0; ; issues++ {
		if issues == maxIssues {
			r.free()
			return 0, 0, ErrUnknownOutcome
		}
		how, err := c.roundTrip(ctx, r)
		if err != nil {
			return 0, 0, err // abandoned, or never sent and freed
		}
		if how != outcomeReply && how != outcomeError && r.urgent {
			// It was part of making the session usable; that has to begin
			// again.
			r.free()
			return 0, 0, errTryAgain
		}
		switch how {
		case outcomeAgain:
			continue
		case outcomeLost:
			if r.unsafe {
				r.free()
				return 0, 0, ErrUnknownOutcome
			}
			continue
		case outcomeError:
			err := r.err
			if errors.Is(err, ulb.ErrReplyTooLarge) && !r.unsafe && r.growReply() {
				r.reply.Release()
				continue
			}
			r.free()
			return 0, 0, err
		}
		done, status, err := r.results()
		if err != nil {
			c.badPeer(r.tr, err)
			r.free()
			return 0, 0, fmt.Errorf("%w: %w", ErrProtocol, err)
		}
		retry := r.modify < 0 || done <= r.modify
		switch {
		case status == nfs4.ErrRetryUncachedRep && done == 0:
			// A resend found that the request had been carried out.
			if r.unsafe {
				r.free()
				return 0, 0, ErrUnknownOutcome
			}
			r.reply.Release()
			continue
		case status == nfs4.ErrRepTooBigToCache && r.cache && retry:
			r.cache = false
			r.reply.Release()
			continue
		case transient(status) && retry:
			issues = 0
			r.reply.Release()
			c.stats.delays.Add(1)
			if err := pause.wait(ctx); err != nil {
				r.free()
				if errors.Is(err, errPatience) {
					err = status
				}
				return 0, 0, err
			}
			continue
		}
		c.stats.count(r, done, status)
		return done, status, nil
	}
}

// do is exec for requests of which every operation has to succeed: a failure is
// an *Error and frees the request. Only operations behind the one that changes
// something may fail without that; the caller looks at their results' status.
func (c *Client) do(ctx context.Context, r *request) error {
	op := r.mainOp()
	done, status, err := c.exec(ctx, r)
	switch {
	case err != nil:
		return opError(op, err)
	case status == nfs4.OK:
		return nil
	case r.modify >= 0 && done > r.modify:
		return nil
	}
	if done < len(r.args) {
		op = r.args[done].Op()
	}
	r.free()
	return opError(op, status)
}

// mainOp is the operation that the request is about, for errors.
func (r *request) mainOp() nfs4.OpNum {
	if r.modify >= 0 {
		return r.args[r.modify].Op()
	}
	for _, a := range r.args {
		switch a.Op() {
		case nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpSaveFH:
		default:
			return a.Op()
		}
	}
	return nfs4.OpSequence
}

// transient tells whether a status says no more than that the server cannot do
// it now.
func transient(s nfs4.Status) bool {
	switch s {
	case nfs4.ErrDelay, nfs4.ErrGrace, nfs4.ErrLayoutTryLater, nfs4.ErrRecallConflict, nfs4.ErrReturnConflict:
		return true
	}
	return false
}

// roundTrip carries a request once to the server and back. If the error is not nil
// the request is not the caller's any more.
func (c *Client) roundTrip(ctx context.Context, r *request) (outcome, error) {
	r.reply.Release()
	if err := c.acquire(ctx, r); err != nil {
		r.free()
		return 0, err
	}
	r.phase.Store(phaseWaiting)
	if err := r.encode(); err != nil {
		c.unused(r)
		r.free()
		return 0, err
	}
	if err := c.send(ctx, r); err != nil {
		r.free()
		return 0, err
	}
	select {
	case <-r.wake:
		return r.outcome, nil
	case <-ctx.Done():
	}
	if r.phase.CompareAndSwap(phaseWaiting, phaseAbandoned) {
		c.stats.abandoned.Add(1)
		return 0, ctx.Err()
	}
	<-r.wake
	return r.outcome, nil
}

// acquire waits until the session can be used and has a slot for r, and
// assigns it. Requests get slots in the order in which they came.
func (c *Client) acquire(ctx context.Context, r *request) error {
	c.mu.Lock()
	if r.bypass {
		defer c.mu.Unlock()
		r.tr, r.err = c.tr, nil
		if !c.rec.connected {
			return errNoConn
		}
		return nil
	}
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.queue.push(r)
	c.dispatch()
	c.mu.Unlock()
	select {
	case <-r.wake:
	case <-ctx.Done():
		c.mu.Lock()
		if r.queued {
			c.queue.remove(r)
			c.mu.Unlock()
			return ctx.Err()
		}
		c.mu.Unlock()
		<-r.wake
		if r.err == nil {
			c.unused(r)
		}
		return ctx.Err()
	}
	return r.err
}

// dispatch gives free slots to waiting requests. Called with mu held.
func (c *Client) dispatch() {
	for r := c.queue.head; r != nil && c.sess != nil && !c.sess.gone && c.rec.connected; r = c.queue.head {
		if !c.rec.open && !r.urgent {
			return
		}
		id, seq := c.sess.table.take()
		if id < 0 {
			return
		}
		c.queue.remove(r)
		r.sess, r.slot, r.tr = c.sess, id, c.tr
		r.sent, r.again = false, 0
		r.err = nil
		r.seq = nfs4.SequenceArgs{
			SessionID: c.sess.id, SequenceID: seq, SlotID: uint32(id),
			HighestSlotID: uint32(c.sess.table.highest()), CacheThis: r.cache,
		}
		r.wake <- struct{}{}
	}
}

// unused gives back the slot of a request that was never sent.
func (c *Client) unused(r *request) {
	if r.bypass {
		return
	}
	c.mu.Lock()
	r.sess.table.refused(r.slot)
	c.dispatch()
	c.mu.Unlock()
}

// send hands an encoded request to its connection. If that is lost, the
// request is parked and send succeeds all the same. An error means that the
// request was not sent and has no slot any more.
func (c *Client) send(ctx context.Context, r *request) error {
	r.at = time.Now()
	tr := r.tr
	c.mu.Lock()
	r.sent = true
	c.health.sent(r.at)
	c.mu.Unlock()
	err := tr.Send(ctx, &r.call)
	if err == nil {
		return nil
	}
	// Nothing was sent, so the request is still ours alone.
	c.mu.Lock()
	r.sent = r.again > 0
	c.health.done(time.Now(), false)
	defer c.mu.Unlock()
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if lostConn(tr, err) {
		c.connLost(tr, err)
		if !r.bypass {
			c.park(r, time.Time{})
			return nil
		}
	}
	if !r.bypass {
		r.sess.table.refused(r.slot)
		c.dispatch()
	}
	return err
}

// lostConn tells whether err means that the connection is gone, rather than
// that one call could not be made or was refused.
func lostConn(tr Transport, err error) bool {
	var ce *ulb.ConnError
	if errors.As(err, &ce) {
		return true
	}
	return tr.Err() != nil
}

// done is ulb.Call.Done of every request.
func (r *request) done(_ *ulb.Call, reply ulb.Reply, err error) {
	c := r.c
	now := time.Now()
	r.reply = reply
	if err == nil {
		if perr := r.parse(); perr != nil {
			c.badPeer(r.tr, perr)
			err = fmt.Errorf("%w: %w", ErrProtocol, perr)
		} else if r.replyHdr.Status.Stat != 0 {
			c.refused(r, r.replyHdr.Err(), now)
			return
		} else {
			c.answered(r, now)
			return
		}
	} else if lostConn(r.tr, err) {
		c.lost(r, err, now)
		return
	}
	// The server has got the request, but what it made of it is not known:
	// an RDMA_ERROR, or a reply that cannot be understood. The slot has to
	// be settled before anybody else may have it (RFC 8267 section 6.6).
	c.mu.Lock()
	c.health.done(now, true)
	if !r.bypass {
		r.sess.table.doubt(r.slot)
		if !r.sess.gone {
			c.doubtful = append(c.doubtful, doubtfulSlot{r.sess, r.slot, r.seq.SequenceID})
			c.wakeManager()
		}
	}
	c.mu.Unlock()
	r.finish(outcomeError, err)
}

// refused ends a request that the server has refused at the level of RPC: no
// operation was looked at, and the slot's sequence id was not used.
func (c *Client) refused(r *request, err error, now time.Time) {
	c.mu.Lock()
	c.health.done(now, true)
	if !r.bypass {
		r.sess.table.refused(r.slot)
		c.dispatch()
	}
	c.mu.Unlock()
	r.finish(outcomeError, err)
}

// lost handles the loss of the connection under a request.
func (c *Client) lost(r *request, err error, now time.Time) {
	c.mu.Lock()
	c.health.done(now, false)
	c.connLost(r.tr, err)
	if r.bypass {
		c.mu.Unlock()
		r.finish(outcomeError, err)
		return
	}
	c.park(r, time.Time{})
	c.mu.Unlock()
}

// answered takes the result of SEQUENCE.
func (c *Client) answered(r *request, now time.Time) {
	c.mu.Lock()
	c.health.done(now, true)
	if r.bypass {
		c.mu.Unlock()
		r.finish(outcomeReply, nil)
		return
	}
	status := r.seqRes.Status
	if r.n == 0 {
		status = r.cstatus // refused as a whole
	}
	t := r.sess.table
	how, err := outcomeReply, error(nil)
	switch judge(status, r.again > 0) {
	case seqDone:
		t.answered(r.slot)
		t.setTarget(r.seqRes.TargetHighestSlotID)
		if r.sess == c.sess {
			c.lease.renewed(r.at)
			// What comes from the reply cache tells how things were then.
			if r.again == 0 {
				c.statusFlags(r.seqRes.StatusFlags, r.at)
			}
		}
	case seqLater:
		r.reply.Release()
		if r.again < maxAgain && !r.sess.gone {
			c.park(r, now.Add(pauseFor(r.again)))
			c.mu.Unlock()
			return
		}
		t.retire(r.slot)
		how, err = outcomeError, status
	case seqAgain:
		t.refused(r.slot)
		how = outcomeAgain
		switch status {
		case nfs4.ErrBadHighSlot:
			t.setTarget(uint32(max(r.slot/2, 1) - 1))
		case nfs4.ErrRepTooBigToCache:
			r.cache = false
		case nfs4.ErrConnNotBoundToSession:
			c.rec.unbound()
			c.wakeManager()
		}
	case seqSkip:
		t.answered(r.slot)
		how = outcomeAgain
	case seqRetire:
		t.retire(r.slot)
		t.setTarget(uint32(max(r.slot, 1) - 1))
		how = outcomeAgain
		if !t.usable() {
			c.resetSession(r.sess, status)
		}
	case seqSession:
		t.retire(r.slot)
		how = outcomeAgain
		if status == nfs4.ErrSeqMisordered {
			c.resetSession(r.sess, status)
		} else {
			c.sessionLost(r.sess, status)
		}
	case seqFail:
		t.refused(r.slot)
		how, err = outcomeError, status
	}
	c.dispatch()
	c.mu.Unlock()
	r.finish(how, err)
}

// judge says what a status of SEQUENCE means (RFC 8881 sections 2.10.6.1 and
// 18.46.3). resent says that the request had been sent in this slot before.
func judge(s nfs4.Status, resent bool) seqVerdict {
	switch s {
	case nfs4.OK:
		return seqDone
	case nfs4.ErrDelay:
		return seqLater
	case nfs4.ErrSeqMisordered:
		if resent {
			// Section 2.10.6.2 lets a server say this of a request that it is
			// still executing.
			return seqLater
		}
		return seqSession
	case nfs4.ErrSeqFalseRetry:
		return seqSkip
	case nfs4.ErrBadHighSlot, nfs4.ErrRepTooBigToCache, nfs4.ErrConnNotBoundToSession:
		return seqAgain
	case nfs4.ErrBadSlot:
		return seqRetire
	case nfs4.ErrBadSession, nfs4.ErrDeadSession:
		return seqSession
	}
	return seqFail
}

// finish completes the request: it wakes the one who waits for it, or cleans
// up if nobody does.
func (r *request) finish(how outcome, err error) {
	r.outcome, r.err = how, err
	if r.phase.CompareAndSwap(phaseWaiting, phaseComplete) {
		r.wake <- struct{}{}
		return
	}
	if r.orphaned != nil && how == outcomeReply {
		r.c.spawn(func(context.Context) {
			r.orphaned(r)
			r.free()
		})
		return
	}
	r.free()
}
