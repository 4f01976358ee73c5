package rdma_test

import (
	"context"
	"encoding/binary"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// responder answers without allocating: its replies are built once.
type responder struct {
	stream []byte
	bulk   []xdr.Bulk
}

func newResponder(n int, result []byte) *responder {
	r := &responder{}
	if result == nil {
		r.stream = message(0, 1, n).Stream
	} else {
		m := message(0, 1, n, result)
		r.stream, r.bulk = m.Stream, m.Bulk
	}
	return r
}

func (r *responder) handle(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	copy(r.stream[:4], req.Msg.Stream[:4])
	_ = respond(xdr.Message{Stream: r.stream, Bulk: r.bulk})
}

// roundTrip sends one call after the other and waits for each.
type roundTrip struct {
	conn *rdma.Conn
	call *ulb.Call
	done chan error
	xid  uint32
}

func newRoundTrip(c *rdma.Conn, call *ulb.Call) *roundTrip {
	r := &roundTrip{conn: c, call: call, done: make(chan error, 1)}
	call.Done = func(_ *ulb.Call, reply ulb.Reply, err error) {
		reply.Release()
		r.done <- err
	}
	return r
}

func (r *roundTrip) do(t testing.TB) {
	r.xid++
	binary.BigEndian.PutUint32(r.call.Msg.Stream, r.xid)
	if err := r.conn.Send(context.Background(), r.call); err != nil {
		t.Fatal(err)
	}
	if err := <-r.done; err != nil {
		t.Fatal(err)
	}
}

const mib = 1 << 20

func readPair(t testing.TB, n int, params rdmatest.Params) *roundTrip {
	p := connect(t, rdma.Config{}, rdma.Config{Handler: newResponder(120, make([]byte, n)).handle}, params)
	call := &ulb.Call{Msg: callMessage(200), ReplyMax: 200, Sink: getBuffer(t, p.client, n), SinkLen: n}
	t.Cleanup(call.Sink.Release)
	return newRoundTrip(p.client, call)
}

func writePair(t testing.TB, n int, params rdmatest.Params) *roundTrip {
	p := connect(t, rdma.Config{}, rdma.Config{Handler: newResponder(120, nil).handle}, params)
	buf := getBuffer(t, p.client, n)
	t.Cleanup(buf.Release)
	return newRoundTrip(p.client, &ulb.Call{Msg: callMessage(200, buf.Data[:n]), ArgBuf: buf, ReplyMax: 200})
}

func inlinePair(t testing.TB) *roundTrip {
	p := connect(t, rdma.Config{}, rdma.Config{Handler: newResponder(120, nil).handle}, rdmatest.Params{})
	return newRoundTrip(p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 200})
}

func longPair(t testing.TB) *roundTrip {
	p := connect(t, rdma.Config{}, rdma.Config{Handler: newResponder(60_000, nil).handle}, rdmatest.Params{})
	return newRoundTrip(p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 64 << 10})
}

func bench(b *testing.B, r *roundTrip, n int64) {
	r.do(b)
	b.SetBytes(n)
	b.ReportAllocs()
	for b.Loop() {
		r.do(b)
	}
}

func BenchmarkRead1MiB(b *testing.B) {
	bench(b, readPair(b, mib, rdmatest.Params{AnyMemory: true}), mib)
}
func BenchmarkWrite1MiB(b *testing.B) {
	bench(b, writePair(b, mib, rdmatest.Params{AnyMemory: true}), mib)
}
func BenchmarkInline(b *testing.B)   { bench(b, inlinePair(b), 0) }
func BenchmarkReply60K(b *testing.B) { bench(b, longPair(b), 60_000) }

// In steady state neither end allocates for a call; what is counted here also
// covers the in-memory provider, whose maps and queues grow now and then.
func TestAllocations(t *testing.T) {
	for _, c := range []struct {
		name string
		r    *roundTrip
	}{
		{"READ", readPair(t, 64<<10, rdmatest.Params{AnyMemory: true})},
		{"READ, registered memory", readPair(t, 64<<10, rdmatest.Params{})},
		{"WRITE", writePair(t, 64<<10, rdmatest.Params{AnyMemory: true})},
		{"inline", inlinePair(t)},
		{"long reply", longPair(t)},
	} {
		for range 20 {
			c.r.do(t)
		}
		if n := testing.AllocsPerRun(200, func() { c.r.do(t) }); n > 2 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}
