package nfsclient

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// rig is a server in the process and what connects to it.
type rig struct {
	t   testing.TB
	srv *nfstest.Server
	// unclean says that the server cannot be left in good order.
	unclean bool

	mu    sync.Mutex
	conns []*nfstest.LocalConn
}

func newRig(t testing.TB, so nfstest.Options) *rig {
	t.Helper()
	r := &rig{t: t, srv: nfstest.NewServer(so)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := r.srv.WaitClean(ctx); err != nil && !r.unclean {
			t.Errorf("left at the server: %v\n%s", err, r.events(0))
		}
		r.srv.Close()
	})
	return r
}

func (g *rig) dial(ctx context.Context, back ulb.Handler) (Transport, error) {
	c, err := g.srv.Dial(ctx, back)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.conns = append(g.conns, c)
	g.mu.Unlock()
	return c, nil
}

// lastConn is the newest connection.
func (g *rig) lastConn() *nfstest.LocalConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conns[len(g.conns)-1]
}

// client returns a client that is closed, and checked for leaks, at the end of
// the test.
func (g *rig) client(edit ...func(*Options)) *Client {
	g.t.Helper()
	o := Options{Dial: g.dial, Server: "rig", HostName: "host", Log: testLog{g.t}.logger()}
	for _, e := range edit {
		e(&o)
	}
	c, err := New(g.t.Context(), o)
	if err != nil {
		g.t.Fatalf("New: %v", err)
	}
	g.t.Cleanup(func() { g.close(c) })
	return c
}

// close closes a client and looks for what it has left behind.
func (g *rig) close(c *Client) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if c.ctx.Err() != nil {
		return // closed by the test
	}
	if err := c.Close(ctx); err != nil {
		g.t.Errorf("Close: %v", err)
	}
	g.checkClean(c)
}

func (g *rig) checkClean(c *Client) {
	g.t.Helper()
	if n := c.live.Load(); n != 0 {
		g.t.Errorf("%d requests left", n)
	}
	if s := c.Stats(); s.OpenFiles != 0 || s.Delegations != 0 || s.Uncommitted != 0 {
		g.t.Errorf("state left: %+v", s)
	}
	if n := len(c.state.nodes); n != 0 {
		g.t.Errorf("%d nodes left", n)
	}
	for i, conn := range g.conns {
		if n := conn.Pool().InUse(); n != 0 {
			g.t.Errorf("connection %d: %d buffers left", i, n)
		}
	}
}

// testLog writes a client's log to the test's.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", bytes.TrimSpace(p))
	return len(p), nil
}

func (l testLog) logger() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(l)
	log.SetLevel(logrus.DebugLevel)
	log.SetFormatter(&logrus.TextFormatter{DisableTimestamp: true, DisableColors: true})
	return log
}

var root = Cred{}

// create makes a file and fails the test if it cannot.
func create(t testing.TB, c *Client, name string) *File {
	t.Helper()
	dir, _ := c.Root()
	f, _, _, err := c.Open(t.Context(), root, OpenRequest{
		Dir: dir, Name: name, Read: true, Write: true, Create: true,
		Attrs: &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: 0o644},
	})
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return f
}

// pattern returns n bytes that differ from place to place and from seed to seed.
func pattern(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16)})
	_, _ = r.Read(b)
	return b
}

// write writes all of data.
func write(t testing.TB, f *File, off int64, data []byte) {
	t.Helper()
	if n, err := f.Write(t.Context(), off, data); err != nil || n != len(data) {
		t.Fatalf("write of %d at %d: %d, %v", len(data), off, n, err)
	}
}

// expect reads and compares.
func expect(t testing.TB, f *File, off int64, want []byte) {
	t.Helper()
	buf, n, _, err := f.Read(t.Context(), off, len(want))
	if err != nil {
		t.Fatalf("read of %d at %d: %v", len(want), off, err)
	}
	defer buf.Release()
	if !bytes.Equal(buf.Data[:n], want) {
		t.Fatalf("read of %d at %d: %d bytes, not those that were written", len(want), off, n)
	}
}

// events returns what the server has seen since n, for messages.
func (g *rig) events(n uint64) string {
	var b bytes.Buffer
	for _, e := range g.srv.Events(n) {
		fmt.Fprintln(&b, e.String())
	}
	return b.String()
}
