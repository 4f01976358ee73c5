package nfstest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"strings"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// export is a file system and where it is found.
type export struct {
	Export
	id     uint32 // part of file handles and of the fsid
	fs     *memfs.FS
	parent *memfs.Inode // the directory that its root covers; nil for the root file system
	below  *export      // the file system of parent
	pseudo bool
}

// object is an object of an exported file system: what a file handle means.
type object struct {
	exp *export
	n   *memfs.Inode
}

func (o object) valid() bool { return o.n != nil }

// isRoot tells whether o is the root of its file system.
func (o object) isRoot() bool { return o.n == o.exp.fs.Root() }

// exports are all file systems of a server, put together to one tree.
type exports struct {
	byID   []*export
	covers map[*memfs.Inode]*export // by the directory covered
}

func newExports(o *Options) (*exports, error) {
	list := slices.Clone(o.Exports)
	for i := range list {
		list[i].Path = path.Clean("/" + list[i].Path)
	}
	slices.SortFunc(list, func(a, b Export) int { return strings.Compare(a.Path, b.Path) })
	pseudo := len(list) == 0 || list[0].Path != "/"
	if pseudo {
		list = slices.Insert(list, 0, Export{Path: "/", ReadOnly: true, Mode: 0o755})
	}
	x := &exports{covers: make(map[*memfs.Inode]*export)}
	for i, e := range list {
		if i > 0 && e.Path == list[i-1].Path {
			return nil, fmt.Errorf("nfstest: two exports with the path %s", e.Path)
		}
		if e.Mode == 0 {
			e.Mode = 0o1777
		}
		exp := &export{Export: e, id: uint32(i + 1), pseudo: pseudo && i == 0,
			fs: memfs.New(memfs.Options{Bytes: e.Bytes, Inodes: e.Inodes, Quota: e.Quota, Now: o.Now})}
		if err := exp.fs.SetAttr(memfs.Cred{}, exp.fs.Root(), memfs.SetAttr{Mode: &e.Mode}); err != nil {
			return nil, err
		}
		if i > 0 {
			dir, err := x.makeDirs(e.Path)
			if err != nil {
				return nil, err
			}
			exp.below, exp.parent = dir.exp, dir.n
			x.covers[dir.n] = exp
		}
		x.byID = append(x.byID, exp)
	}
	return x, nil
}

// makeDirs returns the directory with this path, and makes what is missing.
func (x *exports) makeDirs(p string) (object, error) {
	at := x.root()
	for _, name := range components(p) {
		n, err := at.exp.fs.Lookup(memfs.Cred{}, at.n, name)
		if err != nil {
			n, _, err = at.exp.fs.Make(memfs.Cred{}, at.n, name, memfs.Object{Kind: memfs.Directory, Mode: 0o755})
			if err != nil {
				return object{}, fmt.Errorf("nfstest: making %s: %w", p, err)
			}
		}
		at = x.cross(object{at.exp, n})
	}
	return at, nil
}

func components(p string) []string {
	return strings.FieldsFunc(p, func(r rune) bool { return r == '/' })
}

func (x *exports) root() object { return object{x.byID[0], x.byID[0].fs.Root()} }

// cross returns the root of the file system that covers o, or o.
func (x *exports) cross(o object) object {
	if o.n.Kind() == memfs.Directory {
		if e := x.covers[o.n]; e != nil {
			return object{e, e.fs.Root()}
		}
	}
	return o
}

// lookup finds an entry of a directory, and crosses into the file system there.
func (x *exports) lookup(c memfs.Cred, dir object, name string) (object, error) {
	n, err := dir.exp.fs.Lookup(c, dir.n, name)
	if err != nil {
		return object{}, err
	}
	return x.cross(object{dir.exp, n}), nil
}

// up returns the directory that dir is in, and false at the top.
func (x *exports) up(c memfs.Cred, dir object) (object, bool, error) {
	for dir.isRoot() {
		if dir.exp.below == nil {
			return object{}, false, nil
		}
		dir = object{dir.exp.below, dir.exp.parent}
	}
	n, err := dir.exp.fs.Parent(c, dir.n)
	return object{dir.exp, n}, true, err
}

// mountedOn returns the inode number by which the directory that o is in knows
// it: that of the directory covered, for the root of a file system.
func (x *exports) mountedOn(o object) uint64 {
	if o.isRoot() && o.exp.parent != nil {
		return o.exp.parent.Ino()
	}
	return o.n.Ino()
}

// A file handle:
//
//	+---------+------------+---------+--------------+-------+
//	| magic 4 | export   4 | inode 8 | generation 8 | CRC 4 |
//	+---------+------------+---------+--------------+-------+
const (
	fhMagic = 0x6e667374
	fhLen   = 28
)

func (o object) handle() nfs4.FH {
	b := make([]byte, 0, fhLen)
	b = binary.BigEndian.AppendUint32(b, fhMagic)
	b = binary.BigEndian.AppendUint32(b, o.exp.id)
	b = binary.BigEndian.AppendUint64(b, o.n.Ino())
	b = binary.BigEndian.AppendUint64(b, o.n.Gen())
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

func (x *exports) byHandle(fh nfs4.FH) (object, nfs4.Status) {
	if len(fh) != fhLen || binary.BigEndian.Uint32(fh) != fhMagic ||
		binary.BigEndian.Uint32(fh[24:]) != crc32.ChecksumIEEE(fh[:24]) {
		return object{}, nfs4.ErrBadHandle
	}
	id := binary.BigEndian.Uint32(fh[4:])
	if id == 0 || int(id) > len(x.byID) {
		return object{}, nfs4.ErrStale
	}
	e := x.byID[id-1]
	n, err := e.fs.Get(binary.BigEndian.Uint64(fh[8:]), binary.BigEndian.Uint64(fh[16:]))
	if err != nil {
		return object{}, nfs4.ErrStale
	}
	return object{e, n}, nfs4.OK
}
