package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
)

// benchMount builds the program without the test's instrumentation, mounts an
// embedded server with it and returns the directory.
func benchMount(b *testing.B, proto string) (server *nfstest.Server, dir string) {
	b.Helper()
	if err := checkFUSE(); err != nil {
		b.Skipf("FUSE mounts are not possible here: %v", err)
	}
	program := filepath.Join(b.TempDir(), "nfsrdma-fuse")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	server = nfstest.NewServer(nfstest.Options{})
	b.Cleanup(func() { server.Close() })
	listen := server.ListenRDMA
	if proto == "tcp" {
		listen = server.ListenTCP
	}
	addr, err := listen("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	dir = b.TempDir()
	options := fmt.Sprintf("proto=%s,port=%d", proto, addr.(*net.TCPAddr).Port)
	if out, err := exec.Command(program, "mount", "127.0.0.1:/", dir, "-o", options).CombinedOutput(); err != nil {
		b.Fatalf("mount: %v\n%s", err, out)
	}
	b.Cleanup(func() {
		if out, err := exec.Command(program, "umount", dir).CombinedOutput(); err != nil {
			b.Errorf("umount: %v\n%s", err, out)
		}
	})
	return server, dir
}

// BenchmarkIdleMemory reports what the mounted program keeps resident after
// 64 MiB were written and read through it. The aim is less than 64 MiB.
func BenchmarkIdleMemory(b *testing.B) {
	_, dir := benchMount(b, "rdma")
	for b.Loop() {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, make([]byte, 64<<20), 0o644); err != nil {
			b.Fatal(err)
		}
		if err := readCold(path); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(memory(b, dir, "VmRSS"), "MiB-resident")
}

// memory returns a line of the status of the process behind a mount, in MiB.
func memory(b *testing.B, dir, line string) float64 {
	b.Helper()
	rec, err := findRecord(dir)
	if err != nil || rec == nil {
		b.Fatalf("no process behind %s: %v", dir, err)
	}
	defer rec.file.Close()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", rec.PID))
	if err != nil {
		b.Fatal(err)
	}
	m := regexp.MustCompile(line + `:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		b.Fatalf("no %s", line)
	}
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}

// BenchmarkMillionNames lists a directory of 1,000,000 names through a mount,
// and reports the most memory that the mounted program had resident meanwhile.
// The aim is less than 96 MiB: it must not grow with the directory.
func BenchmarkMillionNames(b *testing.B) {
	const names = 1_000_000
	server, dir := benchMount(b, "rdma")
	if err := os.Mkdir(filepath.Join(dir, "big"), 0o755); err != nil {
		b.Fatal(err)
	}
	for i := range names {
		if err := server.WriteFile(fmt.Sprintf("/big/name-%07d", i), nil, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		d, err := os.Open(filepath.Join(dir, "big"))
		if err != nil {
			b.Fatal(err)
		}
		seen := make([]bool, names)
		for n := 0; ; {
			page, err := d.Readdirnames(4096)
			for _, name := range page {
				i, err := strconv.Atoi(name[len("name-"):])
				if err != nil || seen[i] {
					b.Fatalf("%q is listed twice, or was never made", name)
				}
				seen[i] = true
				n++
			}
			if err == io.EOF {
				if n != names {
					b.Fatalf("%d names listed", n)
				}
				break
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		d.Close()
	}
	b.ReportMetric(names*float64(b.N)/b.Elapsed().Seconds(), "names/s")
	peak := memory(b, dir, "VmHWM")
	b.ReportMetric(peak, "MiB-peak")
	if peak > 96 {
		b.Errorf("%.0f MiB were resident", peak)
	}
}

// BenchmarkSequentialRead reads a file of 64 MiB through a mount, over
// software RDMA and, as the yardstick, over TCP.
func BenchmarkSequentialRead(b *testing.B) {
	for _, proto := range []string{"rdma", "tcp"} {
		b.Run(proto, func(b *testing.B) {
			server, dir := benchMount(b, proto)
			if err := server.WriteFile("/file", make([]byte, 64<<20), 0o644); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(64 << 20)
			for b.Loop() {
				if err := readCold(filepath.Join(dir, "file")); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// readCold reads a file from the server, past what the kernel has kept of it.
func readCold(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := dropCached(f); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return err
}
