package fusefs

import (
	"fmt"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr/nfs4"
)

func attrsOf(fsid, fileid uint64, typ nfs4.FileType) *nfs4.Attrs {
	return &nfs4.Attrs{Type: typ, FSID: nfs4.FSID{Major: fsid}, FileID: fileid}
}

func TestInodeNumbers(t *testing.T) {
	n := newNodes(nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir))
	if got := n.inode(nfs4.FSID{Major: 1}, 42); got != 42 {
		t.Errorf("inode number of the root's file system: %d, expected the fileid 42", got)
	}
	if n.inode(nfs4.FSID{Major: 1}, 0) == 0 {
		t.Error("inode number 0")
	}
	seen := make(map[uint64]string)
	for fsid := range uint64(20) {
		for minor := range uint64(3) {
			for id := range uint64(200) {
				f := nfs4.FSID{Major: fsid, Minor: minor}
				what := fmt.Sprintf("fsid %v fileid %d", f, id)
				ino := n.inode(f, id)
				if other, twice := seen[ino]; twice {
					t.Fatalf("%s and %s have the inode number %d", what, other, ino)
				}
				seen[ino] = what
			}
		}
	}
	again := newNodes(nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir))
	if f := (nfs4.FSID{Major: 5}); n.inode(f, 9) != again.inode(f, 9) {
		t.Error("inode numbers change from mount to mount")
	}
}

func TestNodeOfAnotherType(t *testing.T) {
	n := newNodes(nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir))
	a := n.enter(dentry{1, "a"}, nfs4.FH("x"), attrsOf(1, 7, nfs4.TypeReg))
	b := n.enter(dentry{1, "a"}, nfs4.FH("x"), attrsOf(1, 7, nfs4.TypeDir))
	if a == b || a.id == b.id {
		t.Fatal("a file and a directory share a node")
	}
	n.forget(a.id, 1)
	if n.get(a.id) != nil || n.get(b.id) != b || n.peek(nfs4.FH("x")) != b || n.at(dentry{1, "a"}) != b {
		t.Error("forgetting the old node took the new one along")
	}
}

// TestNodesModel compares the tables with a simple model under random lookups,
// renames, removals and forgets.
func TestNodesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := newNodes(nfs4.FH("root"), attrsOf(1, 1, nfs4.TypeDir))
		root := n.get(fuse.FUSE_ROOT_ID)
		lookups := make(map[string]uint64) // by filehandle
		names := make(map[string]string)   // name to filehandle
		ids := make(map[string]uint64)
		used := make(map[uint64]bool)
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		fh := rapid.SampledFrom([]string{"x", "y", "z"})
		t.Repeat(map[string]func(*rapid.T){
			"lookup": func(t *rapid.T) {
				nm, h := name.Draw(t, "name"), fh.Draw(t, "fh")
				x := n.enter(dentry{root.id, nm}, nfs4.FH(h), attrsOf(1, uint64(h[0]), nfs4.TypeReg))
				if lookups[h] == 0 {
					if used[x.id] {
						t.Fatalf("node id %d is used again", x.id)
					}
					used[x.id] = true
					ids[h] = x.id
				}
				if x.id != ids[h] || string(x.fh) != h {
					t.Fatalf("%q is node %d, expected %d", h, x.id, ids[h])
				}
				lookups[h]++
				names[nm] = h
			},
			"forget": func(t *rapid.T) {
				h := fh.Draw(t, "fh")
				if lookups[h] == 0 {
					t.Skip("not known")
				}
				k := rapid.Uint64Range(1, lookups[h]).Draw(t, "lookups")
				n.forget(ids[h], k)
				if lookups[h] -= k; lookups[h] == 0 {
					for nm, of := range names {
						if of == h {
							delete(names, nm)
						}
					}
				}
			},
			"remove": func(t *rapid.T) {
				nm := name.Draw(t, "name")
				n.unname(root, nm)
				delete(names, nm)
			},
			"rename": func(t *rapid.T) {
				from, to := name.Draw(t, "from"), name.Draw(t, "to")
				n.move(root, from, root, to)
				f, known := names[from]
				if old, there := names[to]; from == to || known && there && old == f {
					return
				}
				delete(names, to)
				delete(names, from)
				if known {
					names[to] = f
				}
			},
			"": func(t *rapid.T) {
				for _, nm := range []string{"a", "b", "c"} {
					got := n.named(root, nm)
					h, known := names[nm]
					if (got != nil) != known || known && string(got.fh) != h {
						t.Fatalf("name %q: %v, expected %q", nm, got, h)
					}
				}
				count := 1
				for _, h := range []string{"x", "y", "z"} {
					if (n.peek(nfs4.FH(h)) != nil) != (lookups[h] > 0) {
						t.Fatalf("%q is known: %v, with %d lookups", h, n.peek(nfs4.FH(h)) != nil, lookups[h])
					}
					if lookups[h] > 0 {
						count++
					}
				}
				if n.count() != count {
					t.Fatalf("%d nodes, expected %d", n.count(), count)
				}
			},
		})
	})
}

func TestDeviceNumbers(t *testing.T) {
	for _, d := range []nfs4.SpecData{{}, {Major: 1, Minor: 3}, {Major: 0xfff, Minor: 0xfffff}, {Major: 8, Minor: 0x12345}} {
		if got := unpackDevice(packDevice(d)); got != d {
			t.Errorf("%v comes back as %v", d, got)
		}
	}
}

func TestNumericIDs(t *testing.T) {
	for s, want := range map[string]uint32{
		"0": 0, "1000": 1000, "4294967295": 4294967295, "4294967296": Nobody, "": Nobody,
		"root@example.org": Nobody, "-1": Nobody, "007": Nobody, "1 ": Nobody, "+1": Nobody,
	} {
		if got := (NumericIDs{}).UID(s); got != want {
			t.Errorf("%q: %d, expected %d", s, got, want)
		}
	}
}
