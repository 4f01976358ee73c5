package fusefs

import (
	"bytes"
	"errors"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// The way of file data:
//
//	READ   kernel -> Read -> file.Read: the data lies in a payload buffer
//	       -> readResult -> go-fuse writes it to the kernel from there
//	       -> Done: the buffer returns to its pool
//	WRITE  kernel -> go-fuse's memory -> Write -> file.Write copies it once
//	FLUSH  (close) and FSYNC: file.Sync; the data is stable afterwards
//
// Read-ahead and write-back carry no credentials of a caller; what is done
// through an open file is done in the name of who opened it.

// fileHandle is an open file.
type fileHandle struct {
	node  *node
	file  file
	cred  nfsclient.Cred // of who opened it
	write bool
	dirty atomic.Bool // written to since the last flush
}

// Open implements fuse.RawFileSystem.
func (b *bridge) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	n := b.nodes.get(in.NodeId)
	if n == nil {
		return o.end(errNoNode)
	}
	r := nfsclient.OpenRequest{FH: n.fh}
	r.Read, r.Write = accessMode(in.Flags)
	r.Truncate = in.Flags&unix.O_TRUNC != 0
	r.Stable = b.stable(in.Flags)
	if r.Truncate && !r.Write { // O_RDONLY|O_TRUNC truncates on Linux
		r.Write = true
	}
	n.opened()
	if b.openDelegated(o, n, r, out) {
		return o.end(nil)
	}
	answered := func() (uint64, bool) { return 0, false }
	if r.Truncate {
		answered = b.change(n)
	}
	f, attrs, err := b.open(o, n, r)
	answered()
	if err != nil {
		b.removeSilly(o, n.closed())
		return o.end(err)
	}
	if in.Mode&fuse.OPEN_KILL_SUIDGID != 0 {
		attrs = b.dropPrivs(o, n, attrs)
	}
	if !b.fillOpen(o, n, f, r.Write, attrs, out) {
		b.dropAttrs(n)
	}
	if !r.Truncate && !b.o.NoCTO {
		b.ride(n, attrs, o.began)
	}
	return o.end(nil)
}

// open opens a file that the kernel has found. The name that led to it may have
// been given to another file since, so it is opened by its name, if the kernel
// knows one of it; ESTALE makes the kernel look it up again.
func (b *bridge) open(o *op, n *node, r nfsclient.OpenRequest) (file, *nfs4.Attrs, error) {
	dir, name := b.nodes.onlyName(n)
	if dir == nil || n.isSilly() {
		f, _, attrs, err := b.c.Open(o, o.cred, r)
		return f, attrs, err
	}
	named := r
	named.FH, named.Dir, named.Name = nil, dir.fh, name
	f, fh, attrs, err := b.c.Open(o, o.cred, named)
	switch {
	case err == nil && bytes.Equal(fh, n.fh):
		return f, attrs, nil
	case err == nil:
		if err := f.Close(o); err != nil {
			b.o.Log.WithError(err).Debug("closing a file that has taken another's name")
		}
	case !isStatus(err, nfs4.ErrNoEnt, nfs4.ErrStale, nfs4.ErrSymlink, nfs4.ErrIsDir, nfs4.ErrNotDir, nfs4.ErrWrongType, nfs4.ErrAccess):
		return nil, nil, err
	}
	// It may have been us who took the name away, with the file kept for whoever
	// has found it; or the caller has come to the file in another way and must
	// not search the directory.
	if isStatus(err, nfs4.ErrAccess) || dir.overtaken(o.began) || dir.isChanging() {
		f, _, attrs, err := b.c.Open(o, o.cred, r)
		return f, attrs, err
	}
	b.nodes.unname(dir, name)
	b.doubt(dir)
	return nil, nil, errNoNode
}

// accessMode translates the access mode of open(2). The kernel opens programs
// for execution with mode 3 or read-only; both read.
func accessMode(flags uint32) (read, write bool) {
	switch flags & unix.O_ACCMODE {
	case unix.O_WRONLY:
		return false, true
	case unix.O_RDWR:
		return true, true
	}
	return true, false
}

// stable tells whether writes have to be stable when they return. The kernel
// syncs them by itself, which then has nothing left to do.
func (b *bridge) stable(flags uint32) bool { return b.o.NoAC || flags&unix.O_DSYNC != 0 }

// fillOpen enters an open file and fills in the answer. It tells whether what the
// kernel has cached of the file is as good as new.
func (b *bridge) fillOpen(o *op, n *node, f file, write bool, attrs *nfs4.Attrs, out *fuse.OpenOut) (keep bool) {
	out.Fh = b.handles.addFile(&fileHandle{node: n, file: f, cred: o.cred, write: write})
	shortest, longest := b.limits(n)
	drop := false
	n.mu.Lock()
	if b.o.NoCTO && n.cache.known && n.valid.left(o.began.at) > 0 {
		keep = true // and what the server has said is not looked at
	} else {
		n.valid.observe(attrs, o.began.at, shortest, longest)
		if attrs.Has(nfs4.AttrChange) {
			keep = n.cache.known
			drop = n.cache.open(attrs.Change)
		}
	}
	n.mu.Unlock()
	switch {
	case drop:
		// Not by the answer to this open: another that is answered meanwhile
		// must not take for good what this one has yet to drop.
		b.dropFor(n, attrs.Change)
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	case keep:
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
		b.stats.kept.Add(1)
	}
	if !write && b.o.LocalPOSIX {
		out.OpenFlags |= fuse.FOPEN_NOFLUSH // nothing to write back or unlock at close
	}
	return keep
}

// Create implements fuse.RawFileSystem.
func (b *bridge) Create(cancel <-chan struct{}, in *fuse.CreateIn, name string, out *fuse.CreateOut) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	dir := b.nodes.get(in.NodeId)
	if dir == nil {
		return o.end(errNoNode)
	}
	r := nfsclient.OpenRequest{
		Dir: dir.fh, Name: name, Create: true,
		Exclusive: in.Flags&unix.O_EXCL != 0,
		Truncate:  in.Flags&unix.O_TRUNC != 0,
		Stable:    b.stable(in.Flags),
		Attrs:     modeAttrs(in.Mode),
	}
	r.Read, r.Write = accessMode(in.Flags)
	if r.Truncate && !r.Write {
		r.Write = true
	}
	made := b.changing(dir)
	f, fh, attrs, err := b.c.Open(o, o.cred, r)
	made()
	if err != nil {
		return o.end(err)
	}
	b.appear(dir, name)
	n := b.nodes.enter(dentry{dir.id, name}, fh, attrs)
	n.opened()
	if in.OpenFlags&fuse.OPEN_KILL_SUIDGID != 0 {
		attrs = b.dropPrivs(o, n, attrs)
	}
	b.fillOpen(o, n, f, r.Write, attrs, &out.OpenOut)
	b.entry(dir, n, attrs, o.began, &out.EntryOut)
	return o.end(nil)
}

// Read implements fuse.RawFileSystem.
func (b *bridge) Read(cancel <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	o := b.beginQuiet(cancel, &in.InHeader)
	h := b.handles.file(in.Fh)
	if h == nil {
		return nil, o.end(unix.EBADF)
	}
	buf, n, _, err := h.file.Read(o, int64(in.Offset), int(in.Size))
	if err != nil {
		return nil, o.end(err)
	}
	if n == 0 {
		// go-fuse does not call Done of an empty result.
		buf.Release()
		return fuse.ReadResultData(nil), o.end(nil)
	}
	b.stats.bytesRead.Add(uint64(n))
	return b.newReadResult(buf, n), o.end(nil)
}

// readResult hands a payload buffer to the kernel. go-fuse writes what Slices
// returns to the kernel with writev(2) and calls Done when that is done, so the
// data is not copied in this process.
type readResult struct {
	buf    *ulb.Buffer
	slices [1][]byte
	copied *atomic.Uint64
}

func (b *bridge) newReadResult(buf *ulb.Buffer, n int) *readResult {
	r := &readResult{buf: buf, copied: &b.stats.bytesCopied}
	r.slices[0] = buf.Data[:n]
	return r
}

// Size implements fuse.ReadResult.
func (r *readResult) Size() int { return len(r.slices[0]) }

// Slices is what go-fuse looks for to send a result without a copy.
func (r *readResult) Slices() ([][]byte, fuse.Status) { return r.slices[:], fuse.OK }

// Bytes implements fuse.ReadResult, for callers that want one copy.
func (r *readResult) Bytes(buf []byte) ([]byte, fuse.Status) {
	n := copy(buf, r.slices[0])
	r.copied.Add(uint64(n))
	return buf[:n], fuse.OK
}

// Done implements fuse.ReadResult.
func (r *readResult) Done() {
	r.slices[0] = nil
	r.buf.Release()
	r.buf = nil
}

// Write implements fuse.RawFileSystem.
func (b *bridge) Write(cancel <-chan struct{}, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	o := b.beginQuiet(cancel, &in.InHeader)
	h := b.handles.file(in.Fh)
	if h == nil {
		return 0, o.end(unix.EBADF)
	}
	answered := b.change(h.node)
	h.dirty.Store(true)
	n, attrs, err := b.write(o, h, in, data)
	seq, alone := answered()
	if attrs != nil {
		b.note(h.node, attrs, o.began, true)
		if alone {
			b.ride(h.node, attrs, fetched{o.began.at, seq})
		}
	}
	b.stats.bytesWritten.Add(uint64(n))
	if n > 0 {
		// What was written counts; the error will meet the next write.
		return uint32(n), o.end(nil)
	}
	return 0, o.end(err)
}

// Flush implements fuse.RawFileSystem. It is called for every close(2), before
// that returns: data must be stable then, and the change attribute known that
// belongs to it. The locks of the process go then.
func (b *bridge) Flush(cancel <-chan struct{}, in *fuse.FlushIn) fuse.Status {
	o := b.beginQuiet(cancel, &in.InHeader)
	h := b.handles.file(in.Fh)
	if h == nil {
		return o.end(unix.EBADF)
	}
	err := b.flush(o, h)
	b.unlockProcess(o, h, in.LockOwner)
	return o.end(err)
}

func (b *bridge) flush(o *op, h *fileHandle) error {
	if !h.dirty.Swap(false) {
		return h.failure()
	}
	err := b.sync(o, h)
	if err != nil {
		h.dirty.Store(true)
	}
	return err
}

// Fsync implements fuse.RawFileSystem.
func (b *bridge) Fsync(cancel <-chan struct{}, in *fuse.FsyncIn) fuse.Status {
	o := b.beginQuiet(cancel, &in.InHeader)
	h := b.handles.file(in.Fh)
	if h == nil {
		return o.end(unix.EBADF)
	}
	return o.end(b.sync(o, h))
}

// sync makes what was written to a file stable, and gets to know which change
// attribute belongs to it.
//
// Servers do not tell which change attribute a WRITE has found and left, as they
// do of directories. So what a file has after our writes is taken for their work,
// like the kernel's client does: another's write among them shows only in the
// data, when the file is next changed.
func (b *bridge) sync(o *op, h *fileHandle) error {
	n := h.node
	asked := b.fetching()
	attrs, err := h.file.SyncAttrs(o)
	if err != nil {
		return err
	}
	if attrs == nil {
		n.mu.Lock()
		known := !n.cache.changed
		n.mu.Unlock()
		if known {
			return nil // it came with the last WRITE, or with another's COMMIT
		}
		asked = b.fetching()
		if attrs, err = b.c.GetAttr(o, h.cred, n.fh); err != nil {
			return nil // the next open asks again
		}
	}
	b.note(n, attrs, asked, true)
	b.ride(n, attrs, asked)
	return nil
}

// Release implements fuse.RawFileSystem. Nobody waits for it.
func (b *bridge) Release(_ <-chan struct{}, in *fuse.ReleaseIn) {
	if h := b.handles.takeFile(in.Fh); h != nil {
		b.stats.requests.Add(1)
		b.release(h)
	}
}

func (b *bridge) release(h *fileHandle) {
	ctx, cancel := b.background()
	defer cancel()
	// For who removes the file now it is closed, though the server is yet to
	// hear of it.
	s := h.node.closed()
	if err := h.file.Close(ctx); err != nil && !errors.Is(err, nfs4.ErrStale) {
		b.o.Log.WithError(err).Warn("closing a file: data may not have reached the server")
	}
	b.removeSilly(ctx, s)
}
