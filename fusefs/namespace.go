package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// Lookup implements fuse.RawFileSystem.
func (b *bridge) Lookup(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	o := b.begin(cancel, h)
	dir := b.nodes.get(h.NodeId)
	if dir == nil {
		return o.end(errNoNode)
	}
	looked, err := b.names.lookup(o, dentry{dir.id, name})
	if err != nil {
		return o.end(err)
	}
	defer looked()
	if left, missing := b.missing(dir, name); missing {
		// The kernel asks all the same when it is about to make the name.
		*out = fuse.EntryOut{}
		out.SetEntryTimeout(left)
		b.stats.missing.Add(1)
		return o.end(nil)
	}
	epoch := dir.epoch()
	fh, attrs, err := b.c.Lookup(o, o.cred, dir.fh, name)
	if isStatus(err, nfs4.ErrNoEnt) {
		b.nodes.unname(dir, name)
		if left := b.miss(dir, name, epoch); left > 0 {
			*out = fuse.EntryOut{} // node id 0: there is none, and it may be remembered
			out.SetEntryTimeout(left)
			return o.end(nil)
		}
	}
	if err != nil {
		return o.end(err)
	}
	b.found(o, dir, name, fh, attrs, out).found(h.Pid)
	return o.end(nil)
}

// found enters an object under its name and fills in the answer.
func (b *bridge) found(o *op, dir *node, name string, fh nfs4.FH, attrs *nfs4.Attrs, out *fuse.EntryOut) *node {
	n := b.enter(o, dir, name, fh, attrs)
	b.entry(dir, n, attrs, o.began, out)
	return n
}

func (b *bridge) enter(o *op, dir *node, name string, fh nfs4.FH, attrs *nfs4.Attrs) *node {
	b.appear(dir, name)
	n := b.nodes.enter(dentry{dir.id, name}, fh, attrs)
	b.note(n, attrs, o.began, false)
	return n
}

// Forget implements fuse.RawFileSystem.
func (b *bridge) Forget(id, lookups uint64) { b.nodes.forget(id, lookups) }

// GetAttr implements fuse.RawFileSystem.
func (b *bridge) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	n := b.nodes.get(in.NodeId)
	if n == nil {
		return o.end(errNoNode)
	}
	if b.answer(n, out) {
		b.stats.riders.Add(1)
		return o.end(nil)
	}
	attrs, err := b.c.GetAttr(o, o.cred, n.fh)
	if err != nil {
		return o.end(err)
	}
	if told := b.note(n, attrs, o.began, false); told != nil {
		select {
		case <-told:
		case <-time.After(expireWait):
		}
	}
	b.attrOut(n, attrs, o.began, out)
	return o.end(nil)
}

// SetAttr implements fuse.RawFileSystem.
func (b *bridge) SetAttr(cancel <-chan struct{}, in *fuse.SetAttrIn, out *fuse.AttrOut) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	n := b.nodes.get(in.NodeId)
	if n == nil {
		return o.end(errNoNode)
	}
	var open file
	if fh, ok := in.GetFh(); ok {
		if f := b.handles.file(fh); f != nil && f.write {
			open = f.file
		}
	}
	set := b.setAttrs(in)
	answered := b.change(n)
	attrs, err := b.c.SetAttr(o, o.cred, n.fh, open, set)
	answered()
	if err != nil {
		return o.end(err)
	}
	if in.Valid&fuse.FATTR_KILL_SUIDGID != 0 {
		attrs = b.dropPrivs(o, n, attrs)
	}
	b.note(n, attrs, o.began, true)
	b.attrOut(n, attrs, o.began, out)
	return o.end(nil)
}

// Access implements fuse.RawFileSystem. The kernel asks only if permissions
// are the server's business, and then for access(2) and chdir(2).
func (b *bridge) Access(cancel <-chan struct{}, in *fuse.AccessIn) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	n := b.nodes.get(in.NodeId)
	if n == nil {
		return o.end(errNoNode)
	}
	var want uint32
	if in.Mask&fuse.R_OK != 0 {
		want |= nfs4.AccessRead
	}
	if in.Mask&fuse.W_OK != 0 {
		want |= nfs4.AccessModify | nfs4.AccessExtend
	}
	if in.Mask&fuse.X_OK != 0 {
		if n.typ == fuse.S_IFDIR {
			want |= nfs4.AccessLookup
		} else {
			want |= nfs4.AccessExecute
		}
	}
	if want == 0 {
		_, err := b.c.GetAttr(o, o.cred, n.fh)
		return o.end(err)
	}
	got, err := b.c.Access(o, o.cred, n.fh, want)
	if err == nil && got&want != want {
		err = unix.EACCES
	}
	return o.end(err)
}

// Readlink implements fuse.RawFileSystem.
func (b *bridge) Readlink(cancel <-chan struct{}, h *fuse.InHeader) ([]byte, fuse.Status) {
	o := b.begin(cancel, h)
	n := b.nodes.get(h.NodeId)
	if n == nil {
		return nil, o.end(errNoNode)
	}
	target, err := b.c.ReadLink(o, o.cred, n.fh)
	return []byte(target), o.end(err)
}

// Mkdir implements fuse.RawFileSystem.
func (b *bridge) Mkdir(cancel <-chan struct{}, in *fuse.MkdirIn, name string, out *fuse.EntryOut) fuse.Status {
	return b.make(cancel, &in.InHeader, name, out, func(o *op, dir nfs4.FH) (nfs4.FH, *nfs4.Attrs, error) {
		return b.c.Mkdir(o, o.cred, dir, name, modeAttrs(in.Mode))
	})
}

// Symlink implements fuse.RawFileSystem.
func (b *bridge) Symlink(cancel <-chan struct{}, h *fuse.InHeader, target, name string, out *fuse.EntryOut) fuse.Status {
	return b.make(cancel, h, name, out, func(o *op, dir nfs4.FH) (nfs4.FH, *nfs4.Attrs, error) {
		return b.c.Symlink(o, o.cred, dir, name, target, modeAttrs(0o777))
	})
}

// Mknod implements fuse.RawFileSystem.
func (b *bridge) Mknod(cancel <-chan struct{}, in *fuse.MknodIn, name string, out *fuse.EntryOut) fuse.Status {
	return b.make(cancel, &in.InHeader, name, out, func(o *op, dir nfs4.FH) (nfs4.FH, *nfs4.Attrs, error) {
		if typ, special := nodeType(in.Mode); special {
			return b.c.Mknod(o, o.cred, dir, name, typ, unpackDevice(in.Rdev), modeAttrs(in.Mode))
		}
		// mknod(2) can make regular files too; NFSv4 makes them by opening.
		f, fh, attrs, err := b.c.Open(o, o.cred, nfsclient.OpenRequest{
			Dir: dir, Name: name, Read: true, Create: true, Exclusive: true, Attrs: modeAttrs(in.Mode),
		})
		if err != nil {
			return nil, nil, err
		}
		if err := f.Close(o); err != nil {
			b.o.Log.WithError(err).Debug("closing a file made by mknod")
		}
		return fh, attrs, nil
	})
}

// make makes something new in a directory.
func (b *bridge) make(cancel <-chan struct{}, h *fuse.InHeader, name string, out *fuse.EntryOut,
	create func(o *op, dir nfs4.FH) (nfs4.FH, *nfs4.Attrs, error)) fuse.Status {
	o := b.begin(cancel, h)
	dir := b.nodes.get(h.NodeId)
	if dir == nil {
		return o.end(errNoNode)
	}
	made := b.changing(dir)
	fh, attrs, err := create(o, dir.fh)
	made()
	if err != nil {
		return o.end(err)
	}
	b.found(o, dir, name, fh, attrs, out)
	return o.end(nil)
}

// Link implements fuse.RawFileSystem.
func (b *bridge) Link(cancel <-chan struct{}, in *fuse.LinkIn, name string, out *fuse.EntryOut) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	dir, n := b.nodes.get(in.NodeId), b.nodes.get(in.Oldnodeid)
	if dir == nil || n == nil {
		return o.end(errNoNode)
	}
	answered, linked := b.change(n), b.changing(dir)
	attrs, err := b.c.Link(o, o.cred, n.fh, dir.fh, name)
	answered()
	linked()
	if err != nil {
		return o.end(err)
	}
	b.note(n, attrs, o.began, true)
	b.found(o, dir, name, n.fh, attrs, out)
	return o.end(nil)
}

// Rmdir implements fuse.RawFileSystem.
func (b *bridge) Rmdir(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	o := b.begin(cancel, h)
	dir := b.nodes.get(h.NodeId)
	if dir == nil {
		return o.end(errNoNode)
	}
	var sillies *sillyDir
	if n := b.nodes.named(dir, name); n != nil {
		sillies = b.sillies.of(n)
	}
	removed := b.changing(dir)
	err := b.c.Remove(o, o.cred, dir.fh, name)
	if isStatus(err, nfs4.ErrNotEmpty) && sillies != nil && sillies.waitEmpty(o) {
		// What was left were files that had been removed while open, and closed
		// since: the kernel tells of a close without waiting for us.
		err = b.c.Remove(o, o.cred, dir.fh, name)
	}
	removed()
	if err == nil {
		b.gone(dir, name)
	}
	return o.end(err)
}

// gone says that we have removed a name.
func (b *bridge) gone(dir *node, name string) {
	b.nodes.unname(dir, name)
	b.miss(dir, name, dir.epoch())
}

// Unlink implements fuse.RawFileSystem.
func (b *bridge) Unlink(cancel <-chan struct{}, h *fuse.InHeader, name string) fuse.Status {
	o := b.begin(cancel, h)
	dir := b.nodes.get(h.NodeId)
	if dir == nil {
		return o.end(errNoNode)
	}
	looked, changed, err := b.names.change(o, dentry{dir.id, name})
	if err != nil {
		return o.end(err)
	}
	defer changed()
	n := b.nodes.named(dir, name)
	expected := looked || n != nil && n.foundByOther(h.Pid)
	removed := b.changing(dir)
	err = b.unlink(o, dir, name, n, expected)
	removed()
	if n != nil {
		n.touch(b) // it has a link less
	}
	if err == nil {
		b.gone(dir, name)
	} else if isStatus(err, nfs4.ErrNoEnt) {
		b.nodes.unname(dir, name)
	}
	return o.end(err)
}

// Rename implements fuse.RawFileSystem.
func (b *bridge) Rename(cancel <-chan struct{}, in *fuse.RenameIn, oldName, newName string) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	from, to := b.nodes.get(in.NodeId), b.nodes.get(in.Newdir)
	if from == nil || to == nil {
		return o.end(errNoNode)
	}
	if in.Flags != 0 {
		// NFS cannot keep a rename from replacing, nor exchange; like the
		// kernel's client, say so rather than do it in steps that others see.
		return o.end(unix.EINVAL)
	}
	looked, changed, err := b.names.change(o, dentry{to.id, newName})
	if err != nil {
		return o.end(err)
	}
	defer changed()
	moved, replaced := b.nodes.named(from, oldName), b.nodes.named(to, newName)
	if replaced == moved {
		replaced = nil // two names of one object, or nothing is known of either
	}
	expected := looked || replaced != nil && replaced.foundByOther(in.Pid)
	dirs := []*node{from, to}
	if from == to {
		dirs = dirs[:1]
	}
	renamed := b.changing(dirs...)
	err = b.replace(o, from, oldName, to, newName, replaced, expected)
	renamed()
	for _, n := range []*node{moved, replaced} {
		if n != nil {
			n.touch(b)
		}
	}
	if err == nil {
		b.nodes.move(from, oldName, to, newName)
		b.appear(to, newName)
	}
	return o.end(err)
}

// StatFs implements fuse.RawFileSystem.
func (b *bridge) StatFs(cancel <-chan struct{}, h *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	o := b.begin(cancel, h)
	n := b.nodes.get(h.NodeId)
	if n == nil {
		return o.end(errNoNode)
	}
	a, err := b.c.StatFS(o, o.cred, n.fh)
	if err != nil {
		return o.end(err)
	}
	const block = 4096
	*out = fuse.StatfsOut{
		Bsize:   block,
		Frsize:  block,
		Blocks:  a.SpaceTotal / block,
		Bfree:   a.SpaceFree / block,
		Bavail:  a.SpaceAvail / block,
		Files:   a.FilesTotal,
		Ffree:   a.FilesFree,
		NameLen: 255,
	}
	if a.Has(nfs4.AttrMaxName) && a.MaxName > 0 {
		out.NameLen = a.MaxName
	}
	return o.end(nil)
}
