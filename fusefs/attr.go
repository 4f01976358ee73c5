package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"nfsrdma-fuse/xdr/nfs4"
)

// fileType translates an NFS type; what the kernel has no type for shows as a
// regular file, the way a server's named attributes are used.
func fileType(t nfs4.FileType) uint32 {
	switch t {
	case nfs4.TypeDir, nfs4.TypeAttrDir:
		return fuse.S_IFDIR
	case nfs4.TypeBlk:
		return sIFBLK
	case nfs4.TypeChr:
		return sIFCHR
	case nfs4.TypeLnk:
		return fuse.S_IFLNK
	case nfs4.TypeSock:
		return sIFSOCK
	case nfs4.TypeFifo:
		return fuse.S_IFIFO
	}
	return fuse.S_IFREG
}

// The file types that go-fuse does not name.
const (
	sIFCHR  = 0o020000
	sIFBLK  = 0o060000
	sIFSOCK = 0o140000
	sIFMT   = 0o170000
)

// nodeType translates the type in a mode of mknod(2).
func nodeType(mode uint32) (nfs4.FileType, bool) {
	switch mode & sIFMT {
	case sIFBLK:
		return nfs4.TypeBlk, true
	case sIFCHR:
		return nfs4.TypeChr, true
	case fuse.S_IFIFO:
		return nfs4.TypeFifo, true
	case sIFSOCK:
		return nfs4.TypeSock, true
	}
	return 0, false
}

// The kernel packs device numbers into 32 bits: the lower 8 bits of the minor
// number, 12 bits of the major number, the upper 12 of the minor number.

func packDevice(d nfs4.SpecData) uint32 {
	return d.Minor&0xff | d.Major&0xfff<<8 | d.Minor&0xfff00<<12
}

func unpackDevice(dev uint32) nfs4.SpecData {
	return nfs4.SpecData{Major: dev >> 8 & 0xfff, Minor: dev&0xff | dev>>12&0xfff00}
}

// attr fills in what stat shows of a node. A server need not support all
// attributes; what is missing gets the value that does the least harm.
func (b *bridge) attr(n *node, a *nfs4.Attrs, out *fuse.Attr) {
	*out = fuse.Attr{
		Ino:   n.ino,
		Mode:  n.typ | 0o600,
		Nlink: 1,
		Owner: fuse.Owner{Uid: Nobody, Gid: Nobody},
	}
	if n.typ == fuse.S_IFDIR {
		out.Mode = n.typ | 0o700
		out.Nlink = 2
	}
	if a.Has(nfs4.AttrMode) {
		out.Mode = n.typ | a.Mode&0o7777
	}
	if a.Has(nfs4.AttrNumLinks) {
		out.Nlink = a.NumLinks
	}
	if a.Has(nfs4.AttrOwner) {
		out.Uid = b.o.IDs.UID(a.Owner)
	}
	if a.Has(nfs4.AttrOwnerGroup) {
		out.Gid = b.o.IDs.GID(a.OwnerGroup)
	}
	if a.Has(nfs4.AttrSize) {
		out.Size = a.Size
	}
	out.Blocks = (out.Size + 511) / 512
	if a.Has(nfs4.AttrSpaceUsed) {
		out.Blocks = a.SpaceUsed/512 + (a.SpaceUsed%512+511)/512
	}
	if a.Has(nfs4.AttrRawDev) && (n.typ == sIFCHR || n.typ == sIFBLK) {
		out.Rdev = packDevice(a.RawDev)
	}
	if a.Has(nfs4.AttrTimeModify) {
		out.Mtime, out.Mtimensec = uint64(a.TimeModify.Sec), a.TimeModify.Nsec
	}
	out.Atime, out.Atimensec = out.Mtime, out.Mtimensec
	if a.Has(nfs4.AttrTimeAccess) {
		out.Atime, out.Atimensec = uint64(a.TimeAccess.Sec), a.TimeAccess.Nsec
	}
	out.Ctime, out.Ctimensec = out.Mtime, out.Mtimensec
	if a.Has(nfs4.AttrTimeMetadata) {
		out.Ctime, out.Ctimensec = uint64(a.TimeMetadata.Sec), a.TimeMetadata.Nsec
	}
	// The name that a silly rename has left is not the application's.
	if n.isSilly() && out.Nlink > 0 {
		out.Nlink--
	}
}

// setAttrs translates a SETATTR of the kernel.
func (b *bridge) setAttrs(in *fuse.SetAttrIn) *nfs4.Attrs {
	var a nfs4.Attrs
	if mode, ok := in.GetMode(); ok {
		a.Mode = mode
		a.Mask.Set(nfs4.AttrMode)
	}
	if uid, ok := in.GetUID(); ok {
		a.Owner = b.o.IDs.Owner(uid)
		a.Mask.Set(nfs4.AttrOwner)
	}
	if gid, ok := in.GetGID(); ok {
		a.OwnerGroup = b.o.IDs.Group(gid)
		a.Mask.Set(nfs4.AttrOwnerGroup)
	}
	if size, ok := in.GetSize(); ok {
		a.Size = size
		a.Mask.Set(nfs4.AttrSize)
	}
	if in.Valid&fuse.FATTR_ATIME != 0 {
		a.TimeAccessSet = setTime(in.Valid&fuse.FATTR_ATIME_NOW != 0, in.Atime, in.Atimensec)
		a.Mask.Set(nfs4.AttrTimeAccessSet)
	}
	if in.Valid&fuse.FATTR_MTIME != 0 {
		a.TimeModifySet = setTime(in.Valid&fuse.FATTR_MTIME_NOW != 0, in.Mtime, in.Mtimensec)
		a.Mask.Set(nfs4.AttrTimeModifySet)
	}
	return &a
}

// setTime translates a time to set. "Now" is the server's clock, which is also
// what lets a caller do it who may write to the file but does not own it.
func setTime(now bool, sec uint64, nsec uint32) nfs4.SetTime {
	if now {
		return nfs4.SetTime{}
	}
	return nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: int64(sec), Nsec: nsec}}
}

// modeAttrs are the attributes of something that is made with a mode.
func modeAttrs(mode uint32) *nfs4.Attrs {
	a := &nfs4.Attrs{Mode: mode & 0o7777}
	a.Mask.Set(nfs4.AttrMode)
	return a
}

// entry fills in the answer for a node that was entered in a directory, with
// attributes fetched at at.
func (b *bridge) entry(dir, n *node, a *nfs4.Attrs, at fetched, out *fuse.EntryOut) {
	out.NodeId = n.id
	b.attr(n, a, &out.Attr)
	now := time.Now()
	out.SetEntryTimeout(b.nameTime(dir, at, now))
	out.SetAttrTimeout(b.attrTime(n, at, now))
}

// attrOut fills in the answer to GETATTR and SETATTR.
func (b *bridge) attrOut(n *node, a *nfs4.Attrs, at fetched, out *fuse.AttrOut) {
	b.attr(n, a, &out.Attr)
	out.SetTimeout(b.attrTime(n, at, time.Now()))
}
