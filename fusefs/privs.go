package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"nfsrdma-fuse/xdr/nfs4"
)

// Who writes to, truncates or gives away a file takes its set-ID bits, unless he
// is privileged. The kernel leaves that to us (CAP_HANDLE_KILLPRIV_V2), and says
// with every request whether it is to be done. Otherwise it would look for
// security.capability before every write, which is a request each.
//
// Servers do it by themselves for WRITE and for a change of owner. Some leave it
// for a change of size; so the mode is looked at that comes back with it, and
// set if need be. A caller who does not own the file may not do that: then the
// bits stay, as they do with the kernel's NFS client.

// Permission bits of a mode.
const (
	modeSetUID    = 0o4000
	modeSetGID    = 0o2000
	modeGroupExec = 0o010
)

// withoutPrivs returns a mode as it is after a change by somebody who is not
// privileged. Set-group-ID without group execution is not a privilege.
func withoutPrivs(mode uint32) uint32 {
	mode &^= modeSetUID
	if mode&modeGroupExec != 0 {
		mode &^= modeSetGID
	}
	return mode
}

// dropPrivs takes the set-ID bits of a file, if the server has left them in a
// change whose attributes are attrs. It returns the attributes that the file
// has then.
func (b *bridge) dropPrivs(o *op, n *node, attrs *nfs4.Attrs) *nfs4.Attrs {
	if n.typ != fuse.S_IFREG || !attrs.Has(nfs4.AttrMode) || withoutPrivs(attrs.Mode) == attrs.Mode {
		return attrs
	}
	answered := b.change(n)
	after, err := b.c.SetAttr(o, o.cred, n.fh, nil, modeAttrs(withoutPrivs(attrs.Mode)))
	answered()
	if err != nil {
		b.o.Log.WithError(err).Debug("set-ID bits of a file that was truncated stay")
		return attrs
	}
	return after
}
