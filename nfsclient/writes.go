package nfsclient

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// writes keeps the order among the WRITEs to one file, and what they leave
// uncommitted.
//
// WRITEs run side by side, except that
//   - one that overlaps an abandoned WRITE waits until that is answered, because
//     the server may carry the abandoned one out last;
//   - nothing is written while lost data is written again, because what an
//     application writes now must not be replaced by what it wrote before.
type writes struct {
	mu        sync.Mutex
	ledger    ledger
	order     uint64
	spans     []span // WRITEs that are in flight
	rewriting bool
	changed   chan struct{} // closed and replaced when a waiter may go on
	waiting   int
	lost      lostWrites
}

// span is what a WRITE in flight covers.
type span struct {
	order     uint64
	off, end  int64
	abandoned bool
}

func (w *writes) init(clock *atomic.Uint64) {
	w.changed = make(chan struct{})
	w.ledger.clock = clock
}

// begin waits until a WRITE of n bytes at off may go out, and returns its
// place in the order.
func (w *writes) begin(ctx context.Context, off int64, n int) (order uint64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.rewriting || w.overlapsStray(off, off+int64(n)) {
		if err := w.waitChange(ctx); err != nil {
			return 0, err
		}
	}
	w.order++
	w.spans = append(w.spans, span{order: w.order, off: off, end: off + int64(n)})
	return w.order, nil
}

// alone tells whether the WRITE that has just begun is the only one in flight
// and nothing written earlier waits for a COMMIT.
func (w *writes) alone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.spans) == 1 && w.ledger.empty()
}

func (w *writes) overlapsStray(off, end int64) bool {
	for _, s := range w.spans {
		if s.abandoned && s.off < end && off < s.end {
			return true
		}
	}
	return false
}

// track notes a WRITE that goes out while lost data is written again.
func (w *writes) track(off int64, n int) (order uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.order++
	w.spans = append(w.spans, span{order: w.order, off: off, end: off + int64(n)})
	return w.order
}

// abandon notes that nobody waits for a WRITE any more; it stays in flight.
func (w *writes) abandon(order uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.spans {
		if w.spans[i].order == order {
			w.spans[i].abandoned = true
		}
	}
}

// end notes that a WRITE is not in flight any more.
func (w *writes) end(order uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spans = slices.DeleteFunc(w.spans, func(s span) bool { return s.order == order })
	w.change()
}

// beginRewrite waits until nothing is in flight and keeps it so until
// endRewrite.
func (w *writes) beginRewrite(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.rewriting {
		if err := w.waitChange(ctx); err != nil {
			return err
		}
	}
	w.rewriting = true
	for len(w.spans) > 0 {
		if err := w.waitChange(ctx); err != nil {
			w.rewriting = false
			w.change()
			return err
		}
	}
	return nil
}

func (w *writes) endRewrite() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rewriting = false
	w.change()
}

func (w *writes) change() {
	if w.waiting > 0 {
		close(w.changed)
		w.changed = make(chan struct{})
		w.waiting = 0
	}
}

// waitChange waits for a change, with mu released meanwhile.
func (w *writes) waitChange(ctx context.Context) error {
	changed := w.changed
	w.waiting++
	w.mu.Unlock()
	defer w.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lostWrites remembers that acknowledged data could not be brought to stable
// storage: each file open at the time is told once, by its next Sync or Close.
type lostWrites struct {
	err error
	n   uint64
}

func (l *lostWrites) add(err error) {
	l.err = err
	l.n++
}

// since returns how many there have been, and the last if there was one after
// the first seen.
func (l *lostWrites) since(seen uint64) (n uint64, err error) {
	if l.n > seen {
		err = l.err
	}
	return l.n, err
}

// uncommitted adds up the memory held by all ledgers, and knows which file has
// waited longest for a COMMIT.
type uncommitted struct {
	mu    sync.Mutex
	bytes int
	turns uint64
	nodes map[*node]holding // nodes with uncommitted data
}

// holding is what a node holds, and its place in the order in which nodes began
// to hold anything.
type holding struct {
	bytes int
	turn  uint64
}

func (u *uncommitted) size() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes
}

// set notes how many bytes of memory a node's ledger holds now.
func (u *uncommitted) set(n *node, bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	old := u.nodes[n]
	u.bytes += bytes - old.bytes
	switch {
	case bytes == 0:
		delete(u.nodes, n)
	case old.bytes == 0:
		u.turns++
		u.nodes[n] = holding{bytes: bytes, turn: u.turns}
	default:
		u.nodes[n] = holding{bytes: bytes, turn: old.turn}
	}
}

// all returns the nodes that hold anything.
func (u *uncommitted) all() []*node {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Collect(maps.Keys(u.nodes))
}

// oldest returns the node that has waited longest, or nil if what is held
// leaves room for n more bytes under limit, or if there is none.
func (u *uncommitted) oldest(n, limit int) *node {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes+n <= limit || len(u.nodes) == 0 {
		return nil
	}
	var first *node
	for n, h := range u.nodes {
		if first == nil || h.turn < u.nodes[first].turn {
			first = n
		}
	}
	return first
}
