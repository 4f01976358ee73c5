package fusefs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// Tests in this file mount a server of their own process by another process, so
// that they can make the system calls and look at the server.

// remoteArgs say which server the backend "remote" mounts, as JSON.
type remoteArgs struct{ Addr string }

func init() {
	helperBackends["remote"] = func(h helperArgs) (*FS, func() error, error) {
		var a remoteArgs
		if err := json.Unmarshal([]byte(h.Arg), &a); err != nil {
			return nil, nil, err
		}
		pool := ulb.NewPool(ulb.HeapMemory{}, 128<<20)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		c, err := nfsclient.New(ctx, nfsclient.Options{
			Dial: func(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) {
				return tcp.Dial(ctx, a.Addr, tcp.Config{Handler: back, Pool: pool})
			},
		})
		if err != nil {
			return nil, nil, err
		}
		down := func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			defer pool.Close()
			return c.Close(ctx)
		}
		root, attrs := c.Root()
		fs, err := Mount(h.Dir, c, root, attrs, h.Options)
		if err != nil {
			return nil, nil, errors.Join(err, down())
		}
		return fs, down, nil
	}
}

// remote starts a server and returns it with mounts of it.
func remote(t *testing.T, o nfstest.Options, mounts int) (*nfstest.Server, []string) {
	t.Helper()
	haveFUSE(t)
	s := nfstest.NewServer(o)
	t.Cleanup(s.Close)
	addr, err := s.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arg, err := json.Marshal(remoteArgs{addr.String()})
	if err != nil {
		t.Fatal(err)
	}
	var dirs []string
	for range mounts {
		dirs = append(dirs, helper(t, "remote", string(arg), Options{AllowOther: true}))
	}
	return s, dirs
}

// openFile opens a file for the length of the test.
func openFile(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestStableWhenToldSo: what a program was told to be stable survives a crash of
// the server even if this machine is gone as well, in each way to be told so.
func TestStableWhenToldSo(t *testing.T) {
	s, dirs := remote(t, nfstest.Options{Delegations: nfstest.DelegateNever}, 1)
	data := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	write := func(f *os.File) error {
		_, err := f.Write(data)
		return err
	}
	for name, k := range map[string]struct {
		flags int
		do    func(f *os.File) error
	}{
		"O_SYNC":              {unix.O_SYNC, write},
		"O_DSYNC":             {unix.O_DSYNC, write},
		"O_DIRECT and O_SYNC": {unix.O_DIRECT | unix.O_SYNC, func(f *os.File) error { return writeAligned(f, data) }},
		"fsync":               {0, func(f *os.File) error { return errors.Join(write(f), f.Sync()) }},
		"fdatasync":           {0, func(f *os.File) error { return errors.Join(write(f), unix.Fdatasync(int(f.Fd()))) }},
		"fsync, O_DIRECT":     {unix.O_DIRECT, func(f *os.File) error { return errors.Join(writeAligned(f, data), f.Sync()) }},
		"close":               {0, func(f *os.File) error { return errors.Join(write(f), f.Close()) }},
		"close of a duplicate": {0, func(f *os.File) error {
			fd, err := unix.Dup(int(f.Fd()))
			return errors.Join(err, write(f), unix.Close(fd))
		}},
		"RWF_DSYNC": {0, func(f *os.File) error {
			n, err := unix.Pwritev2(int(f.Fd()), [][]byte{data}, 0, unix.RWF_DSYNC)
			if err == nil && n != len(data) {
				err = fmt.Errorf("%d bytes written", n)
			}
			return err
		}},
		"syncfs": {0, func(f *os.File) error {
			return errors.Join(write(f), f.Sync(), unix.Syncfs(int(f.Fd())))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := openFile(t, filepath.Join(dirs[0], "f"), unix.O_CREAT|unix.O_TRUNC|unix.O_RDWR|k.flags)
			if err := k.do(f); err != nil {
				t.Fatal(err)
			}
			if n := s.ChangeWriteVerifier(true); n != 0 {
				t.Errorf("%d files lost data in a crash of the server", n)
			}
			if got, err := s.ReadFile("/f"); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d bytes at the server after the crash, %v", len(got), err)
			}
		})
	}
	// The control: without any of it the server has something to lose, and
	// what it loses is written again.
	f := openFile(t, filepath.Join(dirs[0], "f"), unix.O_CREAT|unix.O_TRUNC|unix.O_RDWR)
	if err := write(f); err != nil {
		t.Fatal(err)
	}
	if n := s.ChangeWriteVerifier(true); n != 1 {
		t.Errorf("%d files lost data", n)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ReadFile("/f"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes at the server after it has lost them, %v", len(got), err)
	}
}

// writeAligned writes from memory that O_DIRECT accepts.
func writeAligned(f *os.File, data []byte) error {
	m, err := unix.Mmap(-1, 0, len(data), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Munmap(m) }()
	copy(m, data)
	n, err := f.Write(m)
	if err == nil && n != len(data) {
		err = fmt.Errorf("%d bytes written", n)
	}
	return err
}

// TestWriteErrors: an error of the server reaches the write, or the fsync or
// close that follows, of every descriptor that was open, once.
func TestWriteErrors(t *testing.T) {
	s, dirs := remote(t, nfstest.Options{Delegations: nfstest.DelegateNever}, 1)
	p := filepath.Join(dirs[0], "f")
	for status, want := range map[nfs4.Status]unix.Errno{
		nfs4.ErrNoSpc: unix.ENOSPC, nfs4.ErrDQuot: unix.EDQUOT, nfs4.ErrFBig: unix.EFBIG, nfs4.ErrROFS: unix.EROFS,
		nfs4.ErrIO: unix.EIO, nfs4.ErrAccess: unix.EACCES,
	} {
		t.Run(status.String(), func(t *testing.T) {
			a, b := openFile(t, p, unix.O_CREAT|unix.O_RDWR), openFile(t, p, unix.O_RDWR)
			closing := openFile(t, p, unix.O_WRONLY)
			s.FailNext(nfs4.OpWrite, status, 1)
			if n, err := a.Write([]byte("refused")); n != 0 || !errors.Is(err, want) {
				t.Errorf("write: %d, %v", n, err)
			}
			if err := a.Sync(); err != nil {
				t.Errorf("fsync after a write that failed: %v", err)
			}
			if n, err := a.Write([]byte("accepted")); n != 8 || err != nil {
				t.Fatalf("write: %d, %v", n, err)
			}
			s.FailNext(nfs4.OpCommit, status, 1)
			if err := a.Sync(); !errors.Is(err, want) {
				t.Errorf("fsync: %v", err)
			}
			late := openFile(t, p, unix.O_RDWR)
			if err := b.Sync(); !errors.Is(err, want) {
				t.Errorf("fsync of another descriptor: %v", err)
			}
			for what, f := range map[string]*os.File{"first": a, "second": b, "opened afterwards": late} {
				if err := f.Sync(); err != nil {
					t.Errorf("fsync of the descriptor that is the %s: %v", what, err)
				}
			}
			if err := closing.Close(); !errors.Is(err, want) {
				t.Errorf("close: %v", err)
			}
			for _, f := range []*os.File{a, b, late} {
				if err := f.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			// In the middle of a file that is otherwise written.
			f := openFile(t, p, unix.O_WRONLY|unix.O_TRUNC)
			remove := s.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				if w, ok := op.Args.(*nfs4.WriteArgs); ok && w.Offset >= 3<<20 {
					return nfstest.Verdict{Status: status}
				}
				return nfstest.Verdict{}
			})
			n, err := f.Write(make([]byte, 5<<20))
			remove()
			if n != 3<<20 || !errors.Is(err, want) {
				t.Errorf("5 MiB, of which 3 are taken: %d, %v", n, err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
	}
}

// TestFullServer: a server that is really full, or where the user's quota is
// used up; what fits is kept, and what is removed makes room.
func TestFullServer(t *testing.T) {
	for name, k := range map[string]struct {
		export nfstest.Export
		want   unix.Errno
	}{
		"full":  {nfstest.Export{Path: "/", Bytes: 4 << 20}, unix.ENOSPC},
		"quota": {nfstest.Export{Path: "/", Quota: 4 << 20}, unix.EDQUOT},
	} {
		t.Run(name, func(t *testing.T) {
			_, dirs := remote(t, nfstest.Options{Exports: []nfstest.Export{k.export}}, 1)
			p := filepath.Join(dirs[0], "f")
			f := openFile(t, p, unix.O_CREAT|unix.O_RDWR)
			if k.export.Quota > 0 {
				if os.Geteuid() != 0 {
					t.Skip("needs root: a quota binds others, to whom the file has to be given")
				}
				if err := f.Chown(12345, 12345); err != nil {
					t.Fatal(err)
				}
			}
			block := bytes.Repeat([]byte("x"), 64<<10)
			size := int64(0)
			var err error
			for err == nil && size < 8<<20 {
				var n int
				n, err = f.Write(block)
				size += int64(n)
			}
			if !errors.Is(err, k.want) || size < 3<<20 {
				t.Fatalf("%d bytes written, %v", size, err)
			}
			if err := f.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			got, err := os.ReadFile(p)
			if err != nil || int64(len(got)) != size || bytes.Count(got, []byte("x")) != len(got) {
				t.Errorf("%d bytes of %d read, %v", len(got), size, err)
			}
			if err := os.Truncate(p, 1<<20); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dirs[0], "g"), make([]byte, 1<<20), 0o666); err != nil {
				t.Errorf("after a truncation: %v", err)
			}
			if err := unix.Fallocate(int(openFile(t, p, unix.O_RDWR).Fd()), 0, 0, 16<<20); !errors.Is(err, k.want) {
				t.Errorf("fallocate: %v", err)
			}
		})
	}
}

// TestReadOnlyServer: an export that may not be written to.
func TestReadOnlyServer(t *testing.T) {
	_, dirs := remote(t, nfstest.Options{Exports: []nfstest.Export{{Path: "/", ReadOnly: true}}}, 1)
	if err := os.WriteFile(filepath.Join(dirs[0], "f"), nil, 0o666); !errors.Is(err, unix.EROFS) {
		t.Errorf("create: %v", err)
	}
	if err := unix.Setxattr(dirs[0], "user.a", nil, 0); !errors.Is(err, unix.EROFS) {
		t.Errorf("setxattr: %v", err)
	}
}

// TestAppendByTwoMounts: appends by turns do not overwrite each other, although
// neither mount is told of the other's.
func TestAppendByTwoMounts(t *testing.T) {
	s, dirs := remote(t, nfstest.Options{}, 2)
	var files []*os.File
	for _, dir := range dirs {
		files = append(files, openFile(t, filepath.Join(dir, "log"), unix.O_CREAT|unix.O_WRONLY|unix.O_APPEND))
	}
	var want []byte
	for i := range 60 {
		line := fmt.Appendf(nil, "line %d of %d\n", i, i*i*i)
		if i%20 == 19 {
			line = bytes.Repeat(line, 100_000) // more than one WRITE
		}
		if n, err := files[i/3%2].Write(line); n != len(line) || err != nil {
			t.Fatalf("append: %d, %v", n, err)
		}
		want = append(want, line...)
	}
	for _, f := range files {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := s.ReadFile("/log"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes at the server, expected %d, %v", len(got), len(want), err)
	}
	for _, dir := range dirs {
		if got, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes read, expected %d, %v", len(got), len(want), err)
		}
	}
}

// TestAppendsAtOnce: appends of two mounts at the same time leave whole lines.
func TestAppendsAtOnce(t *testing.T) {
	s, dirs := remote(t, nfstest.Options{}, 2)
	const lines, length = 200, 64
	var wg sync.WaitGroup
	for i, dir := range dirs {
		f := openFile(t, filepath.Join(dir, "log"), unix.O_CREAT|unix.O_WRONLY|unix.O_APPEND)
		wg.Go(func() {
			for range lines {
				if n, err := f.Write(append(bytes.Repeat([]byte{byte('a' + i)}, length-1), '\n')); n != length || err != nil {
					t.Errorf("append: %d, %v", n, err)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	got, err := s.ReadFile("/log")
	if err != nil || len(got)%length != 0 {
		t.Fatalf("%d bytes, %v", len(got), err)
	}
	for i := 0; i < len(got); i += length {
		line := got[i : i+length]
		if bytes.Count(line, line[:1]) != length-1 || line[length-1] != '\n' {
			t.Errorf("line at %d: %q", i, line)
		}
	}
	t.Logf("%d lines of %d", len(got)/length, 2*lines)
}
