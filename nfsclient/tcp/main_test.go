package tcp

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for something that has to happen.
const patience = 20 * time.Second

// pipe returns the two ends of a TCP connection over loopback.
func pipe(tb testing.TB) (near, far net.Conn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	near, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	far, err = l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	if t, ok := tb.(*testing.B); ok && t != nil {
		deadline = time.Time{}
	}
	_ = far.SetDeadline(deadline)
	return near, far
}

func newConn(tb testing.TB, nc net.Conn, cfg Config) *Conn {
	tb.Helper()
	c, err := NewConn(nc, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// connect returns a connection, and the peer's end of it, both closed when the
// test ends.
func connect(t testing.TB, cfg Config) (*Conn, peer) {
	t.Helper()
	near, far := pipe(t)
	c := newConn(t, near, cfg)
	t.Cleanup(func() {
		c.Close()
		far.Close()
	})
	return c, peer{t, far}
}

// pair returns two connections with each other.
func pair(t testing.TB, near, far Config) (*Conn, *Conn) {
	t.Helper()
	a, b := pipe(t)
	_ = b.SetDeadline(time.Time{})
	ca, cb := newConn(t, a, near), newConn(t, b, far)
	t.Cleanup(func() {
		ca.Close()
		cb.Close()
		for _, c := range []*Conn{ca, cb} {
			if s := c.Stats(); s.Outstanding != 0 || s.Serving != 0 || len(c.places) != 0 || len(c.probe) != 0 {
				t.Errorf("left behind: %+v, %d places", s, len(c.places))
			}
		}
	})
	return ca, cb
}

// peer is the other end of a connection, driven by hand.
type peer struct {
	tb testing.TB
	nc net.Conn
}

// write sends bytes as they are.
func (p peer) write(b []byte) {
	p.tb.Helper()
	if _, err := p.nc.Write(b); err != nil {
		p.tb.Fatal(err)
	}
}

// record reads a record of one fragment.
func (p peer) record() []byte {
	p.tb.Helper()
	var marker [4]byte
	if _, err := io.ReadFull(p.nc, marker[:]); err != nil {
		p.tb.Fatal(err)
	}
	m := binary.BigEndian.Uint32(marker[:])
	if m&lastFragment == 0 {
		p.tb.Fatalf("marker %#x", m)
	}
	b := make([]byte, m&^lastFragment)
	if _, err := io.ReadFull(p.nc, b); err != nil {
		p.tb.Fatal(err)
	}
	return b
}

// fragment encodes a fragment.
func fragment(last bool, b []byte) []byte {
	m := uint32(len(b))
	if last {
		m |= lastFragment
	}
	return append(binary.BigEndian.AppendUint32(nil, m), b...)
}

// words encodes 32-bit words.
func words(w ...uint32) []byte {
	var b []byte
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// replyTo encodes a successful reply with the given results.
func replyTo(xid uint32, results string) []byte {
	var e xdr.Encoder
	(&rpc.ReplyHeader{XID: xid}).Encode(&e)
	return append(e.Bytes(), results...)
}

// readReply encodes the reply to a COMPOUND of SEQUENCE, PUTFH, READ and
// GETATTR; the data of the READ is a bulk item.
func readReply(xid uint32, data []byte) xdr.Message {
	var e xdr.Encoder
	(&rpc.ReplyHeader{XID: xid}).Encode(&e)
	e.Uint32(uint32(nfs4.OK))
	e.String("tag")
	e.Uint32(4)
	for _, r := range []nfs4.Res{&nfs4.SequenceRes{}, &nfs4.PutFHRes{}, &nfs4.ReadRes{EOF: true, Data: data}} {
		e.Uint32(uint32(r.Op()))
		r.Encode(&e)
	}
	e.Uint32(uint32(nfs4.OpGetAttr))
	e.Uint32(uint32(nfs4.OK))
	e.Uint32(1)
	e.Uint32(0)
	e.Opaque(nil)
	return e.Message()
}

// outcome is what Done was called with.
type outcome struct {
	reply ulb.Reply
	err   error
}

// newCall returns a call and the channel that its outcome comes on. A second
// outcome would have no room and panic.
func newCall(xid uint32, args string) (*ulb.Call, chan outcome) {
	var e xdr.Encoder
	(&rpc.CallHeader{XID: xid, Prog: rpc.ProgramNFS, Vers: rpc.VersionNFS4, Proc: rpc.ProcCompound}).Encode(&e)
	e.Fixed([]byte(args))
	done := make(chan outcome, 1)
	return &ulb.Call{
		Msg: e.Message(), ReplyMax: 4096,
		Done: func(_ *ulb.Call, r ulb.Reply, err error) {
			select {
			case done <- outcome{r, err}:
			default:
				panic("Done called twice")
			}
		},
	}, done
}

func send(t testing.TB, c *Conn, call *ulb.Call) {
	t.Helper()
	if err := c.Send(context.Background(), call); err != nil {
		t.Fatal(err)
	}
}

func wait[T any](t testing.TB, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		t.Fatal("nothing has happened")
		panic("unreachable")
	}
}

// results returns what stands behind the header of a reply.
func results(t testing.TB, o outcome) string {
	t.Helper()
	if o.err != nil {
		t.Fatal(o.err)
	}
	defer o.reply.Release()
	return string(o.reply.Msg.Stream[rpc.ReplyHeaderLen:])
}

// echo answers every call with its own arguments.
func echo(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	if len(req.Msg.Stream) < rpc.CallHeaderLen {
		return
	}
	xid, _, _ := rpc.Peek(req.Msg.Stream)
	_ = respond(xdr.Message{Stream: replyTo(xid, string(req.Msg.Stream[rpc.CallHeaderLen:]))})
}
