package rdma_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// Every form of call and reply, end to end, with segments large and small and
// with both kinds of memory.
func TestForms(t *testing.T) {
	for _, p := range []rdmatest.Params{{}, {AnyMemory: true}, {MaxSegment: 70_000}, {MaxSegment: 65536, MaxGather: 1, AnyMemory: true}} {
		t.Run(fmt.Sprintf("segment=%d any=%t", p.MaxSegment, p.AnyMemory), func(t *testing.T) { testForms(t, p) })
	}
}

func testForms(t *testing.T, params rdmatest.Params) {
	type form struct {
		name            string
		stream          int  // bytes of the call without its argument
		arg             int  // bytes of the argument, -1: none
		foreign         bool // the argument is not in a payload buffer
		sink            int  // bytes of the sink, -1: none
		reply, replyMax int  // bytes of the reply without its result, as it is and as announced
		result          int  // bytes of the result, -1: none
		want            rdma.Stats
	}
	forms := []form{
		{"inline", 200, -1, false, -1, 120, 200, -1, rdma.Stats{Inline: 1}},
		{"inline argument", 200, 333, false, -1, 120, 200, -1, rdma.Stats{Inline: 1}},
		{"inline result", 200, -1, false, 512, 120, 200, 511, rdma.Stats{Inline: 1}},
		{"argument by Read chunk", 200, 200_001, false, -1, 120, 200, -1, rdma.Stats{ReadChunks: 1, BytesPulled: 200_001}},
		{"foreign argument by Read chunk", 200, 100_002, true, -1, 120, 200, -1, rdma.Stats{ReadChunks: 1, BytesPulled: 100_002}},
		{"long call", 9000, -1, false, -1, 120, 200, -1, rdma.Stats{LongCalls: 1, BytesPulled: 9000}},
		{"long call with small argument", 9000, 999, false, -1, 120, 200, -1, rdma.Stats{LongCalls: 1, BytesPulled: 10_000}},
		{"long call with large argument", 9000, 99_999, false, -1, 120, 200, -1, rdma.Stats{LongCalls: 1, ReadChunks: 1, BytesPulled: 108_999}},
		{"result by Write chunk", 200, -1, false, 300_000, 120, 200, 300_000, rdma.Stats{WriteChunks: 1, BytesPlaced: 300_000}},
		{"short result by Write chunk", 200, -1, false, 300_000, 120, 200, 5, rdma.Stats{WriteChunks: 1, BytesPlaced: 5}},
		{"Write chunk across segments", 200, -1, false, 300_000, 120, 200, 140_001, rdma.Stats{WriteChunks: 1, BytesPlaced: 140_001}},
		{"empty result", 200, -1, false, 300_000, 120, 200, 0, rdma.Stats{WriteChunks: 1}},
		{"no result", 200, -1, false, 300_000, 120, 200, -1, rdma.Stats{WriteChunks: 1}},
		{"reply by Reply chunk", 200, -1, false, -1, 100_000, 100_000, -1, rdma.Stats{ReplyChunks: 1, LongReplies: 1, BytesPlaced: 100_000}},
		{"inline although there is a Reply chunk", 200, -1, false, -1, 400, 100_000, -1, rdma.Stats{ReplyChunks: 1}},
		{"result within the Reply chunk", 200, -1, false, 10_000, 6000, 6000, 9000, rdma.Stats{ReplyChunks: 1, LongReplies: 1, BytesPlaced: 15_000}},
		{"long both ways", 90_000, -1, false, -1, 90_000, 90_000, -1, rdma.Stats{LongCalls: 1, ReplyChunks: 1, LongReplies: 1, BytesPulled: 90_000, BytesPlaced: 90_000}},
		{"everything long", 9000, 99_999, true, -1, 90_000, 90_000, -1, rdma.Stats{LongCalls: 1, ReadChunks: 1, ReplyChunks: 1, LongReplies: 1, BytesPulled: 108_999, BytesPlaced: 90_000}},
	}
	for i, f := range forms {
		t.Run(f.name, func(t *testing.T) {
			var seen []byte // the call as the server got it
			var room ulb.Request
			result := fill(make([]byte, max(0, f.result)), byte(i))
			handler := func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
				seen, room = whole(req.Msg), *req
				m := replyMessage(req, f.reply)
				if f.result >= 0 {
					m = replyMessage(req, f.reply, result)
				}
				if err := respond(m); err != nil {
					t.Errorf("respond: %v", err)
				}
			}
			p := connect(t, rdma.Config{}, rdma.Config{Handler: handler}, params)
			call := &ulb.Call{ReplyMax: f.replyMax}
			if f.arg >= 0 {
				var data []byte
				if f.foreign {
					data = make([]byte, f.arg)
				} else {
					call.ArgBuf = getBuffer(t, p.client, f.arg+13)
					data = call.ArgBuf.Data[13 : 13+f.arg]
				}
				call.Msg = callMessage(f.stream, fill(data, 0x55))
			} else {
				call.Msg = callMessage(f.stream)
			}
			sent := call.Msg.AppendTo(nil)
			if f.sink >= 0 {
				call.Sink, call.SinkLen = getBuffer(t, p.client, f.sink), f.sink
				fill(call.Sink.Data, 0xe7)
			}
			for range 3 { // the same Call again
				before := p.client.Stats()
				got := await(t, send(t, p.client, call))
				if got.err != nil {
					t.Fatal(got.err)
				}
				if !bytes.Equal(seen, sent) {
					t.Error("the server got another call")
				}
				want := message(lastXID.Load(), 1, f.reply)
				if f.result >= 0 {
					want = message(lastXID.Load(), 1, f.reply, result)
				}
				if f.arg >= 0 || f.stream > 0 {
					want.Stream[0], want.Stream[1], want.Stream[2], want.Stream[3] = sent[0], sent[1], sent[2], sent[3]
				}
				if got.reply.SinkOffered != (f.want.WriteChunks > 0) {
					t.Errorf("SinkOffered %t", got.reply.SinkOffered)
				}
				if placed := len(got.reply.Msg.Bulk) > 0; placed != (f.want.WriteChunks > 0 && f.result > 0) {
					t.Errorf("result placed: %t", placed)
				} else if placed && &got.reply.Msg.Bulk[0].Data[0] != &call.Sink.Data[0] {
					t.Error("result is not in the sink")
				}
				if !bytes.Equal(whole(got.reply.Msg), want.AppendTo(nil)) {
					t.Error("the client got another reply")
				}
				got.reply.Release()
				s := p.client.Stats()
				n := rdma.Stats{Inline: s.Inline - before.Inline, ReadChunks: s.ReadChunks - before.ReadChunks,
					LongCalls: s.LongCalls - before.LongCalls, WriteChunks: s.WriteChunks - before.WriteChunks,
					ReplyChunks: s.ReplyChunks - before.ReplyChunks, LongReplies: s.LongReplies - before.LongReplies,
					BytesPulled: s.BytesPulled - before.BytesPulled, BytesPlaced: s.BytesPlaced - before.BytesPlaced}
				if n != f.want {
					t.Errorf("traveled as %+v\nwant %+v", n, f.want)
				}
				if f.want.WriteChunks > 0 && room.BulkMax != f.sink {
					t.Errorf("server saw room for a result of %d bytes, offered were %d", room.BulkMax, f.sink)
				}
			}
			if call.ArgBuf != nil {
				call.ArgBuf.Release()
			}
			if call.Sink != nil {
				for j, b := range call.Sink.Data[f.sink:] {
					if b != byte(f.sink+j)^byte((f.sink+j)>>8)*7^0xe7 {
						t.Fatal("memory behind the sink was written")
					}
				}
				call.Sink.Release()
			}
		})
	}
}
