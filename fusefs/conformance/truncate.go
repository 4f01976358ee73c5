package conformance

import (
	"fmt"

	"golang.org/x/sys/unix"
)

var truncateCases = []Case{
	{"Truncate", truncateForms},
	{"TruncateThenExtend", truncateThenExtend},
	{"TruncateErrors", truncateErrors},
	{"TruncateTimes", truncateTimes},
}

// truncateForms: truncate and ftruncate shorten and lengthen; what is new is
// zero.
func truncateForms(e *env) {
	p := e.path("file")
	model := e.data(20_000)
	e.create(p, model)
	fd := e.open(p, unix.O_RDWR, 0)
	other := e.open(p, unix.O_RDONLY, 0)
	for i, size := range []int{20_000, 19_999, 8192, 8191, 1, 0, 5000, 4096, 300_000, 12, 0} {
		if i%2 == 0 {
			e.ok(unix.Ftruncate(fd, int64(size)), "ftruncate(%q, %d)", p, size)
		} else {
			e.ok(unix.Truncate(p, int64(size)), "truncate(%q, %d)", p, size)
		}
		if size <= len(model) {
			model = model[:size]
		} else {
			model = append(model[:len(model):len(model)], make([]byte, size-len(model))...)
		}
		e.size(p, int64(size))
		if st := e.fstat(other); st.Size != int64(size) {
			e.Errorf("fstat of %q through another descriptor: size %d, expected %d", p, st.Size, size)
		}
		e.pread(other, p, 0, model)
		e.content(p, model)
	}
}

// truncateThenExtend: bytes that were cut off never come back, neither by
// lengthening nor by writing further out.
func truncateThenExtend(e *env) {
	for i, cut := range []int{1, 100, 4095, 4096, 4097, 10_000} {
		p := e.path(fmt.Sprint(i))
		data := e.data(50_000)
		e.create(p, data)
		fd := e.open(p, unix.O_RDWR, 0)
		e.pread(fd, p, 0, data) // have it all cached
		e.ok(unix.Ftruncate(fd, int64(cut)), "ftruncate(%q, %d)", p, cut)
		e.pwrite(fd, p, 30_000, []byte("end"))
		want := make([]byte, 30_003)
		copy(want, data[:cut])
		copy(want[30_000:], "end")
		e.content(p, want)
		e.ok(dropCache(fd), "drop the cache of %q", p)
		e.content(p, want)
		e.ok(unix.Ftruncate(fd, int64(cut)), "ftruncate(%q, %d)", p, cut)
		e.ok(unix.Ftruncate(fd, 40_000), "ftruncate(%q, 40000)", p)
		clear(want[cut:])
		e.content(p, append(want, make([]byte, 40_000-len(want))...))
	}
}

// truncateErrors: what cannot be truncated says why and stays as it was.
func truncateErrors(e *env) {
	p := e.path("file")
	e.create(p, []byte("content"))
	fd := e.open(p, unix.O_RDWR, 0)
	e.fails(unix.Ftruncate(fd, -1), "ftruncate to -1", unix.EINVAL)
	e.fails(unix.Truncate(p, -1), "truncate to -1", unix.EINVAL)
	e.fails(unix.Truncate(e.dir, 0), "truncate of a directory", unix.EISDIR)
	e.fails(unix.Truncate(e.path("missing"), 0), "truncate of a missing file", unix.ENOENT)
	e.content(p, []byte("content"))
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.create(e.path("readonly"), []byte("content"))
	e.ok(unix.Chmod(e.path("readonly"), 0o444), "chmod")
	if euid := unix.Geteuid(); euid == 0 {
		err := e.as(12345, 12345, nil, func() error {
			_, err := unix.Openat(dir, "readonly", unix.O_WRONLY|unix.O_TRUNC|unix.O_CLOEXEC, 0)
			return err
		})
		e.fails(err, "O_TRUNC of a file that may not be written", unix.EACCES)
	}
	e.content(e.path("readonly"), []byte("content"))
}

// truncateTimes: a truncation sets the modification time, also one to the size
// that the file already has when it is by truncate(2).
func truncateTimes(e *env) {
	p := e.path("file")
	e.create(p, []byte("content"))
	past := []unix.Timespec{{Sec: 1_000_000_000}, {Sec: 1_000_000_000}}
	for _, size := range []int64{3, 100, 0} {
		e.ok(unix.UtimesNanoAt(unix.AT_FDCWD, p, past, 0), "utimensat %q", p)
		e.ok(unix.Truncate(p, size), "truncate(%q, %d)", p, size)
		if st := e.stat(p); st.Mtim.Sec == 1_000_000_000 {
			e.Errorf("%q: modification time unchanged by truncation to %d", p, size)
		}
	}
}
