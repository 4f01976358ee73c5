package rdma_test

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// Both ends call each other at once with the same XIDs, which are told apart
// by the message type (RFC 8167 section 2).
func TestBothDirections(t *testing.T) {
	handler := func(name byte) ulb.Handler {
		return func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			m := replyMessage(req, 120)
			m.Stream[100] = name
			_ = respond(m)
		}
	}
	p := connect(t, rdma.Config{Handler: handler('c')}, rdma.Config{Handler: handler('s')}, rdmatest.Params{})
	var wg sync.WaitGroup
	for i, from := range []*rdma.Conn{p.client, p.server} {
		want := "sc"[i]
		for w := range uint32(4) {
			wg.Add(1)
			go func() {
				defer wg.Done()
				call := &ulb.Call{}
				for n := range uint32(300) {
					call.Msg, call.ReplyMax = message(w<<16|n, 0, 200), 200
					got := make(chan result, 1)
					call.Done = func(_ *ulb.Call, r ulb.Reply, err error) { got <- result{r, err} }
					if err := from.Send(context.Background(), call); err != nil {
						t.Errorf("Send: %v", err)
						return
					}
					res := <-got
					if res.err != nil {
						t.Error(res.err)
						return
					}
					s := bytes.Clone(res.reply.Msg.Stream)
					res.reply.Release()
					if s[100] != want {
						t.Errorf("answered by %q, want %q", s[100], want)
					}
					if s[100] = rpcReply(w<<16|n, 120)[100]; !bytes.Equal(s, rpcReply(w<<16|n, 120)) {
						t.Error("another reply")
					}
				}
			}()
		}
	}
	wg.Wait()
	for _, c := range []*rdma.Conn{p.client, p.server} {
		if s := c.Stats(); s.Calls != 1200 || s.Replies != 1200 || s.Served != 1200 || s.Unknown != 0 || s.Inline != 1200 {
			t.Errorf("%+v", s)
		}
	}
}

// Credits of the two directions have nothing to do with each other (RFC 8167
// section 4.1).
func TestBackwardCredits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forward, backward := newGate(), newGate()
		p := connect(t, rdma.Config{Credits: 6, BackCredits: 3, Handler: backward.handle},
			rdma.Config{Credits: 20, BackCredits: 20, Handler: forward.handle}, rdmatest.Params{})
		var wg sync.WaitGroup
		sendAsync(t, p.client, 10, false, &wg)
		sendAsync(t, p.server, 10, false, &wg)
		synctest.Wait()
		if f, b := forward.seen(), backward.seen(); f != 1 || b != 1 {
			t.Errorf("before the first replies %d calls and %d callbacks", f, b)
		}
		forward.open <- struct{}{}
		backward.open <- struct{}{}
		synctest.Wait()
		// The client asks for 6 of 20; it grants 3 of the 20 the server asks for.
		if f, b := forward.seen()-1, backward.seen()-1; f != 5 || b != 2 {
			t.Errorf("%d calls and %d callbacks at once, want 5 and 2", f, b)
		}
		close(forward.open)
		synctest.Wait()
		if f, b := forward.seen(), backward.seen()-1; f != 10 || b != 2 {
			t.Errorf("%d calls and %d callbacks at once, want 10 and 2", f, b)
		}
		close(backward.open)
		wg.Wait()
		closePair(p)
	})
}

// Chunks in a callback are refused (RFC 8167 section 5.3); without a Handler
// callbacks stay unanswered (section 6).
func TestBackwardRefused(t *testing.T) {
	c, r := rawServer(t, rdma.Config{Handler: echo}, usual)
	h := rpcrdma.Header{XID: 5, Vers: 1, Credits: 2, Reply: rpcrdma.Chunk{{Handle: 1, Length: 4096}}}
	r.send(append(h.AppendTo(nil), message(5, 0, 100).Stream...))
	if in := r.next(); in.h.Proc != rpcrdma.Error || in.h.Err != rpcrdma.ErrChunk || in.h.XID != 5 {
		t.Errorf("answered by %+v", in.h)
	}
	h = rpcrdma.Header{XID: 6, Vers: 1, Credits: 2, Proc: rpcrdma.NoMsg, Read: []rpcrdma.ReadSegment{{Segment: rpcrdma.Segment{Length: 100}}}}
	r.send(h.AppendTo(nil))
	if in := r.next(); in.h.Proc != rpcrdma.Error || in.h.Err != rpcrdma.ErrChunk || in.h.XID != 6 {
		t.Errorf("answered by %+v", in.h)
	}
	r.send(append(words(7, 1, 2, 0, 0, 0, 0), message(7, 0, 100).Stream...))
	if in := r.next(); in.h.Proc != rpcrdma.Msg || in.h.XID != 7 || in.h.Credits != 16 || in.h.HasChunks() {
		t.Errorf("answered by %+v", in.h)
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}

	c, r = rawServer(t, rdma.Config{}, usual)
	r.send(append(words(7, 1, 2, 0, 0, 0, 0), message(7, 0, 100).Stream...))
	warm(t, c, r) // the connection has seen it then
	if s := c.Stats(); s.Unanswered != 1 {
		t.Errorf("%+v", s)
	}
}
