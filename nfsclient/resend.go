package nfsclient

import (
	"context"
	"time"
)

// The resender is the one goroutine that sends requests again: those whose
// connection was lost, once the next one is bound to their session, and those
// that the server was still busy with. Slot, sequence id and body stay the
// same, so that the server can tell them from new requests (RFC 8881 section
// 2.10.6.2). It does so for abandoned requests too: their slots cannot be used
// by others before they are answered.

// wakeResender makes the resender look at what there is to do.
func (c *Client) wakeResender() {
	select {
	case c.repoke <- struct{}{}:
	default:
	}
}

// resend runs until ctx is done.
func (c *Client) resend(ctx context.Context) {
	for ctx.Err() == nil {
		r, connCtx, next := c.nextParked(time.Now())
		if r != nil {
			c.sendAgain(connCtx, r)
			continue
		}
		c.awaitParked(ctx, next)
	}
}

// awaitParked waits until there may be something to send.
func (c *Client) awaitParked(ctx context.Context, next time.Time) {
	var due <-chan time.Time
	if !next.IsZero() {
		t := time.NewTimer(time.Until(next))
		defer t.Stop()
		due = t.C
	}
	select {
	case <-c.repoke:
	case <-due:
	case <-ctx.Done():
	}
}

// nextParked takes the next request that can be sent now, or tells when there
// may be one.
func (c *Client) nextParked(now time.Time) (r *request, connCtx context.Context, next time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.rec.bound || c.sess == nil {
		return nil, nil, time.Time{} // being let out wakes us
	}
	s := c.sess
	for i, p := range s.parked {
		if !c.rec.open && !p.urgent {
			continue
		}
		if p.notBefore.After(now) {
			if next.IsZero() || p.notBefore.Before(next) {
				next = p.notBefore
			}
			continue
		}
		s.parked = append(s.parked[:i], s.parked[i+1:]...)
		p.tr = c.tr
		p.at = now
		p.sent = true
		c.health.sent(now)
		c.stats.resends.Add(1)
		return p, c.connCtx, time.Time{}
	}
	return nil, nil, next
}

// sendAgain sends a parked request.
func (c *Client) sendAgain(ctx context.Context, r *request) {
	tr := r.tr
	r.call.Transport = nil // the state of another connection
	err := tr.Send(ctx, &r.call)
	if err == nil {
		return
	}
	c.mu.Lock()
	c.health.done(time.Now(), false)
	if ctx.Err() != nil || lostConn(tr, err) {
		if c.ctx.Err() == nil {
			c.connLost(tr, err)
		}
		c.park(r, time.Time{})
		c.mu.Unlock()
		return
	}
	// This connection cannot carry the request, and whether an earlier one
	// has delivered it is not known.
	r.sess.table.doubt(r.slot)
	if !r.sess.gone {
		c.doubtful = append(c.doubtful, doubtfulSlot{r.sess, r.slot, r.seq.SequenceID})
		c.wakeManager()
	}
	c.mu.Unlock()
	r.finish(outcomeError, err)
}
