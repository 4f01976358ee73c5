package nfsclient

import (
	"context"
	"errors"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// The manager is the one goroutine that keeps the session usable: it carries
// out what recovery asks for, renews the lease and settles doubtful slots. A
// goroutine beside it watches over the connection, so that one that has gone
// dead is noticed whatever the manager is waiting for.

// maxReconnectPause bounds the pause between two attempts to reach the server.
// It is short, because a server that has restarted waits for its clients for its
// grace period only.
const maxReconnectPause = 2 * time.Second

// wakeManager makes the manager look at what there is to do. Called with mu
// held, or not.
func (c *Client) wakeManager() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// manage runs until ctx is done.
func (c *Client) manage(ctx context.Context) {
	var pause backoff
	failed := false
	for ctx.Err() == nil {
		now := time.Now()
		c.mu.Lock()
		act := c.rec.next()
		c.mu.Unlock()
		if act == actNone {
			if failed {
				failed = false
				c.log.Info("server is back")
			}
			pause = backoff{}
			c.upkeep(ctx, now)
			continue
		}
		err := c.perform(ctx, act)
		if err == nil || ctx.Err() != nil {
			continue
		}
		if !errors.Is(err, errTryAgain) {
			if !failed {
				failed = true
				c.log.WithError(err).Warn("server cannot be reached, trying again")
			} else {
				c.log.WithError(err).Debug("trying again")
			}
		}
		d, ok := pause.next()
		if !ok {
			pause = backoff{} // a hard mount never gives up
		}
		_ = sleep(ctx, min(d, maxReconnectPause))
	}
}

// upkeep does what is due while everything works, and waits for the next event.
func (c *Client) upkeep(ctx context.Context, now time.Time) {
	c.mu.Lock()
	due := c.lease.due()
	if d := c.renewed.Add(c.lease.period / 4); due.Before(d) {
		due = d
	}
	renew := !now.Before(due) && !c.renewing.Load()
	if renew {
		c.renewed = now
	}
	if !now.Before(due) {
		due = now.Add(c.lease.period / 4)
	}
	doubtful := c.doubtful
	c.doubtful = nil
	var old []*session
	keep := c.old[:0]
	for _, s := range c.old {
		if s.table.idle() || s.gone {
			old = append(old, s)
		} else {
			keep = append(keep, s)
		}
	}
	c.old = keep
	connCtx, lease := c.connCtx, c.lease.period
	c.mu.Unlock()

	if renew {
		r := c.newRequest(c.self)
		r.urgent, r.renewal = true, true
		c.renewing.Store(true)
		c.returnIdle(now, lease)
		c.fire(connCtx, r)
	}
	for _, s := range old {
		c.wg.Go(func() { c.dispose(connCtx, s) })
	}
	for _, d := range doubtful {
		c.wg.Go(func() { c.settle(connCtx, d) })
	}

	t := time.NewTimer(time.Until(due))
	defer t.Stop()
	select {
	case <-c.poke:
	case <-t.C:
	case <-ctx.Done():
	}
}

// watch waits for the end of a connection, and brings it about if the server
// has fallen silent.
func (c *Client) watch(tr Transport, connCtx context.Context) {
	for {
		now := time.Now()
		c.mu.Lock()
		if c.tr != tr {
			c.mu.Unlock()
			return
		}
		pulse, next := c.health.check(now)
		if next.IsZero() {
			next = now.Add(c.health.timeout / 2) // calls may be sent meanwhile
		}
		if pulse == pulseDead {
			c.log.Warn("server does not answer, connection given up")
			c.connLost(tr, ErrSilent)
		}
		c.mu.Unlock()
		if pulse == pulseProbe {
			r := c.newRequest(c.self)
			r.bypass, r.null = true, true
			c.fire(connCtx, r)
		}
		t := time.NewTimer(next.Sub(now))
		select {
		case <-tr.Done():
			c.mu.Lock()
			c.connLost(tr, tr.Err())
			c.mu.Unlock()
		case <-connCtx.Done(): // ends with the client at the latest
		case <-t.C:
		}
		t.Stop()
		if connCtx.Err() != nil {
			return
		}
	}
}

// ErrSilent means that a connection was given up because the server did not
// answer on it for Options.Timeout.
var ErrSilent = errors.New("nfsclient: nothing heard from the server")

// fire sends a request that nobody waits for. It may take the credit that is
// kept for health checks.
func (c *Client) fire(ctx context.Context, r *request) {
	c.wg.Go(func() {
		if err := c.acquire(ctx, r); err != nil {
			r.free()
			return
		}
		r.phase.Store(phaseAbandoned)
		if err := r.encode(); err != nil {
			c.unused(r)
			r.free()
			return
		}
		r.call.Probe = true
		if err := c.send(ctx, r); err != nil {
			r.free()
		}
	})
}

// dispose destroys a session that was replaced; if it cannot, it is tried again
// on the next connection.
func (c *Client) dispose(ctx context.Context, s *session) {
	err := c.destroySession(ctx, s)
	if err == nil {
		return
	}
	if _, ok := statusOf(err); ok {
		c.log.WithError(err).Debug("replaced session not destroyed")
		return
	}
	c.mu.Lock()
	c.old = append(c.old, s)
	c.mu.Unlock()
}

// settle finds out where the server stands on a slot whose last request ended
// without a SEQUENCE result: a SEQUENCE with the same sequence id is either the
// first or a retry to it, and in both cases the next one is known afterwards
// (RFC 8267 section 6.6).
func (c *Client) settle(ctx context.Context, d doubtfulSlot) {
	r := c.newRequest(c.self)
	r.bypass, r.firstOnly = true, true
	args := &nfs4.SequenceArgs{SessionID: d.sess.id, SequenceID: d.seq, SlotID: uint32(d.slot), HighestSlotID: uint32(d.slot)}
	r.add(args, new(nfs4.SequenceRes))
	_, status, err := c.exec(ctx, r)
	if err == nil {
		r.free()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.sess.gone || d.sess != c.sess {
		return
	}
	switch {
	case err != nil && ctx.Err() != nil:
		c.doubtful = append(c.doubtful, d) // on the next connection
	case err == nil && (status == nfs4.OK || status == nfs4.ErrSeqFalseRetry || status == nfs4.ErrRetryUncachedRep):
		d.sess.table.settle(d.slot)
		c.dispatch()
	case err == nil && (status == nfs4.ErrBadSession || status == nfs4.ErrDeadSession):
		c.sessionLost(d.sess, status)
	case err == nil:
		c.resetSession(d.sess, status)
	default:
		d.sess.table.retire(d.slot) // nothing can be made of this slot
		if !d.sess.table.usable() {
			c.resetSession(d.sess, err)
		}
	}
}
