package iwarp

import (
	"sync/atomic"
	"time"
)

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

const (
	nudgeLater = 20 // times NudgeAfter, once something was received
	nudgeMax   = 10 // for one silence
)

// nudger decides when to nudge. It has no clock: its methods return how long
// to wait until fire is to be called.
//
//	idle ── sent ──> waiting ── fire: silence ──> nudge, waiting twice as long
//	                    │ fire: something was received ──> waiting, from the start
//	                    └ fire: nothing is outstanding, or nudged enough ──> idle
type nudger struct {
	first time.Duration

	// outstanding is how many Sends more than the peer this end has sent: a
	// call wants a reply, and a reply to the peer's call settles that call.
	outstanding int
	heard, seen uint64 // FPDUs received so far, and when fire last looked
	wait        time.Duration
	nudges      int // in this silence
}

// sent counts Sends. It returns the wait until fire is to be called, or 0 if
// that has been arranged already.
func (n *nudger) sent(k int) time.Duration {
	n.outstanding += k
	if n.wait > 0 || n.outstanding == 0 {
		return 0
	}
	return n.restart()
}

// received counts a Send of the peer.
func (n *nudger) received() {
	n.outstanding = max(n.outstanding-1, 0)
}

func (n *nudger) restart() time.Duration {
	n.seen, n.nudges, n.wait = n.heard, 0, n.first
	if n.heard > 0 {
		n.wait *= nudgeLater
	}
	return n.wait
}

// fire is called when the wait is over. It reports whether to nudge now, and
// how long to wait until the next call, 0 for not at all.
func (n *nudger) fire() (nudge bool, again time.Duration) {
	switch {
	case n.outstanding == 0 || n.nudges == nudgeMax:
		n.wait = 0
		return false, 0
	case n.heard != n.seen:
		return false, n.restart()
	}
	n.nudges++
	n.wait *= 2
	return true, n.wait
}

// nudgeTimer runs the nudger of a queue pair. Its methods are called with q.mu
// held, but for heard and stop.
type nudgeTimer struct {
	nudger nudger
	heard  atomic.Uint64
	timer  *time.Timer
}

func newNudgeTimer(q *QP) *nudgeTimer {
	t := &nudgeTimer{nudger: nudger{first: q.cfg.NudgeAfter}}
	t.timer = time.AfterFunc(time.Hour, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.state != stateOpen {
			return
		}
		t.nudger.heard = t.heard.Load()
		nudge, again := t.nudger.fire()
		if again > 0 {
			t.timer.Reset(again)
		}
		if nudge {
			q.nudgeDue = true
			q.wake()
		}
	})
	t.timer.Stop()
	return t
}

func (t *nudgeTimer) sent(k int) {
	t.nudger.heard = t.heard.Load()
	if d := t.nudger.sent(k); d > 0 {
		t.timer.Reset(d)
	}
}

func (t *nudgeTimer) received() { t.nudger.received() }

// hear counts an FPDU of any kind; it needs no lock.
func (t *nudgeTimer) hear() { t.heard.Add(1) }

func (t *nudgeTimer) stop() { t.timer.Stop() }
