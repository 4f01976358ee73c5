// Package fusefs serves an NFS export to the kernel: it turns the requests that
// FUSE delivers into calls of package nfsclient and their results into answers.
//
// # Flow
//
// The kernel's request reaches the bridge, which stands directly on go-fuse's
// raw interface: only there are the lock owner of a FLUSH, the flags of a WRITE
// and the lookup counts visible, which locks and exact node identity need. Every
// request gets a context (interrupt.go) and the caller's credentials (cred.go).
// Nodes (node.go) stand for what the kernel holds a reference to; handles
// (file.go, dir.go) for what it has open.
//
// # Identity
//
// A node is one filehandle. Its inode number is the server's fileid; on a file
// system other than the root's it is mixed with the fsid, so that numbers are
// unique over an export that crosses file systems and stay the same from mount
// to mount. FUSE node ids are never used twice.
//
// # Caching
//
// The kernel caches names and attributes for the times given in Options, as
// the kernel's NFS client does (validity.go, attrcache.go): longer and longer as
// long as nothing changes. Names that do not exist are cached as others are. When
// the change attribute of a directory shows that somebody else has changed it
// (dirstate.go), the kernel is made to ask for its names again (expire.go).
//
// A file is opened by its name, so that what is opened is the file that has the
// name now. The kernel caches file data until the change attribute shows that
// somebody else has changed the file (cache.go): at open, which gives
// close-to-open consistency, and whenever attributes arrive. Attributes that
// come with an open or a flush spare the question for them that follows. While
// the server has delegated a file, none of that is asked (deleg.go). Data
// that was written is stable at the server when close(2) returns.
//
// # Permissions
//
// By default the kernel checks permission bits on every step of a path
// (default_permissions), and the server checks every operation again under the
// caller's credentials. So what is allowed is what both allow: root squash
// holds, since the server has the last word; an ACL that grants more than the
// permission bits is not used to the full. With Options.ServerPermissions the
// server alone decides, which is exact for ACLs too, at the price of a request
// for every step of every path, because a cached name would let a caller pass a
// directory that he may not search.
//
// The mode of what is made has had the caller's umask applied by the kernel.
// The umask of this process plays no part: it makes no local files.
//
// # Interrupts
//
// As with the kernel's NFS client, only a signal that ends the process
// interrupts a request; any other waits until it is done. The exception is the
// wait for a lock that somebody else has, which every signal ends. A request that is
// cut short in this way fails with EINTR, which nobody sees any more.
//
// # Locks
//
// In order, outermost first; none is held during a call of the client, a
// notification to the kernel or any other wait:
//
//	nodes.mu        the node tables, lookup counts, names of nodes
//	node.mu         what is known of one object: change attribute, opens, missing names
//	expiry.mu       names that the kernel is to ask for again
//	handles.mu      the table of handles
//	sillies.mu      files that have a silly name
//	names.mu        names being looked up or changed
//	groups.mu       the cache of supplementary groups
//
// A directory handle is used by one request at a time; it is passed from one to
// the next by a token, for which a request waits until its context is done.
package fusefs
