package fusefs

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// benchRoads are what the benchmarks compare: no network, plain TCP, software
// iWARP, in one run.
var benchRoads = []string{"local", "tcp", "iwarp"}

const benchFile = 64 << 20

// BenchmarkRead reads a file in order, cold, through the mount.
func BenchmarkRead(b *testing.B) {
	benchmarkData(b, func(b *testing.B, fd int, buf []byte) {
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			b.Fatal(err)
		}
		for off := int64(0); off < benchFile; {
			n, err := unix.Pread(fd, buf, off)
			if err != nil || n == 0 {
				b.Fatalf("read at %d: %d, %v", off, n, err)
			}
			off += int64(n)
		}
	})
}

// BenchmarkWrite writes a file in order and makes it stable.
func BenchmarkWrite(b *testing.B) {
	benchmarkData(b, func(b *testing.B, fd int, buf []byte) {
		for off := int64(0); off < benchFile; off += int64(len(buf)) {
			if n, err := unix.Pwrite(fd, buf, off); err != nil || n != len(buf) {
				b.Fatalf("write at %d: %d, %v", off, n, err)
			}
		}
		if err := unix.Fsync(fd); err != nil {
			b.Fatal(err)
		}
	})
}

func benchmarkData(b *testing.B, once func(b *testing.B, fd int, buf []byte)) {
	for _, road := range benchRoads {
		b.Run(road, func(b *testing.B) {
			dir := helper(b, road, b.TempDir(), Options{})
			if err := os.WriteFile(dir+"/file", make([]byte, benchFile), 0o644); err != nil {
				b.Fatal(err)
			}
			fd, err := unix.Open(dir+"/file", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				b.Fatal(err)
			}
			defer unix.Close(fd)
			buf := make([]byte, 1<<20)
			b.SetBytes(benchFile)
			for b.Loop() {
				once(b, fd, buf)
			}
		})
	}
}

// BenchmarkFiles makes a small file, reads it back, and removes it.
func BenchmarkFiles(b *testing.B) {
	for _, road := range benchRoads {
		b.Run(road, func(b *testing.B) {
			dir := helper(b, road, b.TempDir(), Options{})
			data := make([]byte, 1000)
			for i := 0; b.Loop(); i++ {
				name := fmt.Sprintf("%s/%d", dir, i)
				if err := os.WriteFile(name, data, 0o644); err != nil {
					b.Fatal(err)
				}
				if _, err := os.ReadFile(name); err != nil {
					b.Fatal(err)
				}
				if err := os.Remove(name); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
