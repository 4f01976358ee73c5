package rdma_test

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pair is two connected ends.
type pair struct {
	client, server *rdma.Conn
	mem            [2]*rdmatest.Memory
	qp             [2]rdma.QueuePair
}

// dialer remembers the queue pair it has made.
type dialer struct {
	*rdmatest.Network
	qp rdma.QueuePair
}

func (d *dialer) Connect(ctx context.Context, addr string, o rdma.Options) (rdma.QueuePair, error) {
	qp, err := d.Network.Connect(ctx, addr, o)
	d.qp = qp
	return qp, err
}

func (d *dialer) Accept(ctx context.Context, o rdma.Options) (rdma.QueuePair, error) {
	qp, err := d.Network.Accept(ctx, o)
	d.qp = qp
	return qp, err
}

// connect makes a connection over the strict in-memory provider. When the test
// ends it is closed, and nothing may be left behind.
func connect(t testing.TB, client, server rdma.Config, p rdmatest.Params) *pair {
	t.Helper()
	r := &pair{mem: [2]*rdmatest.Memory{{}, {}}}
	p.Memory = r.mem
	n := &rdmatest.Network{Params: p}
	cd, sd := &dialer{Network: n}, &dialer{Network: n}
	accepted := make(chan error, 1)
	go func() {
		var err error
		r.server, err = rdma.Accept(context.Background(), sd, server)
		accepted <- err
	}()
	var err error
	r.client, err = rdma.Dial(context.Background(), cd, "memory:server", client)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	r.qp = [2]rdma.QueuePair{cd.qp, sd.qp}
	t.Cleanup(func() {
		r.checkIdle(t)
		r.client.Close()
		r.server.Close()
		for i, m := range r.mem {
			if n := m.InUse(); n != 0 {
				t.Errorf("end %d: %d pieces of memory were not freed", i, n)
			}
			if err := r.qp[i].(*rdmatest.QueuePair).Violation(); err != nil {
				t.Errorf("end %d misused its queue pair: %v", i, err)
			}
		}
	})
	return r
}

// checkIdle checks that nothing is held by a connection without calls.
func (p *pair) checkIdle(t testing.TB) {
	t.Helper()
	p.client.Close()
	p.server.Close()
	for _, c := range []*rdma.Conn{p.client, p.server} {
		s := c.Stats()
		if s.Outstanding != 0 || s.CreditsInUse != 0 || s.Exposed != 0 || s.Serving != 0 {
			t.Errorf("left behind: %+v", s)
		}
		if n := c.Pool().InUse(); n != 0 {
			t.Errorf("%d payload buffers were not released", n)
		}
	}
	for _, qp := range p.qp {
		if n := qp.(*rdmatest.QueuePair).Exposed(); n != 0 {
			t.Errorf("%d handles are still in force", n)
		}
	}
}

var lastXID atomic.Uint32

// message builds an RPC message of n bytes, bulk items not counted: the XID,
// the type, and words that count up. The items are put at the end, each behind
// its length word.
func message(xid uint32, kind uint32, n int, bulk ...[]byte) xdr.Message {
	var e xdr.Encoder
	e.Uint32(xid)
	e.Uint32(kind)
	for i := 8; i < n-4*len(bulk); i += 4 {
		e.Uint32(uint32(i))
	}
	for _, b := range bulk {
		e.Bulk(b)
	}
	return e.Message()
}

func callMessage(n int, bulk ...[]byte) xdr.Message {
	return message(lastXID.Add(1), 0, n, bulk...)
}

func replyMessage(req *ulb.Request, n int, bulk ...[]byte) xdr.Message {
	return message(binary.BigEndian.Uint32(req.Msg.Stream), 1, n, bulk...)
}

// whole returns a received message with everything in the stream.
func whole(m xdr.Message) []byte {
	// Of a result placed into the sink only the order is known.
	for i, b := range m.Bulk {
		if b.Pos == xdr.AnyPos {
			m.Bulk[i].Pos = len(m.Stream)
		}
	}
	return m.AppendTo(nil)
}

type result struct {
	reply ulb.Reply
	err   error
}

// send sends the call and returns a channel with its outcome.
func send(t testing.TB, c *rdma.Conn, call *ulb.Call) <-chan result {
	t.Helper()
	got := make(chan result, 1)
	call.Done = func(_ *ulb.Call, r ulb.Reply, err error) { got <- result{r, err} }
	if err := c.Send(context.Background(), call); err != nil {
		t.Fatalf("Send: %v", err)
	}
	return got
}

const patience = 20 * time.Second

func await[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal("nothing came in time")
	}
	panic("unreachable")
}

func getBuffer(t testing.TB, c *rdma.Conn, n int) *ulb.Buffer {
	t.Helper()
	b, err := c.Pool().Get(context.Background(), n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func fill(b []byte, seed byte) []byte {
	for i := range b {
		b[i] = byte(i) ^ byte(i>>8)*7 ^ seed
	}
	return b
}
