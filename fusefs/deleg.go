package fusefs

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// delegator is a backend that has delegations of files from its server (RFC 8881
// section 10.4). A backend need not be one.
type delegator interface {
	// OpenDelegated opens a file without asking the server, or returns nil.
	OpenDelegated(cred nfsclient.Cred, fh nfs4.FH, read, write bool) file
	// Delegated tells whether nobody else can change a file.
	Delegated(fh nfs4.FH) bool
	// WatchDelegations has f called when that ends, before anybody can.
	WatchDelegations(f func(fh nfs4.FH))
}

// delegatedTime is for how long the kernel may use the attributes of a file with
// a delegation. It is told when the delegation ends, so this matters only if it
// misses that.
const delegatedTime = 10 * time.Minute

// delegated tells whether a delegation of a file is held.
func (b *bridge) delegated(n *node) bool {
	return b.deleg != nil && n.typ == fuse.S_IFREG && b.o.AcRegMax > 0 && b.deleg.Delegated(n.fh)
}

// delegationEnds has the kernel ask for the attributes that it was allowed to
// keep. What it has of the data, the next open decides.
func (b *bridge) delegationEnds(fh nfs4.FH) {
	if n := b.nodes.peek(fh); n != nil {
		b.dropAttrs(n)
	}
}

// openDelegated opens a file without asking the server, if that can be: with its
// name, its data and its attributes as the kernel knows them.
func (b *bridge) openDelegated(o *op, n *node, r nfsclient.OpenRequest, out *fuse.OpenOut) bool {
	if b.deleg == nil || r.Truncate || r.Stable {
		return false
	}
	n.mu.Lock()
	sure := n.cache.known && !n.cache.shared
	n.mu.Unlock()
	if !sure {
		return false
	}
	f := b.deleg.OpenDelegated(o.cred, n.fh, r.Read, r.Write)
	if f == nil {
		return false
	}
	out.Fh = b.handles.addFile(&fileHandle{node: n, file: f, cred: o.cred, write: r.Write})
	out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	if !r.Write && b.o.LocalPOSIX {
		out.OpenFlags |= fuse.FOPEN_NOFLUSH
	}
	b.stats.kept.Add(1)
	b.stats.delegated.Add(1)
	return true
}
