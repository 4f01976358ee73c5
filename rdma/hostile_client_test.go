package rdma_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

func echo(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	_ = respond(replyMessage(req, 120))
}

// Calls that a responder cannot process are answered with RDMA_ERROR, others
// are dropped, and the connection goes on (RFC 8166 sections 4.5, 4.6; RFC 8267
// section 6.4.2).
func TestMalformedCalls(t *testing.T) {
	c, r := rawClient(t, rdma.Config{Handler: echo}, usual)
	src := r.buffer(4096)
	exposed := func(a rdma.Access) rpcrdma.Segment {
		e, err := r.qp.Expose(src, 0, 4096, a)
		if err != nil {
			t.Fatal(err)
		}
		return rpcrdma.Segment{Handle: uint32(e.Handle), Length: 4096, Offset: e.Offset}
	}
	seg := exposed(rdma.RemoteRead)
	rpcCall := message(7, 0, 100).Stream
	header := func(proc rpcrdma.Proc, mutate func(h *rpcrdma.Header)) []byte {
		h := rpcrdma.Header{XID: 7, Vers: 1, Credits: 1, Proc: proc}
		mutate(&h)
		return h.AppendTo(nil)
	}
	at := func(position uint32, n int) []rpcrdma.ReadSegment {
		var l []rpcrdma.ReadSegment
		for range n {
			l = append(l, rpcrdma.ReadSegment{Position: position, Segment: rpcrdma.Segment{Handle: seg.Handle, Offset: seg.Offset, Length: 16}})
		}
		return l
	}
	for _, m := range []struct {
		name string
		msg  []byte
		vers bool // ERR_VERS rather than ERR_CHUNK
	}{
		{"version 2", append(header(0, func(h *rpcrdma.Header) { h.Vers = 2 }), rpcCall...), true},
		{"all ones", bytes.Repeat([]byte{0xff}, 40), true},
		{"RDMA_MSGP", append(words(7, 1, 1, 2, 0, 0, 0, 0, 0), rpcCall...), false},
		{"unknown procedure", append(words(7, 1, 1, 5, 0, 0, 0), rpcCall...), false},
		{"RDMA_NOMSG without chunks", words(7, 1, 1, 1, 0, 0, 0), false},
		{"list without end", words(7, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1), false},
		{"other XID inside", append(words(8, 1, 1, 0, 0, 0, 0), rpcCall...), false},
		{"no message", words(7, 1, 1, 0, 0, 0, 0), false},
		{"neither call nor reply", words(7, 1, 1, 0, 0, 0, 0, 7, 2), false},
		{"two positioned Read chunks", append(header(0, func(h *rpcrdma.Header) { h.Read = append(at(40, 1), at(80, 1)...) }), rpcCall...), false},
		{"seventeen segments", append(header(0, func(h *rpcrdma.Header) { h.Read = at(40, 17) }), rpcCall...), false},
		{"odd position", append(header(0, func(h *rpcrdma.Header) { h.Read = at(42, 1) }), rpcCall...), false},
		{"long call without its message", header(rpcrdma.NoMsg, func(h *rpcrdma.Header) { h.Read = at(40, 1) }), false},
		{"long call, other XID in the chunk", header(rpcrdma.NoMsg, func(h *rpcrdma.Header) { h.Read = at(0, 1) }), false},
		{"Read chunk of four gigabytes", append(header(0, func(h *rpcrdma.Header) {
			h.Read = at(40, 1)
			h.Read[0].Length = 0xffffffff
		}), rpcCall...), false},
	} {
		r.send(m.msg)
		in := r.next()
		want := rpcrdma.ErrChunk
		if m.vers {
			want = rpcrdma.ErrVers
		}
		if in.h.Proc != rpcrdma.Error || in.h.Err != want || in.h.XID != binary.BigEndian.Uint32(m.msg) || in.h.Vers != binary.BigEndian.Uint32(m.msg[4:]) {
			t.Errorf("%s: answered by %+v", m.name, in.h)
		}
		if m.vers && (in.h.VersLow != 1 || in.h.VersHigh != 1) {
			t.Errorf("%s: versions %d to %d", m.name, in.h.VersLow, in.h.VersHigh)
		}
		if in.HasInvalidated {
			t.Errorf("%s: a handle was withdrawn", m.name)
		}
	}
	// These get no answer: the next one that comes is to the call behind them.
	for _, msg := range [][]byte{nil, {1}, words(7, 1, 1, 0, 0, 0), words(7, 1, 1, 3, 0, 0, 0), words(7, 1, 1, 4, 2), words(7, 1, 1, 4, 99, 0, 0)} {
		r.send(msg)
	}
	r.send(append(words(9, 1, 1, 0, 0, 0, 0), message(9, 0, 100).Stream...))
	if in := r.next(); in.h.Proc != rpcrdma.Msg || in.h.XID != 9 || in.h.Credits != 64 {
		t.Errorf("answered by %+v", in.h)
	}
	if s := c.Stats(); s.Refusals != 15 || s.Served != 1 {
		t.Errorf("%+v", s)
	}
}

// Handles that do not give access cost the connection, as a device would have
// it, and nothing else.
func TestHostileSegments(t *testing.T) {
	for _, m := range []struct {
		name string
		proc rpcrdma.Proc
		h    func(h *rpcrdma.Header, s rpcrdma.Segment)
	}{
		{"unknown handle in a Read chunk", 0, func(h *rpcrdma.Header, s rpcrdma.Segment) {
			s.Handle ^= 0xff00
			h.Read = []rpcrdma.ReadSegment{{Position: 40, Segment: s}}
		}},
		{"Read chunk beyond the memory", rpcrdma.NoMsg, func(h *rpcrdma.Header, s rpcrdma.Segment) {
			s.Length += 4
			h.Read = []rpcrdma.ReadSegment{{Segment: s}}
		}},
		{"Write chunk over memory that may be read only", 0, func(h *rpcrdma.Header, s rpcrdma.Segment) {
			h.Write = []rpcrdma.Chunk{{s}}
		}},
		{"Reply chunk with a wrong handle", 0, func(h *rpcrdma.Header, s rpcrdma.Segment) {
			s.Handle++
			s.Length = 1 << 20
			h.Reply = rpcrdma.Chunk{s}
		}},
	} {
		t.Run(m.name, func(t *testing.T) {
			c, r := rawClient(t, rdma.Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
				if req.BulkMax > 0 {
					_ = respond(replyMessage(req, 120, make([]byte, 1000)))
				} else {
					_ = respond(replyMessage(req, 20_000))
				}
			}}, usual)
			b := r.buffer(4096)
			e, err := r.qp.Expose(b, 0, 4096, rdma.RemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			h := rpcrdma.Header{XID: 7, Vers: 1, Credits: 1, Proc: m.proc}
			m.h(&h, rpcrdma.Segment{Handle: uint32(e.Handle), Length: 4096, Offset: e.Offset})
			msg := h.AppendTo(nil)
			if m.proc == rpcrdma.Msg {
				msg = append(msg, message(7, 0, 100).Stream...)
			}
			r.send(msg)
			await(t, c.Done())
			if c.Err() == nil {
				t.Error("the connection goes on")
			}
			if err := c.Close(); err != nil { // handlers have returned
				t.Error(err)
			}
		})
	}
}

// More calls at once than were granted (RFC 8166 section 3.3.1).
func TestTooManyCalls(t *testing.T) {
	g := newGate()
	defer close(g.open)
	c, r := rawClient(t, rdma.Config{Credits: 8, Handler: g.handle}, usual)
	for i := range uint32(8) {
		r.send(append(words(i, 1, 1, 0, 0, 0, 0), message(i, 0, 100).Stream...))
	}
	for g.seen() < 8 {
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
	}
	r.send(append(words(99, 1, 1, 0, 0, 0, 0), message(99, 0, 100).Stream...))
	await(t, c.Done())
	var fault *rdma.ProtocolError
	if !errors.As(c.Err(), &fault) || !strings.Contains(fault.Reason, "credits") {
		t.Error(c.Err())
	}
}

// The same for callbacks: the connecting end grants them.
func TestTooManyCallbacks(t *testing.T) {
	g := newGate()
	defer close(g.open)
	c, r := rawServer(t, rdma.Config{BackCredits: 2, Handler: g.handle}, usual)
	for i := range uint32(2) {
		r.send(append(words(i, 1, 1, 0, 0, 0, 0), message(i, 0, 100).Stream...))
	}
	for g.seen() < 2 {
		if c.Err() != nil {
			t.Fatal(c.Err())
		}
	}
	r.send(append(words(99, 1, 1, 0, 0, 0, 0), message(99, 0, 100).Stream...))
	await(t, c.Done())
	var fault *rdma.ProtocolError
	if !errors.As(c.Err(), &fault) || !strings.Contains(fault.Reason, "credits") {
		t.Error(c.Err())
	}
}

// A client that allows no RDMA Reads is refused while connecting.
func TestAcceptWithoutReads(t *testing.T) {
	n := &rdmatest.Network{}
	go func() {
		qp, err := n.Connect(context.Background(), "", rdma.Options{MaxReceives: 8, MaxSends: 8})
		if err == nil {
			qp.Close()
		}
	}()
	_, err := rdma.Accept(context.Background(), n, rdma.Config{Handler: echo})
	var peer *rdma.PeerError
	if !errors.As(err, &peer) || !strings.Contains(err.Error(), "IRD 0") {
		t.Errorf("%v", err)
	}
}
