package nfsclient

import (
	"context"
	"time"
)

// lockWaiter waits for a lock that somebody else has.
type lockWaiter struct {
	owner LockOwner
	woken chan struct{} // a token when it is worth trying again
}

// Waiting for a lock holds no slot: the server is asked again when there is a
// reason to, and from time to time.
const (
	// lockRecheck is the pause if the server tells when the lock has become
	// free (CB_NOTIFY_LOCK): it may forget to (RFC 8881 section 20.11).
	lockRecheck = 10 * time.Second
	// ownRelease is how long a refused attempt waits for an unlock by this
	// client that may be on its way, and ownFlock is the same if the lock in the
	// way belongs to an open file: those are released after close(2) has
	// returned.
	ownRelease = 2 * time.Millisecond
	ownFlock   = 20 * time.Millisecond
	// ownTries bounds the attempts that are made for that reason.
	ownTries = 4
)

// addWaiter enters a waiter for a lock of a node.
func (c *Client) addWaiter(n *node, owner LockOwner) *lockWaiter {
	w := &lockWaiter{owner: owner, woken: make(chan struct{}, 1)}
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	if n.waiters == nil {
		n.waiters = make(map[*lockWaiter]struct{})
	}
	n.waiters[w] = struct{}{}
	return w
}

func (c *Client) removeWaiter(n *node, w *lockWaiter) {
	c.state.mu.Lock()
	defer c.state.mu.Unlock()
	delete(n.waiters, w)
}

// wakeLocks wakes those who wait for a lock of the node: all of them, or an
// owner's. Called with state.mu held.
func (n *node) wakeLocks(owner *LockOwner) {
	for w := range n.waiters {
		if owner != nil && w.owner != *owner {
			continue
		}
		select {
		case w.woken <- struct{}{}:
		default:
		}
	}
}

// notifyLock takes a CB_NOTIFY_LOCK: a lock may have become free.
func (c *Client) notifyLock(fh FH, wire []byte) {
	owner := lockOwnerOf(wire)
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[string(fh)]; n != nil {
		n.wakeLocks(&owner)
	}
}

// wakeAllLocks wakes everybody who waits for a lock: the server may have told,
// or forgotten to tell, while it could not be reached.
func (c *Client) wakeAllLocks() {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		n.wakeLocks(nil)
	}
}

// awaitLock waits until it is worth trying again, n attempts having been made.
func (c *Client) awaitLock(ctx context.Context, f *File, w *lockWaiter, stop <-chan struct{}, n int) error {
	c.state.mu.Lock()
	told := f.open.notifies
	c.state.mu.Unlock()
	pause := pauseFor(n)
	if told {
		pause = lockRecheck
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-w.woken:
	case <-t.C:
	case <-stop:
		return context.Canceled
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	}
	return nil
}

// ownReleased waits until a lock of this client that was in the way has been
// released, if that seems to be under way, and tells whether to try again. A
// file that is being closed releases its locks after close(2) has returned;
// whoever locks after that must not find them.
func (c *Client) ownReleased(ctx context.Context, n *node, b *LockConflict, tries int) bool {
	if tries >= ownTries {
		return false
	}
	w := c.addWaiter(n, b.Owner)
	defer c.removeWaiter(n, w)
	s := &c.state
	s.mu.Lock()
	l := n.lockers[b.Owner]
	there, closing := false, false
	if l != nil {
		there = len(l.ranges.within(b.Start, b.Last)) > 0
		for f, locked := range l.files {
			closing = closing || locked && f.closed.Load()
		}
	}
	s.mu.Unlock()
	if !there {
		return true
	}
	pause := ownRelease
	switch {
	case closing:
		pause = maxPause
	case b.Owner.Flock:
		pause = ownFlock
	}
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-w.woken:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}
