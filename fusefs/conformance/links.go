package conformance

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var linkCases = []Case{
	{"HardLinks", hardLinks},
	{"HardLinkErrors", hardLinkErrors},
	{"SymbolicLinks", symbolicLinks},
	{"SymbolicLinkLengths", symbolicLinkLengths},
	{"FIFOs", fifos},
	{"Sockets", sockets},
	{"DeviceNodes", deviceNodes},
}

// hardLinks: all names of a file are the same file.
func hardLinks(e *env) {
	e.mkdir(e.path("dir"))
	e.create(e.path("one"), []byte("content"))
	e.ok(unix.Link(e.path("one"), e.path("two")), "link")
	e.ok(unix.Link(e.path("two"), e.path("dir", "three")), "link into another directory")
	all := []string{e.path("one"), e.path("two"), e.path("dir", "three")}
	ino := e.stat(all[0]).Ino
	for _, p := range all {
		if st := e.stat(p); st.Ino != ino || st.Nlink != 3 {
			e.Errorf("%q: inode %d, %d links, expected %d and 3", p, st.Ino, st.Nlink, ino)
		}
	}
	fd := e.open(all[1], unix.O_WRONLY, 0)
	e.pwrite(fd, all[1], 3, []byte("TENTS!"))
	for _, p := range all {
		e.content(p, []byte("conTENTS!"))
	}
	e.ok(unix.Chmod(all[2], 0o600), "chmod")
	if m := e.stat(all[0]).Mode & 0o777; m != 0o600 {
		e.Errorf("mode %#o through the other name, expected 0600", m)
	}
	e.ok(unix.Unlink(all[0]), "unlink")
	e.missing(all[0])
	for _, p := range all[1:] {
		if st := e.stat(p); st.Nlink != 2 {
			e.Errorf("%q: %d links after one was removed, expected 2", p, st.Nlink)
		}
		e.content(p, []byte("conTENTS!"))
	}
	e.ok(unix.Unlink(all[1]), "unlink")
	if st := e.stat(all[2]); st.Nlink != 1 {
		e.Errorf("%q: %d links, expected 1", all[2], st.Nlink)
	}
	// Other things than files can have several names too.
	e.ok(unix.Mkfifo(e.path("fifo"), 0o666), "mkfifo")
	e.ok(unix.Link(e.path("fifo"), e.path("fifo2")), "link of a FIFO")
	if st := e.stat(e.path("fifo2")); st.Nlink != 2 || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		e.Errorf("second name of a FIFO: mode %#o, %d links", st.Mode, st.Nlink)
	}
}

// hardLinkErrors: what cannot be linked says why.
func hardLinkErrors(e *env) {
	e.create(e.path("a"), nil)
	e.create(e.path("b"), nil)
	e.mkdir(e.path("dir"))
	e.fails(unix.Link(e.path("a"), e.path("b")), "link over a file", unix.EEXIST)
	e.fails(unix.Link(e.path("a"), e.path("dir")), "link over a directory", unix.EEXIST)
	e.fails(unix.Link(e.path("dir"), e.path("dir2")), "link of a directory", unix.EPERM)
	e.fails(unix.Link(e.path("missing"), e.path("c")), "link of what is missing", unix.ENOENT)
	e.fails(unix.Link(e.path("a"), e.path("missing", "c")), "link below what is missing", unix.ENOENT)
	e.fails(unix.Link(e.path("a"), e.path("b", "c")), "link below a file", unix.ENOTDIR)
	e.names(e.dir, "a", "b", "dir")
}

// symbolicLinks: links are followed where they should be and nowhere else.
func symbolicLinks(e *env) {
	e.create(e.path("file"), []byte("target"))
	e.mkdir(e.path("dir"))
	e.create(e.path("dir", "inside"), []byte("inside"))
	for name, target := range map[string]string{
		"relative": "file", "up": "dir/../file", "absolute": e.path("file"),
		"twice": "relative", "throughdir": "dirlink/inside",
		"dirlink": "dir", "dangling": "nowhere", "self": "self", "nonutf8": "x\xff\xfe\x80y",
	} {
		e.ok(unix.Symlink(target, e.path(name)), "symlink %q", name)
		got, err := os.Readlink(e.path(name))
		if err != nil || got != target {
			e.Errorf("readlink %q: %q, %v, expected %q", name, got, err, target)
		}
		st := e.stat(e.path(name))
		if st.Mode&unix.S_IFMT != unix.S_IFLNK || st.Size != int64(len(target)) {
			e.Errorf("lstat %q: mode %#o, size %d, expected a link of %d", name, st.Mode, st.Size, len(target))
		}
	}
	for _, name := range []string{"relative", "up", "absolute", "twice"} {
		e.content(e.path(name), []byte("target"))
	}
	e.content(e.path("throughdir"), []byte("inside"))
	e.names(e.path("dirlink"), "inside")
	var st unix.Stat_t
	e.fails(unix.Stat(e.path("dangling"), &st), "stat of a dangling link", unix.ENOENT)
	e.fails(unix.Stat(e.path("self"), &st), "stat of a link to itself", unix.ELOOP)
	e.fails(unix.Symlink("x", e.path("relative")), "symlink over a link", unix.EEXIST)
	e.fails(unix.Symlink("x", e.path("file")), "symlink over a file", unix.EEXIST)
	e.fails(unix.Symlink("", e.path("empty")), "symlink to nothing", unix.ENOENT)
	_, err := os.Readlink(e.path("file"))
	e.fails(err, "readlink of a file", unix.EINVAL)
	e.ok(unix.Chmod(e.path("relative"), 0o640), "chmod through a link")
	if m := e.stat(e.path("file")).Mode & 0o777; m != 0o640 {
		e.Errorf("chmod through a link gave mode %#o, expected 0640", m)
	}
	e.ok(unix.Unlink(e.path("relative")), "unlink of a link")
	e.content(e.path("file"), []byte("target"))
	times := []unix.Timespec{{Sec: 1_100_000_000, Nsec: 7}, {Sec: 1_200_000_000, Nsec: 9}}
	e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, e.path("dangling"), times, unix.AT_SYMLINK_NOFOLLOW), "utimensat of a link")
	if got := e.stat(e.path("dangling")).Mtim; got != times[1] {
		e.Errorf("modification time of a link: %v, expected %v", got, times[1])
	}
}

// symbolicLinkLengths: targets of every length up to the longest that Linux
// takes.
func symbolicLinkLengths(e *env) {
	for _, n := range []int{1, 59, 60, 61, 255, 256, 1000, 1023, 1024, 2047, 4000, 4094, 4095} {
		target := strings.Repeat("t/", n/2) + strings.Repeat("u", n%2)
		name := e.path(fmt.Sprint(n))
		e.ok(unix.Symlink(target, name), "symlink with a target of %d bytes", n)
		buf := make([]byte, 5000)
		got, err := unix.Readlink(name, buf)
		if err != nil || string(buf[:max(got, 0)]) != target {
			e.Errorf("readlink of a target of %d bytes: %d bytes, %v", n, got, err)
		}
		if st := e.stat(name); st.Size != int64(n) {
			e.Errorf("link with a target of %d bytes has size %d", n, st.Size)
		}
		if got, err := unix.Readlink(name, buf[:1]); got != 1 || err != nil || buf[0] != target[0] {
			e.Errorf("readlink into one byte: %d, %v", got, err)
		}
	}
	e.fails(unix.Symlink(strings.Repeat("t", 4096), e.path("long")), "symlink with a target of 4096 bytes", unix.ENAMETOOLONG)
}

// fifos: a FIFO passes data between processes of this machine.
func fifos(e *env) {
	p := e.path("fifo")
	e.ok(unix.Mkfifo(p, 0o640), "mkfifo %q", p)
	if st := e.stat(p); st.Mode != unix.S_IFIFO|0o640 {
		e.Errorf("%q: mode %#o, expected a FIFO with 0640", p, st.Mode)
	}
	fd := e.open(p, unix.O_RDWR|unix.O_NONBLOCK, 0)
	_, err := unix.Write(fd, []byte("through"))
	e.ok(err, "write to %q", p)
	buf := make([]byte, 10)
	n, err := unix.Read(fd, buf)
	if err != nil || string(buf[:max(n, 0)]) != "through" {
		e.Errorf("read from %q: %q, %v", p, buf[:max(n, 0)], err)
	}
	e.fails(unix.Mkfifo(p, 0o640), "second mkfifo", unix.EEXIST)
}

// sockets: a socket can be bound to a name and reached by it.
func sockets(e *env) {
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	p := fmt.Sprintf("/proc/self/fd/%d/s", dir) // names of sockets are short
	l, err := net.Listen("unix", p)
	e.ok(err, "bind of %q", e.path("s"))
	defer l.Close()
	if st := e.stat(e.path("s")); st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		e.Errorf("%q: mode %#o, expected a socket", e.path("s"), st.Mode)
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			c.Write([]byte("hello"))
			c.Close()
		}
	}()
	c, err := net.Dial("unix", p)
	e.ok(err, "connect to %q", e.path("s"))
	defer c.Close()
	buf := make([]byte, 5)
	if _, err := c.Read(buf); err != nil || string(buf) != "hello" {
		e.Errorf("read from the socket: %q, %v", buf, err)
	}
}

// deviceNodes: device nodes keep their type and numbers. They are not opened:
// mounts of users forbid that.
func deviceNodes(e *env) {
	e.needRoot()
	for _, c := range []struct {
		name         string
		typ          uint32
		major, minor uint32
	}{
		{"null", unix.S_IFCHR, 1, 3}, {"loop", unix.S_IFBLK, 7, 0}, {"big", unix.S_IFCHR, 250, 70_000},
	} {
		dev := unix.Mkdev(c.major, c.minor)
		if err := unix.Mknod(e.path(c.name), c.typ|0o600, int(dev)); err == unix.EPERM {
			e.Skipf("root may not make device nodes here")
		} else {
			e.ok(err, "mknod %q", c.name)
		}
		st := e.stat(e.path(c.name))
		if st.Mode&unix.S_IFMT != c.typ || st.Rdev != dev {
			e.Errorf("%q: mode %#o, device %d:%d, expected %#o, %d:%d", c.name, st.Mode,
				unix.Major(st.Rdev), unix.Minor(st.Rdev), c.typ, c.major, c.minor)
		}
	}
}
