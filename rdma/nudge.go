package rdma

import "time"

// Linux siw can miss the wake-up for octets that arrive while it is just
// setting up the accepted connection: they lie in the server's socket and
// nobody looks at them until more arrive. Seen against knfsd on 2 of 15 to 4 of
// 20 connections whose first Send came right behind the MPA reply. An RDMA
// Write of zero length makes it look again: it names no memory (RFC 5041
// section 5.2 forbids checking its STag and offset), consumes nothing and is
// not answered.
//
// So the connecting end sends one when it has Sends out that nothing has come
// back for: soon on a connection on which nothing was ever received, later on
// one that has worked before, each time after twice the wait, and a limited
// number of times.

// nudgeLater is how many times First the wait is once something was received.
const nudgeLater = 20

// MaxNudges is how often a Nudger nudges in one silence.
const MaxNudges = 10

// Nudger decides when a connecting end on iWARP nudges its peer. It has no clock:
// its methods return how long to wait until Fire is to be called. It is not safe
// for concurrent use.
//
//	idle ── Sent ──> waiting ── Fire: silence ──> nudge, waiting twice as long
//	                    │ Fire: something was received ──> waiting, from the start
//	                    └ Fire: nothing is outstanding, or nudged enough ──> idle
type Nudger struct {
	// First is the wait on a connection on which nothing was received yet.
	First time.Duration
	// Heard is how much was received so far, in any unit; the caller counts.
	Heard uint64

	// outstanding is how many Sends more than the peer this end has sent: a
	// call wants a reply, and a reply to the peer's call settles that call.
	outstanding int
	seen        uint64 // Heard when Fire last looked
	wait        time.Duration
	nudges      int // in this silence
}

// Sent counts Sends. It returns the wait until Fire is to be called, or 0 if
// that has been arranged already.
func (n *Nudger) Sent(k int) time.Duration {
	n.outstanding += k
	if n.wait > 0 || n.outstanding == 0 {
		return 0
	}
	return n.restart()
}

// Received counts a Send of the peer.
func (n *Nudger) Received() {
	n.outstanding = max(n.outstanding-1, 0)
}

func (n *Nudger) restart() time.Duration {
	n.seen, n.nudges, n.wait = n.Heard, 0, n.First
	if n.Heard > 0 {
		n.wait *= nudgeLater
	}
	return n.wait
}

// Fire is called when the wait is over. It reports whether to nudge now, and
// how long to wait until the next call, 0 for not at all.
func (n *Nudger) Fire() (nudge bool, again time.Duration) {
	switch {
	case n.outstanding == 0 || n.nudges == MaxNudges:
		n.wait = 0
		return false, 0
	case n.Heard != n.seen:
		return false, n.restart()
	}
	n.nudges++
	n.wait *= 2
	return true, n.wait
}
