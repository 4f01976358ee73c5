package conformance

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var mmapCases = []Case{
	{"MapFiles", mapFiles},
}

// mapFiles: mappings show the content of files and carry changes into them. A
// child process does it: a page fault would block the scheduler of this one.
func mapFiles(e *env) { e.runChildren("map", 1) }

func mapChild(a childArgs) error {
	for name, step := range map[string]func(string, uint64) error{
		"read": mapRead, "private": mapPrivate, "shared": mapShared, "grow": mapGrow,
	} {
		if err := step(filepath.Join(a.Dir, name), a.Seed); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// mapFile makes a file with n bytes of the pattern and maps it.
func mapFile(p string, seed uint64, n, prot, flags int) (fd int, m []byte, err error) {
	fd, err = unix.Open(p, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return
	}
	if err = pwriteFull(fd, pattern(seed, 0, make([]byte, n)), 0); err != nil {
		return
	}
	m, err = unix.Mmap(fd, 0, n, prot, flags)
	return
}

func mapRead(p string, seed uint64) error {
	const n = 300_001
	fd, m, err := mapFile(p, seed, n, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := same(p, 0, m, pattern(seed, 0, make([]byte, n))); err != nil {
		return err
	}
	// A write through the descriptor shows in the mapping.
	if err := pwriteFull(fd, []byte("changed"), 150_000); err != nil {
		return err
	}
	if err := same(p, 150_000, m[150_000:150_007], []byte("changed")); err != nil {
		return err
	}
	if err := unix.Munmap(m); err != nil {
		return err
	}
	// Cold: the mapping is what reads the file.
	if err := dropCache(fd); err != nil {
		return err
	}
	if m, err = unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_PRIVATE); err != nil {
		return err
	}
	if err := same(p, 200_000, m[200_000:], pattern(seed, 200_000, make([]byte, n-200_000))); err != nil {
		return err
	}
	return unix.Munmap(m)
}

func mapPrivate(p string, seed uint64) error {
	fd, m, err := mapFile(p, seed, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	copy(m[5000:], "private")
	got := make([]byte, 7)
	if _, err := preadFull(fd, got, 5000); err != nil {
		return err
	}
	if err := same(p, 5000, got, pattern(seed, 5000, make([]byte, 7))); err != nil {
		return fmt.Errorf("a private change reached the file: %w", err)
	}
	return unix.Munmap(m)
}

func mapShared(p string, seed uint64) error {
	const n = 500_000
	fd, m, err := mapFile(p, seed, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.ENODEV {
		return nil // a file system may have no shared writable mappings
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	want := pattern(seed, 0, make([]byte, n))
	check := func(when string) error {
		got := make([]byte, n+1)
		k, err := preadFull(fd, got, 0)
		if err != nil {
			return err
		}
		if err := same(p, 0, got[:k], want); err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		return nil
	}
	for i, off := range []int{0, 4090, 100_000, n - 9} {
		text := fmt.Sprintf("change %d", i)
		copy(m[off:], text)
		copy(want[off:], text)
	}
	if err := check("before msync"); err != nil {
		return err
	}
	if err := unix.Msync(m, unix.MS_SYNC); err != nil {
		return fmt.Errorf("msync: %w", err)
	}
	copy(m[250_000:], "after msync")
	copy(want[250_000:], "after msync")
	if err := unix.Munmap(m); err != nil {
		return err
	}
	if err := check("after munmap"); err != nil {
		return err
	}
	if err := dropCache(fd); err != nil {
		return err
	}
	return check("after dropping caches")
}

func mapGrow(p string, seed uint64) error {
	fd, m, err := mapFile(p, seed, 100, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err == unix.ENODEV {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Munmap(m); err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, 40_000); err != nil {
		return err
	}
	if m, err = unix.Mmap(fd, 0, 40_000, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return err
	}
	copy(m[39_990:], "0123456789")
	if err := unix.Msync(m, unix.MS_SYNC); err != nil {
		return err
	}
	if err := unix.Munmap(m); err != nil {
		return err
	}
	want := make([]byte, 40_000)
	pattern(seed, 0, want[:100])
	copy(want[39_990:], "0123456789")
	if err := dropCache(fd); err != nil {
		return err
	}
	got := make([]byte, 50_000)
	n, err := preadFull(fd, got, 0)
	if err != nil {
		return err
	}
	return same(p, 0, got[:n], want)
}
