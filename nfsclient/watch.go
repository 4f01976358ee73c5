package nfsclient

import "nfsrdma-fuse/xdr/nfs4"

// WatchDirs has f called whenever an operation of this client has changed a
// directory, before the operation returns: with its filehandle, which is valid
// during the call, what the server says of its change attribute (RFC 8881
// section 3.3.8), and its attributes afterwards, or nil if they did not come
// along. There is one such function at most.
func (c *Client) WatchDirs(f func(dir FH, ci nfs4.ChangeInfo, attrs *nfs4.Attrs)) {
	c.watchDirs.Store(&f)
}

// dirAttrs are the attributes of a directory that come with an operation that
// changes it. A nil *dirAttrs asks for nothing.
type dirAttrs struct {
	args nfs4.GetAttrArgs
	res  nfs4.GetAttrRes
}

// watchDir returns nil if nobody wants to know of directories.
func (c *Client) watchDir() *dirAttrs {
	if c.watchDirs.Load() == nil {
		return nil
	}
	return &dirAttrs{args: nfs4.GetAttrArgs{AttrRequest: ObjectAttrs}}
}

// ask asks for the attributes of the current filehandle.
func (d *dirAttrs) ask(r *request) {
	if d != nil {
		r.add(&d.args, &d.res)
	}
}

// restore makes the saved filehandle the current one and asks for its attributes.
func (d *dirAttrs) restore(r *request) {
	if d != nil {
		r.add(new(nfs4.RestoreFHArgs), new(nfs4.RestoreFHRes))
		d.ask(r)
	}
}

// dirChanged tells who watches what the request has done to a directory.
func (c *Client) dirChanged(r *request, dir FH, ci nfs4.ChangeInfo, after *dirAttrs) {
	f := c.watchDirs.Load()
	if f == nil {
		return
	}
	var attrs *nfs4.Attrs
	if after != nil && r.cstatus == nfs4.OK {
		attrs = &after.res.Attrs
	}
	(*f)(dir, ci, attrs)
}
