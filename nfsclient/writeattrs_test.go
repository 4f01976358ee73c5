package nfsclient

import (
	"slices"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// writesSince returns how the WRITEs since event n were to be stored, and
// the number of COMMITs.
func (g *rig) writesSince(n uint64) (how []nfs4.StableHow, commits int) {
	for _, e := range g.srv.Events(n) {
		for _, o := range e.Ops {
			switch o.Op {
			case nfs4.OpWrite:
				how = append(how, o.Stable)
			case nfs4.OpCommit:
				commits++
			}
		}
	}
	return how, commits
}

// TestOnlyWrite: what looks like the only write to a file is stable at once and
// brings the attributes; what does not is committed, and the COMMIT brings
// them.
func TestOnlyWrite(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client(func(o *Options) { o.WSize = 8192 })
	for _, tc := range []struct {
		name    string
		sizes   []int
		how     []nfs4.StableHow
		commits int
	}{
		{"small", []int{100}, []nfs4.StableHow{nfs4.FileSync}, 0},
		{"buffer", []int{4096}, []nfs4.StableHow{nfs4.Unstable}, 1},
		{"small ones", []int{100, 100, 100}, []nfs4.StableHow{nfs4.FileSync, nfs4.Unstable, nfs4.Unstable}, 1},
		{"buffer and rest", []int{4096, 100}, []nfs4.StableHow{nfs4.Unstable, nfs4.Unstable}, 1},
		{"two WRITEs", []int{8192 + 100}, []nfs4.StableHow{nfs4.Unstable, nfs4.Unstable}, 1},
	} {
		f := create(t, c, tc.name)
		start, size := g.srv.LastEvent(), 0
		var last *nfs4.Attrs
		for _, n := range tc.sizes {
			m, attrs, err := f.WriteAttrs(t.Context(), int64(size), pattern(1, n))
			if err != nil || m != n {
				t.Fatalf("%s: write: %d, %v", tc.name, m, err)
			}
			if size += n; attrs != nil && attrs.Size != uint64(size) {
				t.Errorf("%s: size %d came with the write, expected %d", tc.name, attrs.Size, size)
			}
			last = attrs
		}
		attrs, err := f.SyncAttrs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if attrs == nil {
			attrs = last
		}
		if attrs == nil || attrs.Size != uint64(size) || !attrs.Has(nfs4.AttrChange) {
			t.Errorf("%s: attributes after all: %+v, expected size %d", tc.name, attrs, size)
		}
		if how, commits := g.writesSince(start); !slices.Equal(how, tc.how) || commits != tc.commits {
			t.Errorf("%s: WRITEs %v and %d COMMITs, expected %v and %d", tc.name, how, commits, tc.how, tc.commits)
		}
		if again, err := f.SyncAttrs(t.Context()); again != nil || err != nil {
			t.Errorf("%s: a second sync: %v, %v", tc.name, again, err)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestStableOpen: through a file opened for that, every WRITE is stable.
func TestStableOpen(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	dir, _ := c.Root()
	f, _, _, err := c.Open(t.Context(), root, OpenRequest{Dir: dir, Name: "f", Write: true, Create: true, Stable: true})
	if err != nil {
		t.Fatal(err)
	}
	start := g.srv.LastEvent()
	write(t, f, 0, pattern(1, 4096))
	write(t, f, 4096, pattern(1, 4096))
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if how, commits := g.writesSince(start); !slices.Equal(how, []nfs4.StableHow{nfs4.FileSync, nfs4.FileSync}) || commits != 0 {
		t.Errorf("WRITEs %v and %d COMMITs", how, commits)
	}
}

// TestAttributesRefused: that attributes do not come along does no harm to what
// they were asked with.
func TestAttributesRefused(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	f := create(t, c, "f")
	g.srv.FailNext(nfs4.OpGetAttr, nfs4.ErrServerFault, 2)
	if n, attrs, err := f.WriteAttrs(t.Context(), 0, []byte("abc")); n != 3 || attrs != nil || err != nil {
		t.Errorf("write: %d, %v, %v", n, attrs, err)
	}
	write(t, f, 3, []byte("def"))
	if attrs, err := f.SyncAttrs(t.Context()); attrs != nil || err != nil {
		t.Errorf("sync: %v, %v", attrs, err)
	}
	if n := c.Stats().Uncommitted; n != 0 {
		t.Errorf("%d bytes uncommitted", n)
	}
	expect(t, f, 0, []byte("abcdef"))
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestAttributesOfLostData: a COMMIT that finds the data lost does not pass on
// the attributes from before it was written again.
func TestAttributesOfLostData(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	f := create(t, c, "f")
	write(t, f, 0, pattern(1, 4096))
	if n := g.srv.ChangeWriteVerifier(true); n == 0 {
		t.Fatal("nothing was lost")
	}
	if attrs, err := f.SyncAttrs(t.Context()); attrs != nil || err != nil {
		t.Errorf("sync: %v, %v", attrs, err)
	}
	expect(t, f, 0, pattern(1, 4096))
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
