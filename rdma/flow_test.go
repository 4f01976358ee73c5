package rdma_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
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

// A device may report the reply before the Send of its call. The call's memory
// is still referred to then.
func TestReplyBeforeSendCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			_ = respond(replyMessage(req, 120))
		}}, rdmatest.Params{})
		p.qp[0].(*rdmatest.QueuePair).Hold(rdma.OpSend)
		call := &ulb.Call{Msg: callMessage(9000), ReplyMax: 300}
		got := send(t, p.client, call)
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("Done was called although the Send is not completed")
		default:
		}
		if s := p.client.Stats(); s.Exposed != 0 || s.Outstanding != 1 || s.Replies != 1 {
			t.Errorf("%+v", s)
		}
		p.qp[0].(*rdmatest.QueuePair).Hold()
		res := <-got
		if res.err != nil {
			t.Error(res.err)
		}
		res.reply.Release()
		closePair(p)
	})
}

// The same with a handle whose invalidation takes time: the peer has access
// until then.
func TestReplyBeforeInvalidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: echo}, rdmatest.Params{})
		qp := p.qp[0].(*rdmatest.QueuePair)
		qp.Hold(rdma.OpSend, rdma.OpInvalidate)
		// Two handles, of which the peer withdraws one.
		got := send(t, p.client, &ulb.Call{Msg: callMessage(9000), ReplyMax: 9000})
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("Done was called although nothing is completed")
		default:
		}
		if s := p.client.Stats(); s.Exposed != 1 || s.RemoteInvals != 1 || s.LocalInvals != 0 || s.CreditsInUse != 0 {
			t.Errorf("%+v", s)
		}
		qp.Hold(rdma.OpInvalidate)
		res := <-send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300}) // the connection works
		res.reply.Release()
		select {
		case <-got:
			t.Fatal("Done was called although a handle may be in force")
		default:
		}
		qp.Hold()
		res = <-got
		if res.err != nil {
			t.Error(res.err)
		}
		res.reply.Release()
		if s := p.client.Stats(); s.Exposed != 0 || s.LocalInvals != 1 {
			t.Errorf("%+v", s)
		}
		closePair(p)
	})
}

// At the responder a reply's memory is in use until its Send is completed; the
// credit is free from the time that the reply may have arrived.
func TestRespondWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		returned := make(chan error, 10)
		p := connect(t, rdma.Config{}, rdma.Config{Credits: 2, Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			returned <- respond(replyMessage(req, 120))
		}}, rdmatest.Params{})
		qp := p.qp[1].(*rdmatest.QueuePair)
		qp.Hold(rdma.OpSend)
		for range 5 { // more than there are credits
			res := <-send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300})
			if res.err != nil {
				t.Fatal(res.err)
			}
			res.reply.Release()
		}
		synctest.Wait()
		if len(returned) > 0 {
			t.Error("respond returned before the Send was completed")
		}
		qp.Hold()
		for range 5 {
			if err := <-returned; err != nil {
				t.Error(err)
			}
		}
		closePair(p)
	})
}

// A call that waits for a place in the send queue can be cancelled like one
// that waits for a credit, which it gives back.
func TestSendQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: echo}, rdmatest.Params{})
		warmPair(t, p)
		qp := p.qp[0].(*rdmatest.QueuePair)
		synctest.Wait()
		qp.Hold(rdma.OpSend)
		var wg sync.WaitGroup
		places := qp.Info().MaxSends
		for range places {
			wg.Add(1)
			call := &ulb.Call{Msg: callMessage(200), ReplyMax: 300, Done: func(_ *ulb.Call, r ulb.Reply, err error) {
				r.Release()
				wg.Done()
			}}
			if err := p.client.Send(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the reply is in, the call is not over
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() {
			errs <- p.client.Send(ctx, &ulb.Call{Msg: callMessage(200), ReplyMax: 300, Done: func(*ulb.Call, ulb.Reply, error) { t.Error("Done was called") }})
		}()
		synctest.Wait()
		if s := p.client.Stats(); s.Outstanding != places || s.CreditsInUse != 1 {
			t.Errorf("%+v", s)
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("Send: %v", err)
		}
		if s := p.client.Stats(); s.CreditsInUse != 0 {
			t.Errorf("%+v", s)
		}
		qp.Hold()
		wg.Wait()
		closePair(p)
	})
}

// Places in the send queue come back, whoever invalidates.
func TestSendQueuePlaces(t *testing.T) {
	for _, pd := range []*rpcrdma.PrivateData{usual, nil} {
		c, r := rawServer(t, rdma.Config{Credits: 1, BackCredits: 1}, pd)
		call := readCall(t, c)
		call.ReplyMax = 100
		for range 200 { // the queue has 70 places
			got := send(t, c, call)
			in := r.next()
			h := in.reply(32)
			h.Write = in.h.Write
			h.Write[0][0].Length = 0
			msg := append(h.AppendTo(nil), rpcReply(in.h.XID, 100)...)
			if pd != nil {
				r.send(msg, in.h.Write[0][0].Handle)
			} else {
				r.send(msg)
			}
			if err := r.qp.Receive(in.Buf); err != nil {
				t.Fatal(err)
			}
			res := await(t, got)
			if res.err != nil {
				t.Fatal(res.err)
			}
			res.reply.Release()
		}
		call.Sink.Release()
	}
}

// Replies may be kept: their receive buffers are replaced, and when too many
// are out the messages are copied.
func TestHeldReplies(t *testing.T) {
	p := connect(t, rdma.Config{Credits: 4, BackCredits: 1, LongBytes: 256 << 10}, rdma.Config{Credits: 4, BackCredits: 1,
		Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			n := 120
			if req.ReplyMax > 4096 {
				n = 30_000
			}
			_ = respond(replyMessage(req, n))
		}}, rdmatest.Params{})
	var held []ulb.Reply
	var want [][]byte
	for i := range 200 {
		call := &ulb.Call{Msg: callMessage(200), ReplyMax: 300}
		n := 120
		if i%4 == 3 {
			call.ReplyMax, n = 60_000, 30_000
		}
		res := await(t, send(t, p.client, call))
		if res.err != nil {
			t.Fatal(res.err)
		}
		held = append(held, res.reply)
		want = append(want, rpcReply(lastXID.Load(), n))
	}
	for i := range held {
		if !bytes.Equal(held[i].Msg.Stream, want[i]) {
			t.Fatalf("reply %d has changed", i)
		}
	}
	if n := p.mem[0].InUse(); n > 60 {
		t.Errorf("%d pieces of memory for 200 replies", n)
	}
	for i := range held {
		held[i].Release()
		held[i].Release() // the second does nothing
	}
}

// Memory for long messages that is too small for all calls at once makes them
// wait for each other, not stand still.
func TestLittleLongMemory(t *testing.T) {
	p := connect(t, rdma.Config{LongBytes: 64 << 10}, rdma.Config{LongBytes: 64 << 10,
		Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			runtime.Gosched()
			if err := respond(replyMessage(req, 20_000)); err != nil {
				t.Errorf("respond: %v", err)
			}
		}}, rdmatest.Params{})
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got := make(chan error, 1)
			call := &ulb.Call{ReplyMax: 20_000, Done: func(_ *ulb.Call, r ulb.Reply, err error) {
				r.Release()
				got <- err
			}}
			for range 50 {
				call.Msg = callMessage(8000)
				if w%2 == 0 {
					call.Msg = callMessage(20_000)
				}
				if err := p.client.Send(context.Background(), call); err != nil {
					t.Error(err)
					return
				}
				if err := <-got; err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	await(t, done)
	if s := p.client.Stats(); s.LongReplies != 800 || s.LongCalls != 800 {
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

// A reply that is kept beyond the end of the connection stays readable.
func TestReplyOutlivesConnection(t *testing.T) {
	p := connect(t, rdma.Config{}, rdma.Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		_ = respond(replyMessage(req, 120))
	}}, rdmatest.Params{})
	res := await(t, send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300}))
	long := await(t, send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 30_000}))
	p.client.Close()
	p.server.Close()
	if !bytes.Equal(res.reply.Msg.Stream, rpcReply(lastXID.Load()-1, 120)) {
		t.Error("the reply has changed")
	}
	res.reply.Release()
	long.reply.Release()
}

// A reply that the server finds no room for is told by ERR_CHUNK (RFC 8166
// section 4.5.3, RFC 8267 section 3.1).
func TestReplyTooLarge(t *testing.T) {
	responded := make(chan error, 1)
	p := connect(t, rdma.Config{}, rdma.Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		responded <- respond(replyMessage(req, 20_000))
	}}, rdmatest.Params{})
	for _, c := range []struct {
		max  int
		soft bool
		want error
	}{
		{300, false, ulb.ErrChunk}, {10_000, false, ulb.ErrChunk}, {300, true, ulb.ErrReplyTooLarge},
		{10_000, true, ulb.ErrReplyTooLarge}, {20_000, true, nil},
	} {
		res := await(t, send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: c.max, ReplySoft: c.soft}))
		if !errors.Is(res.err, c.want) {
			t.Errorf("%+v: %v", c, res.err)
		}
		if err := await(t, responded); (err == nil) != (c.want == nil) {
			t.Errorf("%+v: respond: %v", c, err)
		}
		res.reply.Release()
	}
	if s := p.server.Stats(); s.Refusals != 4 || s.Served != 1 {
		t.Errorf("%+v", s)
	}
}

// A server that sends longer messages than this end has announced, as knfsd
// does, is taken at its word (its private data), up to 64 KiB.
func TestLongerReceives(t *testing.T) {
	c, r := rawServer(t, rdma.Config{}, &rpcrdma.PrivateData{SendSize: 16 << 10, RecvSize: 16 << 10})
	got := send(t, c, &ulb.Call{Msg: callMessage(4000), ReplyMax: 4000})
	in := r.next()
	if in.Len > 4096 || in.h.HasChunks() {
		t.Errorf("call of %d bytes, chunks %t", in.Len, in.h.HasChunks())
	}
	r.send(append(in.reply(32).AppendTo(nil), rpcReply(in.h.XID, 16<<10-28)...))
	res := await(t, got)
	if res.err != nil || len(res.reply.Msg.Stream) != 16<<10-28 {
		t.Errorf("%d bytes, %v", len(res.reply.Msg.Stream), res.err)
	}
	res.reply.Release()
}

// Without private data: 1024 bytes either way, no remote invalidation (RFC
// 8797 section 5.1).
func TestWithoutPrivateData(t *testing.T) {
	c, r := rawServer(t, rdma.Config{}, nil)
	got := send(t, c, &ulb.Call{Msg: callMessage(1000), ReplyMax: 1000})
	in := r.next()
	if in.h.Proc != rpcrdma.NoMsg || in.h.Reply == nil {
		t.Errorf("header %+v", in.h)
	}
	h := in.reply(1)
	h.Reply = in.h.Reply
	h.Reply[0].Length = 0
	r.send(append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...))
	res := await(t, got)
	if res.err != nil {
		t.Error(res.err)
	}
	res.reply.Release()

	s, r2 := rawClient(t, rdma.Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		if req.ReplyMax != 1024-28-4-16 {
			t.Errorf("room for %d bytes", req.ReplyMax)
		}
		_ = respond(replyMessage(req, 120))
	}}, nil)
	b := r2.buffer(4096)
	remote, err := r2.qp.Expose(b, 0, 900, rdma.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	call := rpcrdma.Header{XID: 9, Vers: 1, Credits: 1, Reply: rpcrdma.Chunk{{Handle: uint32(remote.Handle), Length: 900, Offset: remote.Offset}}}
	r2.send(append(call.AppendTo(nil), message(9, 0, 100).Stream...))
	if in := r2.next(); in.HasInvalidated || in.h.Proc != rpcrdma.Msg {
		t.Errorf("reply %+v", in.h)
	}
	if s.Err() != nil {
		t.Error(s.Err())
	}
}
