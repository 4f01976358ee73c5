package fusefs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/xdr/nfs4"
)

// typeName is the file system's name: mounts show as type "fuse." with this.
const typeName = "nfsrdma-fuse"

// maxTransfer is the largest READ and WRITE that the kernel's FUSE makes unless
// an administrator raises its limit.
const maxTransfer = 1 << 20

// FS is a mounted file system.
type FS struct {
	dir    string
	device string // major:minor of the mount; the minor number is the connection's
	bridge *bridge
	server *fuse.Server
	probe  int // a duplicate of the FUSE descriptor, to see whether the kernel has given up
	done   chan struct{}
}

// Mount mounts the directory root of a client, whose attributes are attrs, on
// dir and serves it until it is unmounted. The client must stay open until Wait
// has returned. Errors name the mount point and say what is wrong with it.
func Mount(dir string, c *nfsclient.Client, root nfs4.FH, attrs *nfs4.Attrs, o Options) (*FS, error) {
	return mount(dir, client{c}, root, attrs, o)
}

func mount(dir string, c backend, root nfs4.FH, attrs *nfs4.Attrs, o Options) (*FS, error) {
	if attrs == nil || fileType(attrs.Type) != fuse.S_IFDIR {
		return nil, fmt.Errorf("%s is not a directory: only directories can be mounted", o.Source)
	}
	dir, err := checkMountPoint(dir)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	b := newBridge(c, root, attrs, o)
	transfer := maxTransfer
	if l := c.Limits(); l.RSize > 0 && l.RSize < transfer {
		transfer = max(l.RSize, 4096)
	}

	fd, err := openKernel(dir, o, transfer)
	if err != nil {
		return nil, err
	}
	probe, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		detach(dir)
		return nil, fmt.Errorf("mounting on %s: %w", dir, err)
	}
	b.dead = func() bool { return hungUp(probe) }
	b.kernel.Store(int64(probe))
	server, err := fuse.NewServer(b, fmt.Sprintf("/dev/fd/%d", fd), &fuse.MountOptions{
		Name:                     typeName,
		FsName:                   o.Source,
		MaxWrite:                 transfer,
		MaxBackground:            o.MaxBackground,
		EnableSymlinkCaching:     true, // a link's text never changes
		ExplicitDataCacheControl: true, // the change attribute decides, not the time of modification
		EnableLocks:              true,
		DisabledCapabilities:     o.localLocks(),
		ExtraCapabilities:        fuse.CAP_ASYNC_DIO | fuse.CAP_ATOMIC_O_TRUNC | fuse.CAP_READDIRPLUS_AUTO | fuse.CAP_HANDLE_KILLPRIV_V2,
		Logger:                   log.New(logWriter{o}, "", 0),
	})
	if err != nil {
		unix.Close(probe)
		detach(dir)
		return nil, fmt.Errorf("mounting on %s: the kernel's FUSE: %w", dir, err)
	}
	f := &FS{dir: dir, bridge: b, server: server, probe: probe, done: make(chan struct{})}
	if f.device, err = mountDevice(dir); err != nil {
		o.Log.WithError(err).Warn("the mount is not in the mount table")
	}
	go f.serve()
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		refusePoll(dir)
	}()
	select {
	case <-polled:
	case <-time.After(pollPatience): // the server does not answer; the mount is there all the same
	}
	f.raiseReadAhead(transfer)
	return f, nil
}

// checkMountPoint returns the absolute path of a directory that can be mounted
// on.
func checkMountPoint(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("mount point %s: %w", dir, err)
	}
	st, err := os.Stat(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("mount point %s does not exist", dir)
	case errors.Is(err, unix.ENOTCONN):
		return "", fmt.Errorf("mount point %s is a mount whose process is gone: unmount it first", dir)
	case err != nil:
		return "", fmt.Errorf("mount point %s: %w", dir, err)
	case !st.IsDir():
		return "", fmt.Errorf("mount point %s is not a directory", dir)
	}
	return abs, nil
}

// serve answers requests until the connection to the kernel ends, and then
// closes what the kernel has left open.
func (f *FS) serve() {
	defer close(f.done)
	f.server.Serve()
	ctx, cancel := f.bridge.background()
	defer cancel()
	f.bridge.closeAll(ctx)
	f.bridge.expiry.stop()
	unix.Close(f.probe)
}

// closeAll closes all files: the kernel does not tell of those whose close it
// had not sent yet when it was unmounted.
func (b *bridge) closeAll(ctx context.Context) {
	for _, h := range b.handles.takeAll() {
		if err := h.file.Close(ctx); err != nil && !errors.Is(err, nfs4.ErrStale) {
			b.o.Log.WithError(err).Warn("closing a file after the unmount: data may not have reached the server")
		}
		b.removeSilly(ctx, h.node.closed())
	}
	for _, s := range b.sillies.list() { // those kept for an open that never came
		if s.node.release(s) {
			b.removeSilly(ctx, s)
		}
	}
	b.expiring.Wait()
}

// Wait returns when the file system is no longer mounted, by whoever unmounted
// it, and everything in it is closed.
func (f *FS) Wait() { <-f.done }

// Dir returns the absolute path of the mount point.
func (f *FS) Dir() string { return f.dir }

// hungUp tells whether the kernel has given up the connection behind a FUSE
// descriptor.
func hungUp(fd int) bool {
	p := []unix.PollFd{{Fd: int32(fd)}}
	n, err := unix.Poll(p, 0)
	return err == nil && n > 0 && p[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
}

// pollPatience is how long Mount waits for refusePoll.
const pollPatience = 5 * time.Second

// refusePoll makes the kernel ask, once, whether files can be polled, to be told
// no. If it asked when a Go program first opens a file of the mount, it would do
// so in a system call that the Go runtime thinks cannot block; a program that
// serves the mount itself, as tests do, could hang there.
func refusePoll(dir string) {
	fd, err := unix.Open(dir+"/.go-fuse-epoll-hack", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
}

// raiseReadAhead sets how far the kernel reads ahead, as far as it lets us.
func (f *FS) raiseReadAhead(transfer int) {
	n := f.bridge.o.ReadAhead
	if n == 0 {
		n = defaultReadAheads * transfer
	}
	path := fmt.Sprintf("/sys/class/bdi/%s/read_ahead_kb", f.device)
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d", n>>10), 0); err != nil {
		f.bridge.o.Log.WithError(err).Debug("the kernel's read-ahead stays as it is")
	}
}

// mountDevice returns the device number of the mount on dir, as major:minor,
// without asking the file system.
func mountDevice(dir string) (string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	dev := ""
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 4 && unescapeMount.Replace(f[4]) == dir && strings.Contains(line, " - fuse."+typeName+" ") {
			dev = f[2] // the last one is on top
		}
	}
	if dev == "" {
		return "", fmt.Errorf("nothing of ours is mounted on %s", dir)
	}
	return dev, nil
}

// unescapeMount undoes the escapes of /proc/self/mountinfo.
var unescapeMount = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// logWriter makes go-fuse's complaints entries of our log.
type logWriter struct{ o Options }

func (w logWriter) Write(p []byte) (int, error) {
	text := strings.TrimSpace(string(p))
	if strings.Contains(text, "Write/Writev failed, err: 2=") {
		w.o.Log.Debug(text) // whoever asked was killed meanwhile
	} else {
		w.o.Log.Warn(text)
	}
	return len(p), nil
}

var _ io.Writer = logWriter{}

// Unmount unmounts the file system and waits until everything in it is closed.
// If it is in use it is detached, so that nothing new can be opened, and
// Unmount waits for the users until ctx is done. Then the connection to the
// kernel is cut: whoever still uses the file system gets errors. The error says
// how far it had to go; the file system is unmounted in any case, unless the
// error matches ErrNotUnmounted.
func (f *FS) Unmount(ctx context.Context) error {
	select {
	case <-f.done:
		return nil
	default:
	}
	err := f.unmount(ctx)
	if errors.Is(err, ErrNotUnmounted) {
		return err
	}
	select {
	case <-f.done:
		return nil
	case <-ctx.Done():
	}
	f.abort()
	// Requests in progress see that the connection is gone and give up.
	select {
	case <-f.done:
		return fmt.Errorf("unmounting %s: in use until the time was up, and cut off: %w", f.dir, context.Cause(ctx))
	case <-time.After(f.bridge.o.CloseTimeout + abortGrace):
		return fmt.Errorf("unmounting %s: cut off, but requests to the server are still in progress: %w", f.dir, context.Cause(ctx))
	}
}

// abortGrace is how long requests may take to notice that the connection to the
// kernel is gone.
const abortGrace = 5 * time.Second
