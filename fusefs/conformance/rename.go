package conformance

import (
	"fmt"

	"golang.org/x/sys/unix"
)

var renameCases = []Case{
	{"RenameFile", renameFile},
	{"RenameDirectory", renameDirectory},
	{"RenameErrors", renameErrors},
	{"RenameFlags", renameFlags},
	{"RenameOverInUse", renameOverInUse},
}

// renameFile: a file keeps its inode, content and descriptors under its new
// name, and replaces what was there.
func renameFile(e *env) {
	e.mkdir(e.path("d1"))
	e.mkdir(e.path("d2"))
	e.create(e.path("d1", "a"), []byte("first"))
	ino := e.stat(e.path("d1", "a")).Ino
	fd := e.open(e.path("d1", "a"), unix.O_RDWR, 0)
	for i, to := range []string{"d1/b", "d2/b", "c", "d1/a"} {
		from := []string{"d1/a", "d1/b", "d2/b", "c"}[i]
		e.ok(unix.Rename(e.path(from), e.path(to)), "rename %q to %q", from, to)
		e.missing(e.path(from))
		if st := e.stat(e.path(to)); st.Ino != ino || st.Nlink != 1 {
			e.Errorf("%q: inode %d and %d links, expected %d and 1", to, st.Ino, st.Nlink, ino)
		}
		e.content(e.path(to), []byte("first"))
		e.pread(fd, to, 0, []byte("first"))
	}
	// Over another file.
	e.create(e.path("d2", "victim"), []byte("second, and longer"))
	e.ok(unix.Rename(e.path("d1", "a"), e.path("d2", "victim")), "rename over a file")
	e.content(e.path("d2", "victim"), []byte("first"))
	e.names(e.path("d1"))
	e.names(e.path("d2"), "victim")
	e.pwrite(fd, "victim", 0, []byte("FIRST"))
	e.content(e.path("d2", "victim"), []byte("FIRST"))
	// To itself, and to another name of itself, nothing happens.
	e.ok(unix.Rename(e.path("d2", "victim"), e.path("d2", "victim")), "rename to itself")
	e.ok(unix.Link(e.path("d2", "victim"), e.path("d2", "other")), "link")
	e.ok(unix.Rename(e.path("d2", "victim"), e.path("d2", "other")), "rename to another name of itself")
	e.names(e.path("d2"), "victim", "other")
	// Links, over files and files over links: neither is followed.
	e.ok(unix.Symlink("victim", e.path("d2", "link")), "symlink")
	e.ok(unix.Rename(e.path("d2", "link"), e.path("d2", "other")), "rename a link over a file")
	if st := e.stat(e.path("d2", "other")); st.Mode&unix.S_IFMT != unix.S_IFLNK {
		e.Errorf("a renamed link has mode %#o", st.Mode)
	}
	e.create(e.path("plain"), []byte("plain"))
	e.ok(unix.Rename(e.path("plain"), e.path("d2", "other")), "rename a file over a link")
	e.content(e.path("d2", "other"), []byte("plain"))
	e.content(e.path("d2", "victim"), []byte("FIRST"))
}

// renameDirectory: a directory takes its content along and replaces only an
// empty directory.
func renameDirectory(e *env) {
	e.mkdir(e.path("a"))
	e.mkdir(e.path("a", "sub"))
	e.create(e.path("a", "sub", "f"), []byte("inside"))
	e.mkdir(e.path("elsewhere"))
	e.ok(unix.Rename(e.path("a"), e.path("b")), "rename")
	e.content(e.path("b", "sub", "f"), []byte("inside"))
	e.ok(unix.Rename(e.path("b"), e.path("elsewhere", "c")), "rename into another directory")
	e.content(e.path("elsewhere", "c", "sub", "f"), []byte("inside"))
	if up, want := e.stat(e.path("elsewhere", "c", "..")).Ino, e.stat(e.path("elsewhere")).Ino; up != want {
		e.Errorf("\"..\" of a moved directory is inode %d, its parent %d", up, want)
	}
	e.mkdir(e.path("empty"))
	e.ok(unix.Rename(e.path("elsewhere", "c"), e.path("empty")), "rename over an empty directory")
	e.content(e.path("empty", "sub", "f"), []byte("inside"))
	e.names(e.dir, "elsewhere", "empty")
	e.names(e.path("elsewhere"))
}

// renameErrors: what rename refuses, it refuses without changing anything.
func renameErrors(e *env) {
	e.create(e.path("file"), []byte("file"))
	e.mkdir(e.path("dir"))
	e.mkdir(e.path("dir", "sub"))
	e.mkdir(e.path("empty"))
	e.mkdir(e.path("full"))
	e.create(e.path("full", "x"), nil)
	for _, c := range []struct {
		from, to string
		want     []unix.Errno
	}{
		{"missing", "new", []unix.Errno{unix.ENOENT}},
		{"missing", "file", []unix.Errno{unix.ENOENT}},
		{"file", "missing/new", []unix.Errno{unix.ENOENT}},
		{"file", "dir", []unix.Errno{unix.EISDIR}},
		{"file", "empty", []unix.Errno{unix.EISDIR}},
		{"dir", "file", []unix.Errno{unix.ENOTDIR}},
		{"dir", "full", []unix.Errno{unix.ENOTEMPTY, unix.EEXIST}},
		{"dir", "dir/below", []unix.Errno{unix.EINVAL}},
		{"dir", "dir/sub/below", []unix.Errno{unix.EINVAL}},
		{"dir/sub", "dir", []unix.Errno{unix.ENOTEMPTY, unix.EEXIST}},
		{"file/x", "new", []unix.Errno{unix.ENOTDIR}},
		{"file", "file/x", []unix.Errno{unix.ENOTDIR}},
		{"dir/.", "new", []unix.Errno{unix.EINVAL, unix.EBUSY}},
	} {
		e.fails(unix.Rename(e.path(c.from), e.path(c.to)), fmt.Sprintf("rename %q to %q", c.from, c.to), c.want...)
	}
	e.names(e.dir, "file", "dir", "empty", "full")
	e.names(e.path("dir"), "sub")
	e.content(e.path("file"), []byte("file"))
}

// renameFlags: RENAME_NOREPLACE and RENAME_EXCHANGE do what they say, or are
// refused with EINVAL and change nothing.
func renameFlags(e *env) {
	e.create(e.path("a"), []byte("a"))
	e.create(e.path("b"), []byte("b"))
	err := unix.Renameat2(unix.AT_FDCWD, e.path("a"), unix.AT_FDCWD, e.path("b"), unix.RENAME_NOREPLACE)
	e.fails(err, "rename over a file with RENAME_NOREPLACE", unix.EEXIST, unix.EINVAL)
	e.content(e.path("a"), []byte("a"))
	e.content(e.path("b"), []byte("b"))
	err = unix.Renameat2(unix.AT_FDCWD, e.path("a"), unix.AT_FDCWD, e.path("c"), unix.RENAME_NOREPLACE)
	if err == nil {
		e.missing(e.path("a"))
		e.content(e.path("c"), []byte("a"))
		e.ok(unix.Rename(e.path("c"), e.path("a")), "rename back")
	} else {
		e.fails(err, "rename with RENAME_NOREPLACE", unix.EINVAL)
		e.names(e.dir, "a", "b")
	}
	err = unix.Renameat2(unix.AT_FDCWD, e.path("a"), unix.AT_FDCWD, e.path("b"), unix.RENAME_EXCHANGE)
	if err == nil {
		e.content(e.path("a"), []byte("b"))
		e.content(e.path("b"), []byte("a"))
	} else {
		e.fails(err, "rename with RENAME_EXCHANGE", unix.EINVAL)
		e.content(e.path("a"), []byte("a"))
		e.content(e.path("b"), []byte("b"))
	}
}

// renameOverInUse: a file that is open keeps its content when another takes
// its name.
func renameOverInUse(e *env) {
	old := e.data(30_000)
	e.create(e.path("target"), old)
	fd := e.open(e.path("target"), unix.O_RDWR, 0)
	for i := range 5 {
		text := fmt.Appendf(nil, "replacement %d", i)
		e.create(e.path("new"), text)
		e.ok(unix.Rename(e.path("new"), e.path("target")), "rename over an open file")
		e.content(e.path("target"), text)
		e.pread(fd, "the replaced file", 0, old)
	}
	e.pwrite(fd, "the replaced file", 100, []byte("still writable"))
	copy(old[100:], "still writable")
	e.ok(unix.Fsync(fd), "fsync of the replaced file")
	e.pread(fd, "the replaced file", 0, old)
	e.content(e.path("target"), []byte("replacement 4"))
}
