package conformance

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

var attributeCases = []Case{
	{"Chmod", chmodCases},
	{"Chown", chownCases},
	{"SetuidBits", setuidBits},
	{"SetTimes", setTimes},
	{"TimesOfChanges", timesOfChanges},
	{"Access", accessCases},
	{"Permissions", permissions},
	{"Groups", groups},
	{"Statfs", statfs},
}

// chmodCases: every permission bit can be set and cleared.
func chmodCases(e *env) {
	e.create(e.path("file"), nil)
	e.mkdir(e.path("dir"))
	fd := e.open(e.path("file"), unix.O_RDONLY, 0)
	for _, mode := range []uint32{0, 0o1, 0o20, 0o400, 0o755, 0o777, 0o1777, 0o2755, 0o4755, 0o7777, 0o644} {
		e.ok(unix.Chmod(e.path("file"), mode), "chmod %#o", mode)
		if got := e.stat(e.path("file")).Mode; got != unix.S_IFREG|mode {
			e.Errorf("file after chmod %#o: mode %#o", mode, got)
		}
		e.ok(unix.Chmod(e.path("dir"), mode), "chmod %#o", mode)
		if got := e.stat(e.path("dir")).Mode; got != unix.S_IFDIR|mode {
			e.Errorf("directory after chmod %#o: mode %#o", mode, got)
		}
		e.ok(unix.Fchmod(fd, mode^0o100), "fchmod %#o", mode^0o100)
		if got := e.fstat(fd).Mode; got != unix.S_IFREG|mode^0o100 {
			e.Errorf("file after fchmod %#o: mode %#o", mode^0o100, got)
		}
	}
	e.ok(unix.Chmod(e.path("dir"), 0o755), "chmod")
	e.fails(unix.Chmod(e.path("missing"), 0o644), "chmod of what is missing", unix.ENOENT)
	if unix.Geteuid() == 0 {
		dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		err := e.as(12345, 12345, nil, func() error { return unix.Fchmodat(dir, "file", 0o666, 0) })
		e.fails(err, "chmod by who does not own the file", unix.EPERM)
	}
}

// chownCases: owner and group are set separately and together.
func chownCases(e *env) {
	e.needRoot()
	e.create(e.path("file"), nil)
	e.ok(unix.Symlink("file", e.path("link")), "symlink")
	check := func(path string, uid, gid uint32) {
		if st := e.stat(e.path(path)); st.Uid != uid || st.Gid != gid {
			e.Errorf("%q: owner %d:%d, expected %d:%d", path, st.Uid, st.Gid, uid, gid)
		}
	}
	e.ok(unix.Chown(e.path("file"), 1001, 1002), "chown")
	check("file", 1001, 1002)
	e.ok(unix.Chown(e.path("file"), -1, 1003), "chown of the group")
	check("file", 1001, 1003)
	e.ok(unix.Chown(e.path("file"), 1004, -1), "chown of the owner")
	check("file", 1004, 1003)
	e.ok(unix.Chown(e.path("file"), -1, -1), "chown of nothing")
	check("file", 1004, 1003)
	e.ok(unix.Lchown(e.path("link"), 1005, 1006), "lchown of a link")
	check("link", 1005, 1006)
	check("file", 1004, 1003)
	e.ok(unix.Chown(e.path("link"), 4_000_000_000, 4_000_000_001), "chown through a link")
	check("file", 4_000_000_000, 4_000_000_001)

	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.ok(unix.Chown(e.path("file"), 12345, 12345), "chown")
	err := e.as(12345, 12345, []int{777}, func() error { return unix.Fchownat(dir, "file", 0, -1, 0) })
	e.fails(err, "giving a file away", unix.EPERM)
	err = e.as(12345, 12345, []int{777}, func() error { return unix.Fchownat(dir, "file", -1, 778, 0) })
	e.fails(err, "chown to a group one is not in", unix.EPERM)
	err = e.as(12345, 12345, []int{777}, func() error { return unix.Fchownat(dir, "file", -1, 777, 0) })
	e.ok(err, "chown to a supplementary group")
	check("file", 12345, 777)
}

// setuidBits: the set-user-ID bit does not survive a change of owner, nor a
// write by an ordinary user.
func setuidBits(e *env) {
	e.needRoot()
	p := e.path("file")
	e.create(p, []byte("program"))
	e.ok(unix.Chmod(p, 0o6755), "chmod")
	e.ok(unix.Chown(p, 12345, 12345), "chown")
	if m := e.stat(p).Mode & 0o7777; m != 0o755 {
		e.Errorf("mode %#o after chown of a file with 06755, expected 0755", m)
	}
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	for what, change := range map[string]func(fd int) error{
		"write":     func(fd int) error { return pwriteFull(fd, []byte("x"), 0) },
		"ftruncate": func(fd int) error { return unix.Ftruncate(fd, 3) },
		"truncation by open": func(int) error {
			fd, err := unix.Openat(dir, "file", unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
	} {
		e.ok(unix.Chmod(p, 0o6755), "chmod")
		err := e.as(12345, 12345, nil, func() error {
			fd, err := unix.Openat(dir, "file", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return change(fd)
		})
		e.ok(err, "%s as the owner", what)
		if m := e.stat(p).Mode & 0o7777; m != 0o755 {
			e.Errorf("mode %#o after a %s of a file with 06755, expected 0755", m, what)
		}
	}
	// A new file in a set-group-ID directory gets the directory's group.
	e.mkdir(e.path("dir"))
	e.ok(unix.Chown(e.path("dir"), 12345, 777), "chown")
	e.ok(unix.Chmod(e.path("dir"), 0o2777), "chmod")
	e.create(e.path("dir", "f"), nil)
	e.mkdir(e.path("dir", "d"))
	if st := e.stat(e.path("dir", "f")); st.Gid != 777 {
		e.Errorf("file in a set-group-ID directory has group %d, expected 777", st.Gid)
	}
	if st := e.stat(e.path("dir", "d")); st.Gid != 777 || st.Mode&0o2000 == 0 {
		e.Errorf("directory in a set-group-ID directory: group %d, mode %#o, expected 777 and the bit", st.Gid, st.Mode)
	}
}

// setTimes: utimensat sets times to the nanosecond, to now, and not at all.
func setTimes(e *env) {
	e.create(e.path("file"), nil)
	e.mkdir(e.path("dir"))
	for _, name := range []string{"file", "dir"} {
		p := e.path(name)
		for _, ts := range [][]unix.Timespec{
			{{Sec: 1, Nsec: 1}, {Sec: 2, Nsec: 2}},
			{{Sec: 1_234_567_890, Nsec: 987_654_321}, {Sec: 1_111_111_111, Nsec: 999_999_999}},
			{{Sec: 4_102_444_800, Nsec: 5}, {Sec: 4_102_444_801, Nsec: 6}}, // 2100
			{{Sec: -86_400, Nsec: 500}, {Sec: -172_800, Nsec: 600}},        // 1969
			{{Sec: 0}, {Sec: 0}},
		} {
			e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, p, ts, 0), "utimensat %q %v", p, ts)
			if st := e.stat(p); st.Atim != ts[0] || st.Mtim != ts[1] {
				e.Errorf("%q: times %v and %v, expected %v and %v", p, st.Atim, st.Mtim, ts[0], ts[1])
			}
		}
		e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: 55, Nsec: 66}}, 0), "utimensat")
		if st := e.stat(p); st.Atim.Sec != 0 || st.Mtim != (unix.Timespec{Sec: 55, Nsec: 66}) {
			e.Errorf("%q: times %v and %v after setting one of them to 55.66", p, st.Atim, st.Mtim)
		}
		// The file system's clock may be another machine's; an hour is enough
		// to tell now from 1970.
		e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_OMIT}}, 0), "utimensat")
		st := e.stat(p)
		if d := time.Since(time.Unix(st.Atim.Sec, 0)); d > time.Hour || d < -time.Hour {
			e.Errorf("%q: access time %v after setting it to now", p, st.Atim)
		}
		if st.Mtim != (unix.Timespec{Sec: 55, Nsec: 66}) {
			e.Errorf("%q: modification time %v, expected 55.66 untouched", p, st.Mtim)
		}
	}
	if unix.Geteuid() == 0 {
		dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		e.ok(unix.Chmod(e.path("file"), 0o666), "chmod")
		err := e.as(12345, 12345, nil, func() error {
			return unix.UtimesNanoAt(dir, "file", []unix.Timespec{{Sec: 1}, {Sec: 1}}, 0)
		})
		e.fails(err, "setting times of another's file", unix.EPERM)
		err = e.as(12345, 12345, nil, func() error { return unix.UtimesNanoAt(dir, "file", nil, 0) })
		e.ok(err, "setting times of a writable file of another to now")
	}
}

// timesOfChanges: writing sets the modification time, changing attributes the
// change time.
func timesOfChanges(e *env) {
	p := e.path("file")
	e.create(p, nil)
	past := []unix.Timespec{{Sec: 1_000_000_000}, {Sec: 1_000_000_000}}
	fd := e.open(p, unix.O_RDWR, 0)
	e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, p, past, 0), "utimensat")
	e.pwrite(fd, p, 0, []byte("x"))
	st := e.stat(p)
	if st.Mtim.Sec == 1_000_000_000 {
		e.Errorf("%q: modification time unchanged by a write", p)
	}
	if d := time.Since(time.Unix(st.Mtim.Sec, 0)); d > time.Hour || d < -time.Hour {
		e.Errorf("%q: modification time %v after a write", p, st.Mtim)
	}
	e.ok(unix.Fsync(fd), "fsync")
	for what, change := range map[string]func() error{
		"chmod": func() error { return unix.Chmod(p, 0o600) },
		"link":  func() error { return unix.Link(p, e.path("second")) },
	} {
		before := e.stat(p)
		// Times can be as coarse as the server's timer tick.
		for range 40 {
			time.Sleep(5 * time.Millisecond)
			e.ok(change(), "%s", what)
			if e.stat(p).Ctim != before.Ctim {
				break
			}
			unix.Unlink(e.path("second"))
		}
		after := e.stat(p)
		if after.Ctim == before.Ctim {
			e.Errorf("%q: change time unchanged by %s", p, what)
		}
		if after.Mtim != before.Mtim {
			e.Errorf("%q: modification time changed from %v to %v by %s", p, before.Mtim, after.Mtim, what)
		}
	}
}

// accessCases: access(2) answers for owner, group and others.
func accessCases(e *env) {
	e.needRoot()
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.create(e.path("file"), nil)
	e.ok(unix.Chown(e.path("file"), 12345, 777), "chown")
	e.ok(unix.Chmod(e.path("file"), 0o640), "chmod")
	for _, c := range []struct {
		who      string
		uid, gid int
		groups   []int
		allowed  uint32
	}{
		{"owner", 12345, 12345, nil, unix.R_OK | unix.W_OK},
		{"group", 12346, 777, nil, unix.R_OK},
		{"supplementary group", 12346, 12346, []int{5, 777}, unix.R_OK},
		{"other", 12346, 12346, []int{5}, 0},
		{"root", 0, 0, nil, unix.R_OK | unix.W_OK},
	} {
		for _, mask := range []uint32{unix.F_OK, unix.R_OK, unix.W_OK, unix.X_OK, unix.R_OK | unix.W_OK} {
			err := e.as(c.uid, c.gid, c.groups, func() error { return unix.Faccessat(dir, "file", mask, 0) })
			if mask&^c.allowed == 0 {
				if err != nil {
					e.Errorf("access(%#o) by %s: %v, expected success", mask, c.who, err)
				}
			} else {
				e.fails(err, fmt.Sprintf("access(%#o) by %s", mask, c.who), unix.EACCES)
			}
		}
	}
	e.fails(unix.Access(e.path("missing"), unix.F_OK), "access of what is missing", unix.ENOENT)
}

// permissions: modes are enforced for files and on every directory of a path.
func permissions(e *env) {
	e.needRoot()
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.mkdir(e.path("private"))
	e.create(e.path("private", "file"), []byte("secret"))
	e.ok(unix.Chmod(e.path("private", "file"), 0o666), "chmod")
	e.content(e.path("private", "file"), []byte("secret")) // known to the kernel by now
	try := func(name string, flags int) error {
		return e.as(12345, 12345, nil, func() error {
			fd, err := unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0o644)
			if err == nil {
				unix.Close(fd)
			}
			return err
		})
	}
	for _, c := range []struct {
		mode  uint32
		name  string
		flags int
		want  unix.Errno
	}{
		{0o700, "private/file", unix.O_RDONLY, unix.EACCES},
		{0o700, "private", unix.O_RDONLY, unix.EACCES},
		{0o701, "private/file", unix.O_RDWR, 0},
		{0o701, "private", unix.O_RDONLY, unix.EACCES},
		{0o704, "private", unix.O_RDONLY, 0},
		{0o704, "private/file", unix.O_RDONLY, unix.EACCES},
		{0o705, "private/new", unix.O_CREAT | unix.O_WRONLY, unix.EACCES},
		{0o703, "private/new", unix.O_CREAT | unix.O_WRONLY, 0},
	} {
		e.ok(unix.Chmod(e.path("private"), c.mode), "chmod")
		err := try(c.name, c.flags)
		what := fmt.Sprintf("open(%q, %#o) by another user below a directory with mode %#o", c.name, c.flags, c.mode)
		if c.want == 0 {
			if err != nil {
				e.Errorf("%s: %v, expected success", what, err)
			}
		} else {
			e.fails(err, what, c.want)
		}
	}
	if st := e.stat(e.path("private", "new")); st.Uid != 12345 || st.Gid != 12345 {
		e.Errorf("a file made by 12345:12345 belongs to %d:%d", st.Uid, st.Gid)
	}
	// In a sticky directory only owners remove.
	e.mkdir(e.path("sticky"))
	e.ok(unix.Chmod(e.path("sticky"), 0o1777), "chmod")
	e.create(e.path("sticky", "root"), nil)
	err := e.as(12345, 12345, nil, func() error { return unix.Unlinkat(dir, "sticky/root", 0) })
	e.fails(err, "unlink of another's file in a sticky directory", unix.EPERM, unix.EACCES)
}

// groups: supplementary groups count, up to the sixteen that every network
// protocol can carry.
func groups(e *env) {
	e.needRoot()
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.create(e.path("file"), []byte("for the group"))
	e.ok(unix.Chmod(e.path("file"), 0o060), "chmod")
	sixteen := make([]int, 16)
	for i := range sixteen {
		sixteen[i] = 2000 + i
	}
	for _, gid := range []int{2000, 2007, 2015} {
		e.ok(unix.Chown(e.path("file"), 0, gid), "chown")
		err := e.as(12345, 12345, sixteen, func() error {
			fd, err := unix.Openat(dir, "file", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			buf := make([]byte, 13)
			if n, err := preadFull(fd, buf, 0); err != nil || string(buf[:n]) != "for the group" {
				return fmt.Errorf("read %q: %v", buf[:n], err)
			}
			return nil
		})
		e.ok(err, "opening a file of supplementary group %d", gid)
	}
	e.ok(unix.Chown(e.path("file"), 0, 3000), "chown")
	err := e.as(12345, 12345, sixteen, func() error {
		_, err := unix.Openat(dir, "file", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	e.fails(err, "opening a file of another group", unix.EACCES)
}

// statfs: the numbers of the file system make sense.
func statfs(e *env) {
	var st unix.Statfs_t
	e.ok(unix.Statfs(e.dir, &st), "statfs %q", e.dir)
	if st.Bsize <= 0 || st.Namelen < 255 || st.Bfree > st.Blocks || st.Bavail > st.Bfree {
		e.Errorf("statfs %q: block size %d, blocks %d, free %d, available %d, name length %d",
			e.dir, st.Bsize, st.Blocks, st.Bfree, st.Bavail, st.Namelen)
	}
	fd := e.open(e.path("file"), unix.O_CREAT|unix.O_RDWR, 0o644)
	var st2 unix.Statfs_t
	e.ok(unix.Fstatfs(fd, &st2), "fstatfs")
	if st2.Bsize != st.Bsize || st2.Type != st.Type {
		e.Errorf("fstatfs of a file: block size %d, type %#x; statfs of its directory: %d, %#x", st2.Bsize, st2.Type, st.Bsize, st.Type)
	}
}
