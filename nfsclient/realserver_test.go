package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// serverVar names a server to run TestRealServer against, for example
// "rdma:127.0.0.1:20049 tcp:127.0.0.1:2049". Its root must be writable by all.
const serverVar = "NFSCLIENT_TEST_SERVER"

// restartVar is a shell command that restarts that server, with a grace period
// for its clients.
const restartVar = "NFSCLIENT_TEST_RESTART"

func dialReal(spec string) (Dialer, error) {
	proto, addr, _ := strings.Cut(spec, ":")
	switch proto {
	case "tcp":
		return func(ctx context.Context, back ulb.Handler) (Transport, error) {
			return tcp.Dial(ctx, addr, tcp.Config{Handler: back})
		}, nil
	case "rdma":
		return func(ctx context.Context, back ulb.Handler) (Transport, error) {
			return rdma.Dial(ctx, &iwarp.Connector{}, addr, rdma.Config{Handler: back})
		}, nil
	}
	return nil, fmt.Errorf("%s: %q is neither tcp nor rdma", serverVar, proto)
}

// TestRealServer runs against servers that this project has not written.
func TestRealServer(t *testing.T) {
	specs := strings.Fields(os.Getenv(serverVar))
	if len(specs) == 0 {
		t.Skipf("%s is not set: no server to run against", serverVar)
	}
	for _, spec := range specs {
		t.Run(spec, func(t *testing.T) { realServer(t, spec) })
	}
}

func realServer(t *testing.T, spec string) {
	dial, err := dialReal(spec)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var conns []Transport
	o := Options{Server: spec, Log: testLog{t}.logger(), Dial: func(ctx context.Context, back ulb.Handler) (Transport, error) {
		tr, err := dial(ctx, back)
		if err == nil {
			mu.Lock()
			conns = append(conns, tr)
			mu.Unlock()
		}
		return tr, err
	}}
	connect := func() *Client {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c, err := New(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := connect()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		t.Logf("%+v", c.Stats())
		if err := c.Close(ctx); err != nil {
			t.Errorf("Close: %v", err)
		}
		if n := c.live.Load(); n != 0 {
			t.Errorf("%d requests left", n)
		}
		for _, tr := range conns {
			if n := tr.Pool().InUse(); n != 0 {
				t.Errorf("%d buffers left", n)
			}
		}
	}()
	t.Logf("limits %+v", c.Limits())
	ctx := t.Context()
	top, _ := c.Root()
	name := fmt.Sprintf("nfsclient-%d", time.Now().UnixNano())
	mode := &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: 0o755}
	dir, _, err := c.Mkdir(ctx, root, top, name, mode)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Remove(context.WithoutCancel(ctx), root, top, name); err != nil {
			t.Errorf("remove of the test's directory: %v", err)
		}
	}()
	open := func(c *Client, name string, create bool) *File {
		t.Helper()
		f, _, _, err := c.Open(ctx, root, OpenRequest{Dir: dir, Name: name, Read: true, Write: true, Create: create, Attrs: mode})
		if err != nil {
			t.Fatalf("open %s: %v", name, err)
		}
		return f
	}
	remove := func(names ...string) {
		t.Helper()
		for _, n := range names {
			if err := c.Remove(ctx, root, dir, n); err != nil {
				t.Errorf("remove %s: %v", n, err)
			}
		}
	}

	t.Run("data", func(t *testing.T) {
		f := open(c, "f", true)
		data := pattern(11, 5<<20+77)
		start := time.Now()
		write(t, f, 0, data)
		if err := f.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		t.Logf("written in %v", time.Since(start))
		start = time.Now()
		for off := 0; off < len(data); off += 1 << 20 {
			expect(t, f, int64(off), data[off:min(off+1<<20, len(data))])
		}
		t.Logf("read in %v", time.Since(start))
		for _, n := range []int{1, 2, 3, 5, 1023, 4097} {
			expect(t, f, int64(n), data[n:2*n])
		}
		buf, n, eof, err := f.Read(ctx, int64(len(data))-5, 4096)
		if err != nil || n != 5 || !eof {
			t.Errorf("read across the end: %d %v %v", n, eof, err)
		}
		buf.Release()
		attrs, err := c.SetAttr(ctx, root, f.FH(), f, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSize), Size: 1000})
		if err != nil || attrs.Size != 1000 {
			t.Errorf("truncation: %v", err)
		}
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		remove("f")
	})

	t.Run("names", func(t *testing.T) {
		var want []string
		for i := range 300 {
			n := fmt.Sprintf("a-name-of-some-length-%04d", i)
			f := open(c, n, true)
			if err := f.Close(ctx); err != nil {
				t.Fatal(err)
			}
			want = append(want, n)
		}
		for _, plus := range []bool{false, true} {
			var got []string
			var cookie uint64
			var verf nfs4.Verifier
			for eof := false; !eof; {
				p, err := c.ReadDir(ctx, root, dir, cookie, verf, plus, minDirPage)
				if err != nil {
					t.Fatal(err)
				}
				var e DirEntry
				for p.Next(&e) {
					got = append(got, string(e.Name))
					cookie = e.Cookie
				}
				verf, eof = p.Verf, p.EOF
				p.Release()
			}
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("%d names, want %d", len(got), len(want))
			}
		}
		remove(want...)
		long := strings.Repeat("x", 1000)
		lnk, _, err := c.Symlink(ctx, root, dir, "lnk", long, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := c.ReadLink(ctx, root, lnk); text != long {
			t.Errorf("readlink: %q %v", text, err)
		}
		if _, _, err := c.Mknod(ctx, root, dir, "fifo", nfs4.TypeFifo, nfs4.SpecData{}, mode); err != nil {
			t.Errorf("fifo: %v", err)
		}
		if err := c.Rename(ctx, root, dir, "lnk", dir, "lnk2"); err != nil {
			t.Errorf("rename: %v", err)
		}
		remove("lnk2", "fifo")
	})

	t.Run("exclusive", func(t *testing.T) {
		q := OpenRequest{Dir: dir, Name: "x", Write: true, Create: true, Exclusive: true,
			Attrs: &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: 0o640}}
		f, _, attrs, err := c.Open(ctx, root, q)
		if err != nil || attrs.Mode != 0o640 {
			t.Fatalf("%v %o", err, attrs.Mode)
		}
		now := time.Now().Unix()
		if d := now - attrs.TimeModify.Sec; d < -3600*24 || d > 3600*24 {
			t.Errorf("modified at %d, now is %d", attrs.TimeModify.Sec, now)
		}
		if _, _, _, err := c.Open(ctx, root, q); !errors.Is(err, nfs4.ErrExist) {
			t.Errorf("again: %v", err)
		}
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		remove("x")
	})

	t.Run("shares", func(t *testing.T) {
		f := open(c, "s", true)
		write(t, f, 0, []byte("shared"))
		r, _, _, err := c.Open(ctx, root, OpenRequest{FH: f.FH(), Read: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		expect(t, r, 0, []byte("shared"))
		if err := r.Close(ctx); err != nil {
			t.Error(err)
		}
		remove("s")
	})

	t.Run("recall", func(t *testing.T) {
		other := connect()
		f := open(c, "d", true)
		write(t, f, 0, []byte("one"))
		held := c.Stats().Delegations
		g := open(other, "d", false)
		expect(t, g, 0, []byte("one"))
		write(t, g, 0, []byte("two"))
		expect(t, f, 0, []byte("two"))
		t.Logf("%d delegations before, %d recalled", held, c.Stats().Recalls)
		if held > 0 && c.Stats().Recalls == 0 {
			t.Error("nothing recalled")
		}
		if err := g.Close(ctx); err != nil {
			t.Error(err)
		}
		if err := other.Close(ctx); err != nil {
			t.Errorf("close of the other client: %v", err)
		}
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		remove("d")
	})

	t.Run("parallel", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				name := fmt.Sprint("p", i)
				f := open(c, name, true)
				for j := range 10 {
					data := pattern(uint64(i*100+j), 100_000)
					write(t, f, int64(j)*100_000, data)
					expect(t, f, int64(j)*100_000, data)
				}
				if err := f.Close(ctx); err != nil {
					t.Error(err)
				}
				remove(name)
			})
		}
		wg.Wait()
	})

	t.Run("openclose", func(t *testing.T) {
		// Opens and closes of the same files overtake each other. If one were
		// forgotten, the server would not let go of the client id in the end.
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				for j := range 40 {
					q := OpenRequest{Dir: dir, Name: fmt.Sprint("o", (i+j)%3), Create: true, Attrs: mode}
					q.Read, q.Write = j%3 != 0, j%3 != 1
					f, _, _, err := c.Open(ctx, root, q)
					if err != nil {
						t.Errorf("open: %v", err)
						return
					}
					if err := f.Close(ctx); err != nil {
						t.Errorf("close: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if n := c.Stats().OpenFiles; n != 0 {
			t.Errorf("%d files open", n)
		}
		remove("o0", "o1", "o2")
	})

	t.Run("cut", func(t *testing.T) {
		f := open(c, "c", true)
		for j := range 10 {
			data := pattern(uint64(j), 300_000)
			var wg sync.WaitGroup
			wg.Go(func() { write(t, f, int64(j)*300_000, data) })
			wg.Go(func() {
				mu.Lock()
				last := conns[len(conns)-1]
				mu.Unlock()
				last.Close()
			})
			wg.Wait()
			expect(t, f, int64(j)*300_000, data)
		}
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		remove("c")
	})

	t.Run("restart", func(t *testing.T) {
		cmd := os.Getenv(restartVar)
		if cmd == "" {
			t.Skipf("%s is not set: server not restarted", restartVar)
		}
		f := open(c, "r", true)
		data := pattern(42, 2<<20)
		write(t, f, 0, data)
		if out, err := exec.Command("sh", "-c", cmd).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		start := time.Now()
		write(t, f, 100, data[:10])
		copy(data[100:], data[:10])
		t.Logf("back after %v", time.Since(start))
		if err := f.Sync(ctx); err != nil {
			t.Fatal(err)
		}
		expect(t, f, 0, data[:1<<20])
		expect(t, f, 1<<20, data[1<<20:])
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
		remove("r")
		t.Logf("%+v", c.Stats())
	})
}
