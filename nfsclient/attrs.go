package nfsclient

import (
	"context"

	"nfsrdma-fuse/xdr/nfs4"
)

// ObjectAttrs are the attributes that come with every object: what stat(2)
// needs, and the change attribute. A server leaves out those that it does not
// support.
var ObjectAttrs = nfs4.MakeBitmap(
	nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrFileID,
	nfs4.AttrMode, nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrRawDev,
	nfs4.AttrSpaceUsed, nfs4.AttrTimeAccess, nfs4.AttrTimeMetadata, nfs4.AttrTimeModify,
	nfs4.AttrMountedOnFileID,
)

// rootAttrs are asked of the root of the name space in addition.
var rootAttrs = nfs4.MakeBitmap(
	nfs4.AttrSupportedAttrs, nfs4.AttrFHExpireType, nfs4.AttrLeaseTime, nfs4.AttrMaxRead,
	nfs4.AttrMaxWrite, nfs4.AttrMaxFileSize, nfs4.AttrMaxLink, nfs4.AttrMaxName,
	nfs4.AttrSuppAttrExclCreat,
)

// statFSAttrs describe a file system.
var statFSAttrs = nfs4.MakeBitmap(
	nfs4.AttrFSID, nfs4.AttrSpaceTotal, nfs4.AttrSpaceFree, nfs4.AttrSpaceAvail,
	nfs4.AttrFilesTotal, nfs4.AttrFilesFree, nfs4.AttrFilesAvail, nfs4.AttrMaxName,
)

// keepAttrs returns a copy of decoded attributes that does not alias the
// reply.
func keepAttrs(a *nfs4.Attrs) *nfs4.Attrs {
	b := *a
	b.FileHandle = a.FileHandle.Clone()
	b.SecLabel.Data = append([]byte(nil), a.SecLabel.Data...)
	return &b
}

// GetAttr returns the attributes of an object (those of ObjectAttrs that the
// server supports).
func (c *Client) GetAttr(ctx context.Context, cred Cred, fh FH) (*nfs4.Attrs, error) {
	return c.getAttr(ctx, c.creds.get(cred), fh, ObjectAttrs)
}

// StatFS returns the attributes of the file system that fh is in: SpaceTotal,
// SpaceFree, SpaceAvail (bytes), FilesTotal, FilesFree, FilesAvail, MaxName,
// FSID; Mask tells which the server knows.
func (c *Client) StatFS(ctx context.Context, cred Cred, fh FH) (*nfs4.Attrs, error) {
	return c.getAttr(ctx, c.creds.get(cred), fh, statFSAttrs)
}

func (c *Client) getAttr(ctx context.Context, cred *credential, fh FH, mask nfs4.Bitmap) (*nfs4.Attrs, error) {
	r := c.newRequest(cred)
	r.addPutFH(fh)
	r.addGetAttr(mask)
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	defer r.free()
	return keepAttrs(&r.getAttrRes.Attrs), nil
}

// SetAttr sets the attributes in set.Mask and returns the attributes of the
// object afterwards. To set the size through an open file, f is that file; it
// is nil otherwise.
func (c *Client) SetAttr(ctx context.Context, cred Cred, fh FH, f *File, set *nfs4.Attrs) (*nfs4.Attrs, error) {
	cr := c.creds.get(cred)
	if f != nil && f.access&nfs4.ShareAccessWrite == 0 {
		f = nil
	}
	for try := 0; ; try++ {
		sid, err := c.sizeStateID(fh, f, set)
		if err != nil {
			return nil, opError(nfs4.OpSetAttr, err)
		}
		mark := c.state.acks.Load()
		attrs, err := c.setAttr(ctx, cr, fh, sid, set)
		if err == nil && set.Has(nfs4.AttrSize) {
			c.truncated(fh, set.Size, mark)
		}
		status, _ := statusOf(err)
		switch {
		case err == nil, !stateTrouble(status), try == maxStateTries:
			return attrs, err
		case f != nil:
			if err := c.restateIO(ctx, f, nfs4.ShareAccessWrite, sid, status); err != nil {
				return nil, opError(nfs4.OpSetAttr, err)
			}
		default:
			c.dropDelegation(ctx, sid, status)
		}
	}
}

// sizeStateID returns the stateid for a SETATTR: it matters only if the size
// is set, which is like a WRITE.
func (c *Client) sizeStateID(fh FH, f *File, set *nfs4.Attrs) (nfs4.StateID, error) {
	switch {
	case !set.Has(nfs4.AttrSize):
		return nfs4.AnonymousStateID, nil
	case f != nil:
		return c.pickIO(f, nfs4.ShareAccessWrite)
	}
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	// Without a stateid the server would have to recall our own delegation.
	if n := s.nodes[string(fh)]; n != nil && n.deleg != nil && n.deleg.covers(nfs4.ShareAccessWrite) {
		return nfs4.StateID{Other: n.deleg.sid.Other}, nil
	}
	return nfs4.AnonymousStateID, nil
}

func (c *Client) setAttr(ctx context.Context, cred *credential, fh FH, sid nfs4.StateID, set *nfs4.Attrs) (*nfs4.Attrs, error) {
	r := c.newRequest(cred)
	r.addPutFH(fh)
	r.setAttr = nfs4.SetAttrArgs{StateID: sid, Attrs: *set}
	r.change(&r.setAttr, &r.setAttrRes)
	r.addGetAttr(ObjectAttrs)
	err := c.do(ctx, r)
	if !set.Mask.AndNot(harmless).IsZero() {
		c.state.doubtAccess(fh) // also if nobody knows whether it was done
	}
	if err != nil {
		return nil, err
	}
	return c.attrsAfter(ctx, r, fh)
}

// harmless are the attributes that do not say who may open a file.
var harmless = nfs4.MakeBitmap(nfs4.AttrSize, nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet)

// attrsAfter takes the attributes that a request asked for behind a change, or
// asks for them again if the server could not give them then. It frees r.
func (c *Client) attrsAfter(ctx context.Context, r *request, fh FH) (*nfs4.Attrs, error) {
	cred, status := r.cred, r.getAttrRes.Status
	if r.cstatus == nfs4.OK && status == nfs4.OK {
		attrs := keepAttrs(&r.getAttrRes.Attrs)
		r.free()
		return attrs, nil
	}
	r.free()
	return c.getAttr(ctx, cred, fh, ObjectAttrs)
}

// Access asks the server which of the kinds of access in want (nfs4.AccessRead
// and so on) the caller has.
func (c *Client) Access(ctx context.Context, cred Cred, fh FH, want uint32) (uint32, error) {
	r := c.newRequest(c.creds.get(cred))
	r.addPutFH(fh)
	r.access.Access = want
	r.add(&r.access, &r.accessRes)
	if err := c.do(ctx, r); err != nil {
		return 0, err
	}
	defer r.free()
	return r.accessRes.Access & want, nil
}
