package fusefs

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// expiry has the kernel ask again for names of directories that somebody else
// has changed: both those it knows and those it knows not to exist.
//
// To do so the kernel locks the directory, which it may have locked for the
// very request that told of the change. So it is done by a goroutine of its own,
// which runs as long as there is something to do; no request waits for it but
// for a moment.
type expiry struct {
	b *bridge

	mu      sync.Mutex
	queue   []*node
	doubts  map[*node]*doubt // by directory in the queue
	waiters []chan struct{}
	running bool
	stopped bool
	wg      sync.WaitGroup
}

// doubt is what the kernel has to ask for again in a directory.
type doubt struct {
	missing []string // names that are known to be missing
	known   bool     // and those that the kernel knows
}

// expireWait is how long the answer with the new attributes of a directory
// waits for the kernel to be told of its names.
const expireWait = 50 * time.Millisecond

// add queues names that are known to be missing in a directory, and with known
// those that the kernel knows there. The channel is closed when the kernel has
// been told.
func (x *expiry) add(dir *node, missing []string, known bool) <-chan struct{} {
	done := make(chan struct{})
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopped {
		close(done)
		return done
	}
	if x.doubts == nil {
		x.doubts = make(map[*node]*doubt)
	}
	d := x.doubts[dir]
	if d == nil {
		d = new(doubt)
		x.doubts[dir] = d
		x.queue = append(x.queue, dir)
	}
	d.missing = append(d.missing, missing...)
	d.known = d.known || known
	x.waiters = append(x.waiters, done)
	if !x.running {
		x.running = true
		x.wg.Go(x.run)
	}
	return done
}

func (x *expiry) run() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for len(x.queue) > 0 {
		queue, doubts, waiters := x.queue, x.doubts, x.waiters
		x.queue, x.doubts, x.waiters = nil, nil, nil
		x.mu.Unlock()
		for _, dir := range queue {
			x.b.expireNames(dir, doubts[dir])
		}
		for _, w := range waiters {
			close(w)
		}
		x.mu.Lock()
	}
	x.running = false
}

// stop waits until nothing is told to the kernel any more.
func (x *expiry) stop() {
	x.mu.Lock()
	x.stopped = true
	x.mu.Unlock()
	x.wg.Wait()
}

func (b *bridge) expireNames(dir *node, d *doubt) {
	for _, name := range d.missing {
		b.expireName(dir.id, name)
	}
	if !d.known || !b.expireOnly() {
		return // without it known names are kept for a short time only; see nameTime
	}
	for _, name := range b.nodes.in(dir) {
		b.expireName(dir.id, name)
	}
}

// expireOnly tells whether the kernel can be made to ask for a name again
// without dropping it. Dropping would take the place from under those who work
// in a directory, and from mounts there.
func (b *bridge) expireOnly() bool {
	s := b.server.Load()
	return s != nil && s.KernelSettings().Flags64()&fuse.CAP_HAS_EXPIRE_ONLY != 0
}

// notifyInvalEntry is FUSE_NOTIFY_INVAL_ENTRY.
const notifyInvalEntry = 3

// expireName has the kernel ask for a name when it is next used.
//
//	struct fuse_out_header and struct fuse_notify_inval_entry_out:
//	+-------+---------------+----------+-----------+-----------+---------+---------+---
//	| len 4 | notify code 4 | zero 8   | parent 8  | namelen 4 | flags 4 | name    | 0
//	+-------+---------------+----------+-----------+-----------+---------+---------+---
func (b *bridge) expireName(dir uint64, name string) {
	b.stats.expired.Add(1)
	fd := b.kernel.Load()
	if fd < 0 {
		return
	}
	msg := make([]byte, 0, 32+len(name)+1)
	msg = binary.NativeEndian.AppendUint32(msg, uint32(32+len(name)+1))
	msg = binary.NativeEndian.AppendUint32(msg, notifyInvalEntry)
	msg = binary.NativeEndian.AppendUint64(msg, 0)
	msg = binary.NativeEndian.AppendUint64(msg, dir)
	msg = binary.NativeEndian.AppendUint32(msg, uint32(len(name)))
	msg = binary.NativeEndian.AppendUint32(msg, fuse.EXPIRE_ONLY) // of no effect where the kernel does not have it
	msg = append(append(msg, name...), 0)
	// ENOENT: the kernel does not know the name any more. Once the mount is
	// gone there is nobody to tell.
	_, _ = unix.Write(int(fd), msg)
}
