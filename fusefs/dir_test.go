package fusefs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// pages is a backend whose directories are made up.
type pages struct {
	*localFS
	entries []nfsclient.DirEntry
	size    int // entries in a page
	fetched int
	err     error
	plus    bool // of the last page
}

func (p *pages) ReadDir(_ context.Context, _ nfsclient.Cred, _ nfs4.FH, cookie uint64, _ nfs4.Verifier, plus bool, _ int, each func(*nfsclient.DirEntry)) (nfs4.Verifier, bool, error) {
	p.fetched++
	p.plus = plus
	if p.err != nil {
		return nfs4.Verifier{}, false, p.err
	}
	from := 0
	if cookie != 0 {
		from = slices.IndexFunc(p.entries, func(e nfsclient.DirEntry) bool { return e.Cookie == cookie }) + 1
		if from == 0 {
			return nfs4.Verifier{}, false, &nfsclient.Error{Op: "READDIR", Err: nfs4.ErrBadCookie}
		}
	}
	to := min(from+p.size, len(p.entries))
	for i := range p.entries[from:to] {
		e := p.entries[from+i]
		each(&e)
	}
	return nfs4.Verifier{1}, to == len(p.entries), nil
}

// newPages returns a bridge to a directory with n entries, and the handle of the
// opened directory.
func newPages(t *testing.T, n, size int) (*bridge, *pages, uint64) {
	t.Helper()
	p := &pages{size: size}
	for i := range n {
		e := nfsclient.DirEntry{Name: fmt.Appendf(nil, "name-%03d", i), Cookie: uint64(i+1)<<40 | 3}
		e.Attrs = *attrsOf(1, uint64(100+i), nfs4.TypeReg)
		e.Attrs.FileHandle = nfs4.FH(fmt.Sprintf("fh-%d", i))
		e.Attrs.Mask = nfs4.MakeBitmap(nfs4.AttrType, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrFileHandle)
		p.entries = append(p.entries, e)
	}
	b := newBridge(p, nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir), Options{}.withDefaults())
	return b, p, openDir(t, b)
}

func openDir(t *testing.T, b *bridge) uint64 {
	t.Helper()
	var out fuse.OpenOut
	if s := b.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}, &out); !s.Ok() {
		t.Fatalf("opendir: %v", s)
	}
	return out.Fh
}

// readDir makes one request of the kernel.
func readDir(b *bridge, fh, off uint64, size int, plus bool) ([]fuse.DirEntry, []fuse.EntryOut, fuse.Status) {
	in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, Fh: fh, Offset: off, Size: uint32(size)}
	out := fuse.NewDirEntryList(make([]byte, size), off)
	if plus {
		if s := b.ReadDirPlus(nil, in, out); !s.Ok() {
			return nil, nil, s
		}
		entries, outs, err := fuse.ParseDirLookupEntries(out.Bytes())
		if err != nil {
			panic(err)
		}
		return entries, outs, fuse.OK
	}
	if s := b.ReadDir(nil, in, out); !s.Ok() {
		return nil, nil, s
	}
	entries, err := fuse.ParseDirEntries(out.Bytes())
	if err != nil {
		panic(err)
	}
	return entries, nil, fuse.OK
}

// TestReadDirPages lists with replies and pages of every size, and finds every
// entry once.
func TestReadDirPages(t *testing.T) {
	for _, pageSize := range []int{1, 3, 7, 100} {
		for _, reply := range []int{200, 333, 1000, 65536} {
			for _, plus := range []bool{false, true} {
				b, p, fh := newPages(t, 40, pageSize)
				var names []string
				off := uint64(0)
				for {
					entries, _, s := readDir(b, fh, off, reply, plus)
					if !s.Ok() {
						t.Fatalf("readdir: %v", s)
					}
					if len(entries) == 0 {
						break
					}
					for _, e := range entries {
						names = append(names, e.Name)
					}
					off = entries[len(entries)-1].Off
				}
				want := []string{".", ".."}
				for _, e := range p.entries {
					want = append(want, string(e.Name))
				}
				if !slices.Equal(names, want) {
					t.Errorf("pages of %d, replies of %d, plus %v: %v", pageSize, reply, plus, names)
				}
				if most := 40/pageSize + 2; p.fetched > most && plus {
					t.Errorf("pages of %d, replies of %d: %d pages fetched, expected at most %d", pageSize, reply, p.fetched, most)
				}
				b.ReleaseDir(&fuse.ReleaseIn{Fh: fh})
			}
		}
	}
}

// TestReadDirSeek goes back to offsets in and outside the page at hand.
func TestReadDirSeek(t *testing.T) {
	b, p, fh := newPages(t, 30, 10)
	entries, _, _ := readDir(b, fh, 0, 65536, false)
	if len(entries) != 12 {
		t.Fatalf("%d entries in the first page", len(entries))
	}
	fetched := p.fetched
	again, _, _ := readDir(b, fh, entries[6].Off, 65536, false)
	if len(again) == 0 || again[0].Name != entries[7].Name {
		t.Errorf("behind %q stands %v", entries[6].Name, again)
	}
	if p.fetched != fetched {
		t.Error("an offset in the page at hand was fetched again")
	}
	far, _, _ := readDir(b, fh, p.entries[24].Cookie, 65536, false)
	if len(far) != 5 || far[0].Name != "name-025" {
		t.Errorf("behind number 24 stands %v", far)
	}
	if end, _, s := readDir(b, fh, p.entries[29].Cookie, 65536, false); len(end) != 0 || !s.Ok() {
		t.Errorf("behind the end: %v, %v", end, s)
	}
	if _, _, s := readDir(b, fh, 12345, 65536, false); s.Ok() {
		t.Error("an offset that never was is taken")
	}
	start, _, _ := readDir(b, fh, 0, 65536, false)
	if len(start) != 12 || start[2].Name != "name-000" {
		t.Errorf("after rewinding: %v", start)
	}
}

// TestReadDirPlusAttributes: entries come with attributes, and count as
// looked up, unless something has changed since they were fetched.
func TestReadDirPlusAttributes(t *testing.T) {
	b, _, fh := newPages(t, 3, 10)
	b.nodes.enter(dentry{1, "name-001"}, nfs4.FH("fh-1"), attrsOf(1, 101, nfs4.TypeReg)).touch(b)
	entries, outs, _ := readDir(b, fh, 0, 65536, true)
	if len(entries) != 5 {
		t.Fatalf("%d entries", len(entries))
	}
	for i, e := range entries {
		hasNode := outs[i].NodeId != 0
		if want := e.Name == "name-000" || e.Name == "name-002"; hasNode != want {
			t.Errorf("%q comes with attributes: %v, expected %v", e.Name, hasNode, want)
		}
		if hasNode && (outs[i].Ino != e.Ino || outs[i].Ino == 0) {
			t.Errorf("%q: inode %d in the attributes, %d in the entry", e.Name, outs[i].Ino, e.Ino)
		}
	}
	if n := b.nodes.peek(nfs4.FH("fh-0")); n == nil || n.lookups != 1 {
		t.Errorf("an entry given with attributes: node %+v, expected one lookup", n)
	}
	// When the directory changes, what is left of the page are names only.
	b.nodes.get(fuse.FUSE_ROOT_ID).touch(b)
	_, outs, _ = readDir(b, fh, entries[1].Off, 65536, true)
	for i := range outs {
		if outs[i].NodeId != 0 {
			t.Errorf("entry %d has attributes though the directory has changed", i)
		}
	}
}

// TestReadDirBadServer: what a server may not send gives an error and no entry.
func TestReadDirBadServer(t *testing.T) {
	for _, bad := range []nfsclient.DirEntry{
		{Name: []byte("a/b"), Cookie: 9}, {Name: []byte{}, Cookie: 9}, {Name: []byte("."), Cookie: 9},
		{Name: []byte(".."), Cookie: 9}, {Name: []byte("a\x00b"), Cookie: 9}, {Name: make([]byte, 256), Cookie: 9},
		{Name: []byte("zero"), Cookie: 0}, {Name: []byte("one"), Cookie: 1}, {Name: []byte("two"), Cookie: 2},
	} {
		p := &pages{entries: []nfsclient.DirEntry{bad}, size: 10}
		b := newBridge(p, nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir), Options{}.withDefaults())
		var out fuse.OpenOut
		if s := b.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}, &out); s != fuse.EIO {
			t.Errorf("entry %q with cookie %d: %v, expected EIO", bad.Name, bad.Cookie, s)
		}
	}
	p := &pages{size: 0, entries: make([]nfsclient.DirEntry, 1)}
	b := newBridge(p, nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir), Options{}.withDefaults())
	if s := b.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}, &fuse.OpenOut{}); s != fuse.EIO {
		t.Errorf("an empty page that is not the last: %v, expected EIO", s)
	}
	p = &pages{err: &nfsclient.Error{Op: "READDIR", Err: nfs4.ErrAccess}}
	b = newBridge(p, nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir), Options{}.withDefaults())
	if s := b.OpenDir(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}}, &fuse.OpenOut{}); s != fuse.EACCES {
		t.Errorf("opendir without permission at the server: %v, expected EACCES", s)
	}
}

// TestUnknownNodes: ids that the kernel should not know give errors.
func TestUnknownNodes(t *testing.T) {
	b, _, _ := newPages(t, 1, 1)
	h := fuse.InHeader{NodeId: 99}
	for name, s := range map[string]fuse.Status{
		"LOOKUP":  b.Lookup(nil, &h, "x", &fuse.EntryOut{}),
		"GETATTR": b.GetAttr(nil, &fuse.GetAttrIn{InHeader: h}, &fuse.AttrOut{}),
		"OPEN":    b.Open(nil, &fuse.OpenIn{InHeader: h}, &fuse.OpenOut{}),
		"UNLINK":  b.Unlink(nil, &h, "x"),
		"RENAME":  b.Rename(nil, &fuse.RenameIn{InHeader: h, Newdir: 1}, "x", "y"),
	} {
		if s != fuse.Status(unix.ESTALE) {
			t.Errorf("%s of an unknown node: %v, expected ESTALE", name, s)
		}
	}
	if _, s := b.Read(nil, &fuse.ReadIn{InHeader: h, Fh: 77}, nil); s != fuse.EBADF {
		t.Errorf("READ of an unknown handle: %v", s)
	}
	if b.stats.running.Load() != 0 {
		t.Error("requests are still counted as running")
	}
}

func TestEndOfRequest(t *testing.T) {
	b, _, _ := newPages(t, 1, 1)
	for _, c := range []struct {
		err  error
		want unix.Errno
	}{
		{nil, 0}, {unix.EBUSY, unix.EBUSY}, {context.Canceled, unix.EINTR},
		{&nfsclient.Error{Op: "X", Err: nfs4.ErrNoSpc}, unix.ENOSPC},
		{&nfsclient.Error{Op: "X", Err: nfs4.OK}, unix.EIO}, {errors.New("odd"), unix.EIO}, {os.ErrNotExist, unix.EIO},
	} {
		if got := b.beginQuiet(nil, &fuse.InHeader{}).end(c.err); got != fuse.Status(c.want) {
			t.Errorf("%v: %v, expected %v", c.err, got, c.want)
		}
	}
}
