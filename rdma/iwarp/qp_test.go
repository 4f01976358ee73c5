package iwarp

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
	"nfsrdma-fuse/ulb"
)

var _ rdma.QueuePair = (*QP)(nil)
var _ rdma.Connector = (*Connector)(nil)
var _ rdma.Listener = (*Listener)(nil)

// options for tests.
func options() rdma.Options {
	return rdma.Options{PrivateData: []byte("private"), IRD: 8, ORD: 8, MaxReceives: 64, MaxSends: 64}
}

func buffer(n int) *ulb.Buffer { return &ulb.Buffer{Data: make([]byte, n)} }

func pattern(n int, seed byte) *ulb.Buffer {
	b := buffer(n)
	for i := range b.Data {
		b.Data[i] = byte(i*7) ^ byte(i>>8) ^ seed
	}
	return b
}

// pair returns two connected queue pairs with posted receive buffers of 4 KiB.
func pair(t testing.TB, client, server Config) (c, s *QP) {
	t.Helper()
	o := options()
	o.Prepare = func(q rdma.QueuePair) error { return post(q, 32) }
	return connect(t, client, server, o, o)
}

// connect returns two connected queue pairs.
func connect(t testing.TB, client, server Config, co, so rdma.Options) (c, s *QP) {
	t.Helper()
	l, err := Listen("127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got := make(chan rdma.QueuePair, 1)
	go func() {
		q, err := l.Accept(t.Context(), so)
		if err != nil {
			t.Error(err)
		}
		got <- q
	}()
	q, err := (&Connector{Config: client}).Connect(t.Context(), l.Addr().String(), co)
	if err != nil {
		t.Fatal(err)
	}
	c = q.(*QP)
	s = (<-got).(*QP)
	t.Cleanup(func() { c.Close(); s.Close() })
	return c, s
}

func post(q rdma.QueuePair, n int) error {
	for range n {
		if err := q.Receive(buffer(4096)); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next completion.
func next(t testing.TB, q *QP) rdma.Completion {
	t.Helper()
	var c [1]rdma.Completion
	n, err := q.Poll(c[:])
	if n != 1 {
		t.Fatalf("poll: %v", err)
	}
	if c[0].Err != nil {
		t.Fatalf("completion of %v: %v", c[0].Op, c[0].Err)
	}
	return c[0]
}

// received returns the next message. A Send may be reported after the reply to
// it; its completion is dropped.
func received(t testing.TB, q *QP) rdma.Completion {
	t.Helper()
	for {
		if c := next(t, q); c.Op == rdma.OpReceive {
			return c
		}
	}
}

// drained polls until the connection's error comes, and returns it. Everything
// before it must have been flushed or completed.
func drained(t testing.TB, q *QP) error {
	t.Helper()
	var c [16]rdma.Completion
	for {
		n, err := q.Poll(c[:])
		if n == 0 {
			return err
		}
		for _, e := range c[:n] {
			if e.Err != nil && !errors.Is(e.Err, rdma.ErrFlushed) {
				t.Errorf("completion with %v", e.Err)
			}
		}
	}
}

func request(op rdma.Op, b *ulb.Buffer, r rdma.Remote) []rdma.WorkRequest {
	w := rdma.WorkRequest{Op: op, Cookie: b, Remote: r}
	if b != nil {
		w.Local = []rdma.Gather{{Buf: b, Len: len(b.Data)}}
	}
	return []rdma.WorkRequest{w}
}

func TestSendWriteRead(t *testing.T) {
	for _, tc := range []struct {
		name           string
		client, server Config
	}{
		{name: "plain"},
		{name: "crc asked by client", client: Config{CRC: true}},
		{name: "crc asked by server", server: Config{CRC: true}},
		{name: "small FPDUs", client: Config{MaxULPDU: 1400}, server: Config{MaxULPDU: 128, CRC: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, s := pair(t, tc.client, tc.server)
			if string(c.Info().PrivateData) != "private" || string(s.Info().PrivateData) != "private" {
				t.Error("private data lost")
			}
			// A call: a Send that advertises a sink and a source.
			sink, source := buffer(1<<20), pattern(1<<20, 1)
			w, err := c.Expose(sink, 0, len(sink.Data), rdma.RemoteWrite)
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Expose(source, 100, 1<<20-200, rdma.RemoteRead)
			if err != nil {
				t.Fatal(err)
			}
			call := pattern(4000, 2)
			if err := c.Post(request(rdma.OpSend, call, rdma.Remote{})); err != nil {
				t.Fatal(err)
			}
			if e := next(t, c); e.Op != rdma.OpSend || e.Cookie != any(call) {
				t.Errorf("completion %+v", e)
			}
			e := next(t, s)
			if e.Op != rdma.OpReceive || !bytes.Equal(e.Buf.Data[:e.Len], call.Data) {
				t.Fatalf("received %d bytes of op %v", e.Len, e.Op)
			}
			// The server reads the source, writes the sink, and replies.
			pulled := buffer(1<<20 - 200)
			if err := s.Post(request(rdma.OpRead, pulled, r)); err != nil {
				t.Fatal(err)
			}
			next(t, s)
			if !bytes.Equal(pulled.Data, source.Data[100:1<<20-100]) {
				t.Error("RDMA Read brought other data")
			}
			pushed := pattern(1<<20, 3)
			reply := pattern(10, 4)
			batch := append(request(rdma.OpWrite, pushed, w), request(rdma.OpSendInvalidate, reply, rdma.Remote{Handle: w.Handle})...)
			if err := s.Post(batch); err != nil {
				t.Fatal(err)
			}
			next(t, s)
			next(t, s)
			e = next(t, c)
			if !e.HasInvalidated || e.Invalidated != w.Handle || !bytes.Equal(e.Buf.Data[:e.Len], reply.Data) {
				t.Errorf("completion %+v", e)
			}
			if !bytes.Equal(sink.Data, pushed.Data) {
				t.Error("RDMA Write brought other data")
			}
			if err := c.Post(request(rdma.OpInvalidate, nil, r)); err != nil {
				t.Fatal(err)
			}
			next(t, c)
			if n := c.table.len(); n != 0 {
				t.Errorf("%d handles left", n)
			}
			// The end.
			c.Close()
			if err := drained(t, c); !errors.Is(err, rdma.ErrClosed) {
				t.Errorf("client: %v", err)
			}
			if err := drained(t, s); err == nil {
				t.Errorf("server: %v", err)
			}
		})
	}
}

// TestSendKinds receives every kind of Send; solicited events make no
// difference to who polls anyway.
func TestSendKinds(t *testing.T) {
	at := make(chan rdma.Remote, 2)
	defer close(at) // so that the script ends whatever happens here
	q := scripted(t, Config{}, func(p *iwarptest.Peer) error {
		exposed := []rdma.Remote{<-at, <-at} // receive buffers are posted by then
		for i, op := range []uint8{iwarptest.Send, iwarptest.SendInv, iwarptest.SendSE, iwarptest.SendSEInv} {
			s := iwarptest.Segment{Last: true, Opcode: op, MSN: uint32(i + 1), Payload: []byte{op}}
			if op == iwarptest.SendInv || op == iwarptest.SendSEInv {
				s.STag = uint32(exposed[i/2].Handle)
			} else {
				s.STag = 12345 // reserved here, and ignored (RFC 5040 section 4.1)
			}
			if err := p.Write(s); err != nil {
				return err
			}
		}
		return p.AwaitClose()
	})
	if err := post(q, 4); err != nil {
		t.Fatal(err)
	}
	var handles []rdma.Handle
	for range 2 {
		r, err := q.Expose(buffer(1), 0, 1, rdma.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, r.Handle)
		at <- r
	}
	for i, op := range []byte{iwarptest.Send, iwarptest.SendInv, iwarptest.SendSE, iwarptest.SendSEInv} {
		c := next(t, q)
		if c.Len != 1 || c.Buf.Data[0] != op || c.HasInvalidated != (i%2 == 1) || c.HasInvalidated && c.Invalidated != handles[i/2] {
			t.Errorf("opcode %d: %+v", op, c)
		}
	}
	q.Disconnect(nil)
}

func TestConnectCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := new(Connector).Connect(ctx, "127.0.0.1:1", options()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
