package nfsclient

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sirupsen/logrus"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// warnings collects what a client warns of.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *warnings) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *warnings) count(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), what)
}

// option makes a client warn here.
func (w *warnings) option(o *Options) {
	l := logrus.New()
	l.SetOutput(w)
	l.SetLevel(logrus.WarnLevel)
	o.Log = l
}

const lostText = "locks of a file lost at the server"

// After a restart of the server in which it has kept nothing, locks are had
// again in its grace period, before anybody else can have them.
func TestLocksReclaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
		var w warnings
		a, b := g.client(w.option), g.client()
		fa := create(t, a, "f")
		ga := create(t, a, "g")
		fb := reopen(t, b, "f")
		lock(t, fa, alice, 0, 99, true, nil)
		lock(t, fa, alice, 40, 49, false, nil)
		lock(t, fa, carol, 1<<33, MaxOffset, false, nil)
		lock(t, ga, bob, 7, 7, true, nil)
		lock(t, fb, bob, 200, 299, true, nil)
		write(t, fa, 0, []byte("under a lock"))
		for range 2 {
			if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
				t.Fatal(err)
			}
			// Waits for the end of the grace period.
			lock(t, fb, bob, 30, 30, false, nfs4.ErrDenied)
			lock(t, fb, bob, 40, 49, false, nil)
			unlock(t, fb, bob, 40, 49)
			lock(t, fb, bob, 1<<62, 1<<62, true, nfs4.ErrDenied)
			lock(t, fa, alice, 250, 250, false, nfs4.ErrDenied)
			lock(t, ga, alice, 7, 7, false, nfs4.ErrDenied)
			expect(t, fa, 0, []byte("under a lock"))
		}
		unlock(t, fa, alice, 0, 19)
		lock(t, fb, bob, 0, 19, true, nil)
		lock(t, fb, bob, 0, 20, true, nfs4.ErrDenied)
		closes(t, g, fa, ga, fb)
		if w.count("lock") > 0 {
			t.Errorf("warnings:\n%s", w.text.String())
		}
	})
}

// Locks that cannot be had again are lost: whoever uses the file they were made
// through gets an error, until he unlocks or closes it.
func TestLocksLost(t *testing.T) {
	type env struct {
		g *rig
		f *File
	}
	restart := func(t *testing.T, e env, o nfstest.RestartOptions) {
		if err := e.g.srv.Restart(o); err != nil {
			t.Fatal(err)
		}
	}
	for name, k := range map[string]struct {
		o    nfstest.Options
		lose func(t *testing.T, e env)
	}{
		"no grace": {nfstest.Options{}, func(t *testing.T, e env) {
			restart(t, e, nfstest.RestartOptions{NoGrace: true})
		}},
		"refused": {nfstest.Options{}, func(t *testing.T, e env) {
			e.g.srv.FailNext(nfs4.OpLock, nfs4.ErrReclaimConflict, 1)
			restart(t, e, nfstest.RestartOptions{})
		}},
		"expired": {nfstest.Options{Expiry: nfstest.ExpireClient}, func(t *testing.T, e env) {
			e.g.srv.ExpireClients()
		}},
		"state expired": {nfstest.Options{Expiry: nfstest.ExpireState}, func(t *testing.T, e env) {
			e.g.srv.ExpireClients()
		}},
		"revoked": {nfstest.Options{}, func(t *testing.T, e env) {
			if n := e.g.srv.RevokeAll(); n == 0 {
				t.Error("nothing revoked")
			}
		}},
	} {
		for _, deleg := range []nfstest.DelegationPolicy{nfstest.DelegateNever, nfstest.DelegateAny} {
			t.Run(fmt.Sprint(name, " delegations ", deleg == nfstest.DelegateAny), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					k.o.Delegations = deleg
					g := newRig(t, k.o)
					var w warnings
					c := g.client(w.option)
					f := create(t, c, "f")
					idle := reopen(t, c, "f") // nothing was locked through this one
					write(t, f, 0, []byte("data"))
					if err := f.Sync(t.Context()); err != nil {
						t.Fatal(err)
					}
					lock(t, f, alice, 0, 9, true, nil)
					k.lose(t, env{g, f})
					expect(t, idle, 0, []byte("data")) // there is a session again
					// The client may learn of it only by a flag of a reply, and
					// looks for what is gone in the background.
					synctest.Wait()
					if _, _, _, err := f.Read(t.Context(), 0, 4); Errno(err) != syscall.EIO || !errors.Is(err, ErrLocksLost) {
						t.Errorf("read: %v", err)
					}
					if _, err := f.Write(t.Context(), 0, []byte("x")); !errors.Is(err, ErrLocksLost) {
						t.Errorf("write: %v", err)
					}
					lock(t, f, alice, 20, 29, false, ErrLocksLost)
					if n := w.count(lostText); n != 1 {
						t.Errorf("%d log entries:\n%s", n, w.text.String())
					}
					lock(t, idle, bob, 0, 9, true, nil)
					unlock(t, idle, bob, 0, 9)
					expect(t, idle, 0, []byte("data"))
					unlock(t, f, alice, 5, 9)
					lock(t, f, alice, 20, 29, false, ErrLocksLost)
					unlock(t, f, alice, 0, 4)
					expect(t, f, 0, []byte("data"))
					lock(t, f, alice, 0, 9, true, nil)
					write(t, f, 0, []byte("more"))
					closes(t, g, f, idle)
				})
			})
		}
	}
}

// Data that was written under a lock which is lost is not written again, since
// somebody else may have had the lock; and it does not keep the client from
// going on.
func TestLocksLostWithData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f, other := create(t, c, "f"), create(t, c, "g")
		lock(t, f, alice, 0, 9, true, nil)
		write(t, f, 0, []byte("mine"))
		write(t, other, 0, []byte("kept"))
		if err := g.srv.Restart(nfstest.RestartOptions{NoGrace: true}); err != nil {
			t.Fatal(err)
		}
		expect(t, other, 0, []byte("kept"))
		if err := f.Sync(t.Context()); !errors.Is(err, ErrLocksLost) {
			t.Errorf("sync: %v", err)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("close after the error was told: %v", err)
		}
		closes(t, g, other)
	})
}

// The same for a file that could not be opened again.
func TestOpenLostWithData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f, other := create(t, c, "f"), create(t, c, "g")
		write(t, f, 0, []byte("mine"))
		write(t, other, 0, []byte("kept"))
		dir, _ := c.Root()
		if err := c.Remove(t.Context(), root, dir, "f"); err != nil {
			t.Fatal(err)
		}
		if err := g.srv.Restart(nfstest.RestartOptions{NoGrace: true}); err != nil {
			t.Fatal(err)
		}
		expect(t, other, 0, []byte("kept"))
		if err := f.Close(t.Context()); err == nil {
			t.Error("data lost without an error")
		}
		closes(t, g, other)
	})
}

// Connections cut under the operations of locking.
func TestLockConnectionCut(t *testing.T) {
	for _, op := range []nfs4.OpNum{nfs4.OpLock, nfs4.OpLockU, nfs4.OpLockT} {
		t.Run(op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{})
				a, b := g.client(), g.client()
				fa := create(t, a, "f")
				fb := reopen(t, b, "f")
				g.srv.CutNext(op, 1)
				lock(t, fa, alice, 0, 9, true, nil)
				if q, err := fb.TestLock(t.Context(), LockRequest{Owner: bob, Last: 9}); err != nil || q == nil {
					t.Errorf("test: %v, %v", q, err)
				}
				unlock(t, fa, alice, 0, 4)
				lock(t, fb, bob, 0, 4, true, nil)
				if a.Stats().Resends+b.Stats().Resends == 0 {
					t.Error("nothing was sent again")
				}
				closes(t, g, fa, fb)
			})
		})
	}
}

// The connection is lost again and again while locks are reclaimed: requests of
// reclaims that were given up are answered later, from the server's cache, and
// must not make the client reclaim once more.
func TestReclaimConnectionCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f := create(t, c, "f")
		lock(t, f, alice, 0, 9, true, nil)
		g.srv.CutNext(nfs4.OpLock, 3)
		if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
			t.Fatal(err)
		}
		write(t, f, 0, []byte("still mine"))
		_ = sleep(t.Context(), 10*time.Minute)
		write(t, f, 0, []byte("still mine"))
		expect(t, f, 0, []byte("still mine"))
		done := 0
		for _, e := range g.srv.Events(0) {
			if e.Has(nfs4.OpReclaimComplete) {
				done++
			}
		}
		if done != 2 {
			t.Errorf("%d RECLAIM_COMPLETE, want 2: at the beginning and after the restart\n%s", done, g.events(0))
		}
		closes(t, g, f)
	})
}

// The server restarts while LOCK and LOCKU are under way: after the reclaim they
// are carried out on what has come of it.
func TestRestartUnderLock(t *testing.T) {
	for _, op := range []nfs4.OpNum{nfs4.OpLock, nfs4.OpLockU} {
		t.Run(op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
				a, b := g.client(), g.client()
				fa := create(t, a, "f")
				fb := reopen(t, b, "f")
				lock(t, fa, alice, 0, 9, true, nil)
				g.srv.MuteNext(op, 1)
				done := make(chan error, 1)
				go func() {
					var err error
					if op == nfs4.OpLock {
						_, err = fa.Lock(t.Context(), LockRequest{Owner: alice, Start: 10, Last: 19, Write: true})
					} else {
						_, _, err = fa.Unlock(t.Context(), alice, 5, 9, false)
					}
					done <- err
				}()
				synctest.Wait()
				if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				lock(t, fb, bob, 4, 4, false, nfs4.ErrDenied)
				if op == nfs4.OpLock {
					lock(t, fb, bob, 19, 19, false, nfs4.ErrDenied)
				} else {
					lock(t, fb, bob, 5, 9, false, nil)
				}
				closes(t, g, fa, fb)
			})
		})
	}
}
