package conformance

import (
	"time"

	"golang.org/x/sys/unix"
)

var bigFileCases = []Case{
	{"BigFile", bigFile},
}

// bigFile: a big file is written, made stable, dropped from the caches, and
// read back the same.
func bigFile(e *env) {
	p := e.path("big")
	const chunk = 1 << 20
	size := e.o.BigFile
	fd, err := unix.Open(p, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	e.ok(err, "open %q", p)
	buf := make([]byte, chunk)
	start := time.Now()
	for off := int64(0); off < size; off += chunk {
		n := min(chunk, size-off)
		if err := pwriteFull(fd, pattern(e.seed, off, buf[:n]), off); err != nil {
			unix.Close(fd)
			e.Fatalf("write %q offset %d: %v", p, off, err)
		}
	}
	err = unix.Fsync(fd)
	wrote := time.Since(start)
	if err == nil {
		err = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	}
	if cerr := unix.Close(fd); err == nil {
		err = cerr
	}
	e.ok(err, "fsync and close of %q", p)
	e.size(p, size)

	rd := e.open(p, unix.O_RDONLY, 0)
	e.ok(unix.Fadvise(rd, 0, 0, unix.FADV_DONTNEED), "drop the cache of %q", p)
	want := make([]byte, chunk)
	start = time.Now()
	for off := int64(0); off < size; off += chunk {
		n := min(chunk, size-off)
		k, err := preadFull(rd, buf[:n], off)
		e.ok(err, "read %q offset %d", p, off)
		if err := same(p, off, buf[:k], pattern(e.seed, off, want[:n])); err != nil {
			e.Fatalf("%v", err)
		}
	}
	e.Logf("%d MiB: written and made stable in %v, read back and compared in %v",
		size>>20, wrote.Round(time.Millisecond), time.Since(start).Round(time.Millisecond))
	if n, err := unix.Pread(rd, buf[:10], size); n != 0 || err != nil {
		e.Errorf("read of %q at its end: %d bytes, %v, expected none", p, n, err)
	}
}
