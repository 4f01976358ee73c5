package lab

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// tempPrefix begins the name of every directory that the lab makes.
const tempPrefix = "nfsrdma-lab-"

// staleAfter is the least age of a directory that is taken for left over.
const staleAfter = time.Hour

// tempDir is a directory for the files of one machine, server or capture. It
// is locked for as long as its maker lives, so that those of makers who were
// killed can be told and removed: they hold whole disks.
type tempDir struct {
	path string
	lock *os.File // the directory itself
}

// newTempDir makes a directory in parent; empty is $TMPDIR, else /var/tmp,
// which unlike /tmp is on disk everywhere.
func newTempDir(parent, kind string) (*tempDir, error) {
	if parent == "" {
		parent = os.Getenv("TMPDIR")
	}
	if parent == "" {
		parent = "/var/tmp"
	}
	removeStale(parent, time.Now())
	path, err := os.MkdirTemp(parent, tempPrefix+kind+"-")
	if err != nil {
		return nil, err
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &tempDir{path, lock}, nil
}

func (d *tempDir) file(name string) string { return filepath.Join(d.path, name) }

func (d *tempDir) remove() error {
	d.lock.Close() // nil and closed ones included
	return os.RemoveAll(d.path)
}

// lockDir locks a directory, or fails at once when somebody else has.
func lockDir(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeStale removes what killed makers have left. A young directory may be
// one that is about to be locked.
func removeStale(parent string, now time.Time) {
	found, _ := filepath.Glob(filepath.Join(parent, tempPrefix+"*"))
	for _, path := range found {
		info, err := os.Lstat(path)
		if err != nil || !info.IsDir() || now.Sub(info.ModTime()) < staleAfter {
			continue
		}
		if lock, err := lockDir(path); err == nil {
			os.RemoveAll(path)
			lock.Close()
		}
	}
}
