package nfsclient

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// fate is what becomes of a call on a faulty connection.
type fate uint8

const (
	pass      fate = iota
	swallow        // never sent, never answered
	refuse         // not carried out, answered by RDMA_ERROR
	overflow       // carried out, but the reply does not fit
	misfit         // Send itself refuses it
	hangAfter      // carried out, never answered
)

// faulty is a connection on which calls meet their fate.
type faulty struct {
	*nfstest.LocalConn
	decide func(ops []nfs4.OpNum) fate

	mu   sync.Mutex
	held []*ulb.Call
}

var errMisfit = errors.New("call does not fit this connection")

func (f *faulty) Send(ctx context.Context, call *ulb.Call) error {
	if err := f.Err(); err != nil {
		return err
	}
	switch f.decide(opsOf(call.Msg)) {
	case swallow:
		f.mu.Lock()
		f.held = append(f.held, call)
		f.mu.Unlock()
		return nil
	case refuse:
		go call.Done(call, ulb.Reply{}, ulb.ErrChunk)
		return nil
	case overflow:
		return f.instead(ctx, call, func() { call.Done(call, ulb.Reply{}, ulb.ErrReplyTooLarge) })
	case hangAfter:
		return f.instead(ctx, call, func() {
			f.mu.Lock()
			f.held = append(f.held, call)
			f.mu.Unlock()
		})
	case misfit:
		return errMisfit
	}
	return f.LocalConn.Send(ctx, call)
}

// instead has a call carried out, and calls done in place of its Done.
func (f *faulty) instead(ctx context.Context, call *ulb.Call, done func()) error {
	proxy := *call
	proxy.Done = func(_ *ulb.Call, reply ulb.Reply, err error) {
		reply.Release()
		if err != nil {
			call.Done(call, ulb.Reply{}, err)
			return
		}
		done()
	}
	return f.LocalConn.Send(ctx, &proxy)
}

func (f *faulty) Close() error {
	err := f.LocalConn.Close()
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	for _, call := range held {
		call.Done(call, ulb.Reply{}, f.Err())
	}
	return err
}

// opsOf returns the operations of an encoded COMPOUND; none of a NULL.
func opsOf(m xdr.Message) (ops []nfs4.OpNum) {
	var d xdr.Decoder
	d.Reset(m)
	var h rpc.CallHeader
	h.Decode(&d)
	if h.Proc == rpc.ProcNull {
		return nil
	}
	var a nfs4.CompoundArgs
	a.Decode(&d)
	for _, op := range a.Ops {
		ops = append(ops, op.Op())
	}
	return ops
}

// faultyClient is a client whose calls meet the fate that decide says.
func (g *rig) faultyClient(decide func(ops []nfs4.OpNum) fate, edit ...func(*Options)) *Client {
	return g.client(append([]func(*Options){func(o *Options) {
		o.Dial = func(ctx context.Context, back ulb.Handler) (Transport, error) {
			c, err := g.dial(ctx, back)
			if err != nil {
				return nil, err
			}
			return &faulty{LocalConn: c.(*nfstest.LocalConn), decide: decide}, nil
		}
	}}, edit...)...)
}

// once returns a function that has a fate for the first n calls with an
// operation, and lets the rest pass.
func once(op nfs4.OpNum, n int, what fate) func(ops []nfs4.OpNum) fate {
	var mu sync.Mutex
	return func(ops []nfs4.OpNum) fate {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range ops {
			if o == op && n > 0 {
				n--
				return what
			}
		}
		return pass
	}
}

// idleSlots fails the test if a slot of the client is still taken.
func idleSlots(t *testing.T, c *Client) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.sess.table.idle() || len(c.doubtful) > 0 || retired(c.sess.table) > 0 {
		t.Errorf("%d slots taken, %d doubtful, %d retired", c.sess.table.busy, len(c.doubtful), retired(c.sess.table))
	}
}

// A server that falls silent altogether: after a probe that is not answered
// either, the connection is given up and everything goes over the next one.
func TestDeadConnection(t *testing.T) {
	for _, what := range []fate{swallow, hangAfter} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nfstest.Options{Lease: time.Hour})
			var mu sync.Mutex
			dead, probes := false, 0
			c := g.faultyClient(func(ops []nfs4.OpNum) fate {
				mu.Lock()
				defer mu.Unlock()
				for _, o := range ops {
					if o == nfs4.OpBindConnToSession {
						dead = false // on another connection
					}
				}
				if !dead {
					return pass
				}
				if ops == nil {
					probes++
				}
				return what
			}, func(o *Options) { o.Timeout = 20 * time.Second })
			dir, _ := c.Root()
			mu.Lock()
			dead = true
			mu.Unlock()
			start := time.Now()
			if _, _, err := c.Mkdir(t.Context(), root, dir, "d", nil); err != nil {
				t.Error(err)
			}
			if d := time.Since(start); d < 20*time.Second || d > 31*time.Second || probes != 1 {
				t.Errorf("went on after %v and %d probes", d, probes)
			}
			if n := g.srv.Count(nfs4.OpCreate); n != 1 {
				t.Errorf("%d CREATEs", n)
			}
			idleSlots(t, c)
		})
	}
}

// The transport's error says nothing of what the server has done: the slot is
// settled, and is used again.
func TestRefusedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.faultyClient(once(nfs4.OpLookup, 1, refuse))
		dir, _ := c.Root()
		_, _, err := c.Lookup(t.Context(), root, dir, "x")
		if !errors.Is(err, ulb.ErrChunk) || Errno(err) != syscall.EIO {
			t.Errorf("lookup: %v", err)
		}
		idleSlots(t, c)
		if _, _, err := c.Lookup(t.Context(), root, dir, "x"); Errno(err) != syscall.ENOENT {
			t.Errorf("lookup: %v", err)
		}
	})
}

// A reply that does not fit: what can be done again is, with more room, and what
// cannot fails. The slot is settled, although the server has moved on.
func TestReplyTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		fates := []func([]nfs4.OpNum) fate{once(nfs4.OpCreate, 1, overflow), once(nfs4.OpReadDir, 1, overflow)}
		c := g.faultyClient(func(ops []nfs4.OpNum) fate {
			for _, f := range fates {
				if what := f(ops); what != pass {
					return what
				}
			}
			return pass
		})
		dir, _ := c.Root()
		if _, _, err := c.Mkdir(t.Context(), root, dir, "d", nil); !errors.Is(err, ulb.ErrReplyTooLarge) {
			t.Errorf("mkdir: %v", err)
		}
		idleSlots(t, c)
		if n := g.srv.Count(nfs4.OpCreate); n != 1 {
			t.Errorf("%d CREATEs", n)
		}
		p, err := c.ReadDir(t.Context(), root, dir, 0, nfs4.Verifier{}, false, 0)
		if err != nil {
			t.Fatalf("readdir: %v", err)
		}
		p.Release()
		idleSlots(t, c)
	})
}

// A call that the connection cannot carry costs nothing but itself.
func TestMisfit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.faultyClient(once(nfs4.OpLookup, 1, misfit))
		dir, _ := c.Root()
		if _, _, err := c.Lookup(t.Context(), root, dir, "x"); !errors.Is(err, errMisfit) {
			t.Errorf("lookup: %v", err)
		}
		if _, _, err := c.Lookup(t.Context(), root, dir, "x"); Errno(err) != syscall.ENOENT {
			t.Errorf("lookup: %v", err)
		}
		if n := c.Stats().Reconnects; n != 0 {
			t.Errorf("%d reconnects", n)
		}
		idleSlots(t, c)
	})
}

// New fails, cleanly and in time, where there is no server to talk to.
func TestNewFails(t *testing.T) {
	refused := &ulb.ConnError{Transport: "tcp", Peer: "127.0.0.1:1", Err: syscall.ECONNREFUSED}
	for _, k := range []struct {
		name string
		edit func(g *rig, o *Options)
		want syscall.Errno
	}{
		{"refused", func(g *rig, o *Options) {
			o.Dial = func(context.Context, ulb.Handler) (Transport, error) { return nil, refused }
		}, syscall.ECONNREFUSED},
		{"never connected", func(g *rig, o *Options) {
			o.Dial = func(ctx context.Context, _ ulb.Handler) (Transport, error) { <-ctx.Done(); return nil, ctx.Err() }
		}, syscall.ETIMEDOUT},
		{"says nothing", func(g *rig, o *Options) {
			dial := o.Dial
			o.Dial = func(ctx context.Context, back ulb.Handler) (Transport, error) {
				c, err := dial(ctx, back)
				if err != nil {
					return nil, err
				}
				return &faulty{LocalConn: c.(*nfstest.LocalConn), decide: func([]nfs4.OpNum) fate { return swallow }}, nil
			}
		}, syscall.ETIMEDOUT},
		{"cuts", func(g *rig, o *Options) { g.srv.CutNext(nfs4.OpExchangeID, 1) }, syscall.EIO},
		{"garbage", func(g *rig, o *Options) {
			g.srv.Hook(func(context.Context, *nfstest.Op) nfstest.Verdict {
				return nfstest.Verdict{Garble: func(b []byte) []byte { return b[:len(b)/2] }}
			})
		}, syscall.EIO},
		{"no session", func(g *rig, o *Options) { g.srv.FailNext(nfs4.OpCreateSession, nfs4.ErrNoSpc, 1) }, syscall.ENOSPC},
		{"session too small", func(g *rig, o *Options) {
			g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				if op.Args.Op() != nfs4.OpCreateSession {
					return nfstest.Verdict{}
				}
				return nfstest.Verdict{Edit: func(res nfs4.Res) { res.(*nfs4.CreateSessionRes).ForeChan.MaxOperations = 2 }}
			})
		}, syscall.EIO},
		{"no root", func(g *rig, o *Options) { g.srv.FailNext(nfs4.OpPutRootFH, nfs4.ErrWrongSec, 1) }, syscall.EPERM},
		{"no dialer", func(g *rig, o *Options) { o.Dial = nil }, syscall.EIO},
		{"minor version", func(g *rig, o *Options) { o.MinorVersion = 3 }, syscall.EIO},
	} {
		t.Run(k.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{})
				g.unclean = true // sessions and client ids that nobody has learnt of
				o := Options{Dial: g.dial}
				k.edit(g, &o)
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				start := time.Now()
				c, err := New(ctx, o)
				if err == nil {
					t.Fatal("no error")
				}
				if c != nil || Errno(err) != k.want || time.Since(start) > 30*time.Second {
					t.Errorf("%v (%v) after %v, want %v", err, Errno(err), time.Since(start), k.want)
				}
				t.Log(err)
			})
		})
	}
}
