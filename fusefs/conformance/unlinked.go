package conformance

import (
	"fmt"

	"golang.org/x/sys/unix"
)

var unlinkedCases = []Case{
	{"UnlinkedOpenFile", unlinkedOpenFile},
	{"UnlinkedSharedFile", unlinkedSharedFile},
	{"UnlinkedNameReused", unlinkedNameReused},
	{"UnlinkedDirectoryCleanup", unlinkedDirectoryCleanup},
}

// unlinkedOpenFile: a file without a name lives as long as it is open.
func unlinkedOpenFile(e *env) {
	p := e.path("file")
	data := e.data(200_000)
	e.create(p, data)
	fd := e.open(p, unix.O_RDWR, 0)
	e.ok(unix.Unlink(p), "unlink")
	e.missing(p)
	if st := e.fstat(fd); st.Nlink != 0 || st.Size != int64(len(data)) {
		e.Errorf("fstat of an unlinked file: %d links, size %d, expected 0 and %d", st.Nlink, st.Size, len(data))
	}
	e.pread(fd, p, 0, data)
	e.ok(dropCache(fd), "drop the cache of the unlinked file")
	e.pread(fd, p, 0, data)
	e.pwrite(fd, p, 300_000, []byte("more"))
	e.ok(unix.Fsync(fd), "fsync")
	e.pread(fd, p, 299_990, append(make([]byte, 10), "more"...))
	e.ok(unix.Ftruncate(fd, 10), "ftruncate")
	e.pread(fd, p, 0, data[:10])
	e.ok(unix.Fchmod(fd, 0o600), "fchmod")
	if st := e.fstat(fd); st.Size != 10 || st.Mode&0o777 != 0o600 {
		e.Errorf("fstat of an unlinked file: size %d, mode %#o, expected 10 and 0600", st.Size, st.Mode)
	}
}

// unlinkedSharedFile: the last of several descriptors still reads the file,
// and one made through /proc while another was open.
func unlinkedSharedFile(e *env) {
	p := e.path("file")
	e.create(p, []byte("shared"))
	a, err := unix.Open(p, unix.O_RDWR|unix.O_CLOEXEC, 0)
	e.ok(err, "open")
	b := e.open(p, unix.O_RDONLY, 0)
	e.ok(unix.Unlink(p), "unlink")
	c := e.open(fmt.Sprintf("/proc/self/fd/%d", a), unix.O_RDONLY, 0)
	e.pwrite(a, p, 0, []byte("SHARED"))
	e.ok(unix.Close(a), "close")
	e.pread(b, p, 0, []byte("SHARED"))
	e.pread(c, p, 0, []byte("SHARED"))
}

// unlinkedNameReused: a new file under the old name is another file.
func unlinkedNameReused(e *env) {
	p := e.path("file")
	for i := range 5 {
		old := fmt.Appendf(nil, "generation %d", i)
		e.create(p, old)
		fd := e.open(p, unix.O_RDONLY, 0)
		ino := e.fstat(fd).Ino
		e.ok(unix.Unlink(p), "unlink")
		e.create(p, []byte("the next one, which is longer"))
		if st := e.stat(p); st.Ino == ino {
			e.Errorf("a new file has the inode number %d of the unlinked one that is still open", ino)
		}
		e.pread(fd, p, 0, old)
		e.content(p, []byte("the next one, which is longer"))
	}
}

// unlinkedDirectoryCleanup: when the last descriptor is closed nothing is left,
// so that the directory can go.
func unlinkedDirectoryCleanup(e *env) {
	for i := range 20 {
		d := e.path(fmt.Sprint(i))
		e.mkdir(d)
		fd, err := unix.Open(d+"/file", unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
		e.ok(err, "open")
		e.pwrite(fd, d+"/file", 0, []byte("x"))
		e.ok(unix.Unlink(d+"/file"), "unlink")
		e.ok(unix.Close(fd), "close")
		e.ok(unix.Rmdir(d), "rmdir of a directory whose unlinked file was closed")
	}
}
