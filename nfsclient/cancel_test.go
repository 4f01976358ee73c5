package nfsclient

import (
	"context"
	"errors"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// answers, and are free afterwards.
func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f := create(t, c, "f")
		write(t, f, 0, pattern(1, 100))
		release := make(chan struct{})
		remove := g.srv.Hook(func(ctx context.Context, op *nfstest.Op) nfstest.Verdict {
			if op.Args.Op() == nfs4.OpRead {
				<-release
			}
			return nfstest.Verdict{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, _, _, err := f.Read(ctx, 0, 100)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		if n := g.lastConn().Pool().InUse(); n != 2 { // the ledger's, and the sink
			t.Errorf("%d buffers in use", n)
		}
		c.mu.Lock()
		busy := c.sess.table.busy
		c.mu.Unlock()
		if busy != 1 {
			t.Errorf("%d slots busy", busy)
		}
		remove()
		close(release)
		synctest.Wait()
		c.mu.Lock()
		busy = c.sess.table.busy
		c.mu.Unlock()
		if n := g.lastConn().Pool().InUse(); n != 1 || busy != 0 {
			t.Errorf("%d buffers in use, %d slots busy after the reply", n, busy)
		}
		expect(t, f, 0, pattern(1, 100))
	})
}

// An OPEN whose caller has gone away is closed again by the client.
func TestCancelledOpenIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Delegations: nfstest.DelegateNever})
		c := g.client()
		dir, _ := c.Root()
		release := make(chan struct{})
		g.srv.Hook(func(ctx context.Context, op *nfstest.Op) nfstest.Verdict {
			if op.Args.Op() == nfs4.OpOpen {
				<-release
			}
			return nfstest.Verdict{}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, _, err := c.Open(ctx, root, OpenRequest{Dir: dir, Name: "f", Write: true, Create: true})
		if Errno(err) != syscall.ETIMEDOUT {
			t.Errorf("open: %v", err)
		}
		close(release)
		synctest.Wait()
		if u := g.srv.Usage(); u.Opens != 0 || g.srv.Count(nfs4.OpClose) != 1 {
			t.Errorf("left open: %v", u)
		}
	})
}

// same place waits for it, one to another place does not.
func TestAbandonedWriteKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f := create(t, c, "f")
		release := make(chan struct{})
		var writes atomic.Int32
		remove := g.srv.Hook(func(ctx context.Context, op *nfstest.Op) nfstest.Verdict {
			if op.Args.Op() == nfs4.OpWrite && writes.Add(1) == 1 {
				<-release
			}
			return nfstest.Verdict{}
		})
		defer remove()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Write(ctx, 0, []byte("old")); err == nil {
			t.Fatal("write did not time out")
		}
		write(t, f, 100, []byte("elsewhere"))
		done := make(chan struct{})
		go func() {
			defer close(done)
			write(t, f, 1, []byte("new"))
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("written while an older WRITE was in flight")
		default:
		}
		close(release)
		<-done
		expect(t, f, 0, []byte("onew"))
	})
}

// soft: an operation fails when the server has not answered for long enough.
func TestSoft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client(func(o *Options) { o.Soft, o.Timeout, o.Retrans = true, 10*time.Second, 2 })
		dir, _ := c.Root()
		if err := g.srv.Stop(); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err := c.GetAttr(t.Context(), root, dir)
		if Errno(err) != syscall.ETIMEDOUT || time.Since(start) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if err := g.srv.Start(nfstest.RestartOptions{KeepState: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetAttr(t.Context(), root, dir); err != nil {
			t.Error(err)
		}
	})
}

// Close of a client whose server is gone ends within its context.
func TestCloseWithoutServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f := create(t, c, "f")
		write(t, f, 0, []byte("data"))
		if err := g.srv.Stop(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		g.unclean = true
		if err := c.Close(ctx); err == nil {
			t.Error("closed without error, with data that is lost")
		}
		if d := time.Since(start); d > 6*time.Second {
			t.Errorf("took %v", d)
		}
		if n := c.live.Load(); n != 0 {
			t.Errorf("%d requests left", n)
		}
		for i, conn := range g.conns {
			if n := conn.Pool().InUse(); n != 0 {
				t.Errorf("connection %d: %d buffers left", i, n)
			}
		}
	})
}
