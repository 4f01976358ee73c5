package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// NFS has no files without a name. A file that loses its name while it is open
// here therefore gets another one in the same directory, hidden by its dot, and
// that is removed when the last open ends: the "silly rename" that all NFS
// clients have in common, with names of the same form, so that the clean-up
// jobs of servers know what a client that died has left behind.
//
// What the kernel is about to open must be kept too: it looks a name up, lets go
// of everything, and then sends an open of what it has found. See names.go.

// silly is the name that a file has been given in place of its own.
//
//	reserve                named at the server            last open ends
//	   +----> !named --------------------------> named -------------------> removed
//	             |                                 |  not opened for openGrace
//	             |                                 +----------------------> removed
//	             | that failed                     |  its own name was kept
//	             +-----------> none                +----------------------> removed
type silly struct {
	node *node
	dir  *node
	name string
	cred nfsclient.Cred // of who removed the file

	named bool // the file has this name; guarded by node.mu
}

// sillyPrefix is what silly names begin with.
const sillyPrefix = ".nfs"

// openGrace is how long a file that has just been looked up is kept for the open
// that may follow.
const openGrace = 50 * time.Millisecond

func (n *node) isSilly() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silly != nil && n.silly.named
}

// reserve begins to give a file a silly name, if it needs one: because it is
// open, or expected to be opened. It returns nil if it needs none.
func (b *bridge) reserve(o *op, dir *node, name string, n *node, expected bool) (*silly, error) {
	if n == nil || n.typ != fuse.S_IFREG {
		return nil, nil
	}
	// Nobody else makes the same name: rename would replace a file that has it.
	s := &silly{node: n, dir: dir, name: fmt.Sprintf(sillyPrefix+"%016x%08x", n.ino, rand.Uint32()), cred: o.cred}
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.silly; old != nil {
		if old.dir != dir || old.name != name {
			return nil, nil // kept by another name already
		}
		if n.opens > 0 {
			// Removing the silly name itself would take the file from under
			// those who have it open.
			return nil, unix.EBUSY
		}
		n.silly = nil
		b.sillies.done(old)
		return nil, nil
	}
	if n.opens == 0 && !expected {
		return nil, nil
	}
	n.silly = s
	b.sillies.add(s)
	return s, nil
}

// settle says whether the file has its silly name now.
func (b *bridge) settle(s *silly, named bool) {
	n := s.node
	n.mu.Lock()
	s.named = named
	if !named {
		n.silly = nil
	} else if n.opens == 0 {
		b.expiring.Add(1)
		time.AfterFunc(openGrace, func() { b.expire(s) })
	}
	n.mu.Unlock()
	if !named {
		b.sillies.done(s)
		return
	}
	b.stats.silly.Add(1)
}

// expire removes a file that nobody has opened.
func (b *bridge) expire(s *silly) {
	defer b.expiring.Done()
	if !s.node.release(s) {
		return
	}
	ctx, cancel := b.background()
	defer cancel()
	b.removeSilly(ctx, s)
}

// release takes a silly name from its file if nobody has that open; the caller
// then removes it.
func (n *node) release(s *silly) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.opens > 0 || n.silly != s || !s.named {
		return false
	}
	n.silly = nil
	return true
}

// unlink removes a name, or makes it a silly one.
func (b *bridge) unlink(o *op, dir *node, name string, n *node, expected bool) error {
	s, err := b.reserve(o, dir, name, n, expected)
	if errors.Is(err, unix.EBUSY) {
		// The kernel does not wait for the end of the last open: a program that
		// has closed the file and now clears the directory may be ahead of it.
		if d := b.sillies.of(dir); d == nil || d.waitEmpty(o) {
			return nil // gone, as was asked for
		}
	}
	if err != nil {
		return err
	}
	if s == nil {
		return b.c.Remove(o, o.cred, dir.fh, name)
	}
	err = b.c.Rename(o, o.cred, dir.fh, name, dir.fh, s.name)
	b.settle(s, err == nil)
	return err
}

// replace renames an entry over another, whose file keeps a silly name if it
// needs one. The file gets it as a second name, so that the name to be replaced
// is there all the time for everybody; only where the server has no links the
// file is renamed.
func (b *bridge) replace(o *op, from *node, oldName string, to *node, newName string, n *node, expected bool) error {
	s, err := b.reserve(o, to, newName, n, expected)
	if err != nil {
		return err
	}
	if s == nil {
		return b.c.Rename(o, o.cred, from.fh, oldName, to.fh, newName)
	}
	_, err = b.c.Link(o, o.cred, n.fh, to.fh, s.name)
	linked := err == nil
	if !linked {
		err = b.c.Rename(o, o.cred, to.fh, newName, to.fh, s.name)
	}
	b.settle(s, err == nil)
	if err != nil {
		return err
	}
	err = b.c.Rename(o, o.cred, from.fh, oldName, to.fh, newName)
	if err != nil {
		b.undo(o, s, newName, linked)
	}
	return err
}

// undo gives a file back the name that it should have lost.
func (b *bridge) undo(o *op, s *silly, name string, linked bool) {
	n := s.node
	n.mu.Lock()
	mine := n.silly == s
	if mine {
		n.silly = nil
	}
	n.mu.Unlock()
	if !mine {
		return // closed meanwhile, and the silly name removed
	}
	if linked {
		b.removeSilly(o, s)
		return
	}
	if err := b.c.Rename(o, o.cred, s.dir.fh, s.name, s.dir.fh, name); err != nil {
		b.o.Log.WithError(err).Warnf("a file could not be given its name %q back and is now %q", name, s.name)
	}
	b.sillies.done(s)
}

// opened counts an open that begins, so that the file is not removed meanwhile.
func (n *node) opened() {
	n.mu.Lock()
	n.opens++
	n.mu.Unlock()
}

// closed counts the end of an open, and returns the silly name to remove if it
// was the last.
func (n *node) closed() *silly {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opens--
	if n.opens > 0 || n.silly == nil || !n.silly.named {
		return nil
	}
	s := n.silly
	n.silly = nil
	return s
}

// removeSilly removes a silly name, if there is one, that the caller has taken
// from its file.
func (b *bridge) removeSilly(ctx context.Context, s *silly) {
	if s == nil {
		return
	}
	defer b.sillies.done(s)
	removed := b.changing(s.dir)
	defer removed()
	if err := b.c.Remove(ctx, s.cred, s.dir.fh, s.name); err != nil && !isStatus(err, nfs4.ErrNoEnt, nfs4.ErrStale) {
		b.o.Log.WithError(err).Warnf("a removed file could not be deleted when it was closed: %q is left over", s.name)
	}
}

// sillies knows all silly names, and counts them in each directory.
type sillies struct {
	mu   sync.Mutex
	all  map[*silly]struct{}
	dir  map[*node]*sillyDir
	gone []goneSilly // the last ones, in order
}

// goneSilly is a silly name that was removed.
type goneSilly struct {
	dir  *node
	name string
	at   time.Time
}

// sillyMemory is for how long a name is hidden after it was removed, and
// maxSillyMemory how many of them: a page of the directory may have been on its
// way meanwhile.
const (
	sillyMemory    = time.Minute
	maxSillyMemory = 1024
)

// hides tells whether a name is not to be listed: the file has been removed, as
// far as anybody on this mount is concerned.
func (t *sillies) hides(dir *node, name []byte) bool {
	if !bytes.HasPrefix(name, []byte(sillyPrefix)) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.all {
		if s.dir == dir && s.name == string(name) {
			return true
		}
	}
	return slices.ContainsFunc(t.gone, func(g goneSilly) bool { return g.dir == dir && g.name == string(name) })
}

type sillyDir struct {
	count int
	empty chan struct{} // closed when count is zero
}

func newSillies() *sillies {
	return &sillies{all: make(map[*silly]struct{}), dir: make(map[*node]*sillyDir)}
}

func (t *sillies) add(s *silly) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all[s] = struct{}{}
	d := t.dir[s.dir]
	if d == nil {
		d = &sillyDir{empty: make(chan struct{})}
		t.dir[s.dir] = d
	}
	d.count++
}

// done says that a silly name is gone, or never came to be.
func (t *sillies) done(s *silly) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, s)
	now := time.Now()
	old := 0
	for old < len(t.gone) && (len(t.gone)-old >= maxSillyMemory || now.Sub(t.gone[old].at) > sillyMemory) {
		old++
	}
	t.gone = append(slices.Delete(t.gone, 0, old), goneSilly{s.dir, s.name, now})
	d := t.dir[s.dir]
	d.count--
	if d.count == 0 {
		close(d.empty)
		delete(t.dir, s.dir)
	}
}

// list returns all of them.
func (t *sillies) list() []*silly {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*silly, 0, len(t.all))
	for s := range t.all {
		all = append(all, s)
	}
	return all
}

// of returns the silly names of a directory, nil if it has none.
func (t *sillies) of(dir *node) *sillyDir {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dir[dir]
}

// sillyPatience is how long a removal waits for closes that the kernel may have
// sent ahead of it.
const sillyPatience = 200 * time.Millisecond

// waitEmpty waits for a moment until a directory that had silly names has none
// any more, and tells whether that is so.
func (d *sillyDir) waitEmpty(ctx context.Context) bool {
	limit := time.NewTimer(sillyPatience)
	defer limit.Stop()
	select {
	case <-d.empty:
		return true
	case <-limit.C:
	case <-ctx.Done():
	}
	return false
}
