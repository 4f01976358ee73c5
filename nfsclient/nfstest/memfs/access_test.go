package memfs

import (
	"syscall"
	"testing"
	"time"
)

var (
	alice = Cred{UID: 1, GID: 10, Groups: []uint32{20}}
	bob   = Cred{UID: 2, GID: 11}
)

func TestAccess(t *testing.T) {
	fs := New(Options{})
	for _, tt := range []struct {
		mode     uint32
		uid, gid uint32
		c        Cred
		want     uint32
	}{
		{0o700, 1, 99, alice, 7}, {0o077, 1, 10, alice, 0}, {0o070, 9, 10, alice, 7}, {0o050, 9, 20, alice, 5},
		{0o707, 9, 20, alice, 0}, {0o004, 9, 99, alice, 4}, {0o600, 9, 9, root, 6}, {0o100, 9, 9, root, 7},
	} {
		n := fs.newInode(Regular, tt.mode, Cred{UID: tt.uid, GID: tt.gid})
		if got := n.Access(tt.c, 7); got != tt.want {
			t.Errorf("mode %o of %d:%d for %v: %d, want %d", tt.mode, tt.uid, tt.gid, tt.c, got, tt.want)
		}
	}
	if got := fs.newInode(Directory, 0, Cred{UID: 9}).Access(root, 7); got != 7 {
		t.Errorf("root in a directory without permissions: %d", got)
	}
}

func TestPermissions(t *testing.T) {
	fs := New(Options{})
	var top = fs.Root()
	open := mustMake(t, fs, root, top, "open", dir(0))
	sticking := mustMake(t, fs, root, top, "sticky", dir(0))
	closed := mustMake(t, fs, root, top, "closed", dir(0o755))
	set := func(n *Inode, mode uint32) {
		if err := fs.SetAttr(root, n, SetAttr{Mode: &mode}); err != nil {
			t.Fatal(err)
		}
	}
	set(open, 0o777)
	set(sticking, 0o1777)
	a := mustMake(t, fs, alice, sticking, "a", file(0o644))
	b := mustMake(t, fs, alice, open, "b", file(0o666))
	d := mustMake(t, fs, alice, sticking, "d", dir(0o755))
	mustMake(t, fs, root, closed, "x", file(0o644))
	num := func(v uint32) *uint32 { return &v }
	size := func(v int64) *int64 { return &v }
	at := time.Unix(1, 0)
	for _, tt := range []struct {
		what string
		do   func() error
		want error
	}{
		{"bob removes alice's file from a sticky directory", func() error { _, err := fs.Remove(bob, sticking, "a"); return err }, syscall.EPERM},
		{"bob renames it", func() error { _, _, err := fs.Rename(bob, sticking, "a", open, "a"); return err }, syscall.EPERM},
		{"bob renames over it", func() error {
			mustMake(t, fs, bob, open, "bobs", file(0o644))
			_, _, err := fs.Rename(bob, open, "bobs", sticking, "a")
			return err
		}, syscall.EPERM},
		{"bob removes from a closed directory", func() error { _, err := fs.Remove(bob, closed, "x"); return err }, syscall.EACCES},
		{"bob makes a file in a closed directory", func() error { _, _, err := fs.Make(bob, closed, "y", file(0)); return err }, syscall.EACCES},
		{"bob links into it", func() error { _, err := fs.Link(bob, b, closed, "y"); return err }, syscall.EACCES},
		{"bob moves alice's directory", func() error { _, _, err := fs.Rename(bob, sticking, "d", open, "d"); return err }, syscall.EPERM},
		{"bob changes a mode", func() error { return fs.SetAttr(bob, b, SetAttr{Mode: num(0)}) }, syscall.EPERM},
		{"alice gives a file away", func() error { return fs.SetAttr(alice, b, SetAttr{UID: num(2)}) }, syscall.EPERM},
		{"alice keeps a file", func() error { return fs.SetAttr(alice, b, SetAttr{UID: num(1)}) }, nil},
		{"alice gives it a group of hers", func() error { return fs.SetAttr(alice, b, SetAttr{GID: num(20)}) }, nil},
		{"alice gives it another group", func() error { return fs.SetAttr(alice, b, SetAttr{GID: num(30)}) }, syscall.EPERM},
		{"root gives it away", func() error { return fs.SetAttr(root, b, SetAttr{UID: num(3)}) }, nil},
		{"root gives it back", func() error { return fs.SetAttr(root, b, SetAttr{UID: num(1)}) }, nil},
		{"bob truncates a file that he may write", func() error { return fs.SetAttr(bob, b, SetAttr{Size: size(0)}) }, nil},
		{"bob truncates one that he may not", func() error { return fs.SetAttr(bob, a, SetAttr{Size: size(0)}) }, syscall.EACCES},
		{"bob truncates what he has open", func() error { return fs.SetAttr(bob, a, SetAttr{Size: size(0), Opened: true}) }, nil},
		{"bob touches a file that he may write", func() error { return fs.SetAttr(bob, b, SetAttr{AtimeNow: true, MtimeNow: true}) }, nil},
		{"bob touches one that he may not", func() error { return fs.SetAttr(bob, a, SetAttr{AtimeNow: true, MtimeNow: true}) }, syscall.EACCES},
		{"bob sets a time", func() error { return fs.SetAttr(bob, b, SetAttr{Mtime: &at}) }, syscall.EPERM},
		{"alice sets a time", func() error { return fs.SetAttr(alice, b, SetAttr{Mtime: &at}) }, nil},
		{"size of a directory", func() error { return fs.SetAttr(root, d, SetAttr{Size: size(0)}) }, syscall.EISDIR},
		{"alice makes a device", func() error {
			_, _, err := fs.Make(alice, open, "dev", Object{Kind: CharDevice})
			return err
		}, syscall.EPERM},
		{"a link to a directory", func() error { _, err := fs.Link(root, d, open, "dd"); return err }, syscall.EPERM},
		{"lookup in a file", func() error { _, err := fs.Lookup(root, a, "x"); return err }, syscall.ENOTDIR},
	} {
		if err := tt.do(); err != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, err, tt.want)
		}
	}
}

func TestSpecialBits(t *testing.T) {
	fs := New(Options{})
	top := fs.Root()
	setTo := func(c Cred, n *Inode, mode uint32) uint32 {
		t.Helper()
		if err := fs.SetAttr(c, n, SetAttr{Mode: &mode}); err != nil {
			t.Fatal(err)
		}
		return n.Attr().Mode
	}
	setTo(root, top, 0o777)
	n := mustMake(t, fs, alice, top, "f", file(0o755))
	if m := setTo(alice, n, 0o6755); m != 0o6755 {
		t.Errorf("alice, in the group: %o", m)
	}
	if err := fs.Write(alice, n, 0, []byte("x"), true); err != nil || n.Attr().Mode != 0o755 {
		t.Errorf("after a write by alice: %o, %v", n.Attr().Mode, err)
	}
	setTo(root, n, 0o6755)
	if err := fs.Write(root, n, 0, []byte("x"), true); err != nil || n.Attr().Mode != 0o6755 {
		t.Errorf("after a write by root: %o, %v", n.Attr().Mode, err)
	}
	gid := uint32(20)
	if err := fs.SetAttr(alice, n, SetAttr{GID: &gid}); err != nil || n.Attr().Mode != 0o755 {
		t.Errorf("after a change of group: %o, %v", n.Attr().Mode, err)
	}
	gid = 99
	if err := fs.SetAttr(root, n, SetAttr{GID: &gid}); err != nil {
		t.Fatal(err)
	}
	if m := setTo(alice, n, 0o2755); m != 0o755 {
		t.Errorf("alice, not in the group: %o", m)
	}
	d := mustMake(t, fs, root, top, "d", dir(0o777))
	setTo(root, d, 0o2777)
	if err := fs.SetAttr(root, d, SetAttr{GID: &gid}); err != nil {
		t.Fatal(err)
	}
	sub := mustMake(t, fs, alice, d, "sub", dir(0o755))
	f := mustMake(t, fs, alice, d, "f", file(0o2755))
	if a := sub.Attr(); a.GID != 99 || a.Mode != 0o2755 {
		t.Errorf("a directory below a set-group-id one: %d, %o", a.GID, a.Mode)
	}
	if a := f.Attr(); a.GID != 99 || a.Mode != 0o755 {
		t.Errorf("a file below it: %d, %o", a.GID, a.Mode)
	}
}
