package memfs

import (
	"slices"
	"syscall"
	"testing"
)

func TestXattrs(t *testing.T) {
	fs := New(Options{})
	n := mustMake(t, fs, root, fs.Root(), "f", file(0o644))
	link := mustMake(t, fs, root, fs.Root(), "l", Object{Kind: Symlink, Target: "f"})
	put := func(c Cred, n *Inode, name, value string, mode XattrMode) error {
		_, err := fs.SetXattr(c, n, name, []byte(value), mode)
		return err
	}
	for _, tt := range []struct {
		what      string
		got, want error
	}{
		{"replace what is not there", put(root, n, "a", "1", XattrReplace), syscall.ENODATA},
		{"create", put(root, n, "a", "1", XattrCreate), nil},
		{"create again", put(root, n, "a", "2", XattrCreate), syscall.EEXIST},
		{"replace", put(root, n, "a", "3", XattrReplace), nil},
		{"either", put(root, n, "b", "", XattrEither), nil},
		{"without permission", put(bob, n, "c", "", XattrEither), syscall.EACCES},
		{"on a symbolic link", put(root, link, "c", "", XattrEither), syscall.EPERM},
		{"too large", put(root, n, "c", string(make([]byte, MaxXattrValue+1)), XattrEither), syscall.E2BIG},
		{"without a name", put(root, n, "", "", XattrEither), syscall.EINVAL},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
	if v, err := fs.GetXattr(bob, n, "a"); err != nil || string(v) != "3" {
		t.Errorf("%q, %v", v, err)
	}
	if l, err := fs.ListXattrs(bob, n); err != nil || !slices.Equal(l, []string{"a", "b"}) {
		t.Errorf("%q, %v", l, err)
	}
	if _, err := fs.RemoveXattr(root, n, "a"); err != nil {
		t.Error(err)
	}
	if _, err := fs.GetXattr(root, n, "a"); err != syscall.ENODATA {
		t.Error(err)
	}
	big := string(make([]byte, MaxXattrValue))
	var err error
	for i := 0; err == nil && i < 100; i++ {
		err = put(root, n, string(rune('A'+i)), big, XattrEither)
	}
	if err != syscall.ENOSPC {
		t.Errorf("without end: %v", err)
	}
}
