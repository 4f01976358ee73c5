package nfsclient

import (
	"context"
	"math"
	"syscall"

	"nfsrdma-fuse/xdr/nfs4"
)

// Allocate has the server reserve space for n bytes at off, and makes the file
// as long as that (RFC 7862 section 15.1). It fails with NFS4ERR_NOTSUPP if the
// server does not offer it.
func (f *File) Allocate(ctx context.Context, off, n int64) error {
	return f.space(ctx, nfs4.OpAllocate, off, n)
}

// Deallocate makes n bytes at off a hole; the size of the file stays (RFC 7862
// section 15.4).
func (f *File) Deallocate(ctx context.Context, off, n int64) error {
	return f.space(ctx, nfs4.OpDeallocate, off, n)
}

// ZeroRange makes n bytes at off zero with space reserved for them, and makes
// the file at least as long as that: a DEALLOCATE and an ALLOCATE in one
// request.
func (f *File) ZeroRange(ctx context.Context, off, n int64) error {
	return f.space(ctx, nfs4.OpAllocate, off, n, nfs4.OpDeallocate)
}

// space carries out op on a range, behind the operations in before.
//
// A DEALLOCATE takes its place among the WRITEs: it waits for those that were
// given up and may still be carried out, and what WRITEs before it have left
// uncommitted in the range must not be written again after a restart of the
// server.
func (f *File) space(ctx context.Context, op nfs4.OpNum, off, n int64, before ...nfs4.OpNum) error {
	c, node := f.c, f.open.node
	if err := checkRange(off, n); err != nil {
		return opError(op, err)
	}
	if f.access&nfs4.ShareAccessWrite == 0 {
		return opError(op, syscall.EBADF)
	}
	ops := append(before, op)
	punches := false
	for _, op := range ops {
		feature := FeatureAllocate
		if op == nfs4.OpDeallocate {
			feature = FeatureDeallocate
			punches = true
		}
		if err := c.need(op, f.fsid, feature); err != nil {
			return err
		}
	}
	u := &use{f: f, access: nfs4.ShareAccessWrite}
	r, err := c.stated(ctx, op, []*use{u}, func() (*request, error) {
		r := c.newRequest(f.open.cred)
		if punches {
			order, err := node.writes.begin(ctx, off, int(n))
			if err != nil {
				r.free()
				return nil, err
			}
			r.writes, r.order = &node.writes, order
		}
		r.addPutFH(node.fh)
		for _, op := range ops {
			if op == nfs4.OpDeallocate {
				r.change(&nfs4.DeallocateArgs{StateID: u.sid, Offset: uint64(off), Length: uint64(n)}, new(nfs4.DeallocateRes))
			} else {
				r.change(&nfs4.AllocateArgs{StateID: u.sid, Offset: uint64(off), Length: uint64(n)}, new(nfs4.AllocateRes))
			}
		}
		return r, nil
	})
	if err != nil {
		f.refused(err)
		return err
	}
	if punches {
		c.settled(node, off, int(n), r.order)
	}
	r.free()
	return nil
}

// refused remembers an operation that the server does not offer for the file.
func (f *File) refused(err error) {
	e, ok := err.(*Error)
	if !ok {
		return
	}
	for op, feature := range map[nfs4.OpNum]Feature{
		nfs4.OpAllocate: FeatureAllocate, nfs4.OpDeallocate: FeatureDeallocate, nfs4.OpSeek: FeatureSeek,
		nfs4.OpCopy: FeatureCopy, nfs4.OpClone: FeatureClone,
	} {
		if status, _ := statusOf(err); e.Op == op.String() {
			f.c.features.answered(f.fsid, feature, status)
		}
	}
}

// settled notes that n bytes at off are stable at the server as an operation with
// this place in the order has left them.
func (c *Client) settled(n *node, off int64, size int, order uint64) {
	w := &n.writes
	w.mu.Lock()
	w.ledger.stable(off, size, order)
	c.state.pages.set(n, w.ledger.size)
	w.mu.Unlock()
}

// checkRange checks a range of a file, in bytes.
func checkRange(off, n int64) error {
	switch {
	case off < 0 || n <= 0:
		return nfs4.ErrInval
	case n > math.MaxInt64-off:
		return nfs4.ErrFBig
	}
	return nil
}
