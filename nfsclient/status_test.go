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

// The flags that a server raises in SEQUENCE results are acted on, once.
func TestStatusFlags(t *testing.T) {
	for _, k := range []struct {
		flag uint32
		op   nfs4.OpNum
	}{
		{nfs4.SeqStatusCBPathDown, nfs4.OpBindConnToSession},
		{nfs4.SeqStatusCBPathDownSession, nfs4.OpBindConnToSession},
		{nfs4.SeqStatusBackchannelFault, nfs4.OpCreateSession},
		{nfs4.SeqStatusRestartReclaimNeeded, nfs4.OpReclaimComplete},
		{nfs4.SeqStatusAdminStateRevoked, nfs4.OpTestStateID},
		{nfs4.SeqStatusRecallableStateRevoked, nfs4.OpTestStateID},
		{nfs4.SeqStatusLeaseMoved, nfs4.OpIllegal},
	} {
		t.Run(fmt.Sprintf("%#x", k.flag), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{})
				c := g.client()
				f := create(t, c, "f")
				write(t, f, 0, []byte("data"))
				time.Sleep(10 * time.Second) // let the pauses behind the start pass
				var flagged atomic.Int32
				g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
					if op.Args.Op() != nfs4.OpSequence || op.Count < 3 || flagged.Add(1) > 5 {
						return nfstest.Verdict{}
					}
					return nfstest.Verdict{Edit: func(res nfs4.Res) { res.(*nfs4.SequenceRes).StatusFlags |= k.flag }}
				})
				before := g.srv.Count(k.op)
				for range 10 {
					expect(t, f, 0, []byte("data"))
					synctest.Wait()
				}
				n := g.srv.Count(k.op) - before
				want := uint64(1)
				switch k.op {
				case nfs4.OpIllegal:
					want = 0
				case nfs4.OpCreateSession, nfs4.OpReclaimComplete:
					want = n // as often as the server says so
					if n == 0 || n > 5 {
						t.Errorf("%d times %v", n, k.op)
					}
				}
				if n != want {
					t.Errorf("%d times %v, want %d", n, k.op, want)
				}
				if err := f.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
