package nfsclient

import "time"

// health watches over a connection: with calls outstanding and nothing heard
// for half of the timeout it asks for a probe, and after the whole of it the
// connection counts as dead (RFC 8267 section 6.7.2). A server that is busy
// with a slow operation still answers the probe, so slowness alone costs
// nothing. Time is an argument; a health is not safe for concurrent use.
type health struct {
	timeout     time.Duration
	outstanding int
	quiet       time.Time // since when nothing was heard, if calls are outstanding
	probed      bool      // a probe was sent since
}

// verdict of health.check.
type pulse uint8

const (
	pulseFine  pulse = iota
	pulseProbe       // send a probe now
	pulseDead        // give the connection up
)

// sent notes that a call was given to the connection.
func (h *health) sent(now time.Time) {
	if h.outstanding == 0 {
		h.quiet, h.probed = now, false
	}
	h.outstanding++
}

// done notes the end of a call; heard says whether an answer ended it.
func (h *health) done(now time.Time, heard bool) {
	h.outstanding--
	if heard {
		h.heard(now)
	}
}

// heard notes any other sign of life.
func (h *health) heard(now time.Time) { h.quiet, h.probed = now, false }

// check tells what to do, and when to ask again; a zero time means not before
// the next call is sent.
func (h *health) check(now time.Time) (pulse, time.Time) {
	if h.outstanding == 0 {
		return pulseFine, time.Time{}
	}
	probe, dead := h.quiet.Add(h.timeout/2), h.quiet.Add(h.timeout)
	switch {
	case !now.Before(dead):
		return pulseDead, time.Time{}
	case h.probed:
		return pulseFine, dead
	case !now.Before(probe):
		h.probed = true
		return pulseProbe, dead
	}
	return pulseFine, probe
}
