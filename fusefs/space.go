package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// What NFSv4.2 adds for the space of files (RFC 7862). The kernel writes its
// dirty pages of the ranges concerned before it asks, and drops what it has
// cached of those that were changed.

// spaceFile is an open file whose backend can do more than read and write.
// CopyFrom gets a file of the same backend.
type spaceFile interface {
	Allocate(ctx context.Context, off, n int64) error
	Deallocate(ctx context.Context, off, n int64) error
	ZeroRange(ctx context.Context, off, n int64) error
	Seek(ctx context.Context, off int64, hole bool) (int64, error)
	CopyFrom(ctx context.Context, off int64, src *nfsclient.File, srcOff, n int64) (int64, error)
}

// featured is a backend that knows which features its server has.
type featured interface {
	Never(f nfsclient.Feature) bool
}

// refuse makes the answer to a request for a feature that is not there: ENOSYS,
// after which the kernel does not ask any more, if it will never be there.
func (b *bridge) refuse(features ...nfsclient.Feature) error {
	if s, ok := b.c.(featured); ok {
		for _, f := range features {
			if !s.Never(f) {
				return unix.EOPNOTSUPP
			}
		}
	}
	return unix.ENOSYS
}

// notSupported tells whether an error means that the server does not offer an
// operation.
func notSupported(err error) bool { return isStatus(err, nfs4.ErrNotSupp, nfs4.ErrOpIllegal) }

// Fallocate implements fuse.RawFileSystem. NFS has no way to reserve space
// without making the file longer, nor to move data within a file.
func (b *bridge) Fallocate(cancel <-chan struct{}, in *fuse.FallocateIn) fuse.Status {
	o := b.beginQuiet(cancel, &in.InHeader)
	h := b.handles.file(in.Fh)
	if h == nil {
		return o.end(unix.EBADF)
	}
	f, ok := h.file.(spaceFile)
	if !ok {
		return o.end(unix.ENOSYS)
	}
	var do func(ctx context.Context, off, n int64) error
	switch in.Mode {
	case 0:
		do = f.Allocate
	case unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE:
		do = f.Deallocate
	case unix.FALLOC_FL_ZERO_RANGE:
		do = f.ZeroRange
	default:
		return o.end(unix.EOPNOTSUPP)
	}
	answered := b.change(h.node)
	h.dirty.Store(true)
	err := do(o, int64(in.Offset), int64(in.Length))
	answered()
	if notSupported(err) {
		err = b.refuse(nfsclient.FeatureAllocate, nfsclient.FeatureDeallocate)
	}
	return o.end(err)
}

// Lseek implements fuse.RawFileSystem, for SEEK_DATA and SEEK_HOLE.
func (b *bridge) Lseek(cancel <-chan struct{}, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	o := b.beginQuiet(cancel, &in.InHeader)
	h := b.handles.file(in.Fh)
	if h == nil {
		return o.end(unix.EBADF)
	}
	if in.Whence != unix.SEEK_DATA && in.Whence != unix.SEEK_HOLE {
		return o.end(unix.EINVAL)
	}
	f, ok := h.file.(spaceFile)
	if !ok {
		return o.end(unix.ENOSYS) // the kernel takes the file for one without holes
	}
	hole := in.Whence == unix.SEEK_HOLE
	at, err := f.Seek(o, int64(in.Offset), hole)
	if notSupported(err) {
		if err = b.refuse(nfsclient.FeatureSeek); err != unix.ENOSYS {
			// Other file systems of the server may have it, so that the
			// kernel has to go on asking.
			at, err = b.seekSolid(o, h, int64(in.Offset), hole)
		}
	}
	if err != nil {
		return o.end(err)
	}
	out.Offset = uint64(at)
	return o.end(nil)
}

// seekSolid looks for data or a hole in a file of which nothing is known but its
// size: it is all data.
func (b *bridge) seekSolid(o *op, h *fileHandle, off int64, hole bool) (int64, error) {
	a, err := b.c.GetAttr(o, h.cred, h.node.fh)
	if err != nil {
		return 0, err
	}
	switch {
	case off < 0 || uint64(off) >= a.Size:
		return 0, unix.ENXIO
	case hole:
		return int64(a.Size), nil
	}
	return off, nil
}

// maxCopy is the number of bytes that one request of the kernel copies at most.
// What is beyond it the program asks for again, and can be interrupted in
// between.
const maxCopy = 256 << 20

// CopyFileRange implements fuse.RawFileSystem. EOPNOTSUPP and EXDEV make the
// kernel read and write the data instead.
func (b *bridge) CopyFileRange(cancel <-chan struct{}, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	o := b.beginQuiet(cancel, &in.InHeader)
	from, to := b.handles.file(in.FhIn), b.handles.file(in.FhOut)
	if from == nil || to == nil {
		return 0, o.end(unix.EBADF)
	}
	dst, ok := to.file.(spaceFile)
	src, ok2 := from.file.(*nfsclient.File)
	if !ok || !ok2 {
		return 0, o.end(unix.ENOSYS)
	}
	if in.Flags != 0 {
		return 0, o.end(unix.EINVAL)
	}
	answered := b.change(to.node)
	to.dirty.Store(true)
	n, err := dst.CopyFrom(o, int64(in.OffOut), src, int64(in.OffIn), int64(min(in.Len, maxCopy)))
	answered()
	if notSupported(err) {
		err = unix.EOPNOTSUPP
		if from.node != to.node { // which is refused without asking
			err = b.refuse(nfsclient.FeatureCopy, nfsclient.FeatureClone)
		}
	}
	return uint32(n), o.end(err)
}
