package fusefs

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// bridge answers the kernel's requests.
type bridge struct {
	fuse.RawFileSystem // answers ENOSYS to what is not implemented

	c backend
	o Options

	nodes   *nodes
	handles *handles
	groups  *groupCache
	names   *names
	sillies *sillies
	// expiring counts the files that are kept for openGrace.
	expiring sync.WaitGroup

	expiry expiry
	deleg  delegator // nil if the backend is none

	server atomic.Pointer[fuse.Server]
	kernel atomic.Int64 // the FUSE descriptor; -1 if there is none
	dead   func() bool  // whether the kernel has given up the connection
	seq    atomic.Uint64
	stats  counters
}

func newBridge(c backend, root nfs4.FH, attrs *nfs4.Attrs, o Options) *bridge {
	b := &bridge{
		RawFileSystem: fuse.NewDefaultRawFileSystem(),
		c:             c,
		o:             o,
		nodes:         newNodes(root, attrs),
		handles:       newHandles(),
		groups:        newGroupCache(),
		names:         newNames(),
		sillies:       newSillies(),
		dead:          func() bool { return false },
	}
	b.expiry.b = b
	b.kernel.Store(-1)
	if w, ok := c.(dirWatcher); ok {
		w.WatchDirs(b.dirChanged)
	}
	if d, ok := c.(delegator); ok {
		b.deleg = d
		d.WatchDelegations(b.delegationEnds)
	}
	return b
}

// String implements fuse.RawFileSystem.
func (b *bridge) String() string { return typeName }

// Init implements fuse.RawFileSystem.
func (b *bridge) Init(s *fuse.Server) { b.server.Store(s) }

// op is a request of the kernel in progress: its context, and who sent it.
type op struct {
	opContext
	b     *bridge
	cred  nfsclient.Cred
	began fetched
}

// begin starts a request; its end must be called with the answer.
func (b *bridge) begin(cancel <-chan struct{}, h *fuse.InHeader) *op {
	o := b.beginQuiet(cancel, h)
	o.cred = b.groups.cred(h.Caller)
	return o
}

// beginQuiet is begin for a request that is not done in the name of its caller,
// such as one through an open file.
func (b *bridge) beginQuiet(cancel <-chan struct{}, h *fuse.InHeader) *op {
	b.stats.requests.Add(1)
	b.stats.running.Add(1)
	o := &op{b: b, began: b.fetching()}
	o.interrupt = cancel
	pid := h.Pid
	o.fatal = func() bool { return b.dead() || beingKilled(pid) }
	return o
}

// end finishes the request and turns its error into what the kernel gets.
func (o *op) end(err error) fuse.Status {
	o.opContext.end()
	o.b.stats.running.Add(-1)
	if err == nil {
		return fuse.OK
	}
	o.b.stats.errors.Add(1)
	var errno unix.Errno
	if e, ok := err.(unix.Errno); ok {
		errno = e
	} else {
		errno = nfsclient.Errno(err)
	}
	if errno == 0 { // an error that stands for none would pass as success
		errno = unix.EIO
	}
	return fuse.Status(errno)
}

// errNoNode answers requests for what the kernel should not know.
var errNoNode = unix.ESTALE

// isStatus tells whether err is one of the given statuses.
func isStatus(err error, want ...nfs4.Status) bool {
	for _, w := range want {
		if errors.Is(err, w) {
			return true
		}
	}
	return false
}

// background returns a context for work that goes on when its request is over.
func (b *bridge) background() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), b.o.CloseTimeout)
}
