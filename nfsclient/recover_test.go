package nfsclient

import (
	"context"
	"errors"
	"fmt"
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
				g := newRig(t, nfstest.Options{Delegations: nfstest.DelegateNever}) // so that every CLOSE is sent
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
// A WRITE that nobody waits for any more may still be carried out late: one to the
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

// What SEQUENCE can fail with, and that the request is carried out once all the
