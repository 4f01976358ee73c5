package rdma_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// gate is a handler that keeps calls until the test lets them go.
type gate struct {
	mu      sync.Mutex
	waiting int
	open    chan struct{}
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) handle(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	g.mu.Lock()
	g.waiting++
	g.mu.Unlock()
	select {
	case <-g.open:
		_ = respond(replyMessage(req, 120))
	case <-ctx.Done():
	}
}

func (g *gate) seen() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

// sendAsync sends n calls from goroutines of their own and counts replies.
func sendAsync(t testing.TB, c *rdma.Conn, n int, probe bool, wg *sync.WaitGroup) {
	for range n {
		wg.Add(1)
		call := &ulb.Call{Msg: callMessage(200), ReplyMax: 300, Probe: probe}
		call.Done = func(_ *ulb.Call, r ulb.Reply, err error) {
			defer wg.Done()
			if err != nil {
				t.Errorf("call: %v", err)
			}
			r.Release()
		}
		go func() {
			if err := c.Send(context.Background(), call); err != nil {
				t.Errorf("Send: %v", err)
				wg.Done()
			}
		}()
	}
}

// One call until the first reply, then as many as granted, one of them only
// for probes (RFC 8166 section 3.3.3, RFC 8267 section 6.7.2).
func TestCallsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p := connect(t, rdma.Config{Credits: 100}, rdma.Config{Credits: 10, Handler: g.handle}, rdmatest.Params{})
		if n := p.client.Limits().MaxCalls; n != 99 {
			t.Errorf("before the first reply %d calls at once", n)
		}
		var wg sync.WaitGroup
		sendAsync(t, p.client, 20, false, &wg)
		synctest.Wait()
		if n := g.seen(); n != 1 {
			t.Fatalf("%d calls before the first reply", n)
		}
		g.open <- struct{}{} // lets one go
		synctest.Wait()
		if n := g.seen(); n != 1+9 {
			t.Fatalf("%d calls at once with 10 credits, want 9", n-1)
		}
		sendAsync(t, p.client, 2, true, &wg)
		synctest.Wait()
		if n := g.seen(); n != 1+10 {
			t.Fatalf("%d calls with the probe, want 10", n-1)
		}
		s := p.client.Stats()
		if s.CreditsInUse != 10 || s.CreditsGranted != 10 || s.CreditsAsked != 100 || s.Outstanding != 10 {
			t.Errorf("%+v", s)
		}
		if n := p.client.Limits().MaxCalls; n != 9 {
			t.Errorf("Limits: %d calls at once", n)
		}
		close(g.open)
		wg.Wait()
		synctest.Wait()
		if n := g.seen(); n != 22 {
			t.Errorf("%d calls arrived of 22", n)
		}
		closePair(p)
	})
}

// closePair closes a connection made inside a synctest bubble, whose
// goroutines have to end there.
func closePair(p *pair) {
	p.client.Close()
	p.server.Close()
	synctest.Wait()
}

// A ctx counts only while the call waits; nothing is lost then.
func TestSendCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		p := connect(t, rdma.Config{}, rdma.Config{Handler: g.handle}, rdmatest.Params{})
		var wg sync.WaitGroup
		sendAsync(t, p.client, 1, false, &wg)
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		call := &ulb.Call{Msg: callMessage(9000), ReplyMax: 9000, Done: func(*ulb.Call, ulb.Reply, error) { t.Error("Done was called") }}
		errs := make(chan error)
		go func() { errs <- p.client.Send(ctx, call) }()
		synctest.Wait()
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("Send: %v", err)
		}
		close(g.open)
		wg.Wait()
		if s := p.client.Stats(); s.CreditsInUse != 0 || s.Calls != 1 {
			t.Errorf("%+v", s)
		}
		// Once sent, it is answered whatever ctx says.
		ctx, cancel = context.WithCancel(context.Background())
		got := make(chan error, 1)
		call.Done = func(_ *ulb.Call, r ulb.Reply, err error) {
			r.Release()
			got <- err
		}
		if err := p.client.Send(ctx, call); err != nil {
			t.Fatal(err)
		}
		cancel()
		if err := <-got; err != nil {
			t.Errorf("call: %v", err)
		}
		closePair(p)
	})
}

// A credit word of zero counts as one, and one above what was asked for as
// what was asked for (RFC 8166 section 3.3.1).
func TestOddGrants(t *testing.T) {
	c, r := rawServer(t, rdma.Config{Credits: 5}, usual)
	for _, g := range []struct {
		grant uint32
		want  int
	}{{0, 1}, {3, 3}, {5, 5}, {6, 5}, {1 << 31, 5}, {0xffffffff, 5}, {0, 1}} {
		got := send(t, c, &ulb.Call{Msg: callMessage(200), ReplyMax: 300})
		in := r.next()
		if in.h.Credits != 5 {
			t.Errorf("asked for %d credits", in.h.Credits)
		}
		r.send(append(in.reply(g.grant).AppendTo(nil), rpcReply(in.h.XID, 120)...))
		res := await(t, got)
		res.reply.Release()
		if n := c.Stats().CreditsGranted; n != g.want {
			t.Errorf("a grant of %d counts as %d, want %d", g.grant, n, g.want)
		}
	}
}

// Calls that cannot be sent are refused at once, and cost nothing.
func TestSendRefused(t *testing.T) {
	g := newGate()
	p := connect(t, rdma.Config{BackCredits: 4}, rdma.Config{Handler: g.handle}, rdmatest.Params{MaxSegment: 65_536})
	done := func(*ulb.Call, ulb.Reply, error) { t.Error("Done was called") }
	for _, c := range []struct {
		name string
		conn *rdma.Conn
		call *ulb.Call
		want error
	}{
		{"no message", p.client, &ulb.Call{Done: done}, nil},
		{"a reply", p.client, &ulb.Call{Msg: message(1, 1, 200), Done: done}, nil},
		{"no Done", p.client, &ulb.Call{Msg: callMessage(200)}, nil},
		{"too many segments", p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 2 << 20, Done: done}, ulb.ErrTooLarge},
		{"backward with a chunk", p.server, &ulb.Call{Msg: callMessage(5000), Done: done}, ulb.ErrTooLarge},
		{"backward with a long reply", p.server, &ulb.Call{Msg: callMessage(200), ReplyMax: 5000, Done: done}, ulb.ErrTooLarge},
	} {
		if err := c.conn.Send(t.Context(), c.call); err == nil || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// A second call with the XID of one that is outstanding.
	call := &ulb.Call{Msg: callMessage(200), ReplyMax: 300}
	got := send(t, p.client, call)
	again := &ulb.Call{Msg: call.Msg, ReplyMax: 300, Done: done}
	if err := p.client.Send(t.Context(), again); err == nil || !strings.Contains(err.Error(), "XID") {
		t.Errorf("same XID: %v", err)
	}
	close(g.open)
	res := await(t, got)
	if res.err != nil {
		t.Error(res.err)
	}
	res.reply.Release()
	got = send(t, p.client, call) // the same Call and XID again, later
	res = await(t, got)
	res.reply.Release()
	if s := p.client.Stats(); s.CreditsInUse != 0 || s.Outstanding != 0 || s.Calls != 2 {
		t.Errorf("%+v", s)
	}
}

// Limits and Info tell what was agreed on.
func TestLimits(t *testing.T) {
	p := connect(t, rdma.Config{}, rdma.Config{Handler: echo, Credits: 9}, rdmatest.Params{MaxSegment: 32_768})
	warmPair(t, p)
	if l := p.client.Limits(); l != (ulb.Limits{MaxPayload: 512 << 10, MaxCalls: 8}) {
		t.Errorf("client: %+v", l)
	}
	if l := p.server.Limits(); l != (ulb.Limits{MaxPayload: 0, MaxCalls: 15}) {
		t.Errorf("server: %+v", l)
	}
	if s := p.client.Info(); s != "rdma/memory memory:client -> memory:server, inline 4096/4096 bytes, 9 credits, remote invalidation true" {
		t.Errorf("Info: %s", s)
	}
	pool := ulb.NewPool(p.mem[0], 1<<20)
	defer pool.Close()
	q := connect(t, rdma.Config{Pool: pool}, rdma.Config{Handler: echo}, rdmatest.Params{})
	if l := q.client.Limits(); l.MaxPayload != 1<<20 || q.client.Pool() != pool {
		t.Errorf("with a pool of its own: %+v", l)
	}
}
