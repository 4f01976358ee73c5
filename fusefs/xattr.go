package fusefs

import (
	"context"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// Extended attributes, by what their names begin with:
//
//	user.X            RFC 8276's attribute X
//	system.nfs4_acl   the ACL attribute, encoded as on the wire
//	security.selinux  the security label attribute
//	anything else     not there, and not worth a request
//
// All are done in the caller's name; nothing of them is cached.

const (
	xattrUser  = "user."
	xattrACL   = "system.nfs4_acl"
	xattrLabel = "security.selinux"
)

// xattrBackend is a backend whose objects have extended attributes.
type xattrBackend interface {
	featured
	Supports(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object, f nfsclient.Feature) (bool, error)
	GetXattr(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object, name string) ([]byte, error)
	ListXattrs(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object) ([]string, error)
	SetXattr(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object, name string, value []byte, how nfs4.SetXattrOption) error
	RemoveXattr(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object, name string) error
	GetACL(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object) ([]nfs4.ACE, error)
	SetACL(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object, acl []nfs4.ACE) (*nfs4.Attrs, error)
	GetLabel(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object) ([]byte, error)
	SetLabel(ctx context.Context, cred nfsclient.Cred, o nfsclient.Object, label []byte) (*nfs4.Attrs, error)
}

// object is what the client needs to know of a node.
func (n *node) object() nfsclient.Object { return nfsclient.Object{FH: n.fh, FSID: n.fsid} }

// xattrTarget begins a request about extended attributes. err is what it ends
// with if there is nothing to be asked.
func (b *bridge) xattrTarget(cancel <-chan struct{}, h *fuse.InHeader) (o *op, x xattrBackend, n *node, err error) {
	o = b.begin(cancel, h)
	x, ok := b.c.(xattrBackend)
	if !ok {
		return o, nil, nil, unix.ENOSYS
	}
	if n = b.nodes.get(h.NodeId); n == nil {
		return o, nil, nil, errNoNode
	}
	return o, x, n, nil
}

// xattrName splits the name of an attribute into what kind it is and, for those
// of users, the name on the wire.
func xattrName(attr string) (kind, name string, err error) {
	switch {
	case attr == xattrACL, attr == xattrLabel:
		return attr, "", nil
	case strings.HasPrefix(attr, xattrUser):
		name = attr[len(xattrUser):]
		if name == "" {
			return "", "", unix.EINVAL
		}
		return xattrUser, name, nil
	}
	return "", "", unix.EOPNOTSUPP
}

// GetXAttr implements fuse.RawFileSystem.
func (b *bridge) GetXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string, dest []byte) (uint32, fuse.Status) {
	kind, name, err := xattrName(attr)
	if err != nil {
		// The kernel asks for security.capability at every write, for one.
		return 0, b.quickly(err)
	}
	o, x, n, err := b.xattrTarget(cancel, h)
	if err != nil {
		return 0, o.end(err)
	}
	var value []byte
	switch kind {
	case xattrACL:
		var acl []nfs4.ACE
		if acl, err = x.GetACL(o, o.cred, n.object()); err == nil {
			value = nfs4.EncodeACL(acl)
		}
	case xattrLabel:
		value, err = x.GetLabel(o, o.cred, n.object())
	default:
		value, err = x.GetXattr(o, o.cred, n.object(), name)
	}
	if err != nil {
		return 0, o.end(err)
	}
	return o.fill(dest, value)
}

// maxXattrSize is the longest value, or list of names, that Linux passes on.
const maxXattrSize = 64 << 10

// fill answers with a value, or with its size if dest is empty.
func (o *op) fill(dest, value []byte) (uint32, fuse.Status) {
	switch {
	case len(value) > maxXattrSize:
		return 0, o.end(unix.E2BIG)
	case len(dest) == 0:
		return uint32(len(value)), o.end(nil)
	case len(dest) < len(value):
		return 0, o.end(unix.ERANGE)
	}
	return uint32(copy(dest, value)), o.end(nil)
}

// ListXAttr implements fuse.RawFileSystem.
func (b *bridge) ListXAttr(cancel <-chan struct{}, h *fuse.InHeader, dest []byte) (uint32, fuse.Status) {
	o, x, n, err := b.xattrTarget(cancel, h)
	if err != nil {
		return 0, o.end(err)
	}
	var list []byte
	for _, k := range []struct {
		feature nfsclient.Feature
		name    string
	}{{nfsclient.FeatureACL, xattrACL}, {nfsclient.FeatureLabel, xattrLabel}} {
		ok, err := x.Supports(o, o.cred, n.object(), k.feature)
		if err != nil {
			return 0, o.end(err)
		}
		if ok {
			list = append(append(list, k.name...), 0)
		}
	}
	names, err := x.ListXattrs(o, o.cred, n.object())
	// A server need have no attributes on objects that are neither file nor
	// directory, and a caller who may not read them sees none.
	if err != nil && !notSupported(err) && !isStatus(err, nfs4.ErrWrongType, nfs4.ErrAccess, nfs4.ErrPerm) {
		return 0, o.end(err)
	}
	for _, name := range names {
		if strings.IndexByte(name, 0) >= 0 {
			continue // Linux could not show it
		}
		list = append(append(append(list, xattrUser...), name...), 0)
	}
	return o.fill(dest, list)
}

// SetXAttr implements fuse.RawFileSystem.
func (b *bridge) SetXAttr(cancel <-chan struct{}, in *fuse.SetXAttrIn, attr string, data []byte) fuse.Status {
	kind, name, err := xattrName(attr)
	if err != nil {
		return b.quickly(err)
	}
	o, x, n, err := b.xattrTarget(cancel, &in.InHeader)
	if err != nil {
		return o.end(err)
	}
	defer b.changed(n)
	answered := b.change(n)
	defer answered()
	switch kind {
	case xattrACL:
		acl, e := nfs4.DecodeACL(data)
		if e != nil {
			return o.end(unix.EINVAL)
		}
		_, err = x.SetACL(o, o.cred, n.object(), acl)
	case xattrLabel:
		_, err = x.SetLabel(o, o.cred, n.object(), data)
	default:
		how := nfs4.SetXattrEither
		switch {
		case in.Flags&unix.XATTR_CREATE != 0:
			how = nfs4.SetXattrCreate
		case in.Flags&unix.XATTR_REPLACE != 0:
			how = nfs4.SetXattrReplace
		}
		err = x.SetXattr(o, o.cred, n.object(), name, data, how)
	}
	return o.end(err)
}

// RemoveXAttr implements fuse.RawFileSystem. An object always has an ACL, and a
// label where there are any.
func (b *bridge) RemoveXAttr(cancel <-chan struct{}, h *fuse.InHeader, attr string) fuse.Status {
	kind, name, err := xattrName(attr)
	if err == nil && kind != xattrUser {
		err = unix.EINVAL
		if kind == xattrLabel {
			err = unix.EACCES
		}
	}
	if err != nil {
		return b.quickly(err)
	}
	o, x, n, err := b.xattrTarget(cancel, h)
	if err != nil {
		return o.end(err)
	}
	defer b.changed(n)
	answered := b.change(n)
	defer answered()
	return o.end(x.RemoveXattr(o, o.cred, n.object(), name))
}

// quickly answers a request with an error without looking at who sent it.
func (b *bridge) quickly(err error) fuse.Status {
	o := &op{b: b}
	b.stats.requests.Add(1)
	b.stats.running.Add(1)
	return o.end(err)
}

// changed has the kernel drop the attributes of a node that a request has
// changed in a way that it does not know of: an ACL is the mode, too.
func (b *bridge) changed(n *node) {
	if s := b.server.Load(); s != nil {
		s.InodeNotify(n.id, -1, 0)
	}
}
