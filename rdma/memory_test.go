package rdma_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

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
