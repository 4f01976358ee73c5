package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"nfsrdma-fuse/xdr/nfs4"
)

// fetched says when the server was asked for something: by the clock, and in
// own changes answered by then.
type fetched struct {
	at  time.Time
	seq uint64
}

func (b *bridge) fetching() fetched { return fetched{time.Now(), b.seq.Load()} }

// overtaken tells whether an own change of the node was answered after the
// server had been asked, so that the answer may be older.
func (n *node) overtaken(f fetched) bool { return n.modified.Load() > f.seq }

// shortest and longest are the limits of the time for which attributes of a node
// may be used.
func (b *bridge) limits(n *node) (shortest, longest time.Duration) {
	if n.typ == fuse.S_IFDIR {
		return b.o.AcDirMin, b.o.AcDirMax
	}
	return b.o.AcRegMin, b.o.AcRegMax
}

// note takes the attributes that arrived for a node. It has the kernel drop
// what it has cached of a file that somebody else has changed, and ask again
// for the names of such a directory: what it returns for that is a channel
// that is closed when the kernel has been told, or nil. exact is for files: no
// change of others can hide behind an own one. note must be called without
// locks: the kernel waits for pages whose requests we answer.
func (b *bridge) note(n *node, a *nfs4.Attrs, f fetched, exact bool) (told <-chan struct{}) {
	shortest, longest := b.limits(n)
	n.mu.Lock()
	n.valid.observe(a, f.at, shortest, longest)
	var drop, foreign bool
	switch {
	case !a.Has(nfs4.AttrChange):
	case n.typ == fuse.S_IFREG:
		drop = n.cache.observe(a.Change, exact)
	case n.dir != nil && !n.overtaken(f):
		foreign = n.dir.observe(a.Change)
	}
	n.mu.Unlock()
	if drop {
		b.dropFor(n, a.Change)
	}
	if foreign {
		return b.doubt(n)
	}
	return nil
}

// doubt has the kernel ask again for all names of a directory.
func (b *bridge) doubt(dir *node) (told <-chan struct{}) {
	dir.mu.Lock()
	missing := dir.dir.takeMissing()
	dir.mu.Unlock()
	return b.expiry.add(dir, missing, true)
}

// attrTime is for how long the kernel may use attributes fetched at f.
func (b *bridge) attrTime(n *node, f fetched, now time.Time) time.Duration {
	if b.delegated(n) && !n.overtaken(f) {
		return delegatedTime
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return max(0, f.at.Add(n.valid.span).Sub(now))
}

// nameTime is for how long the kernel may use a name that was found in a
// directory: as long as it could use the directory's attributes. Where it cannot
// be told of a change by others, that is less.
func (b *bridge) nameTime(dir *node, f fetched, now time.Time) time.Duration {
	if b.o.LookupCache == LookupCacheNone {
		return 0
	}
	dir.mu.Lock()
	defer dir.mu.Unlock()
	if !dir.dir.known {
		return 0
	}
	span := dir.valid.span
	if !b.expireOnly() {
		span = min(span, b.o.AcRegMin)
	}
	return max(0, f.at.Add(span).Sub(now))
}

// missing tells whether a name is known not to exist, and for how long the kernel may
// take that for granted: as long as the directory's attributes are valid.
func (b *bridge) missing(dir *node, name string) (left time.Duration, ok bool) {
	dir.mu.Lock()
	defer dir.mu.Unlock()
	left = dir.valid.left(time.Now())
	return left, left > 0 && dir.dir.isMissing(name)
}

// miss remembers that a name was found not to exist in an epoch of the directory,
// and tells for how long the kernel may do so; zero means not at all.
func (b *bridge) miss(dir *node, name string, epoch uint64) (left time.Duration) {
	if b.o.LookupCache != LookupCacheAll {
		return 0
	}
	dir.mu.Lock()
	left = dir.valid.left(time.Now())
	var old []string
	if len(dir.dir.missing) >= maxMissing { // begin anew with what is asked for now
		old = dir.dir.takeMissing()
	}
	ok := left > 0 && dir.dir.miss(name, epoch)
	dir.mu.Unlock()
	if old != nil {
		b.expiry.add(dir, old, false)
	}
	if !ok {
		return 0
	}
	return left
}

// appear forgets that a name was known not to exist.
func (b *bridge) appear(dir *node, name string) {
	dir.mu.Lock()
	dir.dir.appear(name)
	dir.mu.Unlock()
}

// epoch returns the present epoch of a directory.
func (n *node) epoch() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dir.epoch
}

// changing marks own changes of the names in directories; the function it
// returns says that they have been answered.
func (b *bridge) changing(dirs ...*node) (answered func()) {
	began := time.Now()
	for _, d := range dirs {
		d.mu.Lock()
		d.dir.begin()
		d.mu.Unlock()
	}
	return func() {
		for _, d := range dirs {
			d.mu.Lock()
			foreign := d.dir.end()
			attrs := d.dir.takeAfter()
			d.mu.Unlock()
			seq := d.touch(b)
			if attrs != nil {
				b.ride(d, attrs, fetched{began, seq})
			}
			if foreign {
				b.doubt(d)
			}
		}
	}
}

// isChanging tells whether own changes of a directory are on their way.
func (n *node) isChanging() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dir.running > 0
}

// dirChanged takes the change information of an own change of a directory, and
// its attributes afterwards, which may be nil.
func (b *bridge) dirChanged(fh nfs4.FH, ci nfs4.ChangeInfo, attrs *nfs4.Attrs) {
	n := b.nodes.peek(fh)
	if n == nil || n.dir == nil {
		return
	}
	n.mu.Lock()
	joins := n.dir.known && ci.Before == n.dir.change
	foreign := n.dir.changed(ci)
	if attrs != nil {
		after := *attrs
		n.dir.after = &after
	}
	if joins {
		n.valid.advance(n.dir.change, time.Now())
	}
	n.mu.Unlock()
	if foreign {
		b.doubt(n)
	}
}

// rider are attributes that came with the answer to something else. The kernel
// asks for attributes when it has changed something itself, as by writing to a
// file or making an entry of a directory, and after an open has shown that they
// have changed; then the answer is here already.
//
// Each rider answers one question: a second one means that somebody insists on
// what the server has now.
type rider struct {
	attr fuse.Attr
	from fetched
}

// ride keeps attributes for the kernel's next question.
func (b *bridge) ride(n *node, a *nfs4.Attrs, f fetched) {
	r := &rider{from: f}
	b.attr(n, a, &r.attr)
	n.mu.Lock()
	n.rider = r
	n.mu.Unlock()
}

// answer answers a question for attributes if there is a rider that may be used.
func (b *bridge) answer(n *node, out *fuse.AttrOut) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	r := n.rider
	n.rider = nil
	if r == nil || n.cache.changing > 0 || n.overtaken(r.from) {
		return false
	}
	left := time.Until(r.from.at.Add(n.valid.span))
	if left <= 0 {
		return false
	}
	out.Attr = r.attr
	out.SetTimeout(left)
	return true
}
