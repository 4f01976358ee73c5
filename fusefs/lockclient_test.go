package fusefs

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// rawClient is a client of the server of a pair, without a mount.
type rawClient struct {
	*nfsclient.Client
	dead atomic.Bool
	conn atomic.Pointer[nfstest.LocalConn]
}

func newRawClient(t *testing.T, s *nfstest.Server) *rawClient {
	t.Helper()
	r := new(rawClient)
	var err error
	r.Client, err = nfsclient.New(t.Context(), nfsclient.Options{Dial: func(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) {
		if r.dead.Load() {
			return nil, errors.New("dead")
		}
		c, err := s.Dial(ctx, back)
		if err != nil {
			return nil, err
		}
		r.conn.Store(c)
		return c, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// die makes the client fall silent for ever.
func (r *rawClient) die() {
	r.dead.Store(true)
	r.conn.Load().Close()
}

// open opens a file in the root.
func (r *rawClient) open(t *testing.T, name string) *nfsclient.File {
	t.Helper()
	dir, _ := r.Root()
	f, _, _, err := r.Open(t.Context(), nfsclient.Cred{}, nfsclient.OpenRequest{Dir: dir, Name: name, Read: true, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// holder is a process that locks a file with flock(1), says so, and writes to it
// when it is told to.
type holder struct {
	t     *testing.T
	in    io.Writer
	lines *bufio.Scanner
}

func newHolder(t *testing.T, path string) *holder {
	t.Helper()
	cmd := exec.Command("sh", "-c", `exec 5<>"$1" && flock 5 && echo locked && read x && { printf data >&5 && echo written || echo failed; } 2>/dev/null; read x`, "sh", path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &holder{t, in, bufio.NewScanner(out)}
}

// says waits for a line.
func (h *holder) says(want string) {
	h.t.Helper()
	if !h.lines.Scan() || !strings.Contains(h.lines.Text(), want) {
		h.t.Fatalf("the process says %q, expected %q", h.lines.Text(), want)
	}
}

func (h *holder) write() {
	h.t.Helper()
	if _, err := io.WriteString(h.in, "\n"); err != nil {
		h.t.Fatal(err)
	}
}

// TestLocksOfMountAndClient: a process on a mount and a client without one get
// into each other's way, across the death of the one and restarts of the
// server.
func TestLocksOfMountAndClient(t *testing.T) {
	p := mountPairOf(t, nfstest.Options{Lease: 3 * time.Second}, Options{AllowOther: true})
	p.sh(t, `: >"$1/f"`)
	me := nfsclient.LockOwner{ID: 1}
	q := nfsclient.LockRequest{Owner: me, Last: nfsclient.MaxOffset, Write: true}
	waiting := func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for p.server.Usage().Waiters == 0 {
			if _, err := p.server.WaitEvent(ctx, p.server.LastEvent(), func(*nfstest.Event) bool { return true }); err != nil {
				t.Fatalf("nobody waits: %v", err)
			}
		}
	}

	dying := newRawClient(t, p.server)
	if _, err := dying.open(t, "f").Lock(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	h := newHolder(t, filepath.Join(p.a, "f"))
	waiting()
	dying.die() // its lease runs out
	h.says("locked")

	raw := newRawClient(t, p.server)
	f := raw.open(t, "f")
	denied := func(when string) {
		t.Helper()
		if _, err := f.Lock(t.Context(), q); !errors.Is(err, nfs4.ErrDenied) {
			t.Fatalf("%s: %v", when, err)
		}
	}
	denied("held by the mount")
	if err := p.server.Restart(nfstest.RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	denied("after a restart")
	if err := p.server.Restart(nfstest.RestartOptions{NoGrace: true}); err != nil {
		t.Fatal(err)
	}
	h.write()
	h.says("failed")
	if _, err := f.Lock(t.Context(), q); err != nil {
		t.Fatalf("after a restart without a grace period: %v", err)
	}
	h2 := newHolder(t, filepath.Join(p.b, "f"))
	waiting()
	if _, _, err := f.Unlock(t.Context(), me, 0, nfsclient.MaxOffset, false); err != nil {
		t.Fatal(err)
	}
	h2.says("locked")
	h2.write()
	h2.says("written")

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := raw.Close(ctx); err != nil {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_ = dying.Close(over) // it cannot be otherwise
}
