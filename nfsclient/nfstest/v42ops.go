package nfstest

import (
	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// fileRange checks a range of a file, in bytes.
func fileRange(offset, length uint64) (int64, int64, nfs4.Status) {
	switch {
	case offset > memfs.MaxSize || length > memfs.MaxSize || length > memfs.MaxSize-offset:
		return 0, 0, nfs4.ErrFBig
	}
	return int64(offset), int64(length), nfs4.OK
}

// seek carries out SEEK (RFC 7862 section 15.11).
func (c *compound) seek(a *nfs4.SeekArgs) nfs4.Res {
	status := c.checkIO(a.StateID, false)
	switch {
	case status != nfs4.OK:
		return fail(nfs4.OpSeek, status)
	case a.What > nfs4.ContentHole:
		return fail(nfs4.OpSeek, nfs4.ErrUnionNotSupp)
	case a.Offset > memfs.MaxSize:
		return fail(nfs4.OpSeek, nfs4.ErrNXIO)
	}
	at, eof, err := c.cur.exp.fs.SeekData(c.cur.n, int64(a.Offset), a.What == nfs4.ContentHole)
	if err != nil {
		return fail(nfs4.OpSeek, statusOf(err))
	}
	return &nfs4.SeekRes{EOF: eof, Offset: uint64(at)}
}

// allocate carries out ALLOCATE (RFC 7862 section 15.1).
func (c *compound) allocate(a *nfs4.AllocateArgs) nfs4.Res {
	status := c.checkIO(a.StateID, true)
	off, size, st := fileRange(a.Offset, a.Length)
	if status == nfs4.OK {
		status = st
	}
	if status == nfs4.OK {
		status = statusOf(c.cur.exp.fs.Allocate(c.credFor(c.cur), c.cur.n, off, size))
	}
	return &nfs4.AllocateRes{Status: status}
}

// deallocate carries out DEALLOCATE (RFC 7862 section 15.4).
func (c *compound) deallocate(a *nfs4.DeallocateArgs) nfs4.Res {
	status := c.checkIO(a.StateID, true)
	if a.Length > memfs.MaxSize-min(a.Offset, memfs.MaxSize) {
		a.Length = memfs.MaxSize - min(a.Offset, memfs.MaxSize) // up to the end
	}
	off, size, st := fileRange(a.Offset, a.Length)
	if status == nfs4.OK {
		status = st
	}
	if status == nfs4.OK {
		status = statusOf(c.cur.exp.fs.Deallocate(c.credFor(c.cur), c.cur.n, off, size))
	}
	return &nfs4.DeallocateRes{Status: status}
}

// twoFiles checks the saved and the current file of COPY and CLONE.
func (c *compound) twoFiles(src, dst nfs4.StateID) nfs4.Status {
	if !c.saved.valid() {
		return nfs4.ErrNoFileHandle
	}
	if src == nfs4.CurrentStateID { // that of the saved file
		if !c.hasSaved {
			return nfs4.ErrBadStateID
		}
		src = c.savedState
		src.Seq = 0
	}
	if status := c.checkIO(dst, true); status != nfs4.OK {
		return status
	}
	cur, state, has := c.cur, c.curState, c.hasState
	c.cur = c.saved
	status := c.checkIO(src, false)
	c.cur, c.curState, c.hasState = cur, state, has
	if status == nfs4.OK && c.saved.exp != c.cur.exp {
		status = nfs4.ErrXDev
	}
	return status
}

// copyRange carries out COPY, within one file system and before it answers
// (RFC 7862 section 15.2).
func (c *compound) copyRange(a *nfs4.CopyArgs) nfs4.Res {
	status := nfs4.OK
	if len(a.SourceServers) > 0 {
		status = nfs4.ErrNotSupp
	} else {
		status = c.twoFiles(a.SrcStateID, a.DstStateID)
	}
	if status != nfs4.OK {
		return fail(nfs4.OpCopy, status)
	}
	count := a.Count
	if count == 0 || count > maxCopy {
		count = maxCopy
	}
	copied, err := c.transfer(a.SrcOffset, a.DstOffset, count, false)
	if err != nil {
		return fail(nfs4.OpCopy, statusOf(err))
	}
	return &nfs4.CopyRes{Consecutive: true, Synchronous: true, Response: nfs4.WriteResponse{
		Count: uint64(copied), Committed: nfs4.FileSync, Verf: c.s.writeVerifier()}}
}

// maxCopy is the number of bytes that one COPY copies at most: others have to wait
// meanwhile, and clients have to go on behind what was copied.
const maxCopy = 64 << 20

// clone carries out CLONE (RFC 7862 section 15.13).
func (c *compound) clone(a *nfs4.CloneArgs) nfs4.Res {
	status := c.twoFiles(a.SrcStateID, a.DstStateID)
	if status == nfs4.OK {
		_, err := c.transfer(a.SrcOffset, a.DstOffset, a.Count, true)
		status = statusOf(err)
	}
	return &nfs4.CloneRes{Status: status}
}

func (c *compound) transfer(srcOff, dstOff, count uint64, exact bool) (int64, error) {
	if srcOff > memfs.MaxSize || dstOff > memfs.MaxSize {
		return 0, nfs4.ErrInval
	}
	return c.cur.exp.fs.Copy(c.credFor(c.cur), c.saved.n, int64(srcOff), c.cur.n, int64(dstOff),
		int64(min(count, memfs.MaxSize)), exact)
}

// ioAdvise carries out IO_ADVISE: it takes note of nothing (RFC 7862 section
// 15.5).
func (c *compound) ioAdvise(a *nfs4.IOAdviseArgs) nfs4.Res {
	if status := c.checkIO(a.StateID, false); status != nfs4.OK {
		return fail(nfs4.OpIOAdvise, status)
	}
	return &nfs4.IOAdviseRes{}
}
