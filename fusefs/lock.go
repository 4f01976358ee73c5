package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// Locks. The kernel keeps none itself (unless Options say so): it asks for every
// one, in the name of an owner that is a process for POSIX locks and an open file
// description for flock(2) and OFD locks. They are released by
//
//	fcntl, flock   SETLK with F_UNLCK
//	close(2)       FLUSH names the process: its POSIX locks of the file go
//	last close     RELEASE: the description's locks go with the file
//
// With the locks goes the data: whoever gets a lock sees what others wrote
// before they released theirs. So what is cached is looked at when a lock is
// had, and what was written is stable before it is released.

// lockFile is an open file that can be locked.
type lockFile interface {
	Lock(ctx context.Context, q nfsclient.LockRequest) (*nfs4.Attrs, error)
	Unlock(ctx context.Context, owner nfsclient.LockOwner, start, last uint64, want bool) (attrs *nfs4.Attrs, exact bool, err error)
	TestLock(ctx context.Context, q nfsclient.LockRequest) (*nfsclient.LockConflict, error)
}

// locking returns what a request about locks is about.
func (b *bridge) locking(fh uint64) (*fileHandle, lockFile, error) {
	h := b.handles.file(fh)
	if h == nil {
		return nil, nil, unix.EBADF
	}
	f, ok := h.file.(lockFile)
	if !ok {
		return nil, nil, unix.ENOLCK
	}
	return h, f, nil
}

// lockRequest translates a request of the kernel, whose ranges end with
// MaxOffset if they have no end.
func lockRequest(in *fuse.LkIn) nfsclient.LockRequest {
	return nfsclient.LockRequest{
		Owner: nfsclient.LockOwner{ID: in.Owner, Flock: in.LkFlags&fuse.FUSE_LK_FLOCK != 0},
		Start: in.Lk.Start, Last: in.Lk.End,
		Write: in.Lk.Typ == unix.F_WRLCK, Tag: in.Lk.Pid,
	}
}

// GetLk implements fuse.RawFileSystem.
func (b *bridge) GetLk(cancel <-chan struct{}, in *fuse.LkIn, out *fuse.LkOut) fuse.Status {
	o := b.beginQuiet(cancel, &in.InHeader)
	_, f, err := b.locking(in.Fh)
	if err != nil {
		return o.end(err)
	}
	c, err := f.TestLock(o, lockRequest(in))
	if err != nil {
		return o.end(err)
	}
	out.Lk = in.Lk
	out.Lk.Typ = unix.F_UNLCK
	if c != nil {
		// The process is known if it is one of this mount.
		out.Lk = fuse.FileLock{Start: c.Start, End: c.Last, Typ: unix.F_RDLCK, Pid: c.Tag}
		if c.Write {
			out.Lk.Typ = unix.F_WRLCK
		}
	}
	return o.end(nil)
}

// SetLk implements fuse.RawFileSystem.
func (b *bridge) SetLk(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return b.setLock(cancel, in, false)
}

// SetLkw implements fuse.RawFileSystem. Any signal ends the waiting: the kernel
// then restarts the system call or lets it fail with EINTR, as the signal's
// handler says.
func (b *bridge) SetLkw(cancel <-chan struct{}, in *fuse.LkIn) fuse.Status {
	return b.setLock(cancel, in, true)
}

func (b *bridge) setLock(cancel <-chan struct{}, in *fuse.LkIn, wait bool) fuse.Status {
	o := b.beginQuiet(cancel, &in.InHeader)
	h, f, err := b.locking(in.Fh)
	if err != nil {
		return o.end(err)
	}
	q := lockRequest(in)
	if in.Lk.Typ == unix.F_UNLCK {
		return o.end(b.unlock(o, h, f, q.Owner, q.Start, q.Last))
	}
	if wait {
		q.Wait, q.Stop = true, cancel
	}
	attrs, err := f.Lock(o, q)
	if err == nil {
		b.locked(h.node, attrs, o.began)
	}
	return o.end(err)
}

// locked has the kernel drop what it has cached of a file that was just locked,
// unless it surely belongs to the file as it is. attrs may be nil.
//
// That is so if the change attribute is that for which the cache was last
// dropped, and the drop is done: others may be locking other bytes of the file,
// and what they are about to drop must not be read meanwhile.
func (b *bridge) locked(n *node, attrs *nfs4.Attrs, asked fetched) {
	known := attrs != nil && attrs.Has(nfs4.AttrChange)
	shortest, longest := b.limits(n)
	if known {
		n.mu.Lock()
		n.valid.observe(attrs, asked.at, shortest, longest)
		keep := n.dropped && n.droppedAt == attrs.Change
		if !keep {
			n.cache.open(attrs.Change) // dropped in any case
		}
		n.mu.Unlock()
		if keep {
			return
		}
	}
	if !known {
		b.stats.dropped.Add(1)
		b.dropCache(n)
		return
	}
	b.dropFor(n, attrs.Change)
	n.mu.Lock()
	n.dropped, n.droppedAt = true, attrs.Change
	n.mu.Unlock()
}

// unlock releases locks. An error of data written under them is told, but does
// not keep anybody from the lock.
func (b *bridge) unlock(o *op, h *fileHandle, f lockFile, owner nfsclient.LockOwner, start, last uint64) error {
	asked := b.fetching()
	attrs, err := h.file.SyncAttrs(o)
	if attrs != nil {
		b.note(h.node, attrs, asked, true)
	}
	asked = b.fetching()
	h.node.mu.Lock()
	changed := h.node.cache.changed
	h.node.mu.Unlock()
	// The change attribute that belongs to our own changes can be known only
	// as long as nobody else may make any.
	attrs, exact, e := f.Unlock(o, owner, start, last, changed)
	if attrs != nil {
		b.note(h.node, attrs, asked, exact)
	}
	if exact && attrs != nil && attrs.Has(nfs4.AttrChange) {
		// Nobody else has changed what was dropped and read again since.
		h.node.mu.Lock()
		h.node.droppedAt = attrs.Change
		h.node.mu.Unlock()
	}
	if err == nil {
		err = e
	}
	return err
}

// unlockProcess releases the POSIX locks of a process that closes a descriptor
// of the file.
func (b *bridge) unlockProcess(o *op, h *fileHandle, owner uint64) {
	f, ok := h.file.(lockFile)
	if !ok || b.o.LocalPOSIX {
		return
	}
	if _, _, err := f.Unlock(o, nfsclient.LockOwner{ID: owner}, 0, nfsclient.MaxOffset, false); err != nil {
		b.o.Log.WithError(err).Debug("locks not released at close yet")
	}
}
