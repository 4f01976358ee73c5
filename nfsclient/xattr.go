package nfsclient

import (
	"context"
	"fmt"

	"nfsrdma-fuse/xdr/nfs4"
)

// Extended attributes (RFC 8276). Names are those of the wire, without the
// "user." of Linux.

// maxXattrList bounds the names of one object, in bytes: more than Linux lets a
// program see.
const maxXattrList = 64 << 10

// GetXattr returns the value of an extended attribute.
func (c *Client) GetXattr(ctx context.Context, cred Cred, o Object, name string) ([]byte, error) {
	if err := c.supported(ctx, cred, nfs4.OpGetXattr, o, FeatureXattrs); err != nil {
		return nil, err
	}
	r := c.newRequest(c.creds.get(cred))
	res := new(nfs4.GetXattrRes)
	r.addPutFH(o.FH)
	r.add(&nfs4.GetXattrArgs{Name: name}, res)
	if err := c.do(ctx, r); err != nil {
		return nil, c.xattrError(o, err)
	}
	defer r.free()
	return append([]byte(nil), res.Value...), nil
}

// ListXattrs returns the names of the extended attributes of an object. It fails
// with NFS4ERR_XATTR2BIG if they are longer than 64 KiB together.
func (c *Client) ListXattrs(ctx context.Context, cred Cred, o Object) ([]string, error) {
	if err := c.supported(ctx, cred, nfs4.OpListXattrs, o, FeatureXattrs); err != nil {
		return nil, err
	}
	var names []string
	size := 0
	args := &nfs4.ListXattrsArgs{MaxCount: uint32(min(maxXattrList, c.maxReply()))}
	for {
		r := c.newRequest(c.creds.get(cred))
		res := new(nfs4.ListXattrsRes)
		r.addPutFH(o.FH)
		r.add(args, res)
		if err := c.do(ctx, r); err != nil {
			return nil, c.xattrError(o, err)
		}
		for _, name := range res.Names {
			names = append(names, string(name))
			size += len(name) + 1
		}
		eof, n, cookie := res.EOF, len(res.Names), res.Cookie
		r.free()
		switch {
		case eof:
			return names, nil
		case n == 0:
			return nil, opError(nfs4.OpListXattrs, fmt.Errorf("%w: no names and not at the end", ErrProtocol))
		case size > maxXattrList:
			return nil, opError(nfs4.OpListXattrs, nfs4.ErrXattr2Big)
		}
		args = &nfs4.ListXattrsArgs{Cookie: cookie, MaxCount: args.MaxCount}
	}
}

// SetXattr sets an extended attribute.
func (c *Client) SetXattr(ctx context.Context, cred Cred, o Object, name string, value []byte, how nfs4.SetXattrOption) error {
	if len(value) > nfs4.MaxXattrValue {
		return opError(nfs4.OpSetXattr, nfs4.ErrXattr2Big)
	}
	if err := c.supported(ctx, cred, nfs4.OpSetXattr, o, FeatureXattrs); err != nil {
		return err
	}
	r := c.newRequest(c.creds.get(cred))
	r.unsafe = how == nfs4.SetXattrCreate
	r.addPutFH(o.FH)
	r.change(&nfs4.SetXattrArgs{Option: how, Name: name, Value: value}, new(nfs4.SetXattrRes))
	if err := c.do(ctx, r); err != nil {
		return c.xattrError(o, err)
	}
	r.free()
	return nil
}

// RemoveXattr removes an extended attribute.
func (c *Client) RemoveXattr(ctx context.Context, cred Cred, o Object, name string) error {
	if err := c.supported(ctx, cred, nfs4.OpRemoveXattr, o, FeatureXattrs); err != nil {
		return err
	}
	r := c.newRequest(c.creds.get(cred))
	r.unsafe = true
	r.addPutFH(o.FH)
	r.change(&nfs4.RemoveXattrArgs{Name: name}, new(nfs4.RemoveXattrRes))
	if err := c.do(ctx, r); err != nil {
		return c.xattrError(o, err)
	}
	r.free()
	return nil
}

// xattrError takes the error of one of these operations: it remembers a refusal,
// and calls a value that no message of the session can hold too big.
func (c *Client) xattrError(o Object, err error) error {
	status, _ := statusOf(err)
	switch status {
	case nfs4.ErrReqTooBig, nfs4.ErrRepTooBig:
		return opError(nfs4.OpSetXattr, nfs4.ErrXattr2Big)
	}
	c.features.answered(o.FSID, FeatureXattrs, status)
	return err
}
