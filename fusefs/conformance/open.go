package conformance

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

var openCases = []Case{
	{"CreateExclusive", createExclusive},
	{"CreateModesAndUmask", createModesAndUmask},
	{"OpenErrors", openErrors},
	{"OpenTruncate", openTruncate},
	{"OpenAppend", openAppend},
	{"OpenAccessModes", openAccessModes},
	{"CreateReadOnlyModeWritable", createReadOnlyModeWritable},
	{"OpenSync", openSync},
	{"OpenDirect", openDirect},
	{"OpenTwiceSeesWrites", openTwiceSeesWrites},
	{"OpenManyTimes", openManyTimes},
	{"DuplicatedDescriptors", duplicatedDescriptors},
}

// createExclusive: O_EXCL makes a file once, and follows no symbolic link.
func createExclusive(e *env) {
	p := e.path("file")
	e.open(p, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o644)
	_, err := unix.Open(p, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o644)
	e.fails(err, "second exclusive create of "+p, unix.EEXIST)
	e.ok(unix.Symlink("nowhere", e.path("link")), "symlink")
	_, err = unix.Open(e.path("link"), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o644)
	e.fails(err, "exclusive create through a dangling link", unix.EEXIST)
	e.missing(e.path("nowhere"))
	e.mkdir(e.path("dir"))
	_, err = unix.Open(e.path("dir"), unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o644)
	e.fails(err, "exclusive create over a directory", unix.EEXIST)

	// Without O_EXCL the link is followed and its target made.
	fd := e.open(e.path("link"), unix.O_CREAT|unix.O_RDWR, 0o644)
	e.pwrite(fd, "link", 0, []byte("through"))
	e.content(e.path("nowhere"), []byte("through"))

	// Of many that try at once exactly one makes the file.
	for round := range 10 {
		name := e.path(fmt.Sprintf("race%d", round))
		made := make(chan int, e.o.Workers)
		for range e.o.Workers {
			go func() {
				fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
				if err != nil {
					if err != unix.EEXIST {
						e.Errorf("exclusive create of %q in a race: %v", name, err)
					}
					made <- 0
					return
				}
				unix.Close(fd)
				made <- 1
			}()
		}
		sum := 0
		for range e.o.Workers {
			sum += <-made
		}
		if sum != 1 {
			e.Errorf("%d of %d exclusive creates of %q succeeded, expected 1", sum, e.o.Workers, name)
		}
	}
}

// createModesAndUmask: the mode of whatever is made is the one asked for
// without the bits of the mask.
func createModesAndUmask(e *env) {
	i := 0
	for _, mask := range []int{0, 0o022, 0o027, 0o077, 0o777} {
		e.umask(mask)
		for _, mode := range []uint32{0, 0o400, 0o444, 0o600, 0o644, 0o666, 0o755, 0o777, 0o1777, 0o4755} {
			i++
			want := mode &^ uint32(mask)
			name := e.path(fmt.Sprintf("f%d", i))
			fd, err := unix.Open(name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, mode)
			e.ok(err, "open(%q, O_CREAT, %#o) with umask %#o", name, mode, mask)
			if got := e.fstat(fd).Mode & 0o7777; got != want {
				e.Errorf("%q made with mode %#o, umask %#o: mode %#o, expected %#o", name, mode, mask, got, want)
			}
			unix.Close(fd)
			if mode > 0o777 {
				continue // mkdir and mknod may drop the special bits
			}
			name = e.path(fmt.Sprintf("d%d", i))
			e.ok(unix.Mkdir(name, mode), "mkdir(%q, %#o)", name, mode)
			if got := e.stat(name).Mode & 0o777; got != want {
				e.Errorf("mkdir(%q, %#o), umask %#o: mode %#o, expected %#o", name, mode, mask, got, want)
			}
			name = e.path(fmt.Sprintf("p%d", i))
			e.ok(unix.Mknod(name, unix.S_IFIFO|mode, 0), "mknod(%q, fifo, %#o)", name, mode)
			if got := e.stat(name).Mode & 0o777; got != want {
				e.Errorf("mknod(%q, fifo, %#o), umask %#o: mode %#o, expected %#o", name, mode, mask, got, want)
			}
		}
	}
}

// openErrors: what cannot be opened says why.
func openErrors(e *env) {
	e.create(e.path("file"), []byte("x"))
	e.mkdir(e.path("dir"))
	e.ok(unix.Symlink("file", e.path("link")), "symlink")
	for _, c := range []struct {
		path  string
		flags int
		want  unix.Errno
	}{
		{"missing", unix.O_RDONLY, unix.ENOENT},
		{"missing/below", unix.O_RDWR | unix.O_CREAT, unix.ENOENT},
		{"dir", unix.O_WRONLY, unix.EISDIR},
		{"dir", unix.O_RDWR, unix.EISDIR},
		{"dir", unix.O_RDWR | unix.O_CREAT, unix.EISDIR},
		{"file", unix.O_RDONLY | unix.O_DIRECTORY, unix.ENOTDIR},
		{"file/below", unix.O_RDONLY, unix.ENOTDIR},
		{"file/below", unix.O_RDWR | unix.O_CREAT, unix.ENOTDIR},
		{"link", unix.O_RDONLY | unix.O_NOFOLLOW, unix.ELOOP},
		{"file/", unix.O_RDONLY, unix.ENOTDIR},
		{"new/", unix.O_RDWR | unix.O_CREAT, unix.EISDIR},
	} {
		fd, err := unix.Open(e.path(c.path), c.flags|unix.O_CLOEXEC, 0o644)
		e.fails(err, fmt.Sprintf("open(%q, %#o)", c.path, c.flags), c.want)
		if err == nil {
			unix.Close(fd)
		}
	}
}

// openTruncate: O_TRUNC empties what is there, whoever else has it open.
func openTruncate(e *env) {
	p := e.path("file")
	e.create(p, e.data(100_000))
	reader := e.open(p, unix.O_RDONLY, 0)
	e.pread(reader, p, 50_000, e.data(100_000)[50_000:])
	fd := e.open(p, unix.O_WRONLY|unix.O_TRUNC, 0)
	e.size(p, 0)
	if n, err := unix.Pread(reader, make([]byte, 10), 0); n != 0 || err != nil {
		e.Errorf("read of %q after O_TRUNC: got %d bytes, error %v, expected the end of the file", p, n, err)
	}
	e.pwrite(fd, p, 0, []byte("short"))
	e.content(p, []byte("short"))
	e.open(p, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC, 0o600)
	e.content(p, nil)
	if n, err := unix.Pread(reader, make([]byte, 10), 0); n != 0 || err != nil {
		e.Errorf("read of %q after O_CREAT|O_TRUNC: got %d bytes, error %v, expected the end of the file", p, n, err)
	}
}

// openAppend: every write with O_APPEND lands at the end, wherever the
// descriptor stands and whoever wrote last.
func openAppend(e *env) {
	p := e.path("log")
	a := e.open(p, unix.O_CREAT|unix.O_WRONLY|unix.O_APPEND, 0o644)
	b := e.open(p, unix.O_RDWR|unix.O_APPEND, 0)
	plain := e.open(p, unix.O_RDWR, 0)
	var want []byte
	for i := range 50 {
		fd := a
		if i%2 == 1 {
			fd = b
		}
		line := fmt.Appendf(nil, "line %d\n", i)
		_, err := unix.Seek(fd, 0, unix.SEEK_SET)
		e.ok(err, "lseek")
		if n, err := unix.Write(fd, line); n != len(line) || err != nil {
			e.Fatalf("append of %d bytes to %q: %d, %v", len(line), p, n, err)
		}
		want = append(want, line...)
		if pos, _ := unix.Seek(fd, 0, unix.SEEK_CUR); pos != int64(len(want)) {
			e.Errorf("descriptor of %q stands at %d after an append, expected %d", p, pos, len(want))
		}
		if i == 25 { // somebody lengthens the file in between
			e.pwrite(plain, p, int64(len(want)), []byte("tail\n"))
			want = append(want, "tail\n"...)
		}
	}
	e.content(p, want)
}

// openAccessModes: a descriptor allows what it was opened for and no more.
func openAccessModes(e *env) {
	p := e.path("file")
	e.create(p, []byte("content"))
	ro := e.open(p, unix.O_RDONLY, 0)
	wo := e.open(p, unix.O_WRONLY, 0)
	_, err := unix.Write(ro, []byte("x"))
	e.fails(err, "write to a descriptor for reading", unix.EBADF)
	_, err = unix.Read(wo, make([]byte, 1))
	e.fails(err, "read from a descriptor for writing", unix.EBADF)
	e.fails(unix.Ftruncate(ro, 0), "ftruncate of a descriptor for reading", unix.EINVAL, unix.EBADF)
	e.ok(unix.Fchmod(ro, 0o600), "fchmod of a descriptor for reading")
	e.content(p, []byte("content"))
	path := e.open(p, unix.O_PATH, 0)
	_, err = unix.Read(path, make([]byte, 1))
	e.fails(err, "read from an O_PATH descriptor", unix.EBADF)
	e.fstat(path)
}

// createReadOnlyModeWritable: who makes a file with a mode that forbids writing
// may write to it through that descriptor, but not open it so again.
func createReadOnlyModeWritable(e *env) {
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	err := e.as(12345, 12345, nil, func() error {
		for _, mode := range []uint32{0o444, 0o400, 0} {
			name := fmt.Sprintf("mode%o", mode)
			fd, err := unix.Openat(dir, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, mode)
			if err != nil {
				return fmt.Errorf("create of %q: %w", name, err)
			}
			defer unix.Close(fd)
			if err := pwriteFull(fd, []byte("written"), 0); err != nil {
				return fmt.Errorf("write to %q through its first descriptor: %w", name, err)
			}
			if err := unix.Fsync(fd); err != nil {
				return fmt.Errorf("fsync of %q: %w", name, err)
			}
			got := make([]byte, 7)
			if _, err := preadFull(fd, got, 0); err != nil || string(got) != "written" {
				return fmt.Errorf("read of %q: got %q, %v", name, got, err)
			}
			if fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CLOEXEC, 0); err != unix.EACCES {
				unix.Close(fd)
				return fmt.Errorf("open of %q for writing: got %v, expected EACCES", name, err)
			}
		}
		return nil
	})
	e.ok(err, "as an ordinary user")
}

// openSync: O_SYNC and O_DSYNC writes are there for every reader.
func openSync(e *env) {
	for name, flag := range map[string]int{"sync": unix.O_SYNC, "dsync": unix.O_DSYNC} {
		p := e.path(name)
		fd := e.open(p, unix.O_CREAT|unix.O_RDWR|flag, 0o644)
		data := e.data(70_001)
		e.pwrite(fd, p, 0, data[:30_000])
		e.pwrite(fd, p, 30_000, data[30_000:])
		e.content(p, data)
	}
}

// openDirect: O_DIRECT transfers move the same bytes as the page cache sees.
func openDirect(e *env) {
	p := e.path("file")
	fd, err := unix.Open(p, unix.O_CREAT|unix.O_RDWR|unix.O_DIRECT|unix.O_CLOEXEC, 0o644)
	if err == unix.EINVAL {
		e.Skipf("the file system has no O_DIRECT")
	}
	e.ok(err, "open(%q, O_DIRECT)", p)
	defer unix.Close(fd)
	const size = 1 << 20
	buf := aligned(size)
	pattern(e.seed, 0, buf)
	e.pwrite(fd, p, 0, buf)
	e.pwrite(fd, p, 3*size, buf)
	want := make([]byte, 4*size)
	copy(want, buf)
	copy(want[3*size:], buf)
	e.content(p, want)

	cached := e.open(p, unix.O_RDWR, 0)
	e.pwrite(cached, p, size, buf[:4096])
	copy(want[size:], buf[:4096])
	got := aligned(size)
	for off := int64(0); off < 4*size; off += size {
		n, err := preadFull(fd, got, off)
		e.ok(err, "direct read of %q at %d", p, off)
		if err := same(p, off, got[:n], want[off:off+size]); err != nil {
			e.Errorf("direct read: %v", err)
		}
	}
	if n, err := unix.Pread(fd, got[:4096], 4*size); n != 0 || err != nil {
		e.Errorf("direct read of %q at its end: %d bytes, %v, expected none", p, n, err)
	}
}

// aligned returns memory that O_DIRECT accepts.
func aligned(n int) []byte {
	buf := make([]byte, n+4096)
	off := int(-uintptr(unsafe.Pointer(&buf[0])) & 4095)
	return buf[off : off+n : off+n]
}

// openTwiceSeesWrites: two descriptors of one file always agree.
func openTwiceSeesWrites(e *env) {
	p := e.path("file")
	a := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	b := e.open(p, unix.O_RDWR, 0)
	model := []byte{}
	for i := range 40 {
		w, r := a, b
		if i%2 == 1 {
			w, r = b, a
		}
		off := e.rng.IntN(len(model) + 1)
		chunk := pattern(e.seed+uint64(i), int64(off), make([]byte, 1+e.rng.IntN(20_000)))
		e.pwrite(w, p, int64(off), chunk)
		if need := off + len(chunk); need > len(model) {
			model = append(model, make([]byte, need-len(model))...)
		}
		copy(model[off:], chunk)
		e.pread(r, p, 0, model)
		if st := e.fstat(r); st.Size != int64(len(model)) {
			e.Errorf("fstat of %q through the other descriptor: size %d, expected %d", p, st.Size, len(model))
		}
	}
}

// openManyTimes: a file takes many descriptors at once, and the last one still
// reads it.
func openManyTimes(e *env) {
	p := e.path("file")
	e.create(p, []byte("many"))
	fds := make([]int, 200)
	for i := range fds {
		flags := []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR}[i%3]
		fd, err := unix.Open(p, flags|unix.O_CLOEXEC, 0)
		e.ok(err, "open number %d of %q", i, p)
		fds[i] = fd
	}
	for i, fd := range fds[:len(fds)-1] {
		e.ok(unix.Close(fd), "close number %d of %q", i, p)
	}
	last := fds[len(fds)-1]
	defer unix.Close(last)
	if (len(fds)-1)%3 == 1 {
		e.pwrite(last, p, 0, []byte("MANY"))
		e.content(p, []byte("MANY"))
		return
	}
	e.pread(last, p, 0, []byte("many"))
}

// duplicatedDescriptors: dup shares the position, and closing one of the two
// leaves the other usable.
func duplicatedDescriptors(e *env) {
	p := e.path("file")
	fd, err := unix.Open(p, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o644)
	e.ok(err, "open %q", p)
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	e.ok(err, "dup")
	defer unix.Close(dup)
	_, err = unix.Write(fd, []byte("one "))
	e.ok(err, "write to %q", p)
	_, err = unix.Write(dup, []byte("two "))
	e.ok(err, "write to %q through the duplicate", p)
	e.ok(unix.Close(fd), "close")
	_, err = unix.Write(dup, []byte("three"))
	e.ok(err, "write to %q through the duplicate after a close", p)
	e.content(p, []byte("one two three"))
}
