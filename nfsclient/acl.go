package nfsclient

import (
	"context"

	"nfsrdma-fuse/xdr/nfs4"
)

// GetACL returns the access control list of an object (RFC 8881 section 6.2.1).
func (c *Client) GetACL(ctx context.Context, cred Cred, o Object) ([]nfs4.ACE, error) {
	a, err := c.featureAttr(ctx, cred, o, FeatureACL, nfs4.AttrACL)
	if err != nil {
		return nil, err
	}
	return a.ACL, nil
}

// SetACL sets the access control list of an object. It returns the attributes of
// the object afterwards, of which the mode has changed with the list.
func (c *Client) SetACL(ctx context.Context, cred Cred, o Object, acl []nfs4.ACE) (*nfs4.Attrs, error) {
	if err := c.supported(ctx, cred, nfs4.OpSetAttr, o, FeatureACL); err != nil {
		return nil, err
	}
	return c.SetAttr(ctx, cred, o.FH, nil, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrACL), ACL: acl})
}

// GetLabel returns the security label of an object (RFC 7862 section 9).
func (c *Client) GetLabel(ctx context.Context, cred Cred, o Object) ([]byte, error) {
	a, err := c.featureAttr(ctx, cred, o, FeatureLabel, nfs4.AttrSecLabel)
	if err != nil {
		return nil, err
	}
	return a.SecLabel.Data, nil
}

// SetLabel sets the security label of an object: its text, without a format or
// policy identifier, which then are those that the server uses.
func (c *Client) SetLabel(ctx context.Context, cred Cred, o Object, label []byte) (*nfs4.Attrs, error) {
	if err := c.supported(ctx, cred, nfs4.OpSetAttr, o, FeatureLabel); err != nil {
		return nil, err
	}
	if len(label) > nfs4.MaxLabel {
		return nil, opError(nfs4.OpSetAttr, nfs4.ErrBadLabel)
	}
	return c.SetAttr(ctx, cred, o.FH, nil, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSecLabel), SecLabel: nfs4.SecLabel{Data: label}})
}

// featureAttr reads an attribute that belongs to a feature.
func (c *Client) featureAttr(ctx context.Context, cred Cred, o Object, f Feature, attr nfs4.Attr) (*nfs4.Attrs, error) {
	if err := c.supported(ctx, cred, nfs4.OpGetAttr, o, f); err != nil {
		return nil, err
	}
	a, err := c.getAttr(ctx, c.creds.get(cred), o.FH, nfs4.MakeBitmap(attr))
	if err == nil && !a.Has(attr) {
		// Of some file systems a server only finds out when it looks.
		err = opError(nfs4.OpGetAttr, nfs4.ErrNotSupp)
	}
	return a, err
}
