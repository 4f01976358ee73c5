package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var directoryCases = []Case{
	{"Mkdir", mkdirCases},
	{"Rmdir", rmdirCases},
	{"Unlink", unlinkCases},
	{"DirectoryTimes", directoryTimes},
	{"ListAfterEachChange", listAfterEachChange},
	{"EntryTypes", entryTypes},
	{"DeepTree", deepTree},
	{"DirectoryDescriptors", directoryDescriptors},
}

// mkdirCases: directories are made once, empty, with their parent as "..".
func mkdirCases(e *env) {
	e.mkdir(e.path("a"))
	e.fails(unix.Mkdir(e.path("a"), 0o777), "mkdir of an existing directory", unix.EEXIST)
	e.create(e.path("file"), nil)
	e.fails(unix.Mkdir(e.path("file"), 0o777), "mkdir over a file", unix.EEXIST)
	e.ok(unix.Symlink("nowhere", e.path("link")), "symlink")
	e.fails(unix.Mkdir(e.path("link"), 0o777), "mkdir over a dangling link", unix.EEXIST)
	e.fails(unix.Mkdir(e.path("missing", "b"), 0o777), "mkdir below what is missing", unix.ENOENT)
	e.fails(unix.Mkdir(e.path("file", "b"), 0o777), "mkdir below a file", unix.ENOTDIR)
	e.mkdir(e.path("a", "b"))
	e.names(e.path("a"), "b")
	e.names(e.path("a", "b"))
	if up, a := e.stat(e.path("a", "b", "..")), e.stat(e.path("a")); up.Ino != a.Ino {
		e.Errorf("inode of a/b/.. is %d, of a %d", up.Ino, a.Ino)
	}
	// A directory counts its "." and its children's ".."; some file systems
	// always say 1.
	for i := range 3 {
		e.mkdir(e.path("a", fmt.Sprint(i)))
	}
	if n := e.stat(e.path("a")).Nlink; n != 6 && n != 1 {
		e.Errorf("link count of a directory with 4 directories: %d, expected 6 (or 1)", n)
	}
}

// rmdirCases: only empty directories go, and they are gone.
func rmdirCases(e *env) {
	e.mkdir(e.path("d"))
	e.mkdir(e.path("d", "sub"))
	e.create(e.path("file"), nil)
	e.fails(unix.Rmdir(e.path("d")), "rmdir of a directory with a directory", unix.ENOTEMPTY, unix.EEXIST)
	e.ok(unix.Rmdir(e.path("d", "sub")), "rmdir")
	e.create(e.path("d", "file"), nil)
	e.fails(unix.Rmdir(e.path("d")), "rmdir of a directory with a file", unix.ENOTEMPTY, unix.EEXIST)
	e.ok(unix.Unlink(e.path("d", "file")), "unlink")
	e.fails(unix.Rmdir(e.path("d", ".")), "rmdir of \".\"", unix.EINVAL)
	e.fails(unix.Rmdir(e.path("d", "..")), "rmdir of \"..\"", unix.ENOTEMPTY, unix.EEXIST)
	e.ok(unix.Rmdir(e.path("d")), "rmdir")
	e.missing(e.path("d"))
	e.fails(unix.Rmdir(e.path("d")), "second rmdir", unix.ENOENT)
	e.fails(unix.Rmdir(e.path("file")), "rmdir of a file", unix.ENOTDIR)
	e.ok(unix.Symlink(".", e.path("link")), "symlink")
	e.fails(unix.Rmdir(e.path("link")), "rmdir of a symbolic link", unix.ENOTDIR)
	e.names(e.dir, "file", "link")
}

// unlinkCases: unlink takes names of anything but directories.
func unlinkCases(e *env) {
	e.create(e.path("file"), []byte("x"))
	e.mkdir(e.path("dir"))
	e.ok(unix.Symlink("file", e.path("link")), "symlink")
	e.ok(unix.Mkfifo(e.path("fifo"), 0o666), "mkfifo")
	e.fails(unix.Unlink(e.path("dir")), "unlink of a directory", unix.EISDIR, unix.EPERM)
	e.fails(unix.Unlink(e.path("missing")), "unlink of what is missing", unix.ENOENT)
	e.fails(unix.Unlink(e.path("file", "x")), "unlink below a file", unix.ENOTDIR)
	for _, n := range []string{"link", "fifo", "file"} {
		e.ok(unix.Unlink(e.path(n)), "unlink %q", n)
		e.missing(e.path(n))
		e.fails(unix.Unlink(e.path(n)), "second unlink of "+n, unix.ENOENT)
	}
	e.names(e.dir, "dir")
	// A name that is free again can be taken by something else.
	e.mkdir(e.path("file"))
	e.create(e.path("link"), []byte("y"))
	e.names(e.dir, "dir", "file", "link")
}

// directoryTimes: what changes a directory sets its modification time.
func directoryTimes(e *env) {
	past := []unix.Timespec{{Sec: 1_000_000_000}, {Sec: 1_000_000_000}}
	d := e.path("d")
	e.mkdir(d)
	e.create(e.path("other"), nil)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"create", func() error { return os.WriteFile(d+"/f", nil, 0o666) }},
		{"link", func() error { return unix.Link(d+"/f", d+"/g") }},
		{"rename", func() error { return unix.Rename(d+"/g", d+"/h") }},
		{"unlink", func() error { return unix.Unlink(d + "/h") }},
		{"symlink", func() error { return unix.Symlink("x", d+"/s") }},
		{"mkdir", func() error { return unix.Mkdir(d+"/m", 0o777) }},
		{"rmdir", func() error { return unix.Rmdir(d + "/m") }},
		{"mknod", func() error { return unix.Mkfifo(d+"/p", 0o666) }},
		{"rename into it", func() error { return unix.Rename(e.path("other"), d+"/o") }},
		{"rename out of it", func() error { return unix.Rename(d+"/o", e.path("other")) }},
	} {
		e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, d, past, 0), "utimensat %q", d)
		e.ok(step.do(), "%s in %q", step.what, d)
		if st := e.stat(d); st.Mtim.Sec == 1_000_000_000 {
			e.Errorf("%s did not change the modification time of %q", step.what, d)
		}
	}
}

// listAfterEachChange: a listing shows the change just made.
func listAfterEachChange(e *env) {
	var want []string
	for i := range 60 {
		name := fmt.Sprintf("name-%02d", i)
		switch i % 3 {
		case 0:
			e.create(e.path(name), nil)
		case 1:
			e.mkdir(e.path(name))
		case 2:
			e.ok(unix.Symlink("x", e.path(name)), "symlink")
		}
		want = append(want, name)
		e.names(e.dir, want...)
	}
	for len(want) > 0 {
		i := e.rng.IntN(len(want))
		e.ok(os.Remove(e.path(want[i])), "remove %q", want[i])
		want = append(want[:i], want[i+1:]...)
		e.names(e.dir, want...)
	}
}

// entryTypes: the types and inode numbers in a listing are those of stat.
func entryTypes(e *env) {
	e.create(e.path("file"), nil)
	e.mkdir(e.path("dir"))
	e.ok(unix.Symlink("file", e.path("link")), "symlink")
	e.ok(unix.Mkfifo(e.path("fifo"), 0o666), "mkfifo")
	e.ok(unix.Link(e.path("file"), e.path("second")), "link")
	all, err := list(e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0), 4096)
	e.ok(err, "getdents")
	if len(all) != 5 {
		e.Errorf("%d entries, expected 5", len(all))
	}
	inodes := make(map[uint64]string)
	for _, d := range all {
		st := e.stat(e.path(d.name))
		if d.ino != st.Ino {
			e.Errorf("%q: inode %d in the listing, %d from stat", d.name, d.ino, st.Ino)
		}
		if want := uint8(st.Mode >> 12); d.typ != want && d.typ != unix.DT_UNKNOWN {
			e.Errorf("%q: type %d in the listing, %d from stat", d.name, d.typ, want)
		}
		if other, twice := inodes[st.Ino]; twice && d.name != "second" && other != "second" {
			e.Errorf("%q and %q share the inode number %d", d.name, other, st.Ino)
		}
		inodes[st.Ino] = d.name
	}
	// The listing of "." and "..".
	buf := make([]byte, 4096)
	some, err := getdents(e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0), buf)
	e.ok(err, "getdents")
	dots := 0
	for _, d := range some {
		if d.name == "." {
			dots++
			if want := e.stat(e.dir).Ino; d.ino != want {
				e.Errorf("\".\" has inode %d in the listing, %d from stat", d.ino, want)
			}
		}
		if d.name == ".." {
			dots++
		}
	}
	if dots != 2 {
		e.Errorf("\".\" and \"..\" are listed %d times together, expected 2", dots)
	}
}

// deepTree: a path of a hundred directories is made, walked, renamed at the top
// and removed.
func deepTree(e *env) {
	const depth = 100
	p := e.path("top")
	e.mkdir(p)
	for i := range depth {
		p += fmt.Sprintf("/directory-%03d", i)
		e.mkdir(p)
	}
	e.create(p+"/leaf", []byte("deep"))
	e.content(p+"/leaf", []byte("deep"))
	count := 0
	e.ok(filepath.WalkDir(e.path("top"), func(string, os.DirEntry, error) error { count++; return nil }), "walk")
	if count != depth+2 {
		e.Errorf("walk met %d entries, expected %d", count, depth+2)
	}
	e.ok(unix.Rename(e.path("top"), e.path("moved")), "rename")
	moved := strings.Replace(p, "/top/", "/moved/", 1)
	e.content(moved+"/leaf", []byte("deep"))
	e.missing(p + "/leaf")
	e.ok(os.RemoveAll(e.path("moved")), "remove all")
	e.names(e.dir)
}

// directoryDescriptors: calls relative to a directory's descriptor follow the
// directory when it is renamed.
func directoryDescriptors(e *env) {
	e.mkdir(e.path("a"))
	fd := e.open(e.path("a"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.ok(unix.Rename(e.path("a"), e.path("b")), "rename")
	f, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	e.ok(err, "openat")
	e.pwrite(f, "file", 0, []byte("here"))
	e.ok(unix.Close(f), "close")
	e.content(e.path("b", "file"), []byte("here"))
	e.ok(unix.Mkdirat(fd, "sub", 0o777), "mkdirat")
	e.ok(unix.Symlinkat("file", fd, "link"), "symlinkat")
	e.ok(unix.Linkat(fd, "file", fd, "hard", 0), "linkat")
	e.ok(unix.Renameat(fd, "hard", fd, "harder"), "renameat")
	e.names(e.path("b"), "file", "sub", "link", "harder")
	e.ok(unix.Unlinkat(fd, "sub", unix.AT_REMOVEDIR), "unlinkat")
	e.ok(unix.Unlinkat(fd, "harder", 0), "unlinkat")
	e.names(e.path("b"), "file", "link")
	// One that was removed still answers fstat, and takes no new names.
	e.mkdir(e.path("gone"))
	gone := e.open(e.path("gone"), unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.ok(unix.Rmdir(e.path("gone")), "rmdir")
	_, err = unix.Openat(gone, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	e.fails(err, "create in a removed directory", unix.ENOENT, unix.ESTALE)
}
