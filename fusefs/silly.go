package fusefs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// NFS has no files without a name. A file that is removed while it is open here
// is therefore renamed in its directory to a name that is hidden by its dot, and
// that name is removed when the last open ends: the "silly rename" that all NFS
// clients have in common, with names of the same form, so that the clean-up
// jobs of servers know what a client that died has left behind.

// silly is the name that a file has been given in place of its own.
//
//	hide begins            renamed at the server          last open ends
//	    +----> !named ----------------------------> named ---------------> removed
//	              |   opens ended meanwhile: removed at once
//	              | rename fails
//	              +----------> none
type silly struct {
	dir   *node
	name  string
	cred  nfsclient.Cred // of who removed the file
	named bool           // the file has this name; guarded by node.mu
}

func (n *node) isSilly() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.silly != nil && n.silly.named
}

// sillyName makes a name that nobody else makes: rename would replace a file
// that has it.
func sillyName(n *node) string { return fmt.Sprintf(".nfs%016x%08x", n.ino, rand.Uint32()) }

// hide gives an entry that is about to go a silly name if it is a file that is
// open. It tells whether it has done so; then the entry is gone.
func (b *bridge) hide(o *op, dir *node, name string, n *node) (hidden bool, err error) {
	if n == nil || n.typ != fuse.S_IFREG {
		return false, nil
	}
	s := &silly{dir: dir, name: sillyName(n), cred: o.cred}
	n.mu.Lock()
	if old := n.silly; old != nil || n.opens == 0 {
		n.mu.Unlock()
		if old != nil && old.dir == dir && old.name == name {
			// Removing the silly name itself would take the file from under
			// those who have it open.
			return false, unix.EBUSY
		}
		return false, nil // not open, or kept by another name already
	}
	n.silly = s
	n.mu.Unlock()
	b.sillies.add(dir.id)

	err = b.c.Rename(o, o.cred, dir.fh, name, dir.fh, s.name)
	n.mu.Lock()
	s.named = err == nil
	last := n.opens == 0
	if err != nil || last {
		n.silly = nil
	}
	n.mu.Unlock()
	if err != nil {
		b.sillies.done(dir.id)
		return false, err
	}
	b.stats.silly.Add(1)
	b.nodes.unname(dir, name)
	if last {
		b.removeSilly(o, s)
	}
	return true, nil
}

// unhide gives an entry its name back, as what should have replaced it has
// failed.
func (b *bridge) unhide(o *op, n *node, dir *node, name string) {
	n.mu.Lock()
	s := n.silly
	n.silly = nil
	n.mu.Unlock()
	if s == nil {
		return // closed, and removed: as if it had been unlinked
	}
	b.sillies.done(dir.id)
	if err := b.c.Rename(o, o.cred, dir.fh, s.name, dir.fh, name); err != nil {
		b.o.Log.WithError(err).Warnf("a file could not be given its name %q back and is now %q", name, s.name)
	}
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

func (b *bridge) removeSilly(ctx context.Context, s *silly) {
	if s == nil {
		return
	}
	defer b.sillies.done(s.dir.id)
	if err := b.c.Remove(ctx, s.cred, s.dir.fh, s.name); err != nil && !isStatus(err, nfs4.ErrNoEnt, nfs4.ErrStale) {
		b.o.Log.WithError(err).Warnf("a removed file could not be deleted when it was closed: %q is left over", s.name)
	}
	s.dir.touch(b)
}

// sillyDirs counts the silly names in each directory.
type sillyDirs struct {
	mu  sync.Mutex
	dir map[uint64]*sillyDir
}

type sillyDir struct {
	count int
	empty chan struct{} // closed when count is zero
}

func newSillyDirs() *sillyDirs { return &sillyDirs{dir: make(map[uint64]*sillyDir)} }

func (t *sillyDirs) add(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dir[id]
	if d == nil {
		d = &sillyDir{empty: make(chan struct{})}
		t.dir[id] = d
	}
	d.count++
}

func (t *sillyDirs) done(id uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dir[id]
	d.count--
	if d.count == 0 {
		close(d.empty)
		delete(t.dir, id)
	}
}

// sillyPatience is how long a rmdir waits for closes that the kernel may have
// sent ahead of it.
const sillyPatience = 200 * time.Millisecond

// waitEmpty waits for a moment until a directory has no silly names. It tells
// whether it had any and they are gone.
func (t *sillyDirs) waitEmpty(ctx context.Context, id uint64) bool {
	t.mu.Lock()
	d := t.dir[id]
	t.mu.Unlock()
	if d == nil {
		return false
	}
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
