package rdma

// credits is the account of one direction's credits: how many calls this end
// may have outstanding (RFC 8166 section 3.3.1). It does no I/O and has no lock;
// its owner provides for both.
//
// The limit is the lower of what was asked for and what the peer has granted
// last, and is one until the first reply (section 3.3.3). One credit of it is
// kept back for probes, so that the peer's health can be assessed when
// everything else waits (RFC 8267 section 6.7.2); a limit of one is shared.
type credits struct {
	asked   int // what the header of every call asks for
	granted int // what the peer grants; 1 until the first reply
	inUse   int // calls without a reply
	calls   waitList
	probes  waitList
}

func newCredits(asked int) credits { return credits{asked: asked, granted: 1} }

// limit returns the number of calls that may be outstanding.
func (c *credits) limit() int { return min(c.asked, c.granted) }

func (c *credits) available(probe bool) bool {
	limit := c.limit()
	if !probe && limit > 1 {
		limit--
	}
	return c.inUse < limit
}

// take takes a credit, or puts w into the queue and returns false. A credit is
// w's own when w is woken.
func (c *credits) take(w *waiter, probe bool) bool {
	q := &c.calls
	if probe {
		q = &c.probes
	}
	if q.empty() && c.available(probe) {
		c.inUse++
		return true
	}
	q.push(w)
	return false
}

// cancel takes w out of the queue. It returns false if w is not in it any more,
// because it has been woken.
func (c *credits) cancel(w *waiter) bool { return c.calls.remove(w) || c.probes.remove(w) }

// replied gives back the credit of a call whose reply has come in with the
// given credit word.
func (c *credits) replied(word uint32) {
	// A grant of zero would be a deadlock, so it is none; and more than was
	// asked for, receive buffers are missing for (section 3.3.1).
	c.granted = int(min(max(word, 1), uint32(c.asked)))
	c.give()
}

// give gives a credit back without a new grant.
func (c *credits) give() {
	c.inUse--
	c.serve()
}

func (c *credits) serve() {
	for !c.probes.empty() && c.available(true) {
		c.inUse++
		c.probes.pop().wake(nil)
	}
	for !c.calls.empty() && c.available(false) {
		c.inUse++
		c.calls.pop().wake(nil)
	}
}

// fail wakes all who wait with an error.
func (c *credits) fail(err error) {
	c.calls.fail(err)
	c.probes.fail(err)
}

// tokens is a number of units that are taken and given back, in the order in
// which they were asked for: places in the send queue, or RDMA Reads. Like
// credits it has no lock.
type tokens struct {
	limit int
	used  int
	queue waitList
}

// take takes n units, or puts w into the queue and returns false. More than
// the limit are never available.
func (t *tokens) take(w *waiter, n int) bool {
	w.n = n
	if t.queue.empty() && t.used+n <= t.limit {
		t.used += n
		return true
	}
	t.queue.push(w)
	return false
}

func (t *tokens) cancel(w *waiter) bool {
	if !t.queue.remove(w) {
		return false
	}
	t.serve() // what stood behind w may be available
	return true
}

func (t *tokens) give(n int) {
	t.used -= n
	t.serve()
}

func (t *tokens) serve() {
	for !t.queue.empty() && t.used+t.queue.first.n <= t.limit {
		w := t.queue.pop()
		t.used += w.n
		w.wake(nil)
	}
}

// waiter is one who waits for credits or tokens. It can be used again.
type waiter struct {
	ready chan error // one value
	n     int
	next  *waiter
}

func newWaiter() waiter { return waiter{ready: make(chan error, 1)} }

func (w *waiter) wake(err error) { w.ready <- err }

// waitList is a queue of waiters.
type waitList struct{ first, last *waiter }

func (l *waitList) empty() bool { return l.first == nil }

func (l *waitList) push(w *waiter) {
	w.next = nil
	if l.first == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

func (l *waitList) pop() *waiter {
	w := l.first
	l.first = w.next
	w.next = nil
	return w
}

func (l *waitList) remove(w *waiter) bool {
	var before *waiter
	for x := l.first; x != nil; before, x = x, x.next {
		if x != w {
			continue
		}
		if before == nil {
			l.first = x.next
		} else {
			before.next = x.next
		}
		if l.last == x {
			l.last = before
		}
		x.next = nil
		return true
	}
	return false
}

func (l *waitList) fail(err error) {
	for !l.empty() {
		l.pop().wake(err)
	}
}
