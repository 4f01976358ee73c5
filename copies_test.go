package main

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient/nfstest"
)

// servedMount is a mount whose process stays in the foreground and tells at its
// end what it has moved.
type servedMount struct {
	dir    string
	cmd    *exec.Cmd
	stderr io.Reader
}

// moved is what the process behind a mount has done with file data, bytes.
type moved struct{ read, written, copied float64 }

// serveMount mounts spec with the program, which is this test binary.
func serveMount(t testing.TB, spec, options string) *servedMount {
	t.Helper()
	if err := checkFUSE(); err != nil {
		t.Skipf("FUSE mounts are not possible here: %v", err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	m := &servedMount{dir: dir}
	m.cmd = exec.Command(self, "mount", "-f", "-v", spec, dir, "-o", options)
	m.cmd.Args[0] = "nfsrdma-fuse"
	m.cmd.Env = append(os.Environ(), runAsProgram+"=1")
	pipe, err := m.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(pipe)
	m.stderr = lines
	mounted := regexp.MustCompile(`is mounted on`)
	for {
		line, err := lines.ReadString('\n')
		if mounted.MatchString(line) {
			return m
		}
		if err != nil {
			t.Fatalf("mounting %s: %q, %v, %v", spec, line, err, m.cmd.Wait())
		}
	}
}

var movedLine = regexp.MustCompile(`(\d+) bytes read, (\d+) written, (\d+) copied`)

// end unmounts, and returns what was moved.
func (m *servedMount) end(t testing.TB) (out moved) {
	t.Helper()
	if err := m.cmd.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(m.stderr)
	if werr := m.cmd.Wait(); err != nil || werr != nil {
		t.Fatalf("unmounting: %v, %v\n%s", err, werr, text)
	}
	f := movedLine.FindSubmatch(text)
	if f == nil {
		t.Fatalf("the program did not tell what it moved: %s", text)
	}
	for i, p := range []*float64{&out.read, &out.written, &out.copied} {
		n, err := strconv.ParseUint(string(f[i+1]), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		*p = float64(n)
	}
	return out
}

// copiesPerByte writes and reads files through mounts of their own, and
// returns how often each byte was copied in the program's memory.
func copiesPerByte(t testing.TB, spec, options string, size int) (reading, writing float64) {
	t.Helper()
	const name = "nfsrdma-copies"
	m := serveMount(t, spec, options)
	f, err := os.Create(filepath.Join(m.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 1<<20)
	for range size / len(block) {
		if _, err := f.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wrote := m.end(t)
	m = serveMount(t, spec, options)
	path := filepath.Join(m.dir, name)
	data, err := os.ReadFile(path)
	if err != nil || len(data) != size {
		t.Fatalf("%d bytes, %v", len(data), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	read := m.end(t)
	if wrote.written < float64(size) || read.read < float64(size) {
		t.Fatalf("of %d bytes, %v and %v were counted", size, wrote.written, read.read)
	}
	return read.copied / read.read, wrote.copied / wrote.written
}

// TestCopies: above the queue pair no byte of a READ is copied, and each byte
// of a WRITE once.
func TestCopies(t *testing.T) {
	_, port := startServer(t, nfstest.Options{})
	reading, writing := copiesPerByte(t, "127.0.0.1:/", "provider=iwarp,port="+port, 8<<20)
	if reading != 0 || writing != 1 {
		t.Errorf("%v copies of each byte read, %v of each byte written", reading, writing)
	}
}

// BenchmarkCopies prints how often the program copies each byte of file data,
// by a counter in it: over software iWARP with the embedded server, or with the
// server and the options of $NFSRDMA_BENCH_SERVER ("host:/export options").
func BenchmarkCopies(b *testing.B) {
	var spec, options string
	if s := os.Getenv("NFSRDMA_BENCH_SERVER"); s != "" {
		if _, err := fmt.Sscan(s, &spec, &options); err != nil {
			b.Fatalf("NFSRDMA_BENCH_SERVER: %v", err)
		}
	} else {
		server := nfstest.NewServer(nfstest.Options{})
		defer server.Close()
		addr, err := server.ListenRDMA("127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		ap, err := netip.ParseAddrPort(addr.String())
		if err != nil {
			b.Fatal(err)
		}
		spec, options = "127.0.0.1:/", fmt.Sprintf("provider=iwarp,port=%d", ap.Port())
	}
	for b.Loop() {
		reading, writing := copiesPerByte(b, spec, options, 16<<20)
		b.ReportMetric(reading, "copies/B-read")
		b.ReportMetric(writing, "copies/B-written")
	}
}
