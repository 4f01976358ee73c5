package conformance

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

var largeDirCases = []Case{
	{"LargeDirectory", largeDirectory},
	{"LargeDirectoryChanging", largeDirectoryChanging},
	{"DirectorySeek", directorySeek},
	{"RemoveWhileListing", removeWhileListing},
}

// fill makes n empty files with the given prefix, by several goroutines.
func (e *env) fill(dir, prefix string, n int) {
	fd := e.open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	var next atomic.Int64
	e.workers(func(int) error {
		for {
			i := next.Add(1) - 1
			if i >= int64(n) {
				return nil
			}
			name := fmt.Sprintf("%s%07d", prefix, i)
			f, err := unix.Openat(fd, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
			if err != nil {
				return fmt.Errorf("create %q in %q: %w", name, dir, err)
			}
			if err := unix.Close(f); err != nil {
				return fmt.Errorf("close %q in %q: %w", name, dir, err)
			}
		}
	})
}

// workers runs f on as many goroutines as the options say and ends the case if
// one of them fails.
func (e *env) workers(f func(worker int) error) {
	var wg sync.WaitGroup
	errs := make(chan error, e.o.Workers)
	for i := range e.o.Workers {
		wg.Go(func() {
			if err := f(i); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	failed := false
	for err := range errs {
		e.Errorf("%v", err)
		failed = true
	}
	if failed {
		e.Fatalf("not all of the concurrent work was done")
	}
}

// listed checks that a listing has each of n names with the prefix once, and
// returns how many other names it had.
func listed(all []dirent, prefix string, n int) (others int, err error) {
	seen := make([]bool, n)
	count := 0
	names := make(map[string]bool)
	for _, d := range all {
		if names[d.name] {
			return 0, fmt.Errorf("%q is listed twice (again at offset %d)", d.name, d.off)
		}
		names[d.name] = true
		rest, ours := strings.CutPrefix(d.name, prefix)
		if !ours {
			others++
			continue
		}
		var i int
		if k, err := fmt.Sscanf(rest, "%d", &i); k != 1 || err != nil || i >= n || i < 0 {
			return 0, fmt.Errorf("%q was never made", d.name)
		}
		seen[i] = true
		count++
	}
	if count != n {
		for i, ok := range seen {
			if !ok {
				return 0, fmt.Errorf("%d of %d names are listed; the first one missing is %s%07d", count, n, prefix, i)
			}
		}
	}
	return others, nil
}

// largeDirectory: a large directory lists completely with buffers of any size,
// every entry can be found, and it empties completely.
func largeDirectory(e *env) {
	n := e.o.DirEntries
	e.fill(e.dir, "name-", n)
	fd := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for _, size := range []int{1 << 20, 32 << 10, 512} {
		_, err := unix.Seek(fd, 0, unix.SEEK_SET)
		e.ok(err, "rewind")
		all, err := list(fd, size)
		e.ok(err, "getdents with %d bytes", size)
		if others, err := listed(all, "name-", n); err != nil || others != 0 {
			e.Errorf("listing with a buffer of %d bytes: %d unknown names, %v", size, others, err)
		}
	}
	var next atomic.Int64
	inodes := make([]uint64, n)
	e.workers(func(int) error {
		for {
			i := next.Add(1) - 1
			if i >= int64(n) {
				return nil
			}
			var st unix.Stat_t
			name := fmt.Sprintf("name-%07d", i)
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return fmt.Errorf("lstat %q: %w", name, err)
			}
			inodes[i] = st.Ino
		}
	})
	seen := make(map[uint64]int)
	for i, ino := range inodes {
		if j, twice := seen[ino]; twice {
			e.Fatalf("names %d and %d share the inode number %d", i, j, ino)
		}
		seen[ino] = i
	}
	next.Store(0)
	e.workers(func(int) error {
		for {
			i := next.Add(1) - 1
			if i >= int64(n) {
				return nil
			}
			if err := unix.Unlinkat(fd, fmt.Sprintf("name-%07d", i), 0); err != nil {
				return fmt.Errorf("unlink number %d: %w", i, err)
			}
		}
	})
	e.names(e.dir)
}

// largeDirectoryChanging: while others create and delete, every listing has
// each entry that was there all the time exactly once, and none twice.
func largeDirectoryChanging(e *env) {
	n := e.o.DirEntries
	e.fill(e.dir, "stays-", n)
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				name := fmt.Sprintf("comes-%d-%d", w, i)
				fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
				if err != nil {
					e.Errorf("create %q: %v", name, err)
					return
				}
				unix.Close(fd)
				if i >= 50 {
					old := fmt.Sprintf("comes-%d-%d", w, i-50)
					if i%3 == 0 {
						err = unix.Renameat(dir, old, dir, fmt.Sprintf("went-%d-%d", w, i))
					} else {
						err = unix.Unlinkat(dir, old, 0)
					}
					if err != nil {
						e.Errorf("remove %q: %v", old, err)
						return
					}
				}
			}
		})
	}
	for i := range 6 {
		fd, err := unix.Open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			e.Errorf("open %q: %v", e.dir, err)
			break
		}
		all, err := list(fd, []int{64 << 10, 4096}[i%2])
		unix.Close(fd)
		if err != nil {
			e.Errorf("getdents: %v", err)
			break
		}
		if _, err := listed(all, "stays-", n); err != nil {
			e.Errorf("listing number %d while others change the directory: %v", i, err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// directorySeek: an offset once returned leads back to the same entry.
func directorySeek(e *env) {
	n := min(e.o.DirEntries, 5000)
	e.fill(e.dir, "name-", n)
	fd := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	all, err := list(fd, 32<<10)
	e.ok(err, "getdents")
	if len(all) != n {
		e.Fatalf("%d names listed, expected %d", len(all), n)
	}
	offsets := make(map[int64]string)
	for _, d := range all {
		if other, twice := offsets[d.off]; twice {
			e.Fatalf("%q and %q have the same offset %d", d.name, other, d.off)
		}
		offsets[d.off] = d.name
	}
	buf := make([]byte, 4096)
	for range 200 {
		i := e.rng.IntN(n)
		_, err := unix.Seek(fd, all[i].off, unix.SEEK_SET)
		e.ok(err, "seek to offset %d", all[i].off)
		some, err := getdents(fd, buf)
		e.ok(err, "getdents at offset %d", all[i].off)
		if i == n-1 {
			if len(some) != 0 {
				e.Errorf("%d entries behind the last one", len(some))
			}
			continue
		}
		if len(some) == 0 || some[0].name != all[i+1].name {
			e.Fatalf("behind %q (offset %d) stands %v, expected %q", all[i].name, all[i].off, some[:min(1, len(some))], all[i+1].name)
		}
	}
	// From the middle to the end it is the rest; from the start, everything,
	// with what was made since.
	_, err = unix.Seek(fd, all[n/2].off, unix.SEEK_SET)
	e.ok(err, "seek")
	rest, err := list(fd, 8192)
	e.ok(err, "getdents")
	if len(rest) != n-n/2-1 {
		e.Errorf("%d entries from the middle on, expected %d", len(rest), n-n/2-1)
	}
	e.create(e.path("new"), nil)
	e.ok(unix.Unlink(e.path(all[0].name)), "unlink")
	_, err = unix.Seek(fd, 0, unix.SEEK_SET)
	e.ok(err, "rewind")
	again, err := list(fd, 8192)
	e.ok(err, "getdents")
	has := make(map[string]bool)
	for _, d := range again {
		has[d.name] = true
	}
	if len(again) != n || !has["new"] || has[all[0].name] {
		e.Errorf("after rewinding: %d entries, new one listed %v, removed one listed %v; expected %d, true, false",
			len(again), has["new"], has[all[0].name], n)
	}
}

// removeWhileListing: a program that removes what it lists meets everything.
func removeWhileListing(e *env) {
	n := e.o.DirEntries
	d := e.path("d")
	e.mkdir(d)
	e.fill(d, "name-", n)
	fd := e.open(d, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	buf := make([]byte, 32<<10)
	removed := 0
	for {
		some, err := getdents(fd, buf)
		e.ok(err, "getdents")
		if len(some) == 0 {
			break
		}
		for _, de := range some {
			if de.name == "." || de.name == ".." {
				continue
			}
			e.ok(unix.Unlinkat(fd, de.name, 0), "unlink %q", de.name)
			removed++
		}
	}
	if removed != n {
		e.Errorf("%d names met while removing, expected %d", removed, n)
	}
	e.ok(unix.Rmdir(d), "rmdir of the emptied directory")
}
