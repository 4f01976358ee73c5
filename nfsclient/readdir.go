package nfsclient

import (
	"context"
	"fmt"

	"nfsrdma-fuse/xdr/nfs4"
)

// DirEntry is an entry of a directory. "." and ".." are never among them.
type DirEntry struct {
	// Name aliases the page and is valid until its Release.
	Name []byte
	// Cookie is the place behind this entry: ReadDir goes on from it.
	Cookie uint64
	// Attrs are the attributes of the entry: type and fileid only unless they
	// were asked for, in which case they are those of ObjectAttrs and the
	// filehandle. Attrs.FileHandle aliases the page. If Attrs has
	// nfs4.AttrRDAttrError, the server could not get them and says why
	// there.
	Attrs nfs4.Attrs
}

// DirPage is a piece of a directory: one reply of the server, as it came. It
// is not safe for concurrent use.
type DirPage struct {
	// Verf goes with the cookies of this page.
	Verf nfs4.Verifier
	// EOF says that no entry follows those of this page.
	EOF bool

	r   *request
	res *nfs4.ReadDirRes
}

// What a READDIR asks for if the caller has no opinion, bytes.
const (
	dirPage     = 32 << 10
	dirPagePlus = 128 << 10
	minDirPage  = 4 << 10
	maxDirPage  = 1 << 20
)

// entryAttrs are asked for with plain names, fullEntryAttrs with plus.
var (
	entryAttrs     = nfs4.MakeBitmap(nfs4.AttrType, nfs4.AttrFileID, nfs4.AttrMountedOnFileID, nfs4.AttrRDAttrError)
	fullEntryAttrs = ObjectAttrs.Or(nfs4.MakeBitmap(nfs4.AttrFileHandle, nfs4.AttrRDAttrError))
)

// ReadDir returns the entries that follow cookie: the one of an earlier entry,
// with the verifier of its page, or zero to begin. Server cookies are passed
// through; 1 and 2 do not occur (RFC 8881 section 18.23.3). If plus is set,
// entries come with attributes and filehandles. n is the number of bytes to
// ask for; zero means a good size. If the server no longer knows the cookie the
// error matches nfs4.ErrBadCookie or nfs4.ErrNotSame, and the caller has to
// begin again.
func (c *Client) ReadDir(ctx context.Context, cred Cred, dir FH, cookie uint64, verf nfs4.Verifier, plus bool, n int) (*DirPage, error) {
	mask := entryAttrs
	if plus {
		mask = fullEntryAttrs
	}
	if n <= 0 {
		n = dirPage
		if plus {
			n = dirPagePlus
		}
	}
	n = min(max(n, minDirPage), maxDirPage, c.maxReply())
	if cookie == 0 {
		verf = nfs4.Verifier{}
	}
	r := c.newRequest(c.creds.get(cred))
	r.addPutFH(dir)
	r.readDir = nfs4.ReadDirArgs{
		Cookie: cookie, CookieVerf: verf,
		// The hint says "no limit of its own" only as the largest value:
		// Ganesha takes zero for no room at all and lists nothing.
		DirCount: uint32(n), MaxCount: uint32(n),
		AttrRequest: mask,
	}
	r.add(&r.readDir, &r.readDirRes)
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	p := &DirPage{Verf: r.readDirRes.CookieVerf, EOF: r.readDirRes.EOF, r: r, res: &r.readDirRes}
	if err := p.check(cookie); err != nil {
		p.Release()
		return nil, opError(nfs4.OpReadDir, err)
	}
	return p, nil
}

// check makes sure that every entry can be decoded, so that Next cannot fail,
// and that a caller who goes on from the last entry gets on.
func (p *DirPage) check(cookie uint64) error {
	var e nfs4.Entry
	n := 0
	for p.res.Next(&e) {
		n++
		if e.Cookie == cookie {
			return fmt.Errorf("%w: directory cookie %d leads to itself", ErrProtocol, cookie)
		}
	}
	if err := p.res.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	if n == 0 && !p.EOF {
		return fmt.Errorf("%w: no entries and not at the end of the directory", ErrProtocol)
	}
	p.res.Rewind()
	return nil
}

// Next stores the next entry of the page in e. It returns false behind the
// last.
func (p *DirPage) Next(e *DirEntry) bool {
	for p.res != nil {
		var entry nfs4.Entry
		if !p.res.Next(&entry) {
			return false
		}
		if !validName(entry.Name) {
			continue
		}
		e.Name, e.Cookie, e.Attrs = entry.Name, entry.Cookie, entry.Attrs
		return true
	}
	return false
}

// validName tells whether a name can be shown to applications. No server should
// send another one, and none that did would be of use to them.
func validName(name []byte) bool {
	switch string(name) {
	case "", ".", "..":
		return false
	}
	for _, b := range name {
		if b == '/' || b == 0 {
			return false
		}
	}
	return true
}

// Release gives the memory of the page back.
func (p *DirPage) Release() {
	if p.r != nil {
		p.r.free()
		p.r, p.res = nil, nil
	}
}
