package nfsclient

import (
	"bytes"
	"context"
	"strings"

	"nfsrdma-fuse/xdr/nfs4"
)

// Walk looks up a path of names separated by slashes, from the root of the
// server's name space. Empty names and "." are skipped, ".." is not
// understood, and symbolic links are not followed.
func (c *Client) Walk(ctx context.Context, cred Cred, path string) (FH, *nfs4.Attrs, error) {
	fh := c.root.Clone()
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || name == "." {
			continue
		}
		next, attrs, err := c.Lookup(ctx, cred, fh, name)
		if err != nil {
			return nil, nil, err
		}
		if attrs.Has(nfs4.AttrType) && attrs.Type == nfs4.TypeLnk {
			return nil, nil, opError(nfs4.OpLookup, nfs4.ErrSymlink)
		}
		fh = next
	}
	attrs, err := c.GetAttr(ctx, cred, fh)
	if err != nil {
		return nil, nil, err
	}
	return fh, attrs, nil
}

// Lookup finds an entry of a directory.
func (c *Client) Lookup(ctx context.Context, cred Cred, dir FH, name string) (FH, *nfs4.Attrs, error) {
	r := c.newRequest(c.creds.get(cred))
	r.addPutFH(dir)
	r.lookup.Name = name
	r.add(&r.lookup, &r.lookupRes)
	return c.find(ctx, r)
}

// LookupParent finds the directory that dir is in.
func (c *Client) LookupParent(ctx context.Context, cred Cred, dir FH) (FH, *nfs4.Attrs, error) {
	r := c.newRequest(c.creds.get(cred))
	r.addPutFH(dir)
	r.add(new(nfs4.LookupPArgs), new(nfs4.LookupPRes))
	return c.find(ctx, r)
}

// find asks for filehandle and attributes of what the request has found, and
// carries it out.
func (c *Client) find(ctx context.Context, r *request) (FH, *nfs4.Attrs, error) {
	r.addGetFH()
	r.addGetAttr(ObjectAttrs)
	if err := c.do(ctx, r); err != nil {
		return nil, nil, err
	}
	defer r.free()
	return r.getFHRes.FH.Clone(), keepAttrs(&r.getAttrRes.Attrs), nil
}

// ReadLink returns the text of a symbolic link.
func (c *Client) ReadLink(ctx context.Context, cred Cred, fh FH) (string, error) {
	r := c.newRequest(c.creds.get(cred))
	r.addPutFH(fh)
	res := new(nfs4.ReadLinkRes)
	r.add(new(nfs4.ReadLinkArgs), res)
	if err := c.do(ctx, r); err != nil {
		return "", err
	}
	defer r.free()
	return string(res.Text), nil
}

// Mkdir makes a directory. set has its mode and what else is to be set; it may
// be nil.
func (c *Client) Mkdir(ctx context.Context, cred Cred, dir FH, name string, set *nfs4.Attrs) (FH, *nfs4.Attrs, error) {
	return c.create(ctx, cred, dir, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: name}, set)
}

// Symlink makes a symbolic link with the text target.
func (c *Client) Symlink(ctx context.Context, cred Cred, dir FH, name, target string, set *nfs4.Attrs) (FH, *nfs4.Attrs, error) {
	return c.create(ctx, cred, dir, &nfs4.CreateArgs{Type: nfs4.TypeLnk, Name: name, LinkText: []byte(target)}, set)
}

// Mknod makes a device, FIFO or socket: typ is nfs4.TypeBlk, TypeChr, TypeFifo
// or TypeSock. Regular files are made by Open.
func (c *Client) Mknod(ctx context.Context, cred Cred, dir FH, name string, typ nfs4.FileType, dev nfs4.SpecData, set *nfs4.Attrs) (FH, *nfs4.Attrs, error) {
	return c.create(ctx, cred, dir, &nfs4.CreateArgs{Type: typ, Name: name, RawDev: dev}, set)
}

func (c *Client) create(ctx context.Context, cred Cred, dir FH, args *nfs4.CreateArgs, set *nfs4.Attrs) (FH, *nfs4.Attrs, error) {
	if set != nil {
		args.Attrs = *set
	}
	r := c.newRequest(c.creds.get(cred))
	r.unsafe = true
	r.addPutFH(dir)
	after := c.watchDir()
	if after != nil {
		r.add(&r.saveFH, &r.saveFHRes)
	}
	res := new(nfs4.CreateRes)
	r.change(args, res)
	r.addGetFH()
	r.addGetAttr(ObjectAttrs)
	after.restore(r)
	if err := c.do(ctx, r); err != nil {
		return nil, nil, err
	}
	c.dirChanged(r, dir, res.Change, after)
	if r.cstatus != nfs4.OK {
		// It was made, but the server could not describe it in the same
		// breath.
		r.free()
		return c.Lookup(ctx, cred, dir, args.Name)
	}
	defer r.free()
	return r.getFHRes.FH.Clone(), keepAttrs(&r.getAttrRes.Attrs), nil
}

// Link makes an entry for the object fh in the directory dir, and returns the
// attributes of the object afterwards.
func (c *Client) Link(ctx context.Context, cred Cred, fh, dir FH, name string) (*nfs4.Attrs, error) {
	r := c.newRequest(c.creds.get(cred))
	r.unsafe = true
	r.addPutFH(fh)
	r.add(&r.saveFH, &r.saveFHRes)
	r.addPutFH2(dir)
	res := new(nfs4.LinkRes)
	r.change(&nfs4.LinkArgs{Name: name}, res)
	after := c.watchDir()
	after.ask(r)
	r.add(new(nfs4.RestoreFHArgs), new(nfs4.RestoreFHRes))
	r.addGetAttr(ObjectAttrs)
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	c.dirChanged(r, dir, res.Change, after)
	return c.attrsAfter(ctx, r, fh)
}

// Remove removes an entry of a directory, which may itself be an empty
// directory: the server does not tell unlink from rmdir.
func (c *Client) Remove(ctx context.Context, cred Cred, dir FH, name string) error {
	r := c.newRequest(c.creds.get(cred))
	r.unsafe = true
	r.addPutFH(dir)
	res := new(nfs4.RemoveRes)
	r.change(&nfs4.RemoveArgs{Name: name}, res)
	after := c.watchDir()
	after.ask(r)
	if err := c.do(ctx, r); err != nil {
		return err
	}
	c.dirChanged(r, dir, res.Change, after)
	r.free()
	return nil
}

// Rename moves an entry, replacing what was at the new place.
func (c *Client) Rename(ctx context.Context, cred Cred, fromDir FH, fromName string, toDir FH, toName string) error {
	r := c.newRequest(c.creds.get(cred))
	r.unsafe = true
	r.addPutFH(fromDir)
	r.add(&r.saveFH, &r.saveFHRes)
	r.addPutFH2(toDir)
	res := new(nfs4.RenameRes)
	r.change(&nfs4.RenameArgs{OldName: fromName, NewName: toName}, res)
	to, from := c.watchDir(), c.watchDir()
	to.ask(r)
	if bytes.Equal(fromDir, toDir) {
		from = nil
	}
	from.restore(r)
	if err := c.do(ctx, r); err != nil {
		return err
	}
	if !bytes.Equal(fromDir, toDir) {
		c.dirChanged(r, fromDir, res.Source, from)
	}
	c.dirChanged(r, toDir, res.Target, to)
	r.free()
	return nil
}
