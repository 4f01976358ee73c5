package conformance

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

var spaceCases = []Case{
	{"Fallocate", fallocate},
	{"FallocateErrors", fallocateErrors},
	{"PunchHole", punchHole},
	{"ZeroRange", zeroRange},
	{"SeekDataHole", seekDataHole},
	{"CopySparseFile", copySparseFile},
	{"CopyFileRange", copyFileRange},
	{"CopyFileRangeLarge", copyFileRangeLarge},
	{"CopyFileRangeErrors", copyFileRangeErrors},
}

// offered ends the case as one that cannot run here if err says that the file
// system does not offer what.
func (e *env) offered(err error, what string) {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		e.Skipf("the file system does not offer %s: %v", what, err)
	}
	e.ok(err, "%s", what)
}

// fallocate: space is reserved, the file grows, what is there stays.
func fallocate(e *env) {
	p := e.path("file")
	data := e.data(10_000)
	e.create(p, data)
	fd := e.open(p, unix.O_RDWR, 0)
	e.offered(unix.Fallocate(fd, 0, 5000, 1000), "fallocate")
	e.size(p, 10_000)
	e.content(p, data)
	e.ok(unix.Fallocate(fd, 0, 8000, 100_000), "fallocate beyond the end")
	e.size(p, 108_000)
	e.content(p, append(bytes.Clone(data), make([]byte, 98_000)...))
	if st := e.fstat(fd); st.Blocks*512 < 100_000 {
		e.Errorf("%q: %d blocks after reserving 100,000 bytes", p, st.Blocks)
	}
	// On an empty file, far out, and through a descriptor that only writes.
	q := e.path("empty")
	w := e.open(q, unix.O_CREAT|unix.O_WRONLY, 0o666)
	e.ok(unix.Fallocate(w, 0, 1<<20, 4096), "fallocate of an empty file")
	e.size(q, 1<<20+4096)
	e.pwrite(w, q, 1<<20, []byte("x"))
	want := make([]byte, 1<<20+4096)
	want[1<<20] = 'x'
	e.content(q, want)
}

// fallocateErrors: calls that make no sense, or that this descriptor may not
// make, change nothing.
func fallocateErrors(e *env) {
	p := e.path("file")
	e.create(p, []byte("content"))
	fd := e.open(p, unix.O_RDWR, 0)
	e.offered(unix.Fallocate(fd, 0, 0, 7), "fallocate")
	e.fails(unix.Fallocate(fd, 0, -1, 1), "at -1", unix.EINVAL)
	e.fails(unix.Fallocate(fd, 0, 0, 0), "of 0 bytes", unix.EINVAL)
	e.fails(unix.Fallocate(fd, 0, 1, -1), "of -1 bytes", unix.EINVAL)
	e.fails(unix.Fallocate(fd, 0, 1<<62, 1<<62), "beyond all limits", unix.EFBIG)
	e.fails(unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE, 0, 1), "a hole without keeping the size", unix.EOPNOTSUPP, unix.EINVAL)
	ro := e.open(p, unix.O_RDONLY, 0)
	e.fails(unix.Fallocate(ro, 0, 0, 100), "of a descriptor that only reads", unix.EBADF)
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.fails(unix.Fallocate(dir, 0, 0, 100), "of a directory", unix.EBADF, unix.EISDIR)
	e.content(p, []byte("content"))
}

// punchHole: what was punched reads as zeros, through every descriptor, mapping
// or not, cached or not; the size stays.
func punchHole(e *env) {
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	p := e.path("file")
	data := e.data(300_000)
	e.create(p, data)
	fd := e.open(p, unix.O_RDWR, 0)
	other := e.open(p, unix.O_RDONLY, 0)
	e.pread(other, p, 0, data) // have it all cached
	for i, r := range []struct{ off, n int64 }{
		{4096, 8192}, {0, 1}, {100, 50}, {20_000, 3}, {65_535, 65_538}, {290_000, 20_000}, {299_999, 1}, {400_000, 10},
	} {
		if i == 0 {
			e.offered(unix.Fallocate(fd, mode, r.off, r.n), "punching holes")
		} else {
			e.ok(unix.Fallocate(fd, mode, r.off, r.n), "punch %d at %d", r.n, r.off)
		}
		if end := min(r.off+r.n, int64(len(data))); r.off < end {
			clear(data[r.off:end])
		}
		e.size(p, int64(len(data)))
		e.pread(other, p, 0, data)
		e.pread(fd, p, 0, data)
	}
	e.ok(dropCache(fd), "drop the cache of %q", p)
	e.content(p, data)
	// Written just before, and after, without a sync between.
	for i := range 20 {
		off := int64(i) * 10_000
		e.pwrite(fd, p, off, bytes.Repeat([]byte{byte(i + 1)}, 10_000))
		e.ok(unix.Fallocate(fd, mode, off+2000, 6000), "punch %d at %d", 6000, off+2000)
		e.pwrite(fd, p, off+4000, []byte("later"))
		for j := range data[off : off+10_000] {
			data[off+int64(j)] = byte(i + 1)
		}
		clear(data[off+2000 : off+8000])
		copy(data[off+4000:], "later")
	}
	e.content(p, data)
	e.ok(unix.Fsync(fd), "fsync")
	e.ok(dropCache(fd), "drop the cache of %q", p)
	e.content(p, data)
	e.ok(unix.Fallocate(fd, mode, 0, int64(len(data))), "punch all of it")
	if st := e.fstat(fd); st.Size != int64(len(data)) || st.Blocks > 16 {
		e.Errorf("%q: size %d, %d blocks after punching all of it", p, st.Size, st.Blocks)
	}
	e.content(p, make([]byte, len(data)))
}

// zeroRange: the range is zero and stays reserved, and the file as long as it
// reaches.
func zeroRange(e *env) {
	p := e.path("file")
	data := e.data(100_000)
	e.create(p, data)
	fd := e.open(p, unix.O_RDWR, 0)
	e.pread(fd, p, 0, data)
	e.offered(unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 10_000, 30_000), "FALLOC_FL_ZERO_RANGE")
	clear(data[10_000:40_000])
	e.size(p, 100_000)
	e.content(p, data)
	e.ok(unix.Fallocate(fd, unix.FALLOC_FL_ZERO_RANGE, 90_001, 50_000), "zero range beyond the end")
	clear(data[90_001:])
	data = append(data, make([]byte, 40_001)...)
	e.size(p, int64(len(data)))
	e.content(p, data)
	e.ok(dropCache(fd), "drop the cache of %q", p)
	e.content(p, data)
}

// seekDataHole: what SEEK_DATA and SEEK_HOLE find agrees with what was written;
// a file system may know less of holes, but no data may be in one.
func seekDataHole(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o666)
	const part = 256 << 10
	for i := range 4 { // data, hole, data, hole, ..., hole
		e.pwrite(fd, p, int64(2*i)*part, e.data(part))
	}
	e.ok(unix.Ftruncate(fd, 8*part), "ftruncate")
	e.ok(unix.Fsync(fd), "fsync")
	for _, f := range []int{fd, e.open(p, unix.O_RDONLY, 0), e.open(p, unix.O_WRONLY, 0)} {
		at, holes := int64(0), 0
		for at < 8*part {
			data, err := unix.Seek(f, at, unix.SEEK_DATA)
			if errors.Is(err, unix.ENXIO) {
				data, err = 8*part, nil
			}
			e.ok(err, "SEEK_DATA from %d", at)
			if data < at {
				e.Fatalf("SEEK_DATA from %d found %d", at, data)
			}
			for i := at / part; i*part < data; i++ {
				if i%2 == 0 && data > i*part && i*part >= at {
					e.Fatalf("SEEK_DATA from %d found %d, behind data at %d", at, data, i*part)
				}
			}
			if data > at {
				holes++
			}
			if data == 8*part {
				break
			}
			hole, err := unix.Seek(f, data, unix.SEEK_HOLE)
			e.ok(err, "SEEK_HOLE from %d", data)
			if hole <= data {
				e.Fatalf("SEEK_HOLE from %d, where data is, found %d", data, hole)
			}
			if hole < 8*part && hole/part%2 == 0 && hole%part != 0 {
				e.Fatalf("SEEK_HOLE from %d found %d, where data is", data, hole)
			}
			at = hole
		}
		e.Logf("%d holes seen of 4", holes)
		for _, whence := range []int{unix.SEEK_DATA, unix.SEEK_HOLE} {
			_, err := unix.Seek(f, 8*part, whence)
			e.fails(err, fmt.Sprintf("lseek(%d) at the end", whence), unix.ENXIO)
			_, err = unix.Seek(f, 1<<40, whence)
			e.fails(err, fmt.Sprintf("lseek(%d) behind the end", whence), unix.ENXIO)
		}
		_, err := unix.Seek(f, -1, unix.SEEK_DATA)
		e.fails(err, "lseek at -1", unix.ENXIO, unix.EINVAL)
	}
	end, err := unix.Seek(fd, 0, unix.SEEK_END)
	if err != nil || end != 8*part {
		e.Errorf("SEEK_END: %d, %v", end, err)
	}
}

// copySparseFile: cp copies a file with holes, whichever way it does so, and on
// request holes stay holes.
func copySparseFile(e *env) {
	cp, err := exec.LookPath("cp")
	if err != nil {
		e.Skipf("cp is not installed")
	}
	src := e.path("src")
	fd := e.open(src, unix.O_CREAT|unix.O_RDWR, 0o666)
	const size = 8 << 20
	want := make([]byte, size)
	for _, off := range []int64{0, 1 << 20, 5<<20 + 123} {
		e.pwrite(fd, src, off, e.data(100_000))
		copy(want[off:], e.data(100_000))
	}
	e.ok(unix.Ftruncate(fd, size), "ftruncate")
	for _, how := range []string{"--sparse=auto", "--sparse=always", "--sparse=never", "--reflink=auto", "--reflink=never"} {
		dst := e.path("dst" + how)
		if out, err := exec.Command(cp, how, src, dst).CombinedOutput(); err != nil {
			e.Errorf("cp %s: %v: %s", how, err, out)
			continue
		}
		e.content(dst, want)
		st, from := e.stat(dst), e.stat(src)
		if how == "--sparse=always" && st.Blocks*512 > 1<<20 && from.Blocks*512 < 1<<20 {
			e.Errorf("cp %s: the copy takes %d KiB, the original %d", how, st.Blocks/2, from.Blocks/2)
		}
	}
}

// copyRange copies n bytes with copy_file_range(2), in as many calls as it takes.
func copyRange(dst int, dstOff int64, src int, srcOff, n int64) (int64, error) {
	done := int64(0)
	for done < n {
		from, to := srcOff+done, dstOff+done
		m, err := unix.CopyFileRange(src, &from, dst, &to, int(n-done), 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return done, err
		case m == 0:
			return done, nil
		case from != srcOff+done+int64(m) || to != dstOff+done+int64(m):
			return done, fmt.Errorf("%d bytes copied, but offsets moved by %d and %d", m, from-srcOff-done, to-dstOff-done)
		}
		done += int64(m)
	}
	return done, nil
}

// copyFileRange: any range of one file to any place of another, in another
// directory or the same, with data that is cached, just written or on disk.
func copyFileRange(e *env) {
	e.mkdir(e.path("a"))
	e.mkdir(e.path("b"))
	src, dst := e.path("a", "src"), e.path("b", "dst")
	data := e.data(200_000)
	e.create(src, data)
	from := e.open(src, unix.O_RDWR, 0)
	to := e.open(dst, unix.O_CREAT|unix.O_RDWR, 0o666)
	other := e.open(dst, unix.O_RDONLY, 0)
	var want []byte
	put := func(off int64, b []byte) {
		want = append(want, make([]byte, max(0, int(off)+len(b)-len(want)))...)
		copy(want[off:], b)
	}
	for i, r := range []struct{ off, srcOff, n, copied int64 }{
		{0, 0, 200_000, 200_000}, {0, 4096, 8192, 8192}, {3, 70_001, 999, 999}, {4096, 0, 1, 1},
		{250_000, 190_000, 50_000, 10_000}, {0, 200_000, 10, 0}, {400_000, 1, 100_000, 100_000},
	} {
		n, err := copyRange(to, r.off, from, r.srcOff, r.n)
		if i == 0 {
			e.offered(err, "copy_file_range")
		}
		if err != nil || n != r.copied {
			e.Fatalf("copy of %d from %d to %d: %d, %v; expected %d", r.n, r.srcOff, r.off, n, err, r.copied)
		}
		if n > 0 {
			put(r.off, data[r.srcOff:r.srcOff+n])
		}
		e.size(dst, int64(len(want)))
		e.pread(other, dst, 0, want)
	}
	// What was written a moment ago, on either side.
	for i := range 10 {
		piece := bytes.Repeat([]byte{byte(i + 1)}, 5000)
		e.pwrite(from, src, 1000, piece)
		copy(data[1000:], piece)
		e.pwrite(to, dst, 500, []byte("overwritten"))
		n, err := copyRange(to, 0, from, 0, 10_000)
		if err != nil || n != 10_000 {
			e.Fatalf("copy: %d, %v", n, err)
		}
		put(0, data[:10_000])
		e.pwrite(to, dst, 2000, []byte("after"))
		put(2000, []byte("after"))
		e.pread(other, dst, 0, want)
	}
	e.ok(unix.Fsync(to), "fsync")
	e.ok(dropCache(to), "drop the cache of %q", dst)
	e.content(dst, want)
	e.content(src, data)
	// Within one file.
	n, err := copyRange(from, 150_000, from, 0, 40_000)
	if err != nil || n != 40_000 {
		e.Errorf("copy within a file: %d, %v", n, err)
	}
	copy(data[150_000:], data[:40_000])
	e.content(src, data)
	// With the descriptors' own offsets.
	for _, fd := range []int{from, to} {
		_, err := unix.Seek(fd, 0, unix.SEEK_SET)
		e.ok(err, "lseek")
	}
	e.ok(unix.Ftruncate(to, 0), "ftruncate")
	for done := 0; done < len(data); {
		n, err := unix.CopyFileRange(from, nil, to, nil, len(data)-done, 0)
		if err != nil || n == 0 {
			e.Fatalf("copy with the descriptors' offsets, after %d: %d, %v", done, n, err)
		}
		done += n
	}
	e.content(dst, data)
}

// copyFileRangeLarge: a large file, in one call after the other, with a hole in
// the middle.
func copyFileRangeLarge(e *env) {
	src, dst := e.path("src"), e.path("dst")
	from := e.open(src, unix.O_CREAT|unix.O_RDWR, 0o666)
	to := e.open(dst, unix.O_CREAT|unix.O_RDWR, 0o666)
	size := e.o.BigFile
	const block = 1 << 20
	for off := int64(0); off < size; off += block {
		if off >= size/3 && off < size/2 {
			continue
		}
		e.pwrite(from, src, off, pattern(e.seed, off, make([]byte, block)))
	}
	n, err := copyRange(to, 12_345, from, 0, size)
	e.offered(err, "copy_file_range")
	if n != size {
		e.Fatalf("%d bytes copied of %d", n, size)
	}
	e.ok(dropCache(to), "drop the cache of %q", dst)
	for off := int64(0); off < size; off += block {
		want := make([]byte, block)
		if off < size/3 || off >= size/2 {
			pattern(e.seed, off, want)
		}
		e.pread(to, dst, off+12_345, want)
	}
	e.size(dst, size+12_345)
}

// copyFileRangeErrors: what cannot be copied says why.
func copyFileRangeErrors(e *env) {
	src, dst := e.path("src"), e.path("dst")
	e.create(src, e.data(10_000))
	e.create(dst, []byte("content"))
	r, w := e.open(src, unix.O_RDWR, 0), e.open(dst, unix.O_WRONLY, 0)
	ro, app := e.open(dst, unix.O_RDONLY, 0), e.open(dst, unix.O_WRONLY|unix.O_APPEND, 0)
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	try := func(from int, fromOff int64, to int, toOff int64, n int, want ...syscall.Errno) {
		_, err := unix.CopyFileRange(from, &fromOff, to, &toOff, n, 0)
		e.fails(err, fmt.Sprintf("copy of %d from %d to %d", n, fromOff, toOff), want...)
	}
	try(r, 0, ro, 0, 10, unix.EBADF)
	try(w, 0, r, 0, 10, unix.EBADF)
	try(r, 0, app, 0, 10, unix.EBADF)
	try(dir, 0, w, 0, 10, unix.EISDIR)
	try(r, 0, r, 5, 10, unix.EINVAL)
	// At the end of what an offset can be. A file system that lets files be so
	// long copies what fits.
	at, from := int64(1<<63-5), int64(0)
	if n, err := unix.CopyFileRange(r, &from, w, &at, 10, 0); err != nil {
		e.fails(err, "copy beyond all offsets", unix.EFBIG, unix.EINVAL, unix.EOVERFLOW)
	} else {
		if n > 5 {
			e.Errorf("%d bytes copied to where 5 have room", n)
		}
		e.ok(unix.Ftruncate(w, int64(len("content"))), "ftruncate")
	}
	e.content(dst, []byte("content"))
	outside, err := os.CreateTemp("", "conformance")
	e.ok(err, "a file elsewhere")
	defer os.Remove(outside.Name())
	defer outside.Close()
	// To another file system: done, or refused, but never half.
	n, err := copyRange(int(outside.Fd()), 0, r, 0, 10_000)
	if err == nil && n == 10_000 {
		got := make([]byte, 10_000)
		if _, err := outside.ReadAt(got, 0); err != nil || !bytes.Equal(got, e.data(10_000)) {
			e.Errorf("copy to another file system: other bytes, %v", err)
		}
	} else if !errors.Is(err, unix.EXDEV) {
		e.Errorf("copy to another file system: %d, %v", n, err)
	}
}
