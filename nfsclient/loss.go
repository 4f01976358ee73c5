package nfsclient

import (
	"time"
)

// This file is about what requests lose: their connection, or their session.

// park keeps a request, with its slot, until it can be sent again: on the next
// connection, or at a time. If its session is gone or was replaced it is completed instead.
// Called with mu held.
func (c *Client) park(r *request, at time.Time) {
	r.notBefore = at
	if !at.IsZero() || r.sent {
		r.again++
	}
	if r.sess.gone || r.sess != c.sess {
		c.unparkable(r)
		return
	}
	r.sess.parked = append(r.sess.parked, r)
	c.wakeResender()
}

// unparkable completes a request whose session is gone. Called with mu held.
func (c *Client) unparkable(r *request) {
	if r.sent {
		r.finish(outcomeLost, nil)
	} else {
		r.finish(outcomeAgain, nil)
	}
}

// connLost notes that a connection has ended: no new request goes out until there
// is another. Called with mu held.
func (c *Client) connLost(tr Transport, err error) {
	if c.tr != tr || !c.rec.connected {
		return
	}
	c.rec.disconnected()
	c.lostErr = err
	c.connEnd()
	c.wakeManager()
}

// badPeer gives up a connection on which the server has broken the protocol.
func (c *Client) badPeer(tr Transport, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tr == tr && c.rec.connected {
		c.log.WithError(err).Warn("malformed reply, connection given up")
	}
	c.connLost(tr, err)
}

// sessionLost gives a session up: requests that wait for another connection to
// be sent again are completed. Called with mu held.
func (c *Client) sessionLost(s *session, why error) {
	if s.gone {
		return
	}
	s.gone = true
	parked := s.parked
	s.parked = nil
	for _, r := range parked {
		c.unparkable(r)
	}
	if s == c.sess {
		c.rec.sessionLost()
		if !c.closed {
			c.stats.sessionsLost.Add(1)
			// A server that says this may keep something of the session all
			// the same, and then would not let the client id go.
			c.old = append(c.old, s)
			c.log.WithField("cause", why).Info("session lost")
			c.wakeManager()
		}
	}
}
