package nfsclient

import (
	"context"
	"errors"
	"math"
	"syscall"

	"nfsrdma-fuse/xdr/nfs4"
)

// maxAppendTries bounds how often an append looks for the end of a file that
// others lengthen all the time. After that it writes where the end was last.
const maxAppendTries = 16

// Append is Write at the end of the file. off is where the caller believes that
// to be; if it is elsewhere, which others may have brought about, the data goes
// there. Append returns where that was, and the attributes of the file if they
// came along, as WriteAttrs does. Two clients that append at the very same
// time can still overwrite each other: NFS has no atomic append.
func (f *File) Append(ctx context.Context, off int64, data []byte) (at int64, n int, attrs *nfs4.Attrs, err error) {
	if f.access&nfs4.ShareAccessWrite == 0 {
		return off, 0, nil, opError(nfs4.OpWrite, syscall.EBADF)
	}
	wsize := f.c.wsize()
	only := !f.wrote.Swap(true) && len(data) <= wsize && len(data)%sector != 0
	for first := true; n < len(data); first = false {
		var m int
		end := off
		end, m, attrs, err = f.appendOnce(ctx, off, data[n:min(len(data), n+wsize)], only)
		if first {
			at = end
		}
		n += m
		if err != nil {
			return at, n, nil, opError(nfs4.OpWrite, err)
		}
		off = end + int64(m)
	}
	return at, n, attrs, nil
}

// appendOnce sends one WRITE for the end of the file.
func (f *File) appendOnce(ctx context.Context, off int64, data []byte, only bool) (at int64, n int, attrs *nfs4.Attrs, err error) {
	for try := 1; ; try++ {
		if off < 0 || off > math.MaxInt64-int64(len(data)) {
			return off, 0, nil, nfs4.ErrFBig
		}
		n, attrs, err = f.writeOnce(ctx, off, data, writeHow{atEnd: try < maxAppendTries, only: only})
		switch {
		case errors.Is(err, ErrUnknownOutcome), errors.Is(err, nfs4.ErrAttrNotSupp), errors.Is(err, nfs4.ErrNotSupp):
			// Sent again, the condition would fail because of this very data.
			// Without it the data replaces itself.
			n, attrs, err = f.writeOnce(ctx, off, data, writeHow{only: only})
			return off, n, attrs, err
		case !errors.Is(err, nfs4.ErrNotSame):
			return off, n, attrs, err
		}
		now, err := f.c.getAttr(ctx, f.open.cred, f.open.node.fh, nfs4.MakeBitmap(nfs4.AttrSize))
		if err != nil {
			return off, 0, nil, err
		}
		off = int64(now.Size)
	}
}
