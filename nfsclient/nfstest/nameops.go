package nfstest

import (
	"encoding/binary"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// checkName checks a component (RFC 8881 section 15.1.7). Names need not be
// UTF-8: file systems of POSIX systems take any bytes.
func checkName(name string) nfs4.Status {
	switch {
	case name == "":
		return nfs4.ErrInval
	case name == "." || name == "..":
		return nfs4.ErrBadName
	case len(name) > memfs.MaxName:
		return nfs4.ErrNameTooLong
	case memfs.CheckName(name) != nil:
		return nfs4.ErrBadChar
	}
	return nfs4.OK
}

// checkDir checks that the object is a directory to look something up in.
func checkDir(o object) nfs4.Status {
	switch o.n.Kind() {
	case memfs.Directory:
		return nfs4.OK
	case memfs.Symlink:
		return nfs4.ErrSymlink
	}
	return nfs4.ErrNotDir
}

// checkEntry checks a directory and the name of an entry that is to be changed.
func checkEntry(dir object, name string) nfs4.Status {
	switch {
	case dir.n.Kind() != memfs.Directory:
		return nfs4.ErrNotDir
	case checkName(name) != nfs4.OK:
		return checkName(name)
	case dir.exp.ReadOnly:
		return nfs4.ErrROFS
	}
	return nfs4.OK
}

func (c *compound) putFH(a *nfs4.PutFHArgs) nfs4.Res {
	o, status := c.s.exports.byHandle(a.FH)
	if status == nfs4.OK {
		c.setCur(o)
	}
	return &nfs4.PutFHRes{Status: status}
}

// lookup carries out LOOKUP (RFC 8881 section 18.13).
func (c *compound) lookup(a *nfs4.LookupArgs) nfs4.Res {
	status := checkDir(c.cur)
	if status == nfs4.OK {
		status = checkName(a.Name)
	}
	if status != nfs4.OK {
		return &nfs4.LookupRes{Status: status}
	}
	o, err := c.s.exports.lookup(c.credFor(c.cur), c.cur, a.Name)
	if err == nil {
		c.setCur(o)
	}
	return &nfs4.LookupRes{Status: statusOf(err)}
}

// lookupP carries out LOOKUPP (RFC 8881 section 18.14).
func (c *compound) lookupP() nfs4.Res {
	if status := checkDir(c.cur); status != nfs4.OK {
		return &nfs4.LookupPRes{Status: status}
	}
	o, ok, err := c.s.exports.up(c.credFor(c.cur), c.cur)
	switch {
	case err != nil:
		return &nfs4.LookupPRes{Status: statusOf(err)}
	case !ok:
		return &nfs4.LookupPRes{Status: nfs4.ErrNoEnt}
	}
	c.setCur(o)
	return &nfs4.LookupPRes{}
}

// access carries out ACCESS (RFC 8881 section 18.1, RFC 8276 section 8.5).
func (c *compound) access(a *nfs4.AccessArgs) nfs4.Res {
	const plain = nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessModify | nfs4.AccessExtend |
		nfs4.AccessDelete | nfs4.AccessExecute
	const xattrs = nfs4.AccessXARead | nfs4.AccessXAWrite | nfs4.AccessXAList
	known := plain
	if c.minor >= 2 && !c.s.opt.NoXattrs {
		known |= xattrs
	}
	kind := c.cur.n.Kind()
	if kind == memfs.Directory {
		known &^= nfs4.AccessExecute
	} else {
		known &^= nfs4.AccessLookup | nfs4.AccessDelete
	}
	has := c.cur.n.Access(c.credFor(c.cur), memfs.MayRead|memfs.MayWrite|memfs.MayExec)
	if c.cur.exp.ReadOnly && (kind == memfs.Regular || kind == memfs.Directory || kind == memfs.Symlink) {
		has &^= memfs.MayWrite
	}
	var got uint32
	if has&memfs.MayRead != 0 {
		got |= nfs4.AccessRead | nfs4.AccessXARead | nfs4.AccessXAList
	}
	if has&memfs.MayWrite != 0 {
		got |= nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessXAWrite
		if has&memfs.MayExec != 0 {
			got |= nfs4.AccessDelete
		}
	}
	if has&memfs.MayExec != 0 {
		got |= nfs4.AccessLookup | nfs4.AccessExecute
	}
	supported := a.Access & known
	return &nfs4.AccessRes{Supported: supported, Access: got & supported}
}

// cookieVerifier is that of all directories of a file system: cookies stay valid
// as long as it exists.
func (o object) cookieVerifier() (v nfs4.Verifier) {
	binary.BigEndian.PutUint64(v[:], fhMagic<<32|uint64(o.exp.id))
	return v
}

// readDir carries out READDIR (RFC 8881 section 18.23).
func (c *compound) readDir(a *nfs4.ReadDirArgs) nfs4.Res {
	verf := c.cur.cookieVerifier()
	switch {
	case c.cur.n.Kind() != memfs.Directory:
		return fail(nfs4.OpReadDir, nfs4.ErrNotDir)
	case a.Cookie == 1 || a.Cookie == 2:
		return fail(nfs4.OpReadDir, nfs4.ErrBadCookie)
	case a.Cookie != 0 && a.CookieVerf != verf:
		return fail(nfs4.OpReadDir, nfs4.ErrNotSame)
	case !a.AttrRequest.And(writeOnly).IsZero():
		return fail(nfs4.OpReadDir, nfs4.ErrInval)
	}
	args := *a
	args.MaxCount = uint32(max(0, min(int(a.MaxCount), c.room()-8)))
	res := &nfs4.ReadDirRes{CookieVerf: verf}
	list := &c.m.list
	list.Reset(&args, nil)
	cred := c.credFor(c.cur)
	for cookie, full := a.Cookie, false; !full && !res.EOF; {
		batch := 64
		if a.AttrRequest.IsZero() {
			batch = 512
		}
		entries, end, err := c.cur.exp.fs.ReadDir(cred, c.cur.n, cookie, batch, c.m.ents[:0])
		if err != nil {
			return fail(nfs4.OpReadDir, statusOf(err))
		}
		c.m.ents = entries
		for i := range entries {
			if full = !list.Add(c.dirEntry(&entries[i], a.AttrRequest)); full {
				break
			}
			cookie = entries[i].Cookie
		}
		res.EOF = end && !full
	}
	if list.Err() != nil {
		return fail(nfs4.OpReadDir, nfs4.ErrServerFault)
	}
	if list.Len() == 0 && !res.EOF {
		return fail(nfs4.OpReadDir, nfs4.ErrTooSmall)
	}
	res.Entries = list.Bytes()
	return res
}

func (c *compound) dirEntry(e *memfs.Entry, want nfs4.Bitmap) *nfs4.Entry {
	o, attr := object{c.cur.exp, e.Inode}, e.Attr
	if over := c.s.exports.cross(o); over != o {
		o, attr = over, over.n.Attr()
	}
	c.m.dirb = append(c.m.dirb[:0], e.Name...)
	c.m.ent = nfs4.Entry{Cookie: e.Cookie, Name: c.m.dirb, Attrs: c.attributes(o, attr, want)}
	return &c.m.ent
}

// readLink carries out READLINK (RFC 8881 section 18.24).
func (c *compound) readLink() nfs4.Res {
	if c.cur.n.Kind() != memfs.Symlink {
		return fail(nfs4.OpReadLink, nfs4.ErrWrongType)
	}
	return &nfs4.ReadLinkRes{Text: []byte(c.cur.n.Target())}
}

var kinds = map[nfs4.FileType]memfs.Kind{
	nfs4.TypeDir: memfs.Directory, nfs4.TypeLnk: memfs.Symlink, nfs4.TypeBlk: memfs.BlockDevice,
	nfs4.TypeChr: memfs.CharDevice, nfs4.TypeFifo: memfs.FIFO, nfs4.TypeSock: memfs.Socket,
}

// create carries out CREATE (RFC 8881 section 18.4).
func (c *compound) create(a *nfs4.CreateArgs) nfs4.Res {
	kind, ok := kinds[a.Type]
	if !ok {
		return fail(nfs4.OpCreate, nfs4.ErrBadType)
	}
	if status := checkEntry(c.cur, a.Name); status != nfs4.OK {
		return fail(nfs4.OpCreate, status)
	}
	attrs, status := c.decodeAttrs(c.cur, &a.Attrs, true)
	if status != nfs4.OK {
		return fail(nfs4.OpCreate, status)
	}
	otherwise := uint32(0o644)
	if kind == memfs.Directory {
		otherwise = 0o755
	}
	cred := c.credFor(c.cur)
	fs := c.cur.exp.fs
	n, change, err := fs.Make(cred, c.cur.n, a.Name, memfs.Object{Kind: kind, Mode: attrs.createMode(otherwise),
		Target: string(a.LinkText), Major: a.RawDev.Major, Minor: a.RawDev.Minor})
	if err != nil {
		return fail(nfs4.OpCreate, statusOf(err))
	}
	o := object{c.cur.exp, n}
	set, status := c.applyNew(o, cred, &attrs)
	if status != nfs4.OK {
		_, _ = fs.Remove(memfs.Cred{}, c.cur.n, a.Name) // it was never seen
		return fail(nfs4.OpCreate, status)
	}
	c.setCur(o)
	return &nfs4.CreateRes{Change: changeInfo(change), AttrsSet: set}
}

// breakEntry recalls the delegations of the file that an entry leads to, whose
// name or number of links is about to change.
func (c *compound) breakEntry(dir object, name string) nfs4.Status {
	n, err := dir.exp.fs.Lookup(memfs.Cred{}, dir.n, name)
	if err != nil {
		return nfs4.OK // the operation itself will tell
	}
	if c.s.exports.covers[n] != nil {
		return nfs4.ErrFileOpen // a file system is mounted there
	}
	return c.breakFor(object{dir.exp, n}, true)
}

// grace tells whether names may not be changed now: a client might be about to
// reclaim what it has open.
func (c *compound) grace() bool {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return c.s.inGrace()
}

// remove carries out REMOVE (RFC 8881 section 18.25).
func (c *compound) remove(a *nfs4.RemoveArgs) nfs4.Res {
	status := checkEntry(c.cur, a.Name)
	if status == nfs4.OK && c.grace() {
		status = nfs4.ErrGrace
	}
	if status == nfs4.OK {
		status = c.breakEntry(c.cur, a.Name)
	}
	if status != nfs4.OK {
		return fail(nfs4.OpRemove, status)
	}
	change, err := c.cur.exp.fs.Remove(c.credFor(c.cur), c.cur.n, a.Name)
	if err != nil {
		return fail(nfs4.OpRemove, statusOf(err))
	}
	return &nfs4.RemoveRes{Change: changeInfo(change)}
}

// rename carries out RENAME (RFC 8881 section 18.26).
func (c *compound) rename(a *nfs4.RenameArgs) nfs4.Res {
	if !c.saved.valid() {
		return fail(nfs4.OpRename, nfs4.ErrNoFileHandle)
	}
	status := checkEntry(c.saved, a.OldName)
	if status == nfs4.OK {
		status = checkEntry(c.cur, a.NewName)
	}
	switch {
	case status != nfs4.OK:
	case c.saved.exp != c.cur.exp:
		status = nfs4.ErrXDev
	case c.grace():
		status = nfs4.ErrGrace
	}
	if status == nfs4.OK {
		status = c.breakEntry(c.saved, a.OldName)
	}
	if status == nfs4.OK {
		status = c.breakEntry(c.cur, a.NewName)
	}
	if status != nfs4.OK {
		return fail(nfs4.OpRename, status)
	}
	from, to, err := c.cur.exp.fs.Rename(c.credFor(c.cur), c.saved.n, a.OldName, c.cur.n, a.NewName)
	if err != nil {
		return fail(nfs4.OpRename, statusOf(err))
	}
	return &nfs4.RenameRes{Source: changeInfo(from), Target: changeInfo(to)}
}

// link carries out LINK (RFC 8881 section 18.9).
func (c *compound) link(a *nfs4.LinkArgs) nfs4.Res {
	if !c.saved.valid() {
		return fail(nfs4.OpLink, nfs4.ErrNoFileHandle)
	}
	status := checkEntry(c.cur, a.Name)
	switch {
	case status != nfs4.OK:
	case c.saved.n.Kind() == memfs.Directory:
		status = nfs4.ErrIsDir
	case c.saved.exp != c.cur.exp:
		status = nfs4.ErrXDev
	case c.grace():
		status = nfs4.ErrGrace
	default:
		status = c.breakFor(c.saved, true)
	}
	if status != nfs4.OK {
		return fail(nfs4.OpLink, status)
	}
	change, err := c.cur.exp.fs.Link(c.credFor(c.cur), c.saved.n, c.cur.n, a.Name)
	if err != nil {
		return fail(nfs4.OpLink, statusOf(err))
	}
	return &nfs4.LinkRes{Change: changeInfo(change)}
}

var flavors = []nfs4.SecInfo{{Flavor: nfs4.FlavorSys}, {Flavor: nfs4.FlavorNone}}

// secInfo carries out SECINFO, which uses up the current filehandle (RFC 8881
// section 18.29).
func (c *compound) secInfo(a *nfs4.SecInfoArgs) nfs4.Res {
	status := checkDir(c.cur)
	if status == nfs4.OK {
		status = checkName(a.Name)
	}
	if status == nfs4.OK {
		_, err := c.s.exports.lookup(c.credFor(c.cur), c.cur, a.Name)
		status = statusOf(err)
	}
	if status != nfs4.OK {
		return fail(nfs4.OpSecInfo, status)
	}
	c.setCur(object{})
	return &nfs4.SecInfoRes{Flavors: flavors}
}

// secInfoNoName carries out SECINFO_NO_NAME (RFC 8881 section 18.45).
func (c *compound) secInfoNoName(a *nfs4.SecInfoNoNameArgs) nfs4.Res {
	switch a.Style {
	case nfs4.SecInfoCurrentFH:
	case nfs4.SecInfoParent:
		if status := checkDir(c.cur); status != nfs4.OK {
			return fail(nfs4.OpSecInfoNoName, status)
		}
		if _, ok, err := c.s.exports.up(c.credFor(c.cur), c.cur); err != nil || !ok {
			return fail(nfs4.OpSecInfoNoName, nfs4.ErrNoEnt)
		}
	default:
		return fail(nfs4.OpSecInfoNoName, nfs4.ErrInval)
	}
	c.setCur(object{})
	return &nfs4.SecInfoNoNameRes{Flavors: flavors}
}
