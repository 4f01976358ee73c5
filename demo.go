package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient/nfstest"
)

// The demo's files: enough to take every road of the transport. Small ones go
// inline, large ones by RDMA Read and Write, and the listing of many names comes
// in Reply chunks.
const (
	demoSmallFiles = 500
	demoLargeFiles = 4
	demoLargeSize  = 32 << 20 // bytes
)

// demo starts a server in this process, mounts it over software RDMA as any
// other server, writes and verifies files, and tells what the transport did.
func demo(ctx context.Context, out io.Writer) (err error) {
	server := nfstest.NewServer(nfstest.Options{})
	defer server.Close()
	addr, err := server.ListenRDMA("127.0.0.1:0")
	if err != nil {
		return systemError{err}
	}
	dir, err := os.MkdirTemp("", "nfsrdma-demo-")
	if err != nil {
		return systemError{err}
	}
	defer os.Remove(dir)

	fmt.Fprintf(out, "An NFSv4.2 server in memory listens for RDMA (software iWARP) on %s.\n", addr)
	s := defaultSettings()
	s.Port = addr.(*net.TCPAddr).Port
	m, err := mountExport(ctx, spec{Host: "127.0.0.1", Export: "/"}, dir, s)
	if err != nil {
		return err
	}
	unmounted := false
	defer func() {
		if !unmounted {
			err = errors.Join(err, m.fs.Unmount(context.WithoutCancel(ctx)))
		}
		m.close()
	}()
	fmt.Fprintf(out, "It is mounted: %s on %s, type %s.\n\n", m.source, dir, fsType)

	files, err := demoWrite(ctx, dir, out)
	if err != nil {
		return err
	}
	if err := demoVerify(ctx, dir, server, files, out); err != nil {
		return err
	}
	if err := demoReport(m, out); err != nil {
		return err
	}

	if err := m.fs.Unmount(ctx); err != nil {
		return err
	}
	unmounted = true
	m.wait(ctx)
	fmt.Fprintln(out, "\nUnmounted. To mount a real server: mount.nfsrdma-fuse SERVER:/EXPORT DIRECTORY")
	return nil
}

// demoFile is a file that the demo has written.
type demoFile struct {
	path string // below the mount
	sum  [sha256.Size]byte
}

func demoWrite(ctx context.Context, dir string, out io.Writer) ([]demoFile, error) {
	var files []demoFile
	random := rand.NewChaCha8(sha256.Sum256([]byte(dir)))
	start, written := time.Now(), 0
	write := func(path string, size int) error {
		data := make([]byte, size)
		random.Read(data)
		f, err := os.Create(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		err = errors.Join(err, f.Sync(), f.Close())
		files = append(files, demoFile{path, sha256.Sum256(data)})
		written += size
		return errors.Join(err, ctx.Err())
	}
	for _, sub := range []string{"small", "large"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	for i := range demoSmallFiles {
		if err := write(fmt.Sprintf("small/file-%04d", i), 1+i*7); err != nil {
			return nil, err
		}
	}
	for i := range demoLargeFiles {
		if err := write(fmt.Sprintf("large/file-%d", i), demoLargeSize-i); err != nil {
			return nil, err
		}
	}
	fmt.Fprintf(out, "Wrote %d files, %.0f MiB, each fsynced, in %v.\n", len(files), float64(written)/(1<<20), time.Since(start).Round(time.Millisecond))
	return files, nil
}

// demoVerify reads every file back through the mount, and looks at the
// server's own memory to see that the bytes are really there.
func demoVerify(ctx context.Context, dir string, server *nfstest.Server, files []demoFile, out io.Writer) error {
	entries, err := os.ReadDir(filepath.Join(dir, "small"))
	if err != nil {
		return err
	}
	if len(entries) != demoSmallFiles {
		return fmt.Errorf("the directory lists %d names, %d were made", len(entries), demoSmallFiles)
	}
	start := time.Now()
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		through, err := readUncached(filepath.Join(dir, f.path))
		if err != nil {
			return err
		}
		if sha256.Sum256(through) != f.sum {
			return fmt.Errorf("%s read through the mount differs from what was written", f.path)
		}
		there, err := server.ReadFile("/" + f.path)
		if err != nil {
			return err
		}
		if !bytes.Equal(through, there) {
			return fmt.Errorf("%s in the server differs from what was written", f.path)
		}
	}
	fmt.Fprintf(out, "Read them back: all %d SHA-256 sums agree, through the mount and in the server's memory (%v).\n",
		len(files), time.Since(start).Round(time.Millisecond))
	return nil
}

// readUncached reads a file from the server: what the kernel has kept of it is
// dropped first.
func readUncached(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := dropCached(f); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// dropCached makes the kernel forget the content of f, so that the next read
// goes to the server.
func dropCached(f *os.File) error {
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("%s: dropping cached pages: %w", f.Name(), err)
	}
	return nil
}

// demoReport shows the counters of the connection.
func demoReport(m *mounted, out io.Writer) error {
	st, ok := m.road.stats()
	if !ok {
		return errors.New("there is no RDMA connection")
	}
	fmt.Fprintln(out, "\nWhat the transport did:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(what string, n uint64, how string) { fmt.Fprintf(w, "  %s\t%d\t%s\n", what, n, how) }
	row("calls", st.Calls, "RPC calls sent, each a COMPOUND of the NFS session")
	row("inline", st.Inline, "of them wholly in one Send and answered in one")
	row("Read chunks", st.ReadChunks, "WRITEs whose data the server fetched by RDMA Read")
	row("Write chunks", st.WriteChunks, "READs whose data the server placed by RDMA Write")
	row("Reply chunks", st.ReplyChunks, "calls whose reply could be long, such as READDIR")
	row("bytes pulled", st.BytesPulled, "offered for RDMA Read")
	row("bytes placed", st.BytesPlaced, "written by the server straight into payload buffers")
	row("handles", st.RemoteInvals+st.LocalInvals, "exposed for one call each and withdrawn with it")
	row("still exposed", uint64(st.Exposed), "must be 0")
	row("callbacks", st.Served, "calls of the server, answered on the same connection")
	if err := w.Flush(); err != nil {
		return err
	}
	if st.Exposed != 0 {
		return fmt.Errorf("%d handles still give the server access to memory", st.Exposed)
	}
	if st.BytesPlaced < demoLargeFiles*(demoLargeSize-demoLargeFiles) {
		return fmt.Errorf("only %d bytes were placed by RDMA Write: the large files did not take that road", st.BytesPlaced)
	}
	return nil
}
