package nfstest

import (
	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// mayIO tells whether the credentials allow for a file to be read or written as
// access says. What may be executed may be read, or nobody could execute it; and
// with owner set its owner may do both, because he could have opened it before
// its mode was changed.
func (c *compound) mayIO(o object, cred memfs.Cred, access uint32, owner bool) nfs4.Status {
	var want uint32
	if access&nfs4.ShareAccessRead != 0 {
		want |= memfs.MayRead
	}
	if access&nfs4.ShareAccessWrite != 0 {
		want |= memfs.MayWrite
	}
	has := o.n.Access(cred, memfs.MayRead|memfs.MayWrite|memfs.MayExec)
	if has&memfs.MayExec != 0 {
		has |= memfs.MayRead
	}
	if want&^has == 0 || owner && o.n.Attr().UID == cred.UID {
		return nfs4.OK
	}
	return nfs4.ErrAccess
}

// checkIO checks that the current object is a file and may be read or written
// with a stateid.
func (c *compound) checkIO(id nfs4.StateID, write bool) nfs4.Status {
	switch c.cur.n.Kind() {
	case memfs.Regular:
	case memfs.Directory:
		return nfs4.ErrIsDir
	case memfs.Symlink:
		return nfs4.ErrSymlink
	default:
		return nfs4.ErrWrongType
	}
	if write && c.cur.exp.ReadOnly {
		return nfs4.ErrROFS
	}
	_, status := c.forIO(id, write)
	if status != nfs4.OK {
		return status
	}
	access := nfs4.ShareAccessRead
	if write {
		access = nfs4.ShareAccessWrite
	}
	return c.mayIO(c.cur, c.credFor(c.cur), access, true)
}

// read carries out READ (RFC 8881 section 18.22).
func (c *compound) read(a *nfs4.ReadArgs) nfs4.Res {
	if status := c.checkIO(a.StateID, false); status != nfs4.OK {
		return fail(nfs4.OpRead, status)
	}
	n := min(int(a.Count), c.s.opt.MaxPayload)
	if a.Offset > memfs.MaxSize {
		return &nfs4.ReadRes{EOF: true}
	}
	if size := c.cur.n.Attr().Size; uint64(size) <= a.Offset {
		n = 0
	} else {
		n = int(min(int64(n), size-int64(a.Offset)))
	}
	if n+readFrame > c.room() {
		return fail(nfs4.OpRead, c.tooBig)
	}
	// The reply refers to the data until it is sent, and others may write to
	// the file meanwhile; so it is copied, behind what earlier READs of the
	// same COMPOUND have copied.
	at := len(c.m.data)
	if cap(c.m.data)-at < n {
		c.m.data, at = make([]byte, 0, max(n, 64<<10)), 0
	}
	c.m.data = c.m.data[:at+n]
	buf := c.m.data[at : at+n : at+n]
	got, eof, err := c.cur.exp.fs.Read(c.cur.n, int64(a.Offset), buf)
	if err != nil {
		return fail(nfs4.OpRead, statusOf(err))
	}
	return &nfs4.ReadRes{EOF: eof, Data: buf[:got]}
}

// readFrame is the size of a READ result without its data.
const readFrame = 4 + 4 + 4 + 4 + 3

// write carries out WRITE (RFC 8881 section 18.32).
func (c *compound) write(a *nfs4.WriteArgs) nfs4.Res {
	if status := c.checkIO(a.StateID, true); status != nfs4.OK {
		return fail(nfs4.OpWrite, status)
	}
	if a.Stable > nfs4.FileSync {
		return fail(nfs4.OpWrite, nfs4.ErrInval)
	}
	data := a.Data
	if len(data) > c.s.opt.MaxPayload {
		data = data[:c.s.opt.MaxPayload]
	}
	if a.Offset > memfs.MaxSize {
		return fail(nfs4.OpWrite, nfs4.ErrFBig)
	}
	stable := a.Stable != nfs4.Unstable
	if err := c.cur.exp.fs.Write(c.credFor(c.cur), c.cur.n, int64(a.Offset), data, stable); err != nil {
		return fail(nfs4.OpWrite, statusOf(err))
	}
	res := &nfs4.WriteRes{Count: uint32(len(data)), Committed: a.Stable, Verf: c.s.writeVerifier()}
	if stable {
		res.Committed = nfs4.FileSync
	}
	return res
}

// commit carries out COMMIT (RFC 8881 section 18.3). It always takes the whole
// file.
func (c *compound) commit(a *nfs4.CommitArgs) nfs4.Res {
	switch c.cur.n.Kind() {
	case memfs.Regular:
	case memfs.Directory:
		return fail(nfs4.OpCommit, nfs4.ErrIsDir)
	case memfs.Symlink:
		return fail(nfs4.OpCommit, nfs4.ErrSymlink)
	default:
		return fail(nfs4.OpCommit, nfs4.ErrWrongType)
	}
	if a.Offset > nfs4.MaxLength-uint64(a.Count) {
		return fail(nfs4.OpCommit, nfs4.ErrInval)
	}
	if c.cur.exp.ReadOnly {
		return fail(nfs4.OpCommit, nfs4.ErrROFS)
	}
	if status := c.mayIO(c.cur, c.credFor(c.cur), nfs4.ShareAccessWrite, true); status != nfs4.OK {
		return fail(nfs4.OpCommit, status)
	}
	if err := c.cur.exp.fs.Commit(c.cur.n); err != nil {
		return fail(nfs4.OpCommit, statusOf(err))
	}
	return &nfs4.CommitRes{Verf: c.s.writeVerifier()}
}

func (s *Server) writeVerifier() nfs4.Verifier {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.verifier
}

// ChangeWriteVerifier gives the server another write verifier, as if it had lost
// uncommitted data; with lose set it does lose it. It returns the number of
// files that lost data.
func (s *Server) ChangeWriteVerifier(lose bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verifier[0]++
	files := 0
	if lose {
		for _, e := range s.exports.byID {
			files += e.fs.DropUncommitted()
		}
	}
	return files
}
