package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// record is the file by which other invocations find the process behind a
// mount. The process holds a lock on it for as long as it lives, so a record
// without a lock is a left-over and is taken over by the next mount.
type record struct {
	PID  int    `json:"pid"`
	Spec string `json:"spec"`
	Dir  string `json:"dir"`
	// Transport is what the present connection goes over, or the last one did.
	Transport choice `json:"transport"`

	file *os.File
	size int // bytes written so far
}

// recordDir is the folder of the records: one for root, one for each user.
func recordDir() string {
	if os.Geteuid() == 0 {
		return "/run/nfsrdma-fuse"
	}
	if d := os.Getenv("XDG_RUNTIME_DIR"); d != "" {
		return filepath.Join(d, "nfsrdma-fuse")
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("nfsrdma-fuse-%d", os.Geteuid()))
}

func recordPath(dir string) string {
	return filepath.Join(recordDir(), url.PathEscape(dir))
}

// writeRecord leaves the record of a mount on dir and locks it.
func writeRecord(s spec, dir string) (*record, error) {
	if err := os.MkdirAll(recordDir(), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(recordPath(dir), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("another nfsrdma-fuse process serves %s: unmount it first (nfsrdma-fuse umount %s)", dir, dir)
	}
	r := &record{PID: os.Getpid(), Spec: s.String(), Dir: dir, file: f}
	err = f.Truncate(0)
	if err == nil {
		err = r.write()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return r, nil
}

// write writes the record over the one before. It never gets shorter, so that
// whoever reads meanwhile sees the one or the other.
func (r *record) write() error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if pad := r.size - len(b); pad > 0 {
		b = append(b, bytes.Repeat([]byte(" "), pad)...)
	}
	r.size = len(b)
	_, err = r.file.WriteAt(b, 0)
	return err
}

// setTransport records what the connection goes over. Calls must not overlap.
func (r *record) setTransport(c choice) error {
	r.Transport = c
	return r.write()
}

// remove takes the record away, and with it the lock.
func (r *record) remove() {
	os.Remove(r.file.Name())
	r.file.Close()
}

// findRecord returns the record of a mount on dir, or nil if no process
// serves one.
func findRecord(dir string) (*record, error) {
	f, err := os.Open(recordPath(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &record{file: f}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); {
	case err == nil: // nobody holds it: a left-over
		f.Close()
		return nil, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		f.Close()
		return nil, err
	}
	if err := json.NewDecoder(f).Decode(r); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return r, nil
}

// findRecords returns the records of all mounts of this user, by directory. The
// caller closes their files.
func findRecords() ([]*record, error) {
	entries, err := os.ReadDir(recordDir())
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*record
	for _, e := range entries {
		dir, err := url.PathUnescape(e.Name())
		if err != nil {
			continue // not one of ours
		}
		r, err := findRecord(dir)
		if err != nil {
			return all, err
		}
		if r != nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// waitGone waits until the process behind the record has ended and tells
// whether it did so in time.
func (r *record) waitGone(limit time.Duration) bool {
	defer r.file.Close()
	gone := make(chan struct{})
	go func() {
		// Blocks until the process lets go; if the limit comes first, this
		// program is about to exit and the lock call ends with it.
		if unix.Flock(int(r.file.Fd()), unix.LOCK_SH) == nil {
			close(gone)
		}
	}()
	select {
	case <-gone:
		return true
	case <-time.After(limit):
		return false
	}
}
