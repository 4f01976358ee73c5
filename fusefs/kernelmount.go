package fusefs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNotUnmounted means that the file system is still mounted.
var ErrNotUnmounted = errors.New("fusefs: still mounted")

// mountFlags are the options that mount(2) takes as flags.
var mountFlags = map[string]struct {
	set, clear uintptr
}{
	"ro": {set: unix.MS_RDONLY}, "rw": {clear: unix.MS_RDONLY},
	"nosuid": {set: unix.MS_NOSUID}, "suid": {clear: unix.MS_NOSUID},
	"nodev": {set: unix.MS_NODEV}, "dev": {clear: unix.MS_NODEV},
	"noexec": {set: unix.MS_NOEXEC}, "exec": {clear: unix.MS_NOEXEC},
	"sync": {set: unix.MS_SYNCHRONOUS}, "async": {clear: unix.MS_SYNCHRONOUS},
	"dirsync": {set: unix.MS_DIRSYNC},
	"noatime": {set: unix.MS_NOATIME}, "atime": {clear: unix.MS_NOATIME},
	"nodiratime": {set: unix.MS_NODIRATIME}, "diratime": {clear: unix.MS_NODIRATIME},
	"relatime": {set: unix.MS_RELATIME}, "norelatime": {clear: unix.MS_RELATIME},
	"strictatime": {set: unix.MS_STRICTATIME}, "nostrictatime": {clear: unix.MS_STRICTATIME},
	"lazytime": {set: unix.MS_LAZYTIME}, "nolazytime": {clear: unix.MS_LAZYTIME},
}

// openKernel mounts on dir and returns the descriptor on which the kernel sends
// its requests: by mount(2) if we may, or else with the help of fusermount3.
func openKernel(dir string, o Options, maxRead int) (int, error) {
	options := []string{"max_read=" + strconv.Itoa(maxRead)}
	if !o.ServerPermissions {
		options = append(options, "default_permissions")
	}
	if o.AllowOther {
		options = append(options, "allow_other")
	}
	names := o.Kernel
	if o.ReadOnly {
		names = append(names[:len(names):len(names)], "ro")
	}
	if os.Geteuid() != 0 {
		return fusermount(dir, o.Source, append(options, names...))
	}
	var flags uintptr
	for _, name := range names {
		f, ok := mountFlags[name]
		if !ok {
			return -1, fmt.Errorf("mounting on %s: unknown mount option %q", dir, name)
		}
		flags = flags&^f.clear | f.set
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("opening /dev/fuse: %w", err)
	}
	options = append(options, fmt.Sprintf("fd=%d", fd), "rootmode=40000", "user_id=0", "group_id=0")
	if err := unix.Mount(o.Source, dir, "fuse."+typeName, flags, strings.Join(options, ",")); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mounting on %s: %w", dir, err)
	}
	return fd, nil
}

// fusermount has the set-user-ID program fusermount3 mount for us; it passes the
// descriptor back over a socket.
func fusermount(dir, source string, options []string) (int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "fusermount3"), os.NewFile(uintptr(pair[1]), "fusermount3")
	defer ours.Close()
	options = append(options, "fsname="+source, "subtype="+typeName)
	for i := range options {
		options[i] = strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(options[i])
	}
	cmd := exec.Command("fusermount3", "-o", strings.Join(options, ","), "--", dir)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	out, err := cmd.CombinedOutput()
	theirs.Close()
	if errors.Is(err, exec.ErrNotFound) {
		return -1, errors.New("fusermount3 is not installed: users other than root need it (package fuse3)")
	}
	if err != nil {
		return -1, fmt.Errorf("mounting on %s: %s", dir, firstLine(out, err))
	}
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(int(ours.Fd()), make([]byte, 8), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("mounting on %s: no descriptor from fusermount3: %w", dir, err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err == nil && len(messages) == 1 {
		var fds []int
		if fds, err = unix.ParseUnixRights(&messages[0]); err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, fmt.Errorf("mounting on %s: no descriptor from fusermount3 (%v)", dir, err)
}

func firstLine(out []byte, err error) string {
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if len(line) == 0 {
		return err.Error()
	}
	return string(line)
}

const (
	// busyPatience is how long an unmount waits for users of the file system to
	// go before it is detached from under them: closes that are under way.
	busyPatience = 500 * time.Millisecond
	busyPause    = 10 * time.Millisecond
)

// unmount takes the mount away from the directory: as if it were never there if
// nobody uses it, or else by detaching it. It gives up waiting when ctx is done.
func (f *FS) unmount(ctx context.Context) error {
	// An unmount writes back dirty pages, for which a dead server would keep
	// it waiting for ever.
	result := make(chan error, 1)
	go func() {
		patience := time.NewTimer(busyPatience)
		defer patience.Stop()
		for {
			err := unmountOnce(f.dir, 0)
			if !errors.Is(err, unix.EBUSY) {
				result <- err
				return
			}
			select {
			case <-time.After(busyPause):
			case <-patience.C:
				result <- err
				return
			case <-ctx.Done():
				result <- err
				return
			}
		}
	}()
	var err error
	select {
	case err = <-result:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err == nil || errors.Is(err, unix.EINVAL) { // EINVAL: not mounted any more
		return nil
	}
	if err := detach(f.dir); err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("unmounting %s: %w (%w)", f.dir, err, ErrNotUnmounted)
	}
	return nil
}

// detach takes a mount out of the tree of directories, whoever uses it.
func detach(dir string) error { return unmountOnce(dir, unix.MNT_DETACH) }

func unmountOnce(dir string, flags int) error {
	if os.Geteuid() == 0 {
		return unix.Unmount(dir, flags|unix.UMOUNT_NOFOLLOW)
	}
	args := []string{"-u"}
	if flags&unix.MNT_DETACH != 0 {
		args = append(args, "-z")
	}
	out, err := exec.Command("fusermount3", append(args, "--", dir)...).CombinedOutput()
	switch {
	case err == nil:
		return nil
	case bytes.Contains(out, []byte("busy")):
		return unix.EBUSY
	case bytes.Contains(out, []byte("not found in")), bytes.Contains(out, []byte("Invalid argument")):
		return unix.EINVAL
	}
	return errors.New(firstLine(out, err))
}

// abort cuts the connection to the kernel, so that every request of the kernel
// fails and new ones do too.
func (f *FS) abort() {
	_, number, _ := strings.Cut(f.device, ":")
	err := abortConnection("/sys/fs/fuse/connections", number)
	if errors.Is(err, os.ErrNotExist) && os.Geteuid() == 0 {
		// The control file system need not be mounted.
		err = withControl(func(dir string) error { return abortConnection(dir, number) })
	}
	if err != nil {
		f.bridge.o.Log.WithError(err).Warn("the connection to the kernel could not be cut")
	}
}

func abortConnection(control, number string) error {
	return os.WriteFile(control+"/"+number+"/abort", []byte("1"), 0)
}

// withControl mounts FUSE's control file system for the length of a call.
func withControl(use func(dir string) error) error {
	dir, err := os.MkdirTemp("", "fusectl")
	if err != nil {
		return err
	}
	defer os.Remove(dir)
	if err := unix.Mount("none", dir, "fusectl", 0, ""); err != nil {
		return fmt.Errorf("mounting fusectl: %w", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	return use(dir)
}
