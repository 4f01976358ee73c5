package fusefs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// TestDropPrivs: what a server leaves of the set-ID bits is taken, by every
// request that says so, and by no other.
func TestDropPrivs(t *testing.T) {
	b, _, dir := unmounted(t)
	id, _ := makeFile(t, b, "f", false)
	h := fuse.InHeader{NodeId: id, Caller: rootHeader.Caller}
	p := filepath.Join(dir, "f")
	truncate := func(valid uint32) fuse.Status {
		in := &fuse.SetAttrIn{}
		in.InHeader, in.Valid, in.Size = h, fuse.FATTR_SIZE|valid, 3
		return b.SetAttr(nil, in, &fuse.AttrOut{})
	}
	open := func(flags uint32) fuse.Status {
		var out fuse.OpenOut
		s := b.Open(nil, &fuse.OpenIn{InHeader: h, Flags: unix.O_RDWR | unix.O_TRUNC, Mode: flags}, &out)
		if s.Ok() {
			b.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
		}
		return s
	}
	create := func(flags uint32) fuse.Status {
		var out fuse.CreateOut
		s := b.Create(nil, &fuse.CreateIn{InHeader: rootHeader, Flags: unix.O_RDWR | unix.O_TRUNC | unix.O_CREAT, Mode: 0o644, OpenFlags: flags}, "f", &out)
		if s.Ok() {
			if want := uint32(0o755); flags != 0 && out.Attr.Mode&0o7777 != want {
				t.Errorf("answer to CREATE: mode %o", out.Attr.Mode&0o7777)
			}
			b.Release(nil, &fuse.ReleaseIn{Fh: out.Fh})
		}
		return s
	}
	for what, k := range map[string]struct {
		do   func() fuse.Status
		drop bool
	}{
		"truncate":             {func() fuse.Status { return truncate(fuse.FATTR_KILL_SUIDGID) }, true},
		"truncate, privileged": {func() fuse.Status { return truncate(0) }, false},
		"open":                 {func() fuse.Status { return open(fuse.OPEN_KILL_SUIDGID) }, true},
		"open, privileged":     {func() fuse.Status { return open(0) }, false},
		"create":               {func() fuse.Status { return create(fuse.OPEN_KILL_SUIDGID) }, true},
		"create, privileged":   {func() fuse.Status { return create(0) }, false},
	} {
		for before, after := range map[uint32]uint32{0o6755: 0o755, 0o4711: 0o711, 0o2745: 0o2745, 0o2755: 0o755, 0o644: 0o644} {
			if what == "create" && after != 0o755 {
				continue
			}
			if err := unix.Chmod(p, before); err != nil {
				t.Fatal(err)
			}
			if s := k.do(); !s.Ok() {
				t.Fatalf("%s: %v", what, s)
			}
			want := before
			if k.drop {
				want = after
			}
			var st unix.Stat_t
			if err := unix.Stat(p, &st); err != nil || st.Mode&0o7777 != want {
				t.Errorf("%s of a file with %o: %o, expected %o (%v)", what, before, st.Mode&0o7777, want, err)
			}
		}
	}
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
}
