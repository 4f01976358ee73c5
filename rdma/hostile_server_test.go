package rdma_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// readCall is a call with a sink of 100,000 bytes.
func readCall(t testing.TB, c *rdma.Conn) *ulb.Call {
	return &ulb.Call{Msg: callMessage(200), ReplyMax: 300, Sink: getBuffer(t, c, 100_000), SinkLen: 100_000}
}

// longCall is a call with a Reply chunk of 50,000 bytes.
func longReplyCall() *ulb.Call { return &ulb.Call{Msg: callMessage(200), ReplyMax: 50_000} }

// Replies that are wrong in a way that could hurt: the connection is lost with
// a fault that says so, the call fails, and memory is as it was.
func TestHostileReplies(t *testing.T) {
	for _, h := range []struct {
		name string
		call func(t testing.TB, c *rdma.Conn) *ulb.Call
		act  func(r *raw, in *incoming)
		want string // in the reason
	}{
		{"write list longer than written to", readCall, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Write = in.h.Write
			h.Write[0][0].Length++
			r.send(append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...))
		}, "more bytes written than offered"},
		{"length of four gigabytes", readCall, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Write = in.h.Write
			h.Write[0][0].Length = 0xffffffff
			r.send(append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...))
		}, "more bytes written than offered"},
		{"other number of segments", readCall, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Write = []rpcrdma.Chunk{append(slices.Clone(in.h.Write[0]), rpcrdma.Segment{Length: 0})}
			r.send(append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...))
		}, "other number of segments"},
		{"other number of chunks", readCall, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Write = append(slices.Clone(in.h.Write), in.h.Write[0])
			r.send(append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...))
		}, "2 Write chunks returned, 1 offered"},
		{"write list for a call without", func(testing.TB, *rdma.Conn) *ulb.Call {
			return &ulb.Call{Msg: callMessage(200), ReplyMax: 300}
		}, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Write = []rpcrdma.Chunk{{{Handle: 1, Length: 10}}}
			r.send(append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...))
		}, "0 offered"},
		{"read list in a reply", readCall, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Read = []rpcrdma.ReadSegment{{Position: 40, Segment: rpcrdma.Segment{Handle: 1, Length: 10}}}
			r.send(append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...))
		}, "Read list"},
		{"Reply chunk too long", func(testing.TB, *rdma.Conn) *ulb.Call { return longReplyCall() }, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Proc, h.Reply = rpcrdma.NoMsg, in.h.Reply
			h.Reply[0].Length++
			r.send(h.AppendTo(nil))
		}, "more bytes written than offered"},
		{"Reply chunk that was not offered", readCall, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.Proc, h.Reply = rpcrdma.NoMsg, rpcrdma.Chunk{{Handle: 1, Length: 10}}
			r.send(h.AppendTo(nil))
		}, "Reply chunk"},
		{"something else in the Reply chunk", func(testing.TB, *rdma.Conn) *ulb.Call { return longReplyCall() }, func(r *raw, in *incoming) {
			h := in.reply(32)
			r.write(in.h.Reply[0], rpcReply(in.h.XID+1, 5000))
			h.Proc, h.Reply = rpcrdma.NoMsg, in.h.Reply
			h.Reply[0].Length = 5000
			r.send(h.AppendTo(nil))
		}, "not the reply"},
		{"a call in the Reply chunk", func(testing.TB, *rdma.Conn) *ulb.Call { return longReplyCall() }, func(r *raw, in *incoming) {
			h := in.reply(32)
			r.write(in.h.Reply[0], message(in.h.XID, 0, 5000).Stream)
			h.Proc, h.Reply = rpcrdma.NoMsg, in.h.Reply
			h.Reply[0].Length = 5000
			r.send(h.AppendTo(nil))
		}, "not the reply"},
		{"four bytes in the Reply chunk", func(testing.TB, *rdma.Conn) *ulb.Call { return longReplyCall() }, func(r *raw, in *incoming) {
			h := in.reply(32)
			r.write(in.h.Reply[0], words(in.h.XID))
			h.Proc, h.Reply = rpcrdma.NoMsg, in.h.Reply
			h.Reply[0].Length = 4
			r.send(h.AppendTo(nil))
		}, "not the reply"},
		{"invalidation by a message that is no reply", readCall, func(r *raw, in *incoming) {
			r.send(append((&rpcrdma.Header{XID: 5, Vers: 1, Credits: 1}).AppendTo(nil), message(5, 0, 100).Stream...), in.h.Write[0][0].Handle)
		}, "no reply withdraws handle"},
		{"invalidation by a reply to nothing", readCall, func(r *raw, in *incoming) {
			h := in.reply(32)
			h.XID += 1000
			r.send(append(h.AppendTo(nil), rpcReply(h.XID, 120)...), in.h.Write[0][0].Handle)
		}, "no outstanding call withdraws handle"},
		{"invalidation by garbage", readCall, func(r *raw, in *incoming) {
			r.send([]byte("garbage garbage garbage garbage"), in.h.Write[0][0].Handle)
		}, "no reply withdraws handle"},
	} {
		t.Run(h.name, func(t *testing.T) {
			c, r := rawServer(t, rdma.Config{}, usual)
			call := h.call(t, c)
			if call.Sink != nil {
				fill(call.Sink.Data, 1)
			}
			got := send(t, c, call)
			h.act(r, r.next())
			res := await(t, got)
			await(t, c.Done())
			var fault *rdma.ProtocolError
			if !errors.As(res.err, &fault) && !errors.As(c.Err(), &fault) || !strings.Contains(c.Err().Error(), h.want) {
				t.Errorf("call: %v; connection: %v", res.err, c.Err())
			}
			var lost *ulb.ConnError
			if !errors.As(c.Err(), &lost) || lost.Peer != "memory:server" {
				t.Errorf("connection: %v does not name the peer", c.Err())
			}
			if res.err == nil {
				t.Error("the call succeeded")
			}
			if err := r.ended(); err == nil || errors.Is(err, rdma.ErrClosed) {
				t.Errorf("the peer was told %v", err)
			}
			call.Sink.Release()
		})
	}
}

// Messages that a requester has to drop in silence (RFC 8166 sections 4.5,
// 4.6): the connection and the call that waits survive them.
func TestDroppedMessages(t *testing.T) {
	c, r := rawServer(t, rdma.Config{}, usual)
	got := send(t, c, &ulb.Call{Msg: callMessage(200), ReplyMax: 300})
	in := r.next()
	xid := in.h.XID
	other := func(mutate func(h *rpcrdma.Header)) []byte {
		h := in.reply(32)
		mutate(h)
		return append(h.AppendTo(nil), rpcReply(xid, 120)...)
	}
	for _, m := range []struct {
		name string
		msg  []byte
	}{
		{"empty", nil},
		{"one byte", []byte{1}},
		{"short header", other(func(*rpcrdma.Header) {})[:24]},
		{"all ones", slices.Repeat([]byte{0xff}, 40)},
		{"another version", other(func(h *rpcrdma.Header) { h.Vers = 2 })},
		{"RDMA_DONE", words(xid, 1, 32, 3, 0, 0, 0)},
		{"RDMA_MSGP", words(xid, 1, 32, 2, 0, 0, 0, 0, 0, xid, 1, 0, 0)},
		{"unknown procedure", words(xid, 1, 32, 9, 0, 0, 0, xid, 1)},
		{"list without end", words(xid, 1, 32, 0, 1, 0, 0, 0, 0, 0, 1)},
		{"no RPC message", words(xid, 1, 32, 0, 0, 0, 0)},
		{"half an RPC message", words(xid, 1, 32, 0, 0, 0, 0, xid)},
		{"other XID inside", words(xid, 1, 32, 0, 0, 0, 0, xid+1, 1, 0)},
		{"neither call nor reply", words(xid, 1, 32, 0, 0, 0, 0, xid, 2, 0)},
		{"RDMA_ERROR with unknown code", words(xid, 1, 32, 4, 77, 0, 0)},
		{"RDMA_ERROR cut off", words(xid, 1, 32, 4, 1, 1)},
		{"RDMA_NOMSG without chunks", words(xid, 1, 32, 1, 0, 0, 0)},
	} {
		before := c.Stats().Malformed
		r.send(m.msg)
		for c.Stats().Malformed == before { // the message is on its way
			if err := c.Err(); err != nil {
				t.Fatalf("%s: %v", m.name, err)
			}
			select {
			case res := <-got:
				t.Fatalf("%s: taken for a reply: %+v", m.name, res)
			case <-c.Done():
			default:
			}
		}
	}
	unknown := c.Stats().Unknown
	r.send(append((&rpcrdma.Header{XID: xid + 1, Vers: 1, Credits: 32}).AppendTo(nil), rpcReply(xid+1, 120)...))
	r.send(words(xid+2, 1, 32, 4, 2, 0, 0))
	r.send(other(func(*rpcrdma.Header) {}))
	res := await(t, got)
	if res.err != nil {
		t.Fatal(res.err)
	}
	res.reply.Release()
	if n := c.Stats().Unknown - unknown; n != 2 {
		t.Errorf("%d replies to unknown calls were counted, want 2", n)
	}
	// A second reply to the same call.
	r.send(other(func(*rpcrdma.Header) {}))
	got = send(t, c, &ulb.Call{Msg: callMessage(200), ReplyMax: 300})
	in = r.next()
	r.send(append(in.reply(32).AppendTo(nil), rpcReply(in.h.XID, 120)...))
	res = await(t, got)
	if res.err != nil {
		t.Fatal(res.err)
	}
	res.reply.Release()
	if n := c.Stats().Unknown - unknown; n != 3 {
		t.Errorf("%d replies to unknown calls were counted, want 3", n)
	}
}

// RDMA_ERROR ends the call with a typed error, and the connection goes on
// (RFC 8267 sections 3.1, 6.4.2, 6.6).
func TestRefusedCalls(t *testing.T) {
	c, r := rawServer(t, rdma.Config{}, usual)
	for i, e := range []struct {
		name string
		soft bool
		err  []uint32
		want error
	}{
		{"ERR_CHUNK", false, []uint32{2}, ulb.ErrChunk},
		{"ERR_CHUNK, size of the reply a guess", true, []uint32{2}, ulb.ErrReplyTooLarge},
		{"ERR_VERS", false, []uint32{1, 2, 3}, ulb.ErrVersion},
	} {
		call := longReplyCall()
		call.ReplySoft = e.soft
		got := send(t, c, call)
		in := r.next()
		if n := c.Stats().Exposed; n != 1 {
			t.Errorf("%s: %d handles exposed", e.name, n)
		}
		r.send(append(words(in.h.XID, 1, 32, 4), words(e.err...)...))
		res := await(t, got)
		if !errors.Is(res.err, e.want) {
			t.Errorf("%s: %v, want %v", e.name, res.err, e.want)
		}
		var v *ulb.VersionError
		if errors.As(res.err, &v) && (v.Low != 2 || v.High != 3) {
			t.Errorf("%s: versions %d to %d", e.name, v.Low, v.High)
		}
		if s := c.Stats(); s.Exposed != 0 || s.Outstanding != 0 || s.Refused != uint64(i+1) {
			t.Errorf("%s: left behind: %+v", e.name, s)
		}
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// A handle that a reply withdraws is not withdrawn again; the others are.
func TestRemoteInvalidation(t *testing.T) {
	c, r := rawServer(t, rdma.Config{}, usual)
	call := &ulb.Call{ReplyMax: 9000, ArgBuf: getBuffer(t, c, 50_000)}
	call.Msg = callMessage(200, call.ArgBuf.Data[:50_000])
	for i, which := range []string{"none", "read", "reply"} {
		got := send(t, c, call)
		in := r.next()
		h := in.reply(32)
		h.Reply = in.h.Reply
		h.Reply[0].Length = 0
		msg := append(h.AppendTo(nil), rpcReply(in.h.XID, 120)...)
		switch which {
		case "none":
			r.send(msg)
		case "read":
			r.send(msg, in.h.Read[0].Handle)
		case "reply":
			r.send(msg, in.h.Reply[0].Handle)
		}
		res := await(t, got)
		if res.err != nil {
			t.Fatal(res.err)
		}
		res.reply.Release()
		if s := c.Stats(); s.RemoteInvals != uint64(i) || s.LocalInvals != uint64(2*(i+1)-i) {
			t.Errorf("%s: %d withdrawn by the peer, %d by this end", which, s.RemoteInvals, s.LocalInvals)
		}
		if n := r.qp.(interface{ Exposed() int }).Exposed(); n != 0 {
			t.Errorf("%d handles of the raw peer", n)
		}
	}
	call.ArgBuf.Release()
}

// A reply that withdraws the handle of another call costs the connection.
func TestForeignInvalidation(t *testing.T) {
	c, r := rawServer(t, rdma.Config{}, usual)
	warm(t, c, r)
	a, b := readCall(t, c), readCall(t, c)
	gotA, gotB := send(t, c, a), send(t, c, b)
	inA, inB := r.next(), r.next()
	h := inA.reply(32)
	h.Write = inA.h.Write
	h.Write[0][0].Length = 0
	r.send(append(h.AppendTo(nil), rpcReply(inA.h.XID, 120)...), inB.h.Write[0][0].Handle)
	for _, got := range []<-chan result{gotA, gotB} {
		res := await(t, got)
		var lost *ulb.ConnError
		if !errors.As(res.err, &lost) {
			t.Errorf("call: %v", res.err)
		}
	}
	await(t, c.Done())
	var fault *rdma.ProtocolError
	if !errors.As(c.Err(), &fault) || !strings.Contains(fault.Reason, "of another") {
		t.Errorf("connection: %v", c.Err())
	}
	a.Sink.Release()
	b.Sink.Release()
}

// warm brings the connection to where the peer has granted 32 credits.
func warm(t testing.TB, c *rdma.Conn, r *raw) {
	t.Helper()
	got := send(t, c, &ulb.Call{Msg: callMessage(200), ReplyMax: 300})
	in := r.next()
	r.send(append(in.reply(32).AppendTo(nil), rpcReply(in.h.XID, 120)...))
	res := await(t, got)
	if res.err != nil {
		t.Fatal(res.err)
	}
	res.reply.Release()
}
