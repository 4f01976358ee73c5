package nfsclient

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

func TestNewAndClose(t *testing.T) {
	for _, minor := range []uint32{0, 1, 2} {
		t.Run(fmt.Sprint(minor), func(t *testing.T) {
			g := newRig(t, nfstest.Options{})
			c := g.client(func(o *Options) { o.MinorVersion = minor })
			l := c.Limits()
			want := minor
			if minor == 0 {
				want = 2
			}
			if l.MinorVersion != want || l.RSize != 1<<20 || l.WSize != 1<<20 || l.Slots == 0 || l.Lease == 0 {
				t.Errorf("limits %+v", l)
			}
			fh, attrs := c.Root()
			if len(fh) == 0 || attrs.Type != nfs4.TypeDir {
				t.Errorf("root %x %v", fh, attrs.Type)
			}
			if err := c.Close(t.Context()); err != nil {
				t.Fatalf("Close: %v", err)
			}
			g.checkClean(c)
		})
	}
}

func TestMinorVersionFallsBack(t *testing.T) {
	g := newRig(t, nfstest.Options{MaxMinor: 1})
	if c := g.client(); c.Limits().MinorVersion != 1 {
		t.Errorf("minor version %d", c.Limits().MinorVersion)
	}
	_, err := New(t.Context(), Options{Dial: g.dial, MinorVersion: 2})
	if !errors.Is(err, nfs4.ErrMinorVersMismatch) || Errno(err) != syscall.EPROTONOSUPPORT {
		t.Errorf("minor version 2 by choice: %v", err)
	}
}

func TestNames(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	ctx := t.Context()
	dir, _ := c.Root()
	mode := &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: 0o750}

	sub, attrs, err := c.Mkdir(ctx, root, dir, "sub", mode)
	if err != nil || attrs.Type != nfs4.TypeDir || attrs.Mode != 0o750 {
		t.Fatalf("mkdir: %v %+v", err, attrs)
	}
	if _, _, err := c.Mkdir(ctx, root, dir, "sub", mode); Errno(err) != syscall.EEXIST {
		t.Errorf("mkdir again: %v", err)
	}
	up, _, err := c.LookupParent(ctx, root, sub)
	if err != nil || string(up) != string(dir) {
		t.Errorf("parent: %x %v", up, err)
	}
	lnk, attrs, err := c.Symlink(ctx, root, sub, "lnk", "some/where", nil)
	if err != nil || attrs.Type != nfs4.TypeLnk {
		t.Fatalf("symlink: %v", err)
	}
	if text, err := c.ReadLink(ctx, root, lnk); text != "some/where" {
		t.Errorf("readlink: %q %v", text, err)
	}
	_, attrs, err = c.Mknod(ctx, root, sub, "dev", nfs4.TypeChr, nfs4.SpecData{Major: 1, Minor: 3}, mode)
	if err != nil || attrs.Type != nfs4.TypeChr || attrs.RawDev != (nfs4.SpecData{Major: 1, Minor: 3}) {
		t.Errorf("mknod: %v %+v", err, attrs)
	}
	f := create(t, c, "file")
	attrs, err = c.Link(ctx, root, f.FH(), sub, "hard")
	if err != nil || attrs.NumLinks != 2 {
		t.Errorf("link: %v %+v", err, attrs)
	}
	if err := c.Rename(ctx, root, sub, "hard", dir, "moved"); err != nil {
		t.Errorf("rename: %v", err)
	}
	fh, _, err := c.Lookup(ctx, root, dir, "moved")
	if err != nil || string(fh) != string(f.FH()) {
		t.Errorf("lookup: %v", err)
	}
	if fh, _, err := c.Walk(ctx, root, "/sub//./lnk"); Errno(err) != syscall.ELOOP {
		t.Errorf("walk to a symbolic link: %x %v", fh, err)
	}
	if fh, _, err := c.Walk(ctx, root, "sub/dev/"); err != nil {
		t.Errorf("walk: %x %v", fh, err)
	}
	if err := c.Remove(ctx, root, dir, "sub"); Errno(err) != syscall.ENOTEMPTY {
		t.Errorf("remove of a full directory: %v", err)
	}
	if err := c.Remove(ctx, root, dir, "moved"); err != nil {
		t.Errorf("remove: %v", err)
	}
	if _, _, err := c.Lookup(ctx, root, dir, "moved"); Errno(err) != syscall.ENOENT {
		t.Errorf("lookup of what was removed: %v", err)
	}
	got, err := c.Access(ctx, Cred{UID: 5, GID: 5}, sub, nfs4.AccessRead|nfs4.AccessLookup)
	if err != nil || got != 0 {
		t.Errorf("access: %x %v", got, err)
	}
	fs, err := c.StatFS(ctx, root, dir)
	if err != nil || fs.SpaceTotal == 0 || fs.FilesTotal == 0 {
		t.Errorf("statfs: %+v %v", fs, err)
	}
	after, err := c.SetAttr(ctx, root, f.FH(), nil, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: 0o600})
	if err != nil || after.Mode != 0o600 {
		t.Errorf("setattr: %+v %v", after, err)
	}
	if err := f.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

func TestReadDir(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	ctx := t.Context()
	dir, _ := c.Root()
	var want []string
	for i := range 500 {
		name := fmt.Sprintf("name-%04d", i)
		if _, _, err := c.Mkdir(ctx, root, dir, name, nil); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	for _, plus := range []bool{false, true} {
		var got []string
		var cookie uint64
		var verf nfs4.Verifier
		for pages := 0; ; pages++ {
			p, err := c.ReadDir(ctx, root, dir, cookie, verf, plus, minDirPage)
			if err != nil {
				t.Fatal(err)
			}
			var e DirEntry
			for p.Next(&e) {
				got = append(got, string(e.Name))
				cookie = e.Cookie
				if e.Attrs.Type != nfs4.TypeDir || e.Attrs.FileID == 0 || plus != (len(e.Attrs.FileHandle) > 0) {
					t.Fatalf("entry %q: %+v", e.Name, e.Attrs)
				}
			}
			verf = p.Verf
			eof := p.EOF
			p.Release()
			if eof {
				if pages == 0 {
					t.Error("all in one page: the test shows nothing")
				}
				break
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("plus %v: %d names, not the %d there are", plus, len(got), len(want))
		}
	}
}
