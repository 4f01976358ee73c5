package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkBeside does the same work in two directories in turn and prints how
// long the first takes in relation to the second: $NFSRDMA_BENCH_OURS is a
// mount of this program, $NFSRDMA_BENCH_KERNEL one of the kernel's NFS client,
// of the same export over the same device. Below 1 the program is faster.
func BenchmarkBeside(b *testing.B) {
	dirs := [2]string{os.Getenv("NFSRDMA_BENCH_OURS"), os.Getenv("NFSRDMA_BENCH_KERNEL")}
	if dirs[0] == "" || dirs[1] == "" {
		b.Skip("no mounts to compare in NFSRDMA_BENCH_OURS and NFSRDMA_BENCH_KERNEL (make lab-verbs has some)")
	}
	const size, block, small = 16 << 20, 1 << 20, 40
	ok := func(err error) {
		if err != nil {
			b.Helper()
			b.Fatal(err)
		}
	}
	openFile := func(dir string, flags int) int {
		fd, err := unix.Open(filepath.Join(dir, "bench"), flags|unix.O_CLOEXEC, 0o644)
		ok(err)
		return fd
	}
	for _, work := range []struct {
		name string
		do   func(dir string)
	}{
		{"sequential write and fsync", func(dir string) {
			fd := openFile(dir, unix.O_RDWR|unix.O_CREAT|unix.O_TRUNC)
			defer unix.Close(fd)
			buf := make([]byte, block)
			for off := int64(0); off < size; off += block {
				_, err := unix.Pwrite(fd, buf, off)
				ok(err)
			}
			ok(unix.Fsync(fd))
		}},
		{"sequential read", func(dir string) {
			fd := openFile(dir, unix.O_RDONLY)
			defer unix.Close(fd)
			ok(unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
			buf := make([]byte, block)
			for off := int64(0); off < size; off += block {
				n, err := unix.Pread(fd, buf, off)
				if err != nil || n != block {
					b.Fatal(n, err)
				}
			}
		}},
		{"random reads of 4 KiB", func(dir string) {
			fd := openFile(dir, unix.O_RDONLY|unix.O_DIRECT)
			defer unix.Close(fd)
			buf, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
			ok(err)
			defer func() { ok(unix.Munmap(buf)) }()
			for range small {
				_, err := unix.Pread(fd, buf, rand.Int64N(size/4096)*4096)
				ok(err)
			}
		}},
		{"stat of names not looked at before", func(dir string) {
			for i := range small {
				var st unix.Stat_t
				if err := unix.Stat(fmt.Sprintf("%s/none-%d-%d", dir, i, rand.Uint64()), &st); err != unix.ENOENT {
					b.Fatal(err)
				}
			}
		}},
		{"create and unlink", func(dir string) {
			for i := range small {
				name := fmt.Sprintf("%s/new-%d", dir, i)
				ok(os.WriteFile(name, nil, 0o644))
				ok(os.Remove(name))
			}
		}},
	} {
		b.Run(work.name, func(b *testing.B) {
			var took [2]time.Duration
			rounds := 0
			for b.Loop() {
				for i := range dirs {
					i = (i + rounds) % 2 // neither is always the first
					began := time.Now()
					work.do(dirs[i])
					took[i] += time.Since(began)
				}
				rounds++
			}
			b.ReportMetric(float64(took[0])/float64(took[1]), "ours/kernel")
			b.ReportMetric(float64(took[0].Milliseconds())/float64(rounds), "ms-ours")
			b.ReportMetric(float64(took[1].Milliseconds())/float64(rounds), "ms-kernel")
		})
	}
	for _, dir := range dirs {
		_ = os.Remove(filepath.Join(dir, "bench")) // a case chosen alone may not have made it
	}
}
