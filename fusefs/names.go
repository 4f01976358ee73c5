package fusefs

import (
	"context"
	"sync"
	"time"
)

// The kernel opens a file in two steps: it looks the name up, and sends an open
// of what it has found. If the file goes between the two, the open fails with
// ESTALE; the kernel then begins again, once. A name that is replaced again and
// again, as programs do with their state files, would fail readers that way. The
// kernel's own NFS client sees its lookups and does not let a file go that one
// has just found; here the same is done by knowing which names are being looked
// up, and which files have just been.
//
//   - A lookup of a name waits until a change of that name is over.
//   - A change of a name during whose lookup it begins keeps the file.
//   - So does one soon after another thread has looked the file up.

// foundLately is how long ago a lookup may be that an open is expected to
// follow.
const foundLately = 20 * time.Millisecond

// names are the names that are being looked up or changed.
type names struct {
	mu   sync.Mutex
	busy map[dentry]*busyName
}

type busyName struct {
	lookups int
	change  chan struct{} // closed when the change in progress is over; nil if there is none
}

func newNames() *names { return &names{busy: make(map[dentry]*busyName)} }

func (t *names) get(d dentry) *busyName {
	n := t.busy[d]
	if n == nil {
		n = &busyName{}
		t.busy[d] = n
	}
	return n
}

func (t *names) put(d dentry, n *busyName) {
	if n.lookups == 0 && n.change == nil {
		delete(t.busy, d)
	}
}

// lookup begins a lookup; the function it returns ends it.
func (t *names) lookup(ctx context.Context, d dentry) (end func(), err error) {
	for {
		t.mu.Lock()
		n := t.get(d)
		change := n.change
		if change == nil {
			n.lookups++
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				n.lookups--
				t.put(d, n)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// change begins a change of a name and tells whether the name is being looked
// up; the function it returns ends it.
func (t *names) change(ctx context.Context, d dentry) (looked bool, end func(), err error) {
	for {
		t.mu.Lock()
		n := t.get(d)
		other := n.change
		if other == nil {
			mine := make(chan struct{})
			n.change = mine
			looked = n.lookups > 0
			t.mu.Unlock()
			return looked, func() {
				t.mu.Lock()
				defer t.mu.Unlock()
				n.change = nil
				close(mine)
				t.put(d, n)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return false, nil, ctx.Err()
		}
	}
}

// found says that a thread has looked the node up.
func (n *node) found(tid uint32) {
	n.mu.Lock()
	n.foundAt, n.foundBy = time.Now(), tid
	n.mu.Unlock()
}

// foundByOther tells whether another thread than tid has just looked the node
// up.
func (n *node) foundByOther(tid uint32) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.foundBy != tid && time.Since(n.foundAt) < foundLately
}
