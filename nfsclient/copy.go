package nfsclient

import (
	"context"
	"errors"
	"syscall"

	"nfsrdma-fuse/xdr/nfs4"
)

// CopyFrom has the server copy up to n bytes of src at srcOff to off of f, and
// returns how many it was: fewer at the end of src, where it is none, or if the
// server stopped earlier. What was copied is on stable storage.
//
// Where the server can let both files share the data (CLONE, RFC 7862 section
// 15.13) it is asked for that; otherwise to copy it while the request waits
// (COPY, section 15.2). The error matches nfs4.ErrNotSupp if the server does
// neither, and nfs4.ErrXDev if the files are on different file systems: then
// the data has to be read and written.
func (f *File) CopyFrom(ctx context.Context, off int64, src *File, srcOff, n int64) (int64, error) {
	if n == 0 {
		return 0, nil
	}
	for _, at := range []int64{off, srcOff} {
		if err := checkRange(at, n); err != nil {
			return 0, opError(nfs4.OpCopy, err)
		}
	}
	switch {
	case f.access&nfs4.ShareAccessWrite == 0, src.access&nfs4.ShareAccessRead == 0:
		return 0, opError(nfs4.OpCopy, syscall.EBADF)
	case f.fsid != src.fsid:
		return 0, opError(nfs4.OpCopy, nfs4.ErrXDev)
	case f.open.node == src.open.node:
		if off < srcOff+n && srcOff < off+n {
			return 0, opError(nfs4.OpCopy, nfs4.ErrInval)
		}
		// COPY within one file is for servers to refuse.
		return 0, opError(nfs4.OpCopy, nfs4.ErrNotSupp)
	}
	x := &copying{c: f.c, dst: f, src: src, from: use{f: src, access: nfs4.ShareAccessRead}, to: use{f: f, access: nfs4.ShareAccessWrite}}
	if x.mayClone(off, srcOff) {
		done, err := x.clone(ctx, off, srcOff, n)
		if done || err != nil {
			return n, err
		}
	}
	return x.copyStable(ctx, off, srcOff, n)
}

// copying is a CopyFrom in progress.
type copying struct {
	c        *Client
	dst, src *File
	from, to use
}

// cloneAlign is the alignment without which no CLONE is tried: the block size of
// the file systems that can do it is this or more.
const cloneAlign = 4096

func (x *copying) mayClone(off, srcOff int64) bool {
	return off%cloneAlign == 0 && srcOff%cloneAlign == 0 &&
		x.c.need(nfs4.OpClone, x.dst.fsid, FeatureClone) == nil
}

// request makes a request with an operation between the two files.
func (x *copying) request(ctx context.Context, off, n int64, args nfs4.Args, res nfs4.Res) (*request, error) {
	w := &x.dst.open.node.writes
	order, err := w.begin(ctx, off, int(n))
	if err != nil {
		return nil, err
	}
	r := x.c.newRequest(x.dst.open.cred)
	r.writes, r.order = w, order
	r.addPutFH(x.src.open.node.fh)
	r.add(&r.saveFH, &r.saveFHRes)
	r.addPutFH2(x.dst.open.node.fh)
	r.change(args, res)
	return r, nil
}

// clone tries a CLONE. It returns false if that is not possible and a COPY may
// be.
func (x *copying) clone(ctx context.Context, off, srcOff, n int64) (done bool, err error) {
	r, err := x.c.stated(ctx, nfs4.OpClone, []*use{&x.from, &x.to}, func() (*request, error) {
		return x.request(ctx, off, n, &nfs4.CloneArgs{
			SrcStateID: x.from.sid, DstStateID: x.to.sid,
			SrcOffset: uint64(srcOff), DstOffset: uint64(off), Count: uint64(n),
		}, new(nfs4.CloneRes))
	})
	if err != nil {
		x.dst.refused(err)
		switch status, _ := statusOf(err); status {
		case nfs4.ErrNotSupp, nfs4.ErrOpIllegal, // never on this file system
			nfs4.ErrInval, nfs4.ErrXDev, nfs4.ErrWrongType: // not this range of these files
			return false, nil
		}
		return false, err
	}
	x.c.settled(x.dst.open.node, off, int(n), r.order)
	r.free()
	return true, nil
}

// maxCopyTries bounds how often a copy is made because the server has restarted
// and may have lost it.
const maxCopyTries = 4

// copyStable copies and commits.
func (x *copying) copyStable(ctx context.Context, off, srcOff, n int64) (int64, error) {
	for try := 1; ; try++ {
		done, verf, unstable, err := x.copyOnce(ctx, off, srcOff, n)
		lost := errors.Is(err, errCopyLost)
		if !lost && (err != nil || !unstable) {
			return done, err
		}
		if !lost {
			now, _, err := x.c.sendCommit(ctx, x.dst.open.node, x.dst, false, false)
			if err != nil {
				return 0, err
			}
			if now == verf {
				return done, nil
			}
		}
		x.c.log.Info("server has restarted during a copy, copying again")
		if try == maxCopyTries {
			return 0, opError(nfs4.OpCopy, nfs4.ErrIO)
		}
	}
}

// errCopyLost says that the server has restarted during a copy.
var errCopyLost = errors.New("nfsclient: server restarted during a copy")

// copyOnce makes one copy of the range with as many COPYs as the server needs.
// If any of it is not on stable storage a COMMIT has to return verf.
func (x *copying) copyOnce(ctx context.Context, off, srcOff, n int64) (done int64, verf nfs4.Verifier, unstable bool, err error) {
	for done < n {
		res, err := x.copySome(ctx, off+done, srcOff+done, n-done)
		if errors.Is(err, nfs4.ErrInval) {
			// The range may reach beyond the end of the source, which the
			// server has to refuse (RFC 7862 section 15.2.3).
			rest, e := x.sourceLeft(ctx, srcOff+done)
			if e != nil {
				return 0, verf, false, e
			}
			if rest <= 0 {
				return done, verf, unstable, nil
			}
			if rest < n-done {
				n = done + rest
				continue
			}
		}
		switch {
		case err != nil && done > 0 && final(err):
			return done, verf, unstable, nil // the next call will meet the error
		case err != nil:
			return 0, verf, false, err
		case res.Count == 0:
			return done, verf, unstable, nil
		}
		if res.Committed != nfs4.FileSync {
			if unstable && res.Verf != verf {
				// What was copied before may be lost. No COMMIT can return both.
				return 0, verf, false, errCopyLost
			}
			verf, unstable = res.Verf, true
		}
		done += int64(min(res.Count, uint64(n-done)))
	}
	return done, verf, unstable, nil
}

// copySome sends one COPY.
func (x *copying) copySome(ctx context.Context, off, srcOff, n int64) (nfs4.WriteResponse, error) {
	c := x.c
	if err := c.need(nfs4.OpCopy, x.dst.fsid, FeatureCopy); err != nil {
		return nfs4.WriteResponse{}, err
	}
	res := new(nfs4.CopyRes)
	r, err := c.stated(ctx, nfs4.OpCopy, []*use{&x.from, &x.to}, func() (*request, error) {
		return x.request(ctx, off, n, &nfs4.CopyArgs{
			SrcStateID: x.from.sid, DstStateID: x.to.sid,
			SrcOffset: uint64(srcOff), DstOffset: uint64(off), Count: uint64(n),
			Consecutive: true, Synchronous: true,
		}, res)
	})
	if err != nil {
		x.dst.refused(err)
		switch status, _ := statusOf(err); status {
		case nfs4.ErrOffloadNoReqs: // it only copies behind our back
			c.features.refuse(x.dst.fsid, 1<<FeatureCopy)
			return nfs4.WriteResponse{}, opError(nfs4.OpCopy, nfs4.ErrNotSupp)
		case nfs4.ErrOffloadDenied:
			return nfs4.WriteResponse{}, opError(nfs4.OpCopy, nfs4.ErrNotSupp)
		}
		return nfs4.WriteResponse{}, err
	}
	order := r.order
	r.free()
	if res.Response.Async {
		x.cancel(ctx, res.Response.CallbackID)
		c.features.refuse(x.dst.fsid, 1<<FeatureCopy)
		return nfs4.WriteResponse{}, opError(nfs4.OpCopy, nfs4.ErrNotSupp)
	}
	c.settled(x.dst.open.node, off, int(min(res.Response.Count, uint64(n))), order)
	return res.Response, nil
}

// cancel ends a copy that the server goes on with although it was asked not to.
func (x *copying) cancel(ctx context.Context, id nfs4.StateID) {
	r := x.c.newRequest(x.dst.open.cred)
	r.addPutFH(x.dst.open.node.fh)
	r.change(&nfs4.OffloadCancelArgs{StateID: id}, new(nfs4.OffloadCancelRes))
	if err := x.c.do(ctx, r); err != nil {
		x.c.log.WithError(err).Warn("copy in the background not cancelled")
		return
	}
	r.free()
}

// sourceLeft returns how many bytes the source has from srcOff on.
func (x *copying) sourceLeft(ctx context.Context, srcOff int64) (int64, error) {
	a, err := x.c.getAttr(ctx, x.src.open.cred, x.src.open.node.fh, nfs4.MakeBitmap(nfs4.AttrSize))
	if err != nil {
		return 0, err
	}
	return int64(a.Size) - srcOff, nil
}
