package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// The connection is cut after an operation was carried out and before it was
// answered: the request is sent again in its slot, and the server answers from
// its reply cache. Nothing is done twice and nobody notices.
func TestConnectionCut(t *testing.T) {
	for _, op := range []nfs4.OpNum{
		nfs4.OpCreate, nfs4.OpOpen, nfs4.OpWrite, nfs4.OpRead, nfs4.OpCommit, nfs4.OpClose, nfs4.OpRemove,
		nfs4.OpRename, nfs4.OpLink, nfs4.OpSetAttr, nfs4.OpReadDir, nfs4.OpLookup, nfs4.OpGetAttr,
	} {
		t.Run(op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{})
				c := g.client()
				before := g.srv.LastEvent()
				g.srv.CutNext(op, 1)
				everything(t, c)
				if n := c.Stats().Resends; n == 0 {
					t.Errorf("nothing was sent again\n%s", g.events(before))
				}
			})
		})
	}
}

// everything does one of each, and checks the outcome.
func everything(t *testing.T, c *Client) {
	t.Helper()
	ctx := t.Context()
	dir, _ := c.Root()
	sub, _, err := c.Mkdir(ctx, root, dir, "sub", nil)
	if err != nil {
		t.Fatalf("mkdir: %v", err)
	}
	f := create(t, c, "f")
	data := pattern(7, 200_000)
	write(t, f, 0, data)
	expect(t, f, 0, data)
	if err := f.Sync(ctx); err != nil {
		t.Fatalf("sync: %v", err)
	}
	if err := f.Close(ctx); err != nil {
		t.Fatalf("close: %v", err)
	}
	if _, err := c.Link(ctx, root, f.FH(), sub, "l"); err != nil {
		t.Fatalf("link: %v", err)
	}
	if err := c.Rename(ctx, root, dir, "f", sub, "m"); err != nil {
		t.Fatalf("rename: %v", err)
	}
	if _, err := c.SetAttr(ctx, root, f.FH(), nil, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: 0o600}); err != nil {
		t.Fatalf("setattr: %v", err)
	}
	p, err := c.ReadDir(ctx, root, sub, 0, nfs4.Verifier{}, true, 0)
	if err != nil {
		t.Fatalf("readdir: %v", err)
	}
	n := 0
	for e := (DirEntry{}); p.Next(&e); n++ {
	}
	p.Release()
	if n != 2 {
		t.Errorf("%d names, want 2", n)
	}
	if _, _, err := c.Lookup(ctx, root, sub, "m"); err != nil {
		t.Fatalf("lookup: %v", err)
	}
	if a, err := c.GetAttr(ctx, root, f.FH()); err != nil || a.NumLinks != 2 {
		t.Fatalf("getattr: %v", err)
	}
	for _, name := range []string{"l", "m"} {
		if err := c.Remove(ctx, root, sub, name); err != nil {
			t.Fatalf("remove %s: %v", name, err)
		}
	}
}

// The server restarts without its state: opens are reclaimed, unstable data is
// written again, and the file reads as written.
func TestServerRestart(t *testing.T) {
	for _, grace := range []bool{true, false} {
		t.Run(fmt.Sprintf("grace %v", grace), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
				c := g.client()
				f := create(t, c, "f")
				ro := create(t, c, "ro")
				write(t, ro, 0, []byte("stable"))
				if err := ro.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				data := pattern(3, 3<<20)
				write(t, f, 0, data)
				write(t, f, 1000, data[:5000])
				copy(data[1000:], data[:5000])
				if err := g.srv.Restart(nfstest.RestartOptions{NoGrace: !grace}); err != nil {
					t.Fatal(err)
				}
				// Goes to the new instance, before anything was written again.
				write(t, f, 2000, data[1<<20:1<<20+100])
				copy(data[2000:], data[1<<20:1<<20+100])
				if err := f.Sync(t.Context()); err != nil {
					t.Fatalf("sync: %v", err)
				}
				expect(t, f, 0, data)
				expect(t, ro, 0, []byte("stable"))
				s := c.Stats()
				if s.Rewritten == 0 || s.Uncommitted != 0 || s.SessionsLost == 0 {
					t.Errorf("%+v", s)
				}
				if err := g.srv.Restart(nfstest.RestartOptions{NoGrace: !grace}); err != nil {
					t.Fatal(err)
				}
				expect(t, f, 0, data)
				for _, f := range []*File{f, ro} {
					if err := f.Close(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}

// What was cut off does not come back when lost data is written again.
func TestTruncateAndRestart(t *testing.T) {
	cut := map[string]func(t *testing.T, c *Client, f *File){
		"setattr": func(t *testing.T, c *Client, f *File) {
			set := &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSize), Size: 10}
			if _, err := c.SetAttr(t.Context(), root, f.FH(), f, set); err != nil {
				t.Fatal(err)
			}
		},
		"open": func(t *testing.T, c *Client, f *File) {
			dir, _ := c.Root()
			g, _, attrs, err := c.Open(t.Context(), root, OpenRequest{Dir: dir, Name: "f", Write: true, Create: true, Truncate: true})
			if err != nil || attrs.Size != 0 {
				t.Fatal(err)
			}
			write(t, g, 0, pattern(1, 10))
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"open by handle": func(t *testing.T, c *Client, f *File) {
			g, _, attrs, err := c.Open(t.Context(), root, OpenRequest{FH: f.FH(), Write: true, Truncate: true})
			if err != nil || attrs.Size != 0 {
				t.Fatal(err)
			}
			write(t, f, 0, pattern(1, 10))
			if err := g.Close(t.Context()); err != nil {
				t.Error(err)
			}
		},
	}
	for name, cut := range cut {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
				c := g.client()
				f := create(t, c, "f")
				write(t, f, 0, pattern(1, 100_000))
				cut(t, c, f)
				if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := f.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				expect(t, f, 0, pattern(1, 10))
				if a, err := c.GetAttr(t.Context(), root, f.FH()); err != nil || a.Size != 10 {
					t.Errorf("size %d, %v", a.Size, err)
				}
				if err := f.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A request that must not be done twice, and whose session is gone with the
// outcome: it fails, while one that can be repeated is.
func TestUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
		c := g.client()
		dir, _ := c.Root()
		g.srv.MuteNext(nfs4.OpCreate, 1)
		g.srv.MuteNext(nfs4.OpLookup, 1)
		errs := make(chan error, 1)
		found := make(chan error, 1)
		go func() {
			_, _, err := c.Mkdir(t.Context(), root, dir, "d", nil)
			errs <- err
		}()
		synctest.Wait()
		go func() {
			_, _, err := c.Lookup(t.Context(), root, dir, "d")
			found <- err
		}()
		synctest.Wait()
		if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-errs; !errors.Is(err, ErrUnknownOutcome) || Errno(err) != syscall.EIO {
			t.Errorf("mkdir: %v", err)
		}
		if err := <-found; err != nil {
			t.Errorf("lookup: %v", err)
		}
	})
}

// A cancelled operation returns at once; its slot and buffer stay taken until the server
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

// A WRITE that nobody waits for any more may still be carried out late: one to the
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

// The lease is renewed while nothing else happens.
func TestLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: 10 * time.Second})
		c := g.client()
		f := create(t, c, "f")
		write(t, f, 0, []byte("data"))
		before := g.srv.LastEvent()
		time.Sleep(5 * time.Minute)
		n := len(g.srv.Events(before))
		if n < 30 || n > 130 {
			t.Errorf("%d renewals in 5 minutes with a lease of 10 s", n)
		}
		expect(t, f, 0, []byte("data"))
		if s := c.Stats(); s.SessionsLost != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// A server that stops answering: the connection is given up, and what was
// outstanding goes over the next one.
func TestSilentServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: time.Hour})
		c := g.client(func(o *Options) { o.Timeout = 20 * time.Second })
		dir, _ := c.Root()
		g.srv.MuteNext(nfs4.OpLookup, 1)
		start := time.Now()
		// The server goes on answering NULL, so that silence is only that of
		// one request: that is waited for.
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		_, _, err := c.Lookup(ctx, root, dir, "x")
		if !errors.Is(err, context.DeadlineExceeded) || c.Stats().Reconnects != 0 {
			t.Errorf("%v after %v, %d reconnects", err, time.Since(start), c.Stats().Reconnects)
		}
	})
}

// Lost leases: the server forgets the client, or revokes what it has.
func TestExpiredLease(t *testing.T) {
	for _, policy := range []nfstest.ExpiryPolicy{nfstest.ExpireClient, nfstest.ExpireState} {
		t.Run(fmt.Sprint(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{Lease: 10 * time.Second, Expiry: policy})
				c := g.client()
				f := create(t, c, "f")
				data := pattern(5, 100_000)
				write(t, f, 0, data)
				// Cut off for longer than the lease.
				if err := g.srv.Stop(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				if err := g.srv.Start(nfstest.RestartOptions{KeepState: true}); err != nil {
					t.Fatal(err)
				}
				expect(t, f, 0, data)
				write(t, f, 10, []byte("more"))
				copy(data[10:], "more")
				if err := f.Sync(t.Context()); err != nil {
					t.Fatal(err)
				}
				expect(t, f, 0, data)
				time.Sleep(time.Minute)
				if u := g.srv.Usage(); u.Revoked != 0 {
					t.Errorf("not freed: %v", u)
				}
				if err := f.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// An open that cannot be had again fails with EIO, and closes all the same.
func TestStateLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: 10 * time.Second})
		c := g.client()
		f := create(t, c, "f")
		write(t, f, 0, []byte("data"))
		if err := f.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.srv.Hook(func(ctx context.Context, op *nfstest.Op) nfstest.Verdict {
			if o, ok := op.Args.(*nfs4.OpenArgs); ok && o.Claim != nfs4.ClaimNull {
				return nfstest.Verdict{Status: nfs4.ErrAccess}
			}
			return nfstest.Verdict{}
		})
		if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
			t.Fatal(err)
		}
		_, _, _, err := f.Read(t.Context(), 0, 4)
		if !errors.Is(err, ErrStateLost) || Errno(err) != syscall.EIO {
			t.Errorf("read: %v", err)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}

// The server has a transient reason not to do something: it is waited out.
func TestDelayIsWaitedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		dir, _ := c.Root()
		g.srv.FailNext(nfs4.OpCreate, nfs4.ErrDelay, 4)
		start := time.Now()
		if _, _, err := c.Mkdir(t.Context(), root, dir, "d", nil); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d < 700*time.Millisecond || d > time.Second {
			t.Errorf("waited %v", d)
		}
		// Behind the change, it must not lead to a second one.
		g.srv.FailNext(nfs4.OpGetAttr, nfs4.ErrDelay, 1)
		if _, attrs, err := c.Mkdir(t.Context(), root, dir, "e", nil); err != nil || attrs.Type != nfs4.TypeDir {
			t.Fatal(err)
		}
		g.srv.FailNext(nfs4.OpSequence, nfs4.ErrDelay, 3)
		if _, _, err := c.Lookup(t.Context(), root, dir, "e"); err != nil {
			t.Fatal(err)
		}
		g.srv.FailNext(nfs4.OpLookup, nfs4.ErrDelay, 1<<30)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, _, err := c.Lookup(ctx, root, dir, "e"); Errno(err) != syscall.ETIMEDOUT {
			t.Errorf("lookup: %v", err)
		}
	})
}

// What SEQUENCE can fail with, and that the request is carried out once all the
// same.
func TestSequenceErrors(t *testing.T) {
	for _, status := range []nfs4.Status{
		nfs4.ErrBadSession, nfs4.ErrDeadSession, nfs4.ErrSeqMisordered, nfs4.ErrBadSlot, nfs4.ErrBadHighSlot,
		nfs4.ErrConnNotBoundToSession, nfs4.ErrRepTooBigToCache,
	} {
		t.Run(status.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{})
				c := g.client()
				dir, _ := c.Root()
				g.srv.FailNext(nfs4.OpSequence, status, 1)
				if _, _, err := c.Mkdir(t.Context(), root, dir, "d", nil); err != nil {
					t.Fatal(err)
				}
				if _, _, err := c.Lookup(t.Context(), root, dir, "d"); err != nil {
					t.Fatal(err)
				}
				if n := g.srv.Count(nfs4.OpCreate); n != 1 {
					t.Errorf("%d CREATEs", n)
				}
			})
		})
	}
	t.Run("fails", func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		dir, _ := c.Root()
		g.srv.FailNext(nfs4.OpSequence, nfs4.ErrReqTooBig, 1)
		if _, _, err := c.Mkdir(t.Context(), root, dir, "d", nil); !errors.Is(err, nfs4.ErrReqTooBig) {
			t.Errorf("mkdir: %v", err)
		}
	})
}

// A reply that is garbage costs the connection, and one operation.
func TestGarbledReply(t *testing.T) {
	for _, part := range []string{"all", "results", "count", "xid"} {
		t.Run(part, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{})
				c := g.client()
				dir, _ := c.Root()
				var lookups atomic.Int32
				g.srv.Hook(func(ctx context.Context, op *nfstest.Op) nfstest.Verdict {
					if op.Args.Op() != nfs4.OpLookup || lookups.Add(1) > 1 {
						return nfstest.Verdict{}
					}
					return nfstest.Verdict{Garble: func(reply []byte) []byte {
						switch part {
						case "all":
							return bytes.Repeat([]byte{0xff}, len(reply))
						case "results":
							return reply[:len(reply)-8]
						case "count":
							reply[24+8+3] += 3
						case "xid":
							reply[0] ^= 1
						}
						return reply
					}}
				})
				_, _, err := c.Lookup(t.Context(), root, dir, "x")
				if part != "xid" && !errors.Is(err, ErrProtocol) {
					t.Errorf("lookup: %v", err)
				}
				for range 100 {
					if _, err := c.GetAttr(t.Context(), root, dir); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				c.mu.Lock()
				defer c.mu.Unlock()
				if b := c.sess.table.busy; b != 0 {
					t.Errorf("%d slots left busy", b)
				}
			})
		})
	}
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
