package ulb

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// memory simulates a requester's registered memory: handles with bounds, which
// a responder reaches only within them.
type memory map[uint32]region

type region struct {
	data  []byte
	base  uint64
	write bool
}

func (m memory) expose(rt *rapid.T, data []byte, write bool) rpcrdma.Segment {
	h := uint32(len(m) + 1)
	r := region{data, rapid.Uint64Range(0, 1<<62).Draw(rt, "base"), write}
	m[h] = r
	return rpcrdma.Segment{Handle: h, Length: uint32(len(data)), Offset: r.base}
}

func (m memory) chunk(rt *rapid.T, data []byte, maxSegment int, write bool) rpcrdma.Chunk {
	c := rpcrdma.Chunk{}
	for len(data) > 0 {
		n := min(len(data), maxSegment)
		c = append(c, m.expose(rt, data[:n:n], write))
		data = data[n:]
	}
	return c
}

func (m memory) read(s rpcrdma.Segment) []byte {
	r, ok := m[s.Handle]
	if !ok || r.write || s.Offset != r.base || int(s.Length) > len(r.data) {
		panic(fmt.Sprintf("read of %+v", s))
	}
	return r.data[:s.Length]
}

func (m memory) write(s rpcrdma.Segment, data []byte) {
	r, ok := m[s.Handle]
	if !ok || !r.write || s.Offset != r.base || len(data) > len(r.data) {
		panic(fmt.Sprintf("write of %d bytes to %+v", len(data), s))
	}
	copy(r.data, data)
}

func randomMessage(rt *rapid.T, name string, maxStream int, items int) xdr.Message {
	m := msg(4 * rapid.IntRange(5, maxStream/4).Draw(rt, name))
	pos := 0
	for i := range items {
		pos = 4 * rapid.IntRange(pos/4+1, len(m.Stream)/4-(items-1-i)).Draw(rt, "pos")
		data := make([]byte, rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 9000), rapid.IntRange(0, 300_000)).Draw(rt, "item"))
		for j := range data {
			data[j] = byte(j*5 + i + 1)
		}
		m.Bulk = append(m.Bulk, xdr.Bulk{Pos: pos, Data: data})
	}
	return m
}

// Every plan that a requester makes is one that a responder accepts; the call
// arrives whole; and whatever reply fits the announcement, the responder finds a
// form for it that stays within the requester's memory and within the inline
// threshold, and the requester gets it whole.
func TestRandomCalls(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inline := func(name string) int { return 1024 * rapid.IntRange(1, 16).Draw(rt, name) }
		req := Thresholds{Send: inline("send"), Receive: inline("receive"),
			MaxSegment: rapid.SampledFrom([]int{4096, 65_536, 1 << 20, 1 << 30}).Draw(rt, "segment")}
		resp := Thresholds{Send: req.Receive, Receive: req.Send}
		c := &Call{Msg: randomMessage(rt, "call", 20_000, rapid.IntRange(0, 2).Draw(rt, "args")),
			ReplyMax:  rapid.OneOf(rapid.IntRange(24, 1000), rapid.IntRange(24, 50_000)).Draw(rt, "replyMax"),
			ReplySoft: rapid.Bool().Draw(rt, "soft")}
		if rapid.Bool().Draw(rt, "sink") {
			c.SinkLen = rapid.OneOf(rapid.IntRange(0, 4000), rapid.IntRange(0, 400_000)).Draw(rt, "sinkLen")
			c.Sink = &Buffer{Data: make([]byte, c.SinkLen+8)}
		}
		plan, err := PlanCall(c, req)
		if err != nil {
			rt.Skip("too large for so small segments") // its own tests tell when
		}
		if plan.Sink > 0 && plan.Reply > 0 {
			rt.Fatal("both a Write chunk and a Reply chunk")
		}

		// The requester's header.
		mem := memory{}
		h := rpcrdma.Header{XID: 7, Vers: 1, Credits: 1}
		rest := c.Msg
		if plan.Arg >= 0 {
			rest.Bulk = append(append([]xdr.Bulk{}, rest.Bulk[:plan.Arg]...), rest.Bulk[plan.Arg+1:]...)
		}
		inlined := rest.AppendTo(nil)
		if plan.Long > 0 {
			h.Proc = rpcrdma.NoMsg
			if plan.Long != len(inlined) {
				rt.Fatalf("long message of %d bytes, planned were %d", len(inlined), plan.Long)
			}
			for _, s := range mem.chunk(rt, inlined, req.MaxSegment, false) {
				h.Read = append(h.Read, rpcrdma.ReadSegment{Segment: s})
			}
			inlined = nil
		}
		if plan.Arg >= 0 {
			for _, s := range mem.chunk(rt, c.Msg.Bulk[plan.Arg].Data, req.MaxSegment, false) {
				h.Read = append(h.Read, rpcrdma.ReadSegment{Position: uint32(plan.Position), Segment: s})
			}
		}
		var offered Offered
		if plan.Sink > 0 {
			offered.Write = []rpcrdma.Chunk{mem.chunk(rt, c.Sink.Data[:plan.Sink:plan.Sink], req.MaxSegment, true)}
			h.Write = offered.Write
		}
		replyChunk := make([]byte, plan.Reply)
		if plan.Reply > 0 {
			offered.Reply = mem.chunk(rt, replyChunk, req.MaxSegment, true)
			h.Reply = offered.Reply
		}
		wire := append(h.AppendTo(nil), inlined...)
		if len(wire) > req.Send {
			rt.Fatalf("message of %d bytes, threshold %d", len(wire), req.Send)
		}

		// The responder takes it apart.
		var got rpcrdma.Header
		payload, err := got.Decode(wire)
		if err != nil {
			rt.Fatal(err)
		}
		pulls, err := CheckCall(&got, nil)
		if err != nil {
			rt.Fatal(err)
		}
		call := xdr.Message{Stream: payload}
		for _, p := range pulls {
			var data []byte
			for _, s := range got.Read[p.From:p.To] {
				data = append(data, mem.read(s.Segment)...)
			}
			if len(data) != p.Len {
				rt.Fatalf("pulled %d bytes, announced were %d", len(data), p.Len)
			}
			if p.Position == 0 {
				call.Stream = data
			} else {
				call.Bulk = append(call.Bulk, xdr.Bulk{Pos: p.Position, Data: data})
			}
		}
		if want := c.Msg.AppendTo(nil); !bytes.Equal(call.AppendTo(nil), want) {
			rt.Fatalf("the call arrived different: plan %+v", plan)
		}

		// It answers with any reply that the call has announced.
		results := 0
		if c.SinkLen > 0 && rapid.Bool().Draw(rt, "result") {
			results = 1
		}
		reply := msg(4 * rapid.IntRange(2, c.ReplyMax/4).Draw(rt, "reply"))
		if results > 0 {
			data := make([]byte, rapid.IntRange(0, c.SinkLen).Draw(rt, "resultLen"))
			for i := range data {
				data[i] = byte(3*i + 1)
			}
			reply.Bulk = []xdr.Bulk{{Pos: 4 * rapid.IntRange(1, len(reply.Stream)/4).Draw(rt, "at"), Data: data}}
		}
		var rp ReplyPlan
		if err := rp.Plan(reply, Offered{Write: got.Write, Reply: got.Reply}, resp); err != nil {
			rt.Fatalf("a reply of %d bytes, announced were %d and %d: %v", reply.Len(), c.ReplyMax, c.SinkLen, err)
		}
		spread := func(chunk rpcrdma.Chunk, data []byte) {
			for _, s := range chunk {
				mem.write(s, data[:s.Length])
				data = data[s.Length:]
			}
			if len(data) > 0 {
				rt.Fatalf("%d bytes have no place", len(data))
			}
		}
		for i := range rp.Placed {
			spread(rp.Write[i], reply.Bulk[i].Data)
		}
		rh := rpcrdma.Header{XID: 7, Vers: 1, Credits: 1, Write: rp.Write, Reply: rp.Reply}
		inlined = rp.Rest.AppendTo(nil)
		if rp.Long {
			rh.Proc = rpcrdma.NoMsg
			spread(rp.Reply, inlined)
			inlined = nil
		}
		if wire = append(rh.AppendTo(nil), inlined...); len(wire) > req.Receive {
			rt.Fatalf("reply of %d bytes inline, threshold %d", len(wire), req.Receive)
		}

		// The requester takes that.
		var back rpcrdma.Header
		if payload, err = back.Decode(wire); err != nil {
			rt.Fatal(err)
		}
		r, err := CheckReply(&back, offered)
		if err != nil {
			rt.Fatal(err)
		}
		m := xdr.Message{Stream: payload}
		if !r.Inline {
			m.Stream = replyChunk[:r.Long]
		}
		if plan.Sink > 0 && results > 0 {
			if r.Placed != len(reply.Bulk[0].Data) {
				rt.Fatalf("%d bytes placed of %d", r.Placed, len(reply.Bulk[0].Data))
			}
			m.Bulk = []xdr.Bulk{{Pos: reply.Bulk[0].Pos, Data: c.Sink.Data[:r.Placed]}}
		}
		if !bytes.Equal(m.AppendTo(nil), reply.AppendTo(nil)) {
			rt.Fatal("the reply arrived different")
		}
		if c.Sink != nil && !bytes.Equal(c.Sink.Data[c.SinkLen:], make([]byte, 8)) {
			rt.Fatal("bytes behind the sink")
		}
	})
}
