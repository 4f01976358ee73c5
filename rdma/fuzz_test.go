package rdma_test

import (
	"bytes"
	"context"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// FuzzReceive gives a connection a message of any content. It must drop it,
// answer it, or end the connection; calls must be done either way, nothing may
// be left behind, and no byte outside what was offered may be believed.
func FuzzReceive(f *testing.F) {
	const inline, sink, long = 0x01010101, 0x02020202, 0x03030303
	header := func(xid uint32, mutate func(h *rpcrdma.Header)) []byte {
		h := rpcrdma.Header{XID: xid, Vers: 1, Credits: 8}
		mutate(&h)
		return h.AppendTo(nil)
	}
	body := func(xid, kind uint32) []byte { return message(xid, kind, 60).Stream }
	for _, msg := range [][]byte{
		append(header(inline, func(*rpcrdma.Header) {}), body(inline, 1)...),
		append(header(inline, func(*rpcrdma.Header) {}), body(inline, 0)...),
		append(header(sink, func(h *rpcrdma.Header) { h.Write = []rpcrdma.Chunk{{{Length: 9999}}} }), body(sink, 1)...),
		append(header(sink, func(h *rpcrdma.Header) { h.Write = []rpcrdma.Chunk{{{Length: 10_001}}} }), body(sink, 1)...),
		header(long, func(h *rpcrdma.Header) { h.Proc, h.Reply = rpcrdma.NoMsg, rpcrdma.Chunk{{Length: 9000}} }),
		header(long, func(h *rpcrdma.Header) { h.Proc, h.Reply = rpcrdma.NoMsg, rpcrdma.Chunk{{Length: 7}} }),
		append(header(long, func(h *rpcrdma.Header) { h.Reply = rpcrdma.Chunk{{}} }), body(long, 1)...),
		header(inline, func(h *rpcrdma.Header) { h.Proc, h.Err = rpcrdma.Error, rpcrdma.ErrChunk }),
		header(sink, func(h *rpcrdma.Header) { h.Proc, h.Err, h.VersHigh = rpcrdma.Error, rpcrdma.ErrVers, 9 }),
		append(header(9, func(h *rpcrdma.Header) {
			h.Read = []rpcrdma.ReadSegment{{Position: 40, Segment: rpcrdma.Segment{Handle: 1, Length: 100}}}
		}), body(9, 0)...),
		header(9, func(h *rpcrdma.Header) {
			h.Proc = rpcrdma.NoMsg
			h.Read = []rpcrdma.ReadSegment{{Segment: rpcrdma.Segment{Handle: 1, Length: 100}}}
			h.Write = []rpcrdma.Chunk{{{Length: 5}, {Length: 6}}, {}}
			h.Reply = rpcrdma.Chunk{{Length: 1 << 31}, {Length: 1 << 31}}
		}),
		{},
		bytes.Repeat([]byte{0xff}, 100),
	} {
		f.Add(msg, uint8(0), false)
		f.Add(msg, uint8(1), false)
		f.Add(msg, uint8(2), false)
		f.Add(msg, uint8(0), true)
	}
	small := rdma.Config{Credits: 4, BackCredits: 1, Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		_ = req.Msg.Len()
		_ = respond(replyMessage(req, 60, make([]byte, 50)))
	}}

	toClient := func(t *testing.T, msg []byte, invalidate uint8) {
		c, r := rawServer(t, small, usual)
		warm(t, c, r)
		calls := []*ulb.Call{
			{Msg: message(inline, 0, 100), ReplyMax: 100},
			{Msg: message(sink, 0, 100), ReplyMax: 100, Sink: getBuffer(t, c, 12_000), SinkLen: 10_000},
			{Msg: message(long, 0, 100), ReplyMax: 9000},
		}
		guard := fill(calls[1].Sink.Data, 0x99)[10_000:]
		before := bytes.Clone(guard)
		var got []<-chan result
		var in []*incoming
		for _, call := range calls {
			got = append(got, send(t, c, call))
			in = append(in, r.next())
		}
		switch invalidate % 3 {
		case 0:
			r.send(msg)
		case 1:
			r.send(msg, in[1].h.Write[0][0].Handle)
		case 2:
			r.send(msg, in[2].h.Reply[0].Handle)
		}
		for _, i := range in { // proper replies to what was not answered by that
			b := r.buffer(256)
			out := append((&rpcrdma.Header{XID: i.h.XID, Vers: 1, Credits: 8}).AppendTo(b.Data[:0]), body(i.h.XID, 1)...)
			// The connection may have ended, which shows below.
			_ = r.qp.Post([]rdma.WorkRequest{{Op: rdma.OpSend, Local: []rdma.Gather{{Buf: b, Len: len(out)}}}})
		}
		for i, ch := range got {
			res := await(t, ch)
			if res.err == nil {
				n := len(res.reply.Msg.Stream)
				if i == 2 && n > 9000 || i < 2 && n > 4096 {
					t.Fatalf("reply of %d bytes", n)
				}
				for _, b := range res.reply.Msg.Bulk {
					if i != 1 || len(b.Data) > 10_000 {
						t.Fatalf("result of %d bytes to call %d", len(b.Data), i)
					}
				}
			}
			res.reply.Release()
		}
		if !bytes.Equal(guard, before) {
			t.Fatal("bytes behind the sink")
		}
		calls[1].Sink.Release()
	}
	toServer := func(t *testing.T, msg []byte) {
		c, r := rawClient(t, small, usual)
		r.send(msg)
		b := r.buffer(256)
		out := append(words(0xabcdef, 1, 1, 0, 0, 0, 0), body(0xabcdef, 0)...)
		copy(b.Data, out)
		_ = r.qp.Post([]rdma.WorkRequest{{Op: rdma.OpSend, Local: []rdma.Gather{{Buf: b, Len: len(out)}}}})
		for {
			d, err := r.poll()
			if err != nil {
				if await(t, c.Done()); c.Err() == nil {
					t.Fatal("no answer, and no reason")
				}
				return
			}
			if d.Op == rdma.OpReceive && d.Err == nil && d.Len >= 4 && bytes.Equal(d.Buf.Data[:4], out[:4]) {
				return
			}
		}
	}
	f.Fuzz(func(t *testing.T, msg []byte, invalidate uint8, server bool) {
		if len(msg) > 4096 {
			return
		}
		if server {
			toServer(t, msg)
		} else {
			toClient(t, msg, invalidate)
		}
	})
}
