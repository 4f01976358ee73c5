package nfsclient

import (
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

var (
	alice = LockOwner{ID: 1}
	bob   = LockOwner{ID: 2}
	carol = LockOwner{ID: 2, Flock: true}
)

// lock locks without waiting and fails the test unless the outcome is want.
func lock(t testing.TB, f *File, o LockOwner, start, last uint64, write bool, want error) {
	t.Helper()
	_, err := f.Lock(t.Context(), LockRequest{Owner: o, Start: start, Last: last, Write: write})
	if !errors.Is(err, want) || want == nil && err != nil {
		t.Fatalf("lock %v from %d to %d, write %v: %v, want %v", o, start, last, write, err, want)
	}
}

func unlock(t testing.TB, f *File, o LockOwner, start, last uint64) {
	t.Helper()
	if _, _, err := f.Unlock(t.Context(), o, start, last, false); err != nil {
		t.Fatalf("unlock %v from %d to %d: %v", o, start, last, err)
	}
}

// reopen opens a file that another client has made.
func reopen(t testing.TB, c *Client, name string) *File {
	t.Helper()
	dir, _ := c.Root()
	f, _, _, err := c.Open(t.Context(), root, OpenRequest{Dir: dir, Name: name, Read: true, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// closes closes files and finds no lock left at the server.
func closes(t testing.TB, g *rig, files ...*File) {
	t.Helper()
	for _, f := range files {
		if err := f.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if u := g.srv.Usage(); u.Locks != 0 || u.LockStates != 0 {
		t.Errorf("locks left at the server: %v", u)
	}
}

func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		a, b := g.client(), g.client()
		fa := create(t, a, "f")
		fb := reopen(t, b, "f")
		denied := nfs4.ErrDenied
		lock(t, fa, alice, 0, 99, true, nil)
		lock(t, fb, alice, 50, 50, false, denied) // the same number at another client
		lock(t, fa, bob, 50, 50, false, denied)
		lock(t, fa, carol, 99, MaxOffset, false, denied)
		lock(t, fa, alice, 20, 29, false, nil) // downgrade in the middle
		lock(t, fb, bob, 20, 29, false, nil)
		lock(t, fa, alice, 20, 20, true, denied) // upgrade against a reader
		lock(t, fb, bob, 19, 20, false, denied)
		if s := a.Stats(); s.Locks != 3 {
			t.Errorf("%d ranges, want 3", s.Locks)
		}
		if q, err := fb.TestLock(t.Context(), LockRequest{Owner: bob, Start: 25, Last: 40, Write: true}); err != nil || q == nil || q.Mine {
			t.Errorf("test: %+v, %v", q, err)
		}
		q, err := fa.TestLock(t.Context(), LockRequest{Owner: bob, Start: 90, Last: MaxOffset})
		if err != nil || q == nil || !q.Mine || q.Owner != alice || !q.Write || q.Start != 30 || q.Last != 99 {
			t.Errorf("test: %+v, %v", q, err)
		}
		if q, err := fa.TestLock(t.Context(), LockRequest{Owner: alice, Start: 50, Last: 60, Write: true}); q != nil || err != nil {
			t.Errorf("test of what is one's own: %+v, %v", q, err)
		}
		unlock(t, fb, bob, 0, MaxOffset)
		lock(t, fa, alice, 20, 20, true, nil)
		unlock(t, fa, alice, 50, 59)
		lock(t, fb, bob, 50, 59, true, nil)
		lock(t, fb, bob, 60, 60, true, denied)
		lock(t, fb, carol, 1<<40, MaxOffset, true, nil)
		lock(t, fa, alice, 1<<62, 1<<62, false, denied)
		// What is closed is unlocked, and the stateids are gone with the last
		// range.
		fa2 := reopen(t, a, "f")
		lock(t, fa2, bob, 100, 100, true, nil)
		closes := func(f *File) {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		closes(fa)
		lock(t, fb, bob, 0, 99, true, nil)
		lock(t, fb, bob, 100, 100, true, denied)
		unlock(t, fa2, bob, 0, MaxOffset)
		if u := g.srv.Usage(); u.LockStates != 2 {
			t.Errorf("%v", u)
		}
		closes(fa2)
		closes(fb)
		if u := g.srv.Usage(); u.Locks != 0 || u.LockStates != 0 {
			t.Errorf("%v", u)
		}
	})
}

func TestLockArguments(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	f := create(t, c, "f")
	dir, _ := c.Root()
	ro, _, _, err := c.Open(t.Context(), root, OpenRequest{Dir: dir, Name: "f", Read: true})
	if err != nil {
		t.Fatal(err)
	}
	lock(t, ro, alice, 0, 0, true, syscall.EBADF)
	lock(t, ro, alice, 0, 0, false, nil)
	lock(t, f, alice, 5, 4, true, nfs4.ErrInval)
	lock(t, f, alice, 0, MaxOffset+1, true, nfs4.ErrInval)
	unlock(t, f, bob, 0, MaxOffset) // has nothing
	closes(t, g, f, ro)
	if _, err := f.Lock(t.Context(), LockRequest{}); err == nil {
		t.Error("a closed file was locked")
	}
}

// Reading and writing is done with the stateid of the locks; with that of a
// delegation if there is one, and with the open's if several owners share the
// file.
func TestLockStateIDs(t *testing.T) {
	for _, deleg := range []bool{false, true} {
		t.Run(fmt.Sprint("delegation ", deleg), func(t *testing.T) {
			policy := nfstest.DelegateNever
			if deleg {
				policy = nfstest.DelegateAny
			}
			g := newRig(t, nfstest.Options{Delegations: policy})
			c := g.client()
			f := create(t, c, "f")
			var used atomic.Value
			g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				switch a := op.Args.(type) {
				case *nfs4.ReadArgs:
					used.Store(a.StateID)
				case *nfs4.WriteArgs:
					used.Store(a.StateID)
				}
				return nfstest.Verdict{}
			})
			open, err := f.open.stateID()
			if err != nil {
				t.Fatal(err)
			}
			io := func() nfs4.StateID {
				write(t, f, 0, []byte("x"))
				w := used.Load()
				expect(t, f, 0, []byte("x"))
				if used.Load() != w {
					t.Errorf("written with %v, read with %v", w, used.Load())
				}
				return w.(nfs4.StateID)
			}
			lockSID := func(o LockOwner) nfs4.StateID {
				sid := f.open.node.lockers[o].states[f.open].sid
				sid.Seq = 0
				return sid
			}
			want := open
			if deleg {
				want = nfs4.StateID{Other: f.open.node.deleg.sid.Other}
			}
			if sid := io(); sid != want {
				t.Errorf("without locks: %v, want %v", sid, want)
			}
			lock(t, f, alice, 0, 9, true, nil)
			first := lockSID(alice)
			if !deleg {
				want = first
			}
			if sid := io(); sid != want {
				t.Errorf("with a lock: %v, want %v", sid, want)
			}
			lock(t, f, bob, 10, 19, true, nil)
			if !deleg {
				want = open
			}
			if sid := io(); sid != want {
				t.Errorf("with locks of two owners: %v, want %v", sid, want)
			}
			lock(t, f, alice, 30, 39, true, nil)
			if lockSID(alice) != first {
				t.Error("two stateids for one owner")
			}
			closes(t, g, f)
		})
	}
}

// Whoever waits is told by the server, or finds out by asking.
func TestLockWait(t *testing.T) {
	for _, told := range []bool{true, false} {
		t.Run(fmt.Sprint("told ", told), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{NoNotifyLock: !told, Lease: time.Hour})
				a, b := g.client(), g.client()
				fa := create(t, a, "f")
				fb := reopen(t, b, "f")
				lock(t, fa, alice, 0, 9, true, nil)
				done := make(chan error, 1)
				began := time.Now()
				go func() {
					_, err := fb.Lock(t.Context(), LockRequest{Owner: bob, Start: 5, Last: MaxOffset, Write: true, Wait: true})
					done <- err
				}()
				synctest.Wait()
				if s := b.Stats(); s.LockWaiters != 1 || s.Outstanding != 0 {
					t.Errorf("waiting: %+v", s)
				}
				_ = sleep(t.Context(), 4*time.Second)
				before := g.srv.Count(nfs4.OpLock)
				released := time.Now()
				unlock(t, fa, alice, 0, 9)
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				took := time.Since(released)
				switch tries := g.srv.Count(nfs4.OpLock) - before; {
				case told && (took > 100*time.Millisecond || before != 2 || tries != 1):
					t.Errorf("lock had %v after its release, with %d requests before and %d after", took, before, tries)
				case !told && (took > maxPause || before < 4):
					t.Errorf("lock had %v after its release, with %d requests in %v before", took, before, released.Sub(began))
				}
				lock(t, fa, alice, 5, 5, false, nfs4.ErrDenied)

				// Within one client the release itself wakes.
				go func() {
					_, err := fb.Lock(t.Context(), LockRequest{Owner: carol, Start: 0, Last: 9, Wait: true})
					done <- err
				}()
				_ = sleep(t.Context(), time.Minute)
				released = time.Now()
				lock(t, fb, bob, 5, MaxOffset, false, nil) // a downgrade
				if err := <-done; err != nil || time.Since(released) > 100*time.Millisecond {
					t.Errorf("%v after %v", err, time.Since(released))
				}
				closes(t, g, fa, fb)
			})
		})
	}
}

// A notification that never comes costs time and nothing else.
func TestLockNotificationLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: time.Hour})
		a, b := g.client(), g.client()
		fa := create(t, a, "f")
		fb := reopen(t, b, "f")
		lock(t, fa, alice, 0, 9, true, nil)
		done := make(chan error, 1)
		go func() {
			_, err := fb.Lock(t.Context(), LockRequest{Owner: bob, Last: 9, Write: true, Wait: true})
			done <- err
		}()
		synctest.Wait()
		// The server forgets who waits: nobody can be called back.
		if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
			t.Fatal(err)
		}
		_ = sleep(t.Context(), time.Second)
		unlock(t, fa, alice, 0, 9)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		closes(t, g, fa, fb)
	})
}

// Giving up leaves nothing behind, at whatever moment it happens.
func TestLockGivenUp(t *testing.T) {
	t.Run("waiting", func(t *testing.T) {
		for _, how := range []string{"stop", "context"} {
			t.Run(how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := newRig(t, nfstest.Options{})
					c := g.client()
					f := create(t, c, "f")
					lock(t, f, alice, 0, 9, true, nil)
					ctx, cancel := context.WithCancel(t.Context())
					stop := make(chan struct{})
					done := make(chan error, 1)
					go func() {
						_, err := f.Lock(ctx, LockRequest{Owner: bob, Last: 9, Wait: true, Stop: stop})
						done <- err
					}()
					synctest.Wait()
					if how == "stop" {
						close(stop)
					} else {
						cancel()
					}
					if err := <-done; Errno(err) != syscall.EINTR {
						t.Errorf("%v", err)
					}
					cancel()
					if s := c.Stats(); s.LockWaiters != 0 {
						t.Errorf("%+v", s)
					}
					unlock(t, f, alice, 0, 9)
					closes(t, g, f)
				})
			})
		}
	})
	t.Run("on its way", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nfstest.Options{})
			a, b := g.client(), g.client()
			fa := create(t, a, "f")
			fb := reopen(t, b, "f")
			lock(t, fa, alice, 0, 9, false, nil)
			lock(t, fa, alice, 20, 29, true, nil)
			reached, go2 := make(chan struct{}), make(chan struct{})
			remove := g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				if op.Args.Op() == nfs4.OpLock {
					select {
					case reached <- struct{}{}:
						<-go2
					default:
					}
				}
				return nfstest.Verdict{}
			})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := fa.Lock(ctx, LockRequest{Owner: alice, Last: 49, Write: true})
				done <- err
			}()
			<-reached
			cancel()
			if err := <-done; Errno(err) != syscall.EINTR {
				t.Fatal(err)
			}
			remove()
			// What comes next in the name of the owner has to wait for its turn.
			go func() {
				_, err := fa.Lock(t.Context(), LockRequest{Owner: alice, Start: 40, Last: 44, Write: true})
				done <- err
			}()
			synctest.Wait()
			close(go2)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			// As before, and the new one.
			lock(t, fb, bob, 0, 9, false, nil)
			lock(t, fb, bob, 5, 5, true, nfs4.ErrDenied)
			lock(t, fb, bob, 10, 19, true, nil)
			lock(t, fb, bob, 20, 20, false, nfs4.ErrDenied)
			lock(t, fb, bob, 30, 39, true, nil)
			lock(t, fb, bob, 44, 44, false, nfs4.ErrDenied)
			lock(t, fb, bob, 45, 100, true, nil)
			closes(t, g, fa, fb)
		})
	})
	t.Run("soft mount", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nfstest.Options{})
			c := g.client(func(o *Options) { o.Soft, o.Timeout, o.Retrans = true, 5*time.Second, 1 })
			f := create(t, c, "f")
			late := make(chan struct{})
			remove := g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				if op.Args.Op() == nfs4.OpLock {
					<-late
				}
				return nfstest.Verdict{}
			})
			if _, err := f.Lock(t.Context(), LockRequest{Owner: alice, Last: 9}); Errno(err) != syscall.ETIMEDOUT {
				t.Errorf("%v", err)
			}
			remove()
			close(late)
			synctest.Wait()
			if u := g.srv.Usage(); u.Locks != 0 || u.LockStates != 0 {
				t.Errorf("%v", u)
			}
			closes(t, g, f)
		})
	})
	t.Run("unlock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nfstest.Options{})
			c := g.client()
			f := create(t, c, "f")
			lock(t, f, alice, 0, 9, true, nil)
			ctx, cancel := context.WithCancel(t.Context())
			reached, go2 := make(chan struct{}), make(chan struct{})
			g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				if op.Args.Op() == nfs4.OpLockU {
					close(reached)
					<-go2
				}
				return nfstest.Verdict{}
			})
			done := make(chan error, 1)
			go func() {
				_, _, err := f.Unlock(ctx, alice, 0, 9, true)
				done <- err
			}()
			<-reached
			cancel()
			if err := <-done; Errno(err) != syscall.EINTR {
				t.Error(err)
			}
			close(go2)
			synctest.Wait()
			if s := c.Stats(); s.Locks != 0 {
				t.Errorf("%+v", s)
			}
			closes(t, g, f)
		})
	})
}

// A file that is being closed releases its locks in the background as far as
// its user can tell; a lock that is asked for afterwards waits for that.
func TestLockAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f1, f2 := create(t, c, "f"), reopen(t, c, "f")
		lock(t, f1, carol, 0, MaxOffset, true, nil)
		g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
			if op.Args.Op() == nfs4.OpLockU {
				time.Sleep(time.Second)
			}
			return nfstest.Verdict{}
		})
		done := make(chan error, 1)
		go func() { done <- f1.Close(t.Context()) }()
		synctest.Wait()
		lock(t, f2, alice, 0, MaxOffset, true, nil)
		if err := <-done; err != nil {
			t.Error(err)
		}
		closes(t, g, f2)
	})
}
