package nfsclient

import (
	"bytes"
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
