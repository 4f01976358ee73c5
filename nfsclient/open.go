package nfsclient

import (
	"context"

	"nfsrdma-fuse/xdr/nfs4"
)

// OpenRequest says what to open.
type OpenRequest struct {
	// Dir and Name name the file, or FH does: an existing file that was
	// looked up before. With FH, Create and Exclusive must not be set.
	Dir  FH
	Name string
	FH   FH

	Read, Write bool // access wanted; at least one
	Create      bool // make the file if there is none
	Exclusive   bool // with Create: fail with EEXIST if there is one
	Truncate    bool // with Write: set the size to zero
	Stable      bool // what is written is on stable storage when Write returns

	// Attrs has the mode and what else to give to a file that is made; it may
	// be nil.
	Attrs *nfs4.Attrs
}

// Open opens a regular file, and returns it with its filehandle and
// attributes. If the request was cancelled while the server may have carried it
// out, the client closes what was opened by itself.
func (c *Client) Open(ctx context.Context, cred Cred, q OpenRequest) (*File, FH, *nfs4.Attrs, error) {
	var access uint32
	if q.Read {
		access |= nfs4.ShareAccessRead
	}
	if q.Write {
		access |= nfs4.ShareAccessWrite
	}
	if access == 0 || q.FH != nil && q.Create || q.Truncate && !q.Write {
		return nil, nil, nil, opError(nfs4.OpOpen, nfs4.ErrInval)
	}
	mark := c.state.acks.Load()
	f, attrs, err := c.sendOpen(ctx, c.creds.get(cred), &q, access)
	if err != nil {
		return nil, nil, nil, err
	}
	if attrs == nil {
		attrs, err = c.GetAttr(ctx, cred, f.FH())
	}
	switch {
	case err != nil || !q.Truncate:
	case attrs.Size == 0: // the server has truncated it while opening
		c.truncated(f.FH(), 0, mark)
	default:
		attrs, err = c.SetAttr(ctx, cred, f.FH(), f, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSize)})
	}
	if err != nil {
		_ = f.Close(ctx)
		return nil, nil, nil, err
	}
	f.fsid = attrs.FSID
	c.state.mu.Lock()
	f.open.node.fsid = attrs.FSID
	c.state.mu.Unlock()
	return f, f.FH().Clone(), attrs, nil
}

// sendOpen carries out the OPEN. attrs may be nil if the server did not return
// any.
func (c *Client) sendOpen(ctx context.Context, cred *credential, q *OpenRequest, access uint32) (f *File, attrs *nfs4.Attrs, err error) {
	r := c.newRequest(cred)
	r.opening = true
	c.state.beginOpen(cred.key)
	r.open = nfs4.OpenArgs{
		ShareAccess: access,
		Owner:       nfs4.OpenOwner{Owner: []byte(cred.key)},
	}
	if c.opt.NoDelegations {
		r.open.ShareAccess |= nfs4.WantNoDeleg
	}
	var later nfs4.Attrs // to be set when the file has been made
	if q.FH != nil {
		r.addPutFH(q.FH)
		r.open.Claim = nfs4.ClaimFH
	} else {
		r.addPutFH(q.Dir)
		r.open.Claim = nfs4.ClaimNull
		r.open.Name = q.Name
		if q.Create {
			later = c.createHow(&r.open, q)
		}
	}
	var after *dirAttrs
	if q.Create {
		after = c.watchDir()
	}
	if after != nil {
		r.add(&r.saveFH, &r.saveFHRes)
	}
	r.change(&r.open, &r.openRes)
	r.addGetFH()
	r.addGetAttr(ObjectAttrs)
	after.restore(r)
	dir, name := q.Dir.Clone(), q.Name // for the case that q is gone by then
	r.orphaned = func(r *request) {
		if done, _, err := r.results(); err == nil && done > r.modify {
			if f := c.opened(c.ctx, r, access, dir, name); f != nil {
				_ = f.Close(c.ctx)
			}
		}
	}
	if err := c.do(ctx, r); err != nil {
		return nil, nil, err
	}
	complete := r.cstatus == nfs4.OK
	if q.Create {
		c.dirChanged(r, q.Dir, r.openRes.Change, after)
	}
	f = c.opened(ctx, r, access, q.Dir, q.Name)
	if complete {
		attrs = keepAttrs(&r.getAttrRes.Attrs)
	}
	exclusive, set := r.open.Create && r.open.How == nfs4.CreateExclusive41, r.openRes.AttrsSet
	r.free()
	if f == nil {
		return nil, nil, opError(nfs4.OpGetFH, ErrProtocol)
	}
	f.stable = q.Stable
	if exclusive {
		if after, err := c.finishExclusive(ctx, cred, f, later, set); err != nil {
			_ = f.Close(ctx)
			return nil, nil, err
		} else if after != nil {
			attrs = after
		}
	}
	return f, attrs, nil
}

// createHow fills in how a file is to be made. It returns the attributes that have
// to be set afterwards.
func (c *Client) createHow(a *nfs4.OpenArgs, q *OpenRequest) (later nfs4.Attrs) {
	a.Create = true
	if q.Attrs != nil {
		a.CreateAttrs = *q.Attrs
	}
	if !q.Exclusive {
		a.How = nfs4.CreateUnchecked
		if q.Truncate {
			// Sets the size of an existing file; the other attributes are for
			// a new one (RFC 8881 section 18.16.3).
			a.CreateAttrs.Mask.Set(nfs4.AttrSize)
			a.CreateAttrs.Size = 0
		}
		return nfs4.Attrs{}
	}
	// A verifier makes the server recognize the OPEN if it has to be issued
	// again in another session. Some attributes may be where it is kept.
	a.How = nfs4.CreateExclusive41
	a.CreateVerf = newVerifier()
	later = a.CreateAttrs
	a.CreateAttrs.Mask = a.CreateAttrs.Mask.And(c.rootAttrs.SuppAttrExclCreat)
	later.Mask = later.Mask.AndNot(a.CreateAttrs.Mask)
	return later
}

// finishExclusive sets what an exclusive create could not: attributes that the
// server does not take there, and the times if it has kept the verifier in
// them.
func (c *Client) finishExclusive(ctx context.Context, cred *credential, f *File, later nfs4.Attrs, set nfs4.Bitmap) (*nfs4.Attrs, error) {
	if set.Has(nfs4.AttrTimeAccess) && !later.Has(nfs4.AttrTimeAccessSet) {
		later.Mask.Set(nfs4.AttrTimeAccessSet)
		later.TimeAccessSet = nfs4.SetTime{}
	}
	if set.Has(nfs4.AttrTimeModify) && !later.Has(nfs4.AttrTimeModifySet) {
		later.Mask.Set(nfs4.AttrTimeModifySet)
		later.TimeModifySet = nfs4.SetTime{}
	}
	if later.Mask.IsZero() {
		return nil, nil
	}
	sid, err := c.pick(f.open, f.access)
	if err != nil {
		return nil, opError(nfs4.OpSetAttr, err)
	}
	return c.setAttr(ctx, cred, f.FH(), sid, &later)
}

// opened records the state that a successful OPEN has made. It returns nil if
// nobody can tell which file was opened; then the open has been closed again.
func (c *Client) opened(ctx context.Context, r *request, access uint32, dir FH, name string) *File {
	var fh FH
	switch {
	case r.open.Claim == nfs4.ClaimFH:
		fh = r.putFH.FH
	case r.getFHRes.Status == nfs4.OK && len(r.getFHRes.FH) > 0:
		fh = r.getFHRes.FH
	default:
		c.closeByName(ctx, r.cred, dir, name, r.openRes.StateID)
		return nil
	}
	s := &c.state
	s.mu.Lock()
	n := s.node(fh)
	o := n.share(r.cred)
	o.opened(r.openRes.StateID, access)
	if !r.open.Create { // whoever makes a file may open it whatever its mode is
		o.proven |= access
	}
	o.notifies = r.openRes.RFlags&nfs4.OpenResultMayNotifyLock != 0
	f := &File{c: c, open: o, access: access}
	s.files[f] = struct{}{}
	n.files++
	s.mu.Unlock()
	n.writes.mu.Lock()
	f.seen.Store(n.writes.lost.n)
	n.writes.mu.Unlock()
	var attrs *nfs4.Attrs
	if r.cstatus == nfs4.OK {
		attrs = &r.getAttrRes.Attrs
	}
	c.granted(n, r.cred, &r.openRes.Delegation, attrs)
	return f
}

// closeByName closes what was opened under a name without its filehandle
// having come back.
func (c *Client) closeByName(ctx context.Context, cred *credential, dir FH, name string, sid nfs4.StateID) {
	r := c.newRequest(cred)
	r.addPutFH(dir)
	r.lookup.Name = name
	r.add(&r.lookup, &r.lookupRes)
	r.closeArgs = nfs4.CloseArgs{StateID: sid}
	r.change(&r.closeArgs, &r.closeRes)
	if err := c.do(ctx, r); err != nil {
		c.log.WithError(err).Warn("file opened without a filehandle not closed")
		return
	}
	r.free()
}
