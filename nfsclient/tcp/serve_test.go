package tcp

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpc"
)

// callBytes encodes a call as a peer sends it.
func callBytes(xid uint32, args string) []byte {
	call, _ := newCall(xid, args)
	return call.Msg.AppendTo(nil)
}

func TestServe(t *testing.T) {
	_, p := connect(t, Config{Handler: echo})
	p.write(fragment(true, callBytes(7, "abcdefgh")))
	if got, want := p.record(), replyTo(7, "abcdefgh"); !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	// A large call in fragments.
	args := strings.Repeat("12345678", 100000)
	whole := callBytes(8, args)
	p.write(fragment(false, whole[:5]))
	p.write(fragment(false, whole[5:70000]))
	p.write(fragment(true, whole[70000:]))
	if got := p.record(); !bytes.Equal(got, replyTo(8, args)) {
		t.Errorf("%d bytes", len(got))
	}
}

// A peer's call and an own call with the same XID have nothing to do with each
// other.
func TestCallsOfThePeerAmongReplies(t *testing.T) {
	c, p := connect(t, Config{Handler: echo})
	call, done := newCall(7, "own.....")
	send(t, c, call)
	p.record()
	p.write(fragment(true, callBytes(7, "peer....")))
	if got := p.record(); !bytes.Equal(got, replyTo(7, "peer....")) {
		t.Errorf("answer %x", got)
	}
	p.write(append(fragment(true, callBytes(7, "again...")), fragment(true, replyTo(7, "result.."))...))
	if got := results(t, wait(t, done)); got != "result.." {
		t.Errorf("results %q", got)
	}
	if got := p.record(); !bytes.Equal(got, replyTo(7, "again...")) {
		t.Errorf("answer %x", got)
	}
}

// A handler can call the peer while it serves a call.
func TestHandlerCallsBack(t *testing.T) {
	var far *Conn
	ready := make(chan struct{})
	near, far := pair(t, Config{Handler: echo}, Config{
		MaxServe: 1,
		Handler: func(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			<-ready
			call, done := newCall(7, "callback")
			if err := far.Send(ctx, call); err != nil {
				t.Error(err)
				return
			}
			o := <-done
			if o.err == nil {
				o.reply.Release()
			}
			echo(ctx, req, respond)
		},
	})
	close(ready)
	call, done := newCall(7, "outer...")
	send(t, near, call)
	if got := results(t, wait(t, done)); got != "outer..." {
		t.Errorf("results %q", got)
	}
}

func TestServedAtOnceIsBounded(t *testing.T) {
	const bound = 3
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	c, p := connect(t, Config{MaxServe: bound, Handler: func(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		entered <- struct{}{}
		<-leave
		echo(ctx, req, respond)
	}})
	for xid := range uint32(2 * bound) {
		p.write(fragment(true, callBytes(xid, "")))
	}
	for range bound {
		wait(t, entered)
	}
	for range bound {
		if s := c.Stats(); s.Serving > bound || len(entered) != 0 {
			t.Fatalf("%+v, %d more entered", s, len(entered))
		}
		leave <- struct{}{} // one goes, one comes
		p.record()
		wait(t, entered)
	}
	close(leave)
	for range bound {
		p.record()
	}
}

func TestAnswerRefuses(t *testing.T) {
	faults := make(chan error, 10)
	_, p := connect(t, Config{MaxPayload: 4096, Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		if req.ReplyMax != 4096+Overhead || req.BulkMax != 0 {
			t.Errorf("replies of %d bytes, %d beside", req.ReplyMax, req.BulkMax)
		}
		faults <- respond(xdr.Message{Stream: replyTo(7, strings.Repeat("x", req.ReplyMax))})
		faults <- respond(xdr.Message{Stream: callBytes(7, "")})
		faults <- respond(xdr.Message{Stream: []byte("short")})
		faults <- respond(xdr.Message{Stream: replyTo(7, "good....")})
		faults <- respond(xdr.Message{Stream: replyTo(7, "again...")})
	}})
	p.write(fragment(true, callBytes(7, "")))
	if got := p.record(); !bytes.Equal(got, replyTo(7, "good....")) {
		t.Errorf("answer %x", got)
	}
	for i, want := range []error{ulb.ErrTooLarge, errNoReply, errNoReply, nil, errAnswered} {
		if err := wait(t, faults); !errors.Is(err, want) {
			t.Errorf("answer %d: %v, want %v", i, err, want)
		}
	}
}

func TestCallsThatStayUnanswered(t *testing.T) {
	// Without a handler, and with one that does not want to.
	for name, cfg := range map[string]Config{
		"no handler": {},
		"silent":     {Handler: func(context.Context, *ulb.Request, func(xdr.Message) error) {}},
	} {
		t.Run(name, func(t *testing.T) {
			c, p := connect(t, cfg)
			p.write(fragment(true, callBytes(7, "abcdefgh")))
			call, done := newCall(8, "")
			send(t, c, call)
			p.record()
			p.write(fragment(true, replyTo(8, "")))
			results(t, wait(t, done))
			c.Close()
			if s := c.Stats(); s.Unanswered != 1 || s.Served != 0 || s.Serving != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Handlers learn of the end of the connection, and Close waits for them.
func TestHandlerOutlivesTheConnection(t *testing.T) {
	entered, left := make(chan struct{}), make(chan error, 1)
	c, p := connect(t, Config{Handler: func(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		close(entered)
		<-ctx.Done()
		left <- respond(xdr.Message{Stream: replyTo(7, "")})
	}})
	p.write(fragment(true, callBytes(7, "")))
	wait(t, entered)
	c.Close()
	var ended *ulb.ConnError
	if err := <-left; !errors.As(err, &ended) {
		t.Errorf("answer on an ended connection: %v", err)
	}
	if s := c.Stats(); s.Serving != 0 {
		t.Errorf("%+v", s)
	}
}

// The memory of a call is not used again while its handler runs.
func TestRequestsDoNotShareMemory(t *testing.T) {
	both := make(chan struct{})
	entered := make(chan struct{}, 2)
	_, p := connect(t, Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		before := bytes.Clone(req.Msg.Stream)
		entered <- struct{}{}
		<-both
		if !bytes.Equal(req.Msg.Stream, before) {
			t.Error("the request has changed")
		}
		xid, _, _ := rpc.Peek(before)
		_ = respond(xdr.Message{Stream: replyTo(xid, "")})
	}})
	p.write(fragment(true, callBytes(1, "aaaaaaaa")))
	p.write(fragment(true, callBytes(2, "bbbbbbbb")))
	wait(t, entered)
	wait(t, entered)
	close(both)
	p.record()
	p.record()
}
