package nfstest

import (
	"sort"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
)

// checkXattr checks what the operations of RFC 8276 have in common.
func (c *compound) checkXattr(write bool) nfs4.Status {
	switch {
	case c.s.opt.NoXattrs:
		return nfs4.ErrNotSupp
	case c.cur.n.Kind() != memfs.Regular && c.cur.n.Kind() != memfs.Directory:
		return nfs4.ErrWrongType
	case write && c.cur.exp.ReadOnly:
		return nfs4.ErrROFS
	case write:
		return c.breakFor(c.cur, true)
	}
	return nfs4.OK
}

// getXattr carries out GETXATTR (RFC 8276 section 8.4.1).
func (c *compound) getXattr(a *nfs4.GetXattrArgs) nfs4.Res {
	if status := c.checkXattr(false); status != nfs4.OK {
		return fail(nfs4.OpGetXattr, status)
	}
	v, err := c.cur.exp.fs.GetXattr(c.credFor(c.cur), c.cur.n, a.Name)
	if err != nil {
		return fail(nfs4.OpGetXattr, statusOf(err))
	}
	if len(v)+16 > c.room() {
		return fail(nfs4.OpGetXattr, c.tooBig)
	}
	return &nfs4.GetXattrRes{Value: v}
}

// setXattr carries out SETXATTR (RFC 8276 section 8.4.2).
func (c *compound) setXattr(a *nfs4.SetXattrArgs) nfs4.Res {
	status := c.checkXattr(true)
	if status == nfs4.OK && (a.Option > nfs4.SetXattrReplace || a.Name == "") {
		status = nfs4.ErrInval
	}
	if status != nfs4.OK {
		return fail(nfs4.OpSetXattr, status)
	}
	change, err := c.cur.exp.fs.SetXattr(c.credFor(c.cur), c.cur.n, a.Name, a.Value, memfs.XattrMode(a.Option))
	if err != nil {
		return fail(nfs4.OpSetXattr, statusOf(err))
	}
	return &nfs4.SetXattrRes{Change: changeInfo(change)}
}

// removeXattr carries out REMOVEXATTR (RFC 8276 section 8.4.4).
func (c *compound) removeXattr(a *nfs4.RemoveXattrArgs) nfs4.Res {
	if status := c.checkXattr(true); status != nfs4.OK {
		return fail(nfs4.OpRemoveXattr, status)
	}
	change, err := c.cur.exp.fs.RemoveXattr(c.credFor(c.cur), c.cur.n, a.Name)
	if err != nil {
		return fail(nfs4.OpRemoveXattr, statusOf(err))
	}
	return &nfs4.RemoveXattrRes{Change: changeInfo(change)}
}

// listXattrs carries out LISTXATTRS (RFC 8276 section 8.4.3). The cookie is the
// number of names passed so far, in sorted order.
func (c *compound) listXattrs(a *nfs4.ListXattrsArgs) nfs4.Res {
	if status := c.checkXattr(false); status != nfs4.OK {
		return fail(nfs4.OpListXattrs, status)
	}
	names, err := c.cur.exp.fs.ListXattrs(c.credFor(c.cur), c.cur.n)
	if err != nil {
		return fail(nfs4.OpListXattrs, statusOf(err))
	}
	sort.Strings(names)
	if a.Cookie > uint64(len(names)) {
		return fail(nfs4.OpListXattrs, nfs4.ErrBadCookie)
	}
	names = names[a.Cookie:]
	left := min(int(a.MaxCount), c.room()-16) - 16 // cookie, count and eof
	res := &nfs4.ListXattrsRes{Cookie: a.Cookie}
	for _, n := range names {
		if left -= 4 + xdr.PadLen(len(n)); left < 0 {
			break
		}
		res.Names = append(res.Names, nfs4.Component(n))
		res.Cookie++
	}
	res.EOF = len(res.Names) == len(names)
	if len(res.Names) == 0 && !res.EOF {
		return fail(nfs4.OpListXattrs, nfs4.ErrTooSmall)
	}
	return res
}
