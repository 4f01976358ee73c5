package fusefs

import (
	"context"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// Offsets in a directory are the server's cookies, which mean the same at any
// time and to any reader: the kernel, and seekdir(3), may come back to each. The
// values 1 and 2 never occur as cookies (RFC 8881 section 18.23.3), and stand
// for the places behind "." and "..", which servers do not list.
const (
	offDot    = 1
	offDotDot = 2
)

const (
	// firstPage is the size in bytes of the page fetched by opendir. Handles
	// keep a page each, also those that are opened only to have a directory at
	// hand.
	firstPage = 32 << 10
	// pageLife is for how long entries may be given to the kernel with the
	// attributes that came with them.
	pageLife = time.Second
)

// dirHandle is an open directory with the page it was last read from.
type dirHandle struct {
	node  *node
	token chan struct{} // whoever holds it uses the rest

	page    []dirEntry
	from    uint64 // the offset that the page begins behind
	eof     bool
	plus    bool // the page has attributes
	fetched fetched
	verf    nfs4.Verifier
}

// dirEntry is an entry of a page, in the form in which the kernel gets it.
type dirEntry struct {
	fuse.DirEntry
	attrs *nfs4.Attrs // nil if the server sent none
	fh    nfs4.FH
}

// OpenDir implements fuse.RawFileSystem. It reads the first page: that costs no
// more than asking for permission, and mostly the page is what comes next.
func (b *bridge) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	n := b.nodes.get(in.NodeId)
	if n == nil {
		return o.end(errNoNode)
	}
	h := &dirHandle{node: n, token: make(chan struct{}, 1)}
	n.mu.Lock()
	h.verf = n.verf
	n.mu.Unlock()
	if err := b.fetch(o, o.cred, h, offDotDot, true, firstPage); err != nil {
		return o.end(err)
	}
	h.token <- struct{}{}
	out.Fh = b.handles.addDir(h)
	return o.end(nil)
}

// ReleaseDir implements fuse.RawFileSystem.
func (b *bridge) ReleaseDir(in *fuse.ReleaseIn) { b.handles.takeDir(in.Fh) }

// FsyncDir implements fuse.RawFileSystem: changes of directories are stable
// when the server has answered (RFC 8881 section 1.8.3.1).
func (b *bridge) FsyncDir(<-chan struct{}, *fuse.FsyncIn) fuse.Status { return fuse.OK }

// ReadDir implements fuse.RawFileSystem.
func (b *bridge) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return b.readDir(cancel, in, out, false)
}

// ReadDirPlus implements fuse.RawFileSystem.
func (b *bridge) ReadDirPlus(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	return b.readDir(cancel, in, out, true)
}

func (b *bridge) readDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList, plus bool) fuse.Status {
	o := b.begin(cancel, &in.InHeader)
	h := b.handles.dir(in.Fh)
	if h == nil {
		return o.end(unix.EBADF)
	}
	select {
	case <-h.token:
		defer func() { h.token <- struct{}{} }()
	case <-o.Done():
		return o.end(o.Err())
	}
	off := in.Offset
	if off < offDot {
		if !addDot(out, plus, ".", h.node.ino, offDot) {
			return o.end(nil)
		}
		off = offDot
	}
	if off < offDotDot {
		if !addDot(out, plus, "..", b.nodes.parent(h.node).ino, offDotDot) {
			return o.end(nil)
		}
		off = offDotDot
	}
	rest, ok := h.find(off)
	if off == offDotDot && len(out.Bytes()) > 0 && b.stale(h) {
		ok = false // from the start means: as it is now
	}
	if !ok || len(rest) == 0 && !h.eof || plus && !h.plus && len(rest) > 0 {
		if err := b.fetch(o, o.cred, h, off, plus, 0); err != nil {
			if len(out.Bytes()) > 0 {
				err = nil // the kernel comes back for the rest, and gets it then
			}
			return o.end(err)
		}
		rest = h.page
	}
	attrs := plus && h.plus && !b.stale(h)
	for i := range rest {
		if !b.add(h, &rest[i], out, plus, attrs) {
			break
		}
	}
	return o.end(nil)
}

func addDot(out *fuse.DirEntryList, plus bool, name string, ino, off uint64) bool {
	e := fuse.DirEntry{Name: name, Ino: ino, Mode: fuse.S_IFDIR, Off: off}
	if plus {
		return out.AddDirLookupEntry(e) != nil
	}
	return out.AddDirEntry(e)
}

// find returns the entries of the page that stand behind an offset.
func (h *dirHandle) find(off uint64) (rest []dirEntry, ok bool) {
	if off == h.from {
		return h.page, true
	}
	for i := range h.page {
		if h.page[i].Off == off {
			return h.page[i+1:], true
		}
	}
	return nil, false
}

// stale tells whether the names and attributes of the page may be out of date:
// names come and go by our own requests, and what the kernel is told of them it
// takes for true from now on.
func (b *bridge) stale(h *dirHandle) bool {
	return time.Since(h.fetched.at) > pageLife || h.node.overtaken(h.fetched)
}

// add puts an entry into the answer, with its attributes if they may be used.
// It returns false if there is no room for it.
func (b *bridge) add(h *dirHandle, e *dirEntry, out *fuse.DirEntryList, plus, attrs bool) bool {
	if !plus {
		return out.AddDirEntry(e.DirEntry)
	}
	entry := out.AddDirLookupEntry(e.DirEntry)
	if entry == nil {
		return false
	}
	if !attrs || e.attrs == nil || len(e.fh) == 0 {
		return true // node id 0: a name only
	}
	if n := b.nodes.peek(e.fh); n != nil && n.overtaken(h.fetched) {
		return true // changed by us since; the kernel knows better
	}
	n := b.nodes.enter(dentry{h.node.id, e.Name}, e.fh, e.attrs)
	b.appear(h.node, e.Name)
	b.note(n, e.attrs, h.fetched, false)
	b.entry(h.node, n, e.attrs, h.fetched, entry)
	return true
}

// fetch reads the page that begins behind an offset.
func (b *bridge) fetch(ctx context.Context, cred nfsclient.Cred, h *dirHandle, off uint64, plus bool, size int) error {
	cookie, verf := off, h.verf
	if off <= offDotDot {
		cookie, verf = 0, nfs4.Verifier{}
	}
	began := b.fetching()
	var page []dirEntry
	eof := false
	for len(page) == 0 && !eof { // a page of nothing but hidden names is no answer
		var bad error
		var err error
		before := cookie
		verf, eof, err = b.c.ReadDir(ctx, cred, h.node.fh, cookie, verf, plus, size, func(e *nfsclient.DirEntry) {
			cookie = e.Cookie
			if b.sillies.hides(h.node, e.Name) {
				return
			}
			d, err := b.dirEntry(h, e, plus)
			if err != nil {
				bad = err
				return
			}
			page = append(page, d)
		})
		b.stats.pages.Add(1)
		if err == nil {
			err = bad
		}
		if err != nil {
			return err
		}
		if cookie == before && !eof {
			b.o.Log.Warn("the server sent a page of a directory without entries that is not its end")
			return unix.EIO
		}
	}
	h.page, h.from, h.eof, h.plus = page, off, eof, plus
	h.fetched, h.verf = began, verf
	h.node.mu.Lock()
	h.node.verf = verf
	h.node.mu.Unlock()
	return nil
}

// dirEntry takes an entry from a page of the client.
func (b *bridge) dirEntry(h *dirHandle, e *nfsclient.DirEntry, plus bool) (dirEntry, error) {
	if e.Cookie <= offDotDot || !validName(e.Name) {
		b.o.Log.Warnf("the server sent a directory entry %q with cookie %d, which cannot be", e.Name, e.Cookie)
		return dirEntry{}, unix.EIO
	}
	fsid := h.node.fsid
	if e.Attrs.Has(nfs4.AttrFSID) {
		fsid = e.Attrs.FSID
	}
	d := dirEntry{DirEntry: fuse.DirEntry{Name: string(e.Name), Off: e.Cookie}}
	if e.Attrs.Has(nfs4.AttrType) {
		d.Mode = fileType(e.Attrs.Type)
	}
	if e.Attrs.Has(nfs4.AttrFileID) {
		d.Ino = b.nodes.inode(fsid, e.Attrs.FileID)
	}
	if plus && e.Attrs.Has(nfs4.AttrFileHandle) && e.Attrs.Has(nfs4.AttrType) && !e.Attrs.Has(nfs4.AttrRDAttrError) {
		attrs := e.Attrs
		attrs.FileHandle = nil
		d.attrs, d.fh = &attrs, e.Attrs.FileHandle.Clone()
	}
	return d, nil
}

// validName tells whether the kernel can take a name.
func validName(name []byte) bool {
	if len(name) == 0 || len(name) > 255 || string(name) == "." || string(name) == ".." {
		return false
	}
	for _, c := range name {
		if c == '/' || c == 0 {
			return false
		}
	}
	return true
}
