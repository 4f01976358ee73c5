package fusefs

import (
	"context"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/xdr/nfs4"
)

// O_APPEND. The kernel appends where it believes the file to end, which it
// learns only now and then; another client may have lengthened the file since.
// So an append is sent on the condition that the file ends there, and goes to
// where it ends if it does not. What is left to chance is the moment between
// the server's check and its write: NFS has no append.
//
// When data has gone elsewhere than the kernel believes, its pages and its
// attributes of the file are wrong; they are dropped as soon as it has the
// answer. The next append will be moved as well, until the kernel has asked for
// the attributes.

// appender is an open file that can write at its end.
type appender interface {
	// Append writes data at off if the file ends there, and otherwise where
	// it ends, which it returns, with the attributes if they came along.
	Append(ctx context.Context, off int64, data []byte) (at int64, n int, attrs *nfs4.Attrs, err error)
}

// failing is an open file that can tell of data that was lost.
type failing interface{ Failure() error }

// failure returns the error of data written through this handle or another that
// was lost, once for each handle.
func (h *fileHandle) failure() error {
	if f, ok := h.file.(failing); ok {
		return f.Failure()
	}
	return nil
}

// isAppend tells whether a WRITE comes from write(2) on a descriptor that
// appends; write-back of mapped pages does not.
func isAppend(in *fuse.WriteIn) bool {
	return in.Flags&unix.O_APPEND != 0 && in.WriteFlags&fuse.WRITE_CACHE == 0
}

// write writes through a handle, at the end of the file if it is an append.
func (b *bridge) write(o *op, h *fileHandle, in *fuse.WriteIn, data []byte) (int, *nfs4.Attrs, error) {
	f, ok := h.file.(appender)
	if !ok || !isAppend(in) {
		return h.file.WriteAttrs(o, int64(in.Offset), data)
	}
	at, n, attrs, err := f.Append(o, int64(in.Offset), data)
	if n > 0 && at != int64(in.Offset) {
		// The kernel holds the pages locked that it has filled until it has
		// our answer.
		b.expiring.Go(func() { b.dropCache(h.node) })
	}
	return n, attrs, err
}
