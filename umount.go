package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// umountOptions say how to unmount.
type umountOptions struct {
	Lazy  bool          // detach now, also when in use
	Limit time.Duration // how long to wait for the serving process to end
}

// umount unmounts dir and waits until the process behind it has written back
// what was dirty, given its state back to the server and ended.
func umount(dir string, o umountOptions) error {
	abs, err := mountedPath(dir)
	if err != nil {
		return err
	}
	ours, err := isOurMount(abs)
	if err != nil {
		return systemError{err}
	}
	if !ours {
		return exitError{fmt.Errorf("%s is not mounted by nfsrdma-fuse", dir), exitUsage}
	}
	rec, err := findRecord(abs)
	if err != nil {
		return systemError{err}
	}
	if err := unmountDir(abs, o.Lazy); err != nil {
		return err
	}
	if rec != nil && !rec.waitGone(o.Limit) {
		return fmt.Errorf("%s is unmounted, but process %d has not ended within %v: it may still be writing data back to %s", dir, rec.PID, o.Limit, rec.Spec)
	}
	return nil
}

// mountedPath returns the absolute path of a directory that may be a mount. The
// directory itself is not resolved: that would ask the server, who may be what
// is wrong.
func mountedPath(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil || abs == "/" {
		return abs, err
	}
	if parent, err := filepath.EvalSymlinks(filepath.Dir(abs)); err == nil {
		abs = filepath.Join(parent, filepath.Base(abs))
	}
	return abs, nil
}

// fsType is the file system type that our mounts show.
const fsType = "fuse.nfsrdma-fuse"

func isOurMount(dir string) (bool, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return false, err
	}
	found := false
	for line := range strings.Lines(string(b)) {
		before, after, ok := strings.Cut(line, " - ")
		f := strings.Fields(before)
		if ok && len(f) > 4 && unescapeMount(f[4]) == dir {
			found = strings.HasPrefix(after, fsType+" ") // the last one is on top
		}
	}
	return found, nil
}

// unescapeMount undoes the octal escapes of /proc/self/mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

func unmountDir(dir string, lazy bool) error {
	if os.Geteuid() == 0 {
		flags := unix.UMOUNT_NOFOLLOW
		if lazy {
			flags |= unix.MNT_DETACH
		}
		err := unix.Unmount(dir, flags)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s is in use: close what is open on it (fuser -vm %s shows it), or use umount --lazy", dir, dir)
		}
		if err != nil {
			return fmt.Errorf("unmounting %s: %w", dir, err)
		}
		return nil
	}
	args := []string{"-u"}
	if lazy {
		args = append(args, "-z")
	}
	out, err := exec.Command("fusermount3", append(args, "--", dir)...).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("fusermount3 is not installed: it comes with the package fuse3")
	}
	if err != nil {
		return fmt.Errorf("unmounting %s: %s", dir, bytes.TrimSpace(out))
	}
	return nil
}
