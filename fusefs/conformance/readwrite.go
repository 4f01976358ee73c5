package conformance

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

var readWriteCases = []Case{
	{"RandomReadWrite", randomReadWrite},
	{"ReadAtEnd", readAtEnd},
	{"Sparse", sparse},
	{"Beyond4GiB", beyond4GiB},
	{"VectoredIO", vectoredIO},
	{"Positions", positions},
	{"SyncCalls", syncCalls},
	{"LargeTransfers", largeTransfers},
	{"ReadAfterCacheDrop", readAfterCacheDrop},
	{"CopyBetweenFiles", copyBetweenFiles},
}

// dropCache writes back what is dirty and drops the pages of one file.
func dropCache(fd int) error {
	if err := unix.Fsync(fd); err != nil {
		return err
	}
	return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
}

// randomReadWrite writes and reads pieces of random places and lengths, with
// truncations and dropped caches between, and compares with memory.
func randomReadWrite(e *env) {
	const limit = 3 << 20
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	model := make([]byte, 0, limit)
	for i := range 400 {
		off := e.rng.IntN(limit)
		if e.rng.IntN(3) == 0 {
			off &^= 4095
		}
		n := 1 + e.rng.IntN(100)
		if e.rng.IntN(2) == 0 {
			n = 1 + e.rng.IntN(200_000)
		}
		n = min(n, limit-off)
		switch e.rng.IntN(10) {
		case 0, 1, 2, 3, 4:
			chunk := pattern(e.seed+uint64(i), int64(off), make([]byte, n))
			e.pwrite(fd, p, int64(off), chunk)
			if off+n > len(model) {
				old := len(model)
				model = model[:off+n]
				clear(model[old:])
			}
			copy(model[off:], chunk)
		case 5:
			size := e.rng.IntN(limit)
			e.ok(unix.Ftruncate(fd, int64(size)), "ftruncate(%q, %d)", p, size)
			old := len(model)
			model = model[:size]
			if size > old {
				clear(model[old:])
			}
		case 6:
			e.ok(dropCache(fd), "drop the cache of %q", p)
		default:
			want := []byte{}
			if off < len(model) {
				want = model[off:min(off+n, len(model))]
			}
			got := make([]byte, n)
			m, err := preadFull(fd, got, int64(off))
			e.ok(err, "pread %q offset %d length %d", p, off, n)
			if err := same(p, int64(off), got[:m], want); err != nil {
				e.Fatalf("step %d: %v", i, err)
			}
		}
	}
	e.size(p, int64(len(model)))
	e.content(p, model)
}

// readAtEnd: reads stop at the end of the file, and beyond it there is none.
func readAtEnd(e *env) {
	for _, size := range []int{0, 1, 4095, 4096, 4097, 131_072, 1<<20 + 1} {
		p := e.path(fmt.Sprint(size))
		data := e.data(size)
		e.create(p, data)
		fd := e.open(p, unix.O_RDONLY, 0)
		for _, off := range []int{0, size - 1, size, size + 1, size + 1<<20} {
			if off < 0 {
				continue
			}
			got := make([]byte, 100)
			n, err := unix.Pread(fd, got, int64(off))
			e.ok(err, "pread %q offset %d", p, off)
			want := data[min(off, size):min(off+100, size)]
			if err := same(p, int64(off), got[:n], want); err != nil {
				e.Errorf("%v", err)
			}
		}
	}
}

// sparse: what was never written reads as zeros.
func sparse(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	want := make([]byte, 5<<20+77)
	for _, off := range []int{0, 4097, 1<<20 + 3, 3 << 20, 5<<20 + 70} {
		chunk := pattern(e.seed, int64(off), make([]byte, 7))
		e.pwrite(fd, p, int64(off), chunk)
		copy(want[off:], chunk)
	}
	e.content(p, want)
	e.ok(dropCache(fd), "drop the cache of %q", p)
	e.content(p, want)
}

// beyond4GiB: offsets that need more than 32 bits.
func beyond4GiB(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	places := []int64{1<<31 - 5, 1<<32 - 3, 1<<32 + 1<<31, 5<<32 + 12345}
	for i, off := range places {
		e.pwrite(fd, p, off, pattern(e.seed+uint64(i), off, make([]byte, 10_000)))
	}
	e.size(p, places[3]+10_000)
	for range 2 {
		for i, off := range places {
			e.pread(fd, p, off, pattern(e.seed+uint64(i), off, make([]byte, 10_000)))
			e.pread(fd, p, off-100, make([]byte, 100))
		}
		e.pread(fd, p, 0, make([]byte, 5000))
		e.ok(dropCache(fd), "drop the cache of %q", p)
	}
	cut := places[1] + 5
	e.ok(unix.Truncate(p, cut), "truncate(%q, %d)", p, cut)
	e.size(p, cut)
	e.pread(fd, p, places[1], pattern(e.seed+1, places[1], make([]byte, 5)))
	if n, err := unix.Pread(fd, make([]byte, 10), cut); n != 0 || err != nil {
		e.Errorf("pread %q offset %d after truncation: %d bytes, %v, expected none", p, cut, n, err)
	}
}

// vectoredIO: pwritev and preadv keep the order of their pieces.
func vectoredIO(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	data := e.data(60_000)
	cut := []int{0, 1, 10, 4096, 5000, 40_000, 60_000}
	var out, in [][]byte
	for i := range len(cut) - 1 {
		out = append(out, data[cut[i]:cut[i+1]])
		in = append(in, make([]byte, cut[i+1]-cut[i]))
	}
	n, err := unix.Pwritev(fd, out, 3)
	if n != len(data) || err != nil {
		e.Fatalf("pwritev to %q: %d, %v, expected %d", p, n, err, len(data))
	}
	n, err = unix.Preadv(fd, in, 3)
	if n != len(data) || err != nil {
		e.Fatalf("preadv from %q: %d, %v, expected %d", p, n, err, len(data))
	}
	for i := range in {
		if err := same(p, 3+int64(cut[i]), in[i], out[i]); err != nil {
			e.Errorf("piece %d: %v", i, err)
		}
	}
}

// positions: read and write move the position, pread and pwrite do not, lseek
// counts from where it was told.
func positions(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	at := func(want int64) {
		got, err := unix.Seek(fd, 0, unix.SEEK_CUR)
		e.ok(err, "lseek")
		if got != want {
			e.Errorf("%q: position %d, expected %d", p, got, want)
		}
	}
	_, err := unix.Write(fd, []byte("0123456789"))
	e.ok(err, "write")
	at(10)
	e.pwrite(fd, p, 20, []byte("abc"))
	at(10)
	pos, err := unix.Seek(fd, -1, unix.SEEK_END)
	e.ok(err, "lseek from the end")
	if pos != 22 {
		e.Errorf("%q: lseek(-1, SEEK_END) gave %d, expected 22", p, pos)
	}
	buf := make([]byte, 10)
	if n, err := unix.Read(fd, buf); n != 1 || err != nil || buf[0] != 'c' {
		e.Errorf("%q: read at 22: %q, %v, expected \"c\"", p, buf[:max(n, 0)], err)
	}
	at(23)
	_, err = unix.Seek(fd, -1, unix.SEEK_SET)
	e.fails(err, "lseek to a negative offset", unix.EINVAL)
	_, err = unix.Seek(fd, 1000, unix.SEEK_SET)
	e.ok(err, "lseek beyond the end")
	e.size(p, 23)
	if n, err := unix.Write(fd, nil); n != 0 || err != nil {
		e.Errorf("%q: write of nothing: %d, %v", p, n, err)
	}
	e.size(p, 23)
	_, err = unix.Pread(fd, buf, -1)
	e.fails(err, "pread at a negative offset", unix.EINVAL)
}

// syncCalls: every way of asking for stable data succeeds and keeps the data.
func syncCalls(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	data := e.data(50_000)
	e.ok(unix.Fsync(fd), "fsync of the empty %q", p)
	e.pwrite(fd, p, 0, data[:20_000])
	e.ok(unix.Fsync(fd), "fsync of %q", p)
	e.pwrite(fd, p, 20_000, data[20_000:40_000])
	e.ok(unix.Fdatasync(fd), "fdatasync of %q", p)
	e.pwrite(fd, p, 40_000, data[40_000:])
	e.ok(unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER), "sync_file_range of %q", p)
	ro := e.open(p, unix.O_RDONLY, 0)
	e.ok(unix.Fsync(ro), "fsync of %q opened for reading", p)
	dir := e.open(e.dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	e.ok(unix.Fsync(dir), "fsync of the directory")
	e.ok(unix.Syncfs(dir), "syncfs")
	e.content(p, data)
}

// largeTransfers: single calls of several MiB, at unaligned offsets.
func largeTransfers(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	data := e.data(9<<20 + 333)
	for _, off := range []int64{0, 1, 4095, 1<<20 + 1} {
		n, err := unix.Pwrite(fd, data, off)
		if n != len(data) || err != nil {
			e.Fatalf("pwrite %q offset %d length %d: %d, %v", p, off, len(data), n, err)
		}
		e.pread(fd, p, off, data)
		e.ok(dropCache(fd), "drop the cache of %q", p)
		got := make([]byte, len(data)+100)
		n, err = unix.Pread(fd, got, off)
		e.ok(err, "pread %q offset %d", p, off)
		if err := same(p, off, got[:n], data); err != nil {
			e.Errorf("after dropping caches: %v", err)
		}
	}
}

// readAfterCacheDrop: data comes back from behind the page cache as it was.
func readAfterCacheDrop(e *env) {
	for i := range 20 {
		p := e.path(fmt.Sprint(i))
		data := pattern(e.seed+uint64(i), 0, make([]byte, e.rng.IntN(300_000)))
		e.create(p, data)
		fd := e.open(p, unix.O_RDONLY, 0)
		e.ok(dropCache(fd), "drop the cache of %q", p)
		e.content(p, data)
	}
}

// copyBetweenFiles: sendfile, splice and copy_file_range (or the refusal to do
// it, which programs know how to handle) give equal files.
func copyBetweenFiles(e *env) {
	data := e.data(700_001)
	src := e.path("source")
	e.create(src, data)
	ways := map[string]func(out, in int) (int, error){
		"sendfile": func(out, in int) (int, error) { return unix.Sendfile(out, in, nil, 200_000) },
		"copy_file_range": func(out, in int) (int, error) {
			n, err := unix.CopyFileRange(in, nil, out, nil, 200_000, 0)
			if err == unix.EOPNOTSUPP || err == unix.ENOSYS || err == unix.EXDEV {
				return unix.Sendfile(out, in, nil, 200_000)
			}
			return n, err
		},
		"splice": func(out, in int) (int, error) {
			var pipe [2]int
			if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
				return 0, err
			}
			defer unix.Close(pipe[0])
			defer unix.Close(pipe[1])
			n, err := unix.Splice(in, nil, pipe[1], nil, 60_000, 0)
			if err != nil {
				return 0, err
			}
			for rest := n; rest > 0; {
				m, err := unix.Splice(pipe[0], nil, out, nil, int(rest), 0)
				if err != nil {
					return 0, err
				}
				rest -= m
			}
			return int(n), nil
		},
	}
	for name, step := range ways {
		p := e.path(name)
		in := e.open(src, unix.O_RDONLY, 0)
		out := e.open(p, unix.O_CREAT|unix.O_WRONLY, 0o644)
		for {
			n, err := step(out, in)
			if err == unix.EINTR {
				continue
			}
			e.ok(err, "%s from %q to %q", name, src, p)
			if n == 0 {
				break
			}
		}
		e.content(p, data)
	}
	in, err := os.Open(src)
	e.ok(err, "open %q", src)
	defer in.Close()
	out, err := os.Create(e.path("io.Copy"))
	e.ok(err, "create")
	_, err = io.Copy(out, in)
	e.ok(err, "io.Copy")
	e.ok(out.Close(), "close")
	e.content(e.path("io.Copy"), data)
}
