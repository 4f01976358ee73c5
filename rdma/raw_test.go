package rdma_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// raw is a peer played by the test: it speaks through its queue pair directly
// and may break any rule of RPC-over-RDMA.
type raw struct {
	t   testing.TB
	qp  rdma.QueuePair
	mem *rdmatest.Memory
	got []rdma.Completion
	own []*ulb.Buffer
}

func rawOptions(pd *rpcrdma.PrivateData) rdma.Options {
	o := rdma.Options{IRD: 16, ORD: 16, MaxReceives: 256, MaxSends: 256}
	if pd != nil {
		o.PrivateData = pd.AppendTo(nil)
	}
	return o
}

var usual = &rpcrdma.PrivateData{Invalidate: true, SendSize: 4096, RecvSize: 4096}

func (r *raw) buffer(n int) *ulb.Buffer {
	data, region, err := r.mem.Alloc(n)
	if err != nil {
		r.t.Fatal(err)
	}
	b := &ulb.Buffer{Data: data, Region: region}
	r.own = append(r.own, b)
	return b
}

func (r *raw) postReceives(qp rdma.QueuePair, n int) error {
	for range n {
		if err := qp.Receive(r.buffer(8192)); err != nil {
			return err
		}
	}
	return nil
}

// rawServer connects a Conn to a server played by the test.
func rawServer(t testing.TB, cfg rdma.Config, pd *rpcrdma.PrivateData) (*rdma.Conn, *raw) {
	t.Helper()
	r := &raw{t: t, mem: &rdmatest.Memory{}}
	n := &rdmatest.Network{Params: rdmatest.Params{Memory: [2]*rdmatest.Memory{{}, r.mem}}}
	o := rawOptions(pd)
	o.Prepare = func(qp rdma.QueuePair) error { return r.postReceives(qp, 100) }
	accepted := make(chan error, 1)
	go func() {
		qp, err := n.Accept(context.Background(), o)
		r.qp = qp
		accepted <- err
	}()
	c, err := rdma.Dial(context.Background(), n, "memory:server", cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; err != nil {
		t.Fatal(err)
	}
	r.cleanup(c, n.Params.Memory[0])
	return c, r
}

// rawClient connects a client played by the test to a Conn.
func rawClient(t testing.TB, cfg rdma.Config, pd *rpcrdma.PrivateData) (*rdma.Conn, *raw) {
	t.Helper()
	r := &raw{t: t, mem: &rdmatest.Memory{}}
	n := &rdmatest.Network{Params: rdmatest.Params{Memory: [2]*rdmatest.Memory{r.mem, {}}}}
	connected := make(chan error, 1)
	go func() {
		qp, err := n.Connect(context.Background(), "", rawOptions(pd))
		r.qp = qp
		connected <- err
	}()
	c, err := rdma.Accept(context.Background(), n, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	if err := r.postReceives(r.qp, 100); err != nil {
		t.Fatal(err)
	}
	r.cleanup(c, n.Params.Memory[1])
	return c, r
}

func (r *raw) cleanup(c *rdma.Conn, mem *rdmatest.Memory) {
	r.t.Cleanup(func() {
		c.Close()
		r.qp.Close()
		for _, b := range r.own {
			r.mem.Free(b.Data, b.Region)
		}
		s := c.Stats()
		if s.Outstanding != 0 || s.CreditsInUse != 0 || s.Exposed != 0 || s.Serving != 0 || c.Pool().InUse() != 0 {
			r.t.Errorf("left behind: %+v, %d payload buffers", s, c.Pool().InUse())
		}
		if n := mem.InUse(); n != 0 {
			r.t.Errorf("%d pieces of memory were not freed", n)
		}
	})
}

// poll returns the next completion.
func (r *raw) poll() (rdma.Completion, error) {
	if len(r.got) == 0 {
		w := time.AfterFunc(patience, func() { r.qp.Disconnect(errors.New("nothing came in time")) })
		defer w.Stop()
		dst := make([]rdma.Completion, 16)
		n, err := r.qp.Poll(dst)
		if err != nil {
			return rdma.Completion{}, err
		}
		r.got = dst[:n]
	}
	d := r.got[0]
	r.got = r.got[1:]
	return d, nil
}

// incoming is a message that the raw peer has received.
type incoming struct {
	rdma.Completion
	h       rpcrdma.Header
	payload []byte
}

// next returns the next message; completions of its own work requests are
// passed over.
func (r *raw) next() *incoming {
	r.t.Helper()
	for {
		d, err := r.poll()
		if err != nil {
			r.t.Fatalf("raw peer: connection ended: %v", err)
		}
		if d.Err != nil {
			r.t.Fatalf("raw peer: %+v", d)
		}
		if d.Op != rdma.OpReceive {
			continue
		}
		in := &incoming{Completion: d}
		if in.payload, err = in.h.Decode(append([]byte(nil), d.Buf.Data[:d.Len]...)); err != nil {
			r.t.Fatalf("raw peer got %x: %v", d.Buf.Data[:d.Len], err)
		}
		return in
	}
}

// ended polls until the connection has ended and returns why.
func (r *raw) ended() error {
	for {
		if _, err := r.poll(); err != nil {
			return err
		}
	}
}

// send sends bytes as they are; with a handle also its invalidation.
func (r *raw) send(msg []byte, invalidate ...uint32) {
	r.t.Helper()
	b := r.buffer(max(len(msg), 4))
	copy(b.Data, msg)
	wr := rdma.WorkRequest{Op: rdma.OpSend, Local: []rdma.Gather{{Buf: b, Len: len(msg)}}}
	if len(invalidate) > 0 {
		wr.Op, wr.Remote.Handle = rdma.OpSendInvalidate, rdma.Handle(invalidate[0])
	}
	if err := r.qp.Post([]rdma.WorkRequest{wr}); err != nil {
		r.t.Fatalf("raw peer: Post: %v", err)
	}
}

func (r *raw) write(s rpcrdma.Segment, data []byte) {
	r.t.Helper()
	b := r.buffer(len(data))
	copy(b.Data, data)
	if err := r.qp.Post([]rdma.WorkRequest{{Op: rdma.OpWrite, Local: []rdma.Gather{{Buf: b, Len: len(data)}},
		Remote: rdma.Remote{Handle: rdma.Handle(s.Handle), Offset: s.Offset}}}); err != nil {
		r.t.Fatalf("raw peer: Post: %v", err)
	}
}

// reply builds the header of an ordinary reply to in.
func (in *incoming) reply(credits uint32) *rpcrdma.Header {
	return &rpcrdma.Header{XID: in.h.XID, Vers: 1, Credits: credits}
}

// words encodes words.
func words(w ...uint32) []byte {
	var b []byte
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// rpcReply is the RPC part of a reply of n bytes.
func rpcReply(xid uint32, n int) []byte { return message(xid, 1, n).Stream }
