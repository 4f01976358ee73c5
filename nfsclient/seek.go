package nfsclient

import (
	"context"
	"fmt"

	"nfsrdma-fuse/xdr/nfs4"
)

// Seek returns the first offset at or behind off that has data, or, with hole
// set, the first that lies in a hole; there is a hole behind the last byte of
// every file (RFC 7862 section 15.11). It fails with NFS4ERR_NXIO if there is
// none within the file, and with NFS4ERR_NOTSUPP if the server does not offer
// it.
func (f *File) Seek(ctx context.Context, off int64, hole bool) (int64, error) {
	c := f.c
	if off < 0 {
		return 0, opError(nfs4.OpSeek, nfs4.ErrNXIO)
	}
	if err := c.need(nfs4.OpSeek, f.fsid, FeatureSeek); err != nil {
		return 0, err
	}
	what := nfs4.ContentData
	if hole {
		what = nfs4.ContentHole
	}
	u := readUse(f)
	res := new(nfs4.SeekRes)
	r, err := c.stated(ctx, nfs4.OpSeek, []*use{u}, func() (*request, error) {
		r := c.newRequest(f.open.cred)
		r.addPutFH(f.open.node.fh)
		r.add(&nfs4.SeekArgs{StateID: u.sid, Offset: uint64(off), What: what}, res)
		return r, nil
	})
	if err != nil {
		f.refused(err)
		return 0, err
	}
	r.free()
	// Servers that find no data say so in one of two ways: this, or
	// NFS4ERR_NXIO.
	if res.EOF && !hole {
		return 0, opError(nfs4.OpSeek, nfs4.ErrNXIO)
	}
	if int64(res.Offset) < off {
		return 0, opError(nfs4.OpSeek, fmt.Errorf("%w: offset %d for a search from %d on", ErrProtocol, res.Offset, off))
	}
	return int64(res.Offset), nil
}
