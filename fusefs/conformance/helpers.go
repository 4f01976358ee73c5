package conformance

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ok ends the case if err is not nil; what names the call and its path.
func (e *env) ok(err error, what string, args ...any) {
	if err != nil {
		e.Fatalf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// fails records a failure unless err is one of the given errors.
func (e *env) fails(err error, what string, want ...syscall.Errno) {
	for _, w := range want {
		if errors.Is(err, w) {
			return
		}
	}
	got := "success"
	if err != nil {
		got = err.Error()
	}
	e.Errorf("%s: got %s, expected %v", what, got, want)
}

// open opens a file for the length of the case.
func (e *env) open(path string, flags int, mode uint32) int {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, mode)
	e.ok(err, "open(%q, %#o, %#o)", path, flags, mode)
	e.Cleanup(func() { unix.Close(fd) })
	return fd
}

// create makes a file with the given content and closes it.
func (e *env) create(path string, content []byte) {
	e.ok(os.WriteFile(path, content, 0o666), "write %q", path)
}

func (e *env) mkdir(path string) { e.ok(unix.Mkdir(path, 0o777), "mkdir %q", path) }

func (e *env) stat(path string) unix.Stat_t {
	var st unix.Stat_t
	e.ok(unix.Lstat(path, &st), "lstat %q", path)
	return st
}

func (e *env) fstat(fd int) unix.Stat_t {
	var st unix.Stat_t
	e.ok(unix.Fstat(fd, &st), "fstat of descriptor %d", fd)
	return st
}

// missing records a failure if the path exists.
func (e *env) missing(path string) {
	var st unix.Stat_t
	e.fails(unix.Lstat(path, &st), fmt.Sprintf("lstat %q", path), unix.ENOENT)
}

// size records a failure if the file has not the given size.
func (e *env) size(path string, want int64) {
	if st := e.stat(path); st.Size != want {
		e.Errorf("%q: size %d, expected %d", path, st.Size, want)
	}
}

// content compares a whole file, read through a descriptor of its own.
func (e *env) content(path string, want []byte) {
	got, err := os.ReadFile(path)
	if err != nil {
		e.Errorf("read %q: %v", path, err)
		return
	}
	if err := same(path, 0, got, want); err != nil {
		e.Errorf("%v", err)
	}
}

// pread reads exactly len(want) bytes at off and compares them.
func (e *env) pread(fd int, path string, off int64, want []byte) {
	got := make([]byte, len(want))
	n, err := preadFull(fd, got, off)
	if err != nil {
		e.Errorf("pread %q offset %d length %d: %v", path, off, len(want), err)
		return
	}
	if err := same(path, off, got[:n], want); err != nil {
		e.Errorf("%v", err)
	}
}

// pwrite writes all of data at off.
func (e *env) pwrite(fd int, path string, off int64, data []byte) {
	if err := pwriteFull(fd, data, off); err != nil {
		e.Fatalf("pwrite %q offset %d length %d: %v", path, off, len(data), err)
	}
}

// preadFull reads until buf is full or the file ends.
func preadFull(fd int, buf []byte, off int64) (int, error) {
	done := 0
	for done < len(buf) {
		n, err := unix.Pread(fd, buf[done:], off+int64(done))
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, err
		}
		if n == 0 {
			break
		}
		done += n
	}
	return done, nil
}

func pwriteFull(fd int, data []byte, off int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(fd, data, off)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		data, off = data[n:], off+int64(n)
	}
	return nil
}

// same compares what stands at off of a file with what should.
func same(path string, off int64, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			end := min(i+16, len(got), len(want))
			return fmt.Errorf("%q differs at offset %d: got % x, expected % x (got %d bytes, expected %d, from offset %d)",
				path, off+int64(i), got[i:end], want[i:end], len(got), len(want), off)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("%q from offset %d: got %d bytes, expected %d", path, off, len(got), len(want))
	}
	return nil
}

// pattern fills buf with the bytes that stand at off in the endless pattern of
// a seed: every offset has its own value, so that misplaced data shows.
func pattern(seed uint64, off int64, buf []byte) []byte {
	for i := 0; i < len(buf); {
		var word [8]byte
		pos := uint64(off) + uint64(i)
		x := seed ^ (pos / 8 * 0x9e3779b97f4a7c15)
		x ^= x >> 31
		x *= 0xbf58476d1ce4e5b9
		x ^= x >> 27
		binary.LittleEndian.PutUint64(word[:], x)
		i += copy(buf[i:], word[pos%8:])
	}
	return buf
}

// data returns n bytes of the pattern of the case.
func (e *env) data(n int) []byte { return pattern(e.seed, 0, make([]byte, n)) }

// dirent is one entry as getdents64(2) returns it.
type dirent struct {
	name string
	ino  uint64
	off  int64 // where the entry after this one starts
	typ  uint8
}

// getdents reads one buffer of entries; none means the end of the directory.
func getdents(fd int, buf []byte) ([]dirent, error) {
	n, err := unix.Getdents(fd, buf)
	if err != nil {
		return nil, err
	}
	var all []dirent
	// struct linux_dirent64:
	//
	//	+-------+-------+----------+--------+-----------------+
	//	| ino 8 | off 8  | reclen 2 | type 1 | name, zeros ... |
	//	+-------+-------+----------+--------+-----------------+
	const nameAt = 19
	for b := buf[:n]; len(b) > 0; {
		if len(b) < nameAt {
			return nil, fmt.Errorf("getdents: record of %d bytes", len(b))
		}
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < nameAt || size > len(b) {
			return nil, fmt.Errorf("getdents: record of %d bytes in %d", size, len(b))
		}
		all = append(all, dirent{
			name: unix.ByteSliceToString(b[nameAt:size]),
			ino:  binary.NativeEndian.Uint64(b),
			off:  int64(binary.NativeEndian.Uint64(b[8:])),
			typ:  b[18],
		})
		b = b[size:]
	}
	return all, nil
}

// list reads a whole directory from where the descriptor stands, without "."
// and "..", with a buffer of the given size.
func list(fd, size int) ([]dirent, error) {
	buf := make([]byte, size)
	var all []dirent
	for {
		some, err := getdents(fd, buf)
		if err != nil || len(some) == 0 {
			return all, err
		}
		for _, d := range some {
			if d.name != "." && d.name != ".." {
				all = append(all, d)
			}
		}
	}
}

// names lists a directory and records a failure if the names are not exactly
// the expected ones, each once.
func (e *env) names(path string, want ...string) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	e.ok(err, "open %q", path)
	defer unix.Close(fd)
	got, err := list(fd, 32<<10)
	e.ok(err, "getdents of %q", path)
	seen := make(map[string]int)
	for _, d := range got {
		seen[d.name]++
	}
	for _, n := range want {
		if seen[n] != 1 {
			e.Errorf("directory %q: %q listed %d times, expected once", path, n, seen[n])
		}
		delete(seen, n)
	}
	for n, count := range seen {
		e.Errorf("directory %q: %q listed %d times, expected not at all", path, n, count)
	}
}

// as runs f on a thread of its own with other credentials. f must use system
// calls relative to a descriptor, since the other user may not reach the
// directory by its path.
func (e *env) as(uid, gid int, groups []int, f func() error) error {
	e.needRoot()
	result := make(chan error)
	go func() {
		// The thread has changed for good: it ends with this goroutine.
		runtime.LockOSThread()
		list := make([]uint32, len(groups)+1)
		for i, g := range groups {
			list[i] = uint32(g)
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&list[0])), 0); errno != 0 {
			result <- fmt.Errorf("setgroups: %w", errno)
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); errno != 0 {
			result <- fmt.Errorf("setresgid: %w", errno)
			return
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); errno != 0 {
			result <- fmt.Errorf("setresuid: %w", errno)
			return
		}
		result <- f()
	}()
	return <-result
}

// umask sets the mask for the rest of the case, and for nobody else: other cases
// may run at the same time.
func (e *env) umask(mask int) {
	runtime.LockOSThread() // for good: the thread ends with the case
	e.ok(unix.Unshare(unix.CLONE_FS), "unshare")
	unix.Umask(mask)
}
