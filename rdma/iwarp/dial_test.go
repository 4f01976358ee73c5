package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
)

// TestConnectFails has servers of every bad kind. Each must give an error that
// says what is wrong, and leave nothing behind.
func TestConnectFails(t *testing.T) {
	type peer = iwarptest.Peer
	reply := func(f func(*iwarptest.Frame)) func(p *peer) error {
		return func(p *peer) error {
			if _, err := p.ReadFrame(); err != nil {
				return err
			}
			r := iwarptest.Frame{Key: iwarptest.ReplyKey, Revision: 2, Enhanced: true, IRD: 16, ORD: 16}
			f(&r)
			if err := p.WriteFrame(r); err != nil {
				return err
			}
			return p.AwaitClose()
		}
	}
	for _, tc := range []struct {
		name   string
		script func(p *peer) error
		want   string
		is     error
		change func(o *rdma.Options)
	}{
		{name: "silent", is: context.DeadlineExceeded, want: "does not speak iWARP, or is stuck",
			script: func(p *peer) error { return p.AwaitClose() }},
		{name: "half a reply", is: context.DeadlineExceeded, want: "in time",
			script: func(p *peer) error {
				if err := p.WriteRaw([]byte("MPA ID Rep Fra")); err != nil {
					return err
				}
				return p.AwaitClose()
			}},
		{name: "closes at once", want: "closed the connection during the MPA negotiation",
			script: func(p *peer) error { _, err := p.ReadFrame(); return err }},
		{name: "closes within the reply", want: "closed the connection during the MPA negotiation",
			script: func(p *peer) error {
				if _, err := p.ReadFrame(); err != nil {
					return err
				}
				return p.WriteRaw([]byte("MPA ID Rep Fra"))
			}},
		{name: "garbage", want: `does not speak MPA: it began with "HTTP/1.1 400 Bad`,
			script: func(p *peer) error {
				if err := p.WriteRaw([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); err != nil {
					return err
				}
				return p.AwaitClose()
			}},
		{name: "request instead of reply", want: "is connecting, too",
			script: reply(func(f *iwarptest.Frame) { f.Key = iwarptest.RequestKey })},
		{name: "rejected", want: "rejected the connection (MPA reject bit): no service there",
			script: reply(func(f *iwarptest.Frame) { f.Reject, f.ORD = true, 0 })},
		{name: "rejected for want of reads", want: "may need 64 inbound RDMA Reads where this end offered 8",
			script: reply(func(f *iwarptest.Frame) { f.Reject, f.ORD = true, 64 })},
		{name: "rejected without IRD", want: "IRD 0", change: func(o *rdma.Options) { o.IRD = 0 },
			script: reply(func(f *iwarptest.Frame) { f.Reject = true })},
		{name: "revision 9", want: "revision 9", script: reply(func(f *iwarptest.Frame) { f.Revision = 9 })},
		{name: "markers", want: "markers", script: reply(func(f *iwarptest.Frame) { f.Markers = true })},
		{name: "private data over-long", want: "513 octets of private data",
			script: reply(func(f *iwarptest.Frame) { n := uint16(513); f.ClaimLength = &n })},
		{name: "early data", want: "octets came behind the frame",
			script: reply(func(f *iwarptest.Frame) {
				f.Private = append(f.Private, make([]byte, 40)...)
				n := uint16(4)
				f.ClaimLength = &n
			})},
		{name: "own private data over-long", want: "private data of 509 bytes",
			change: func(o *rdma.Options) { o.PrivateData = make([]byte, 509) }},
		{name: "too many reads", want: "insists on 300 RDMA Reads",
			script: func(p *peer) error {
				if _, err := p.ReadFrame(); err != nil {
					return err
				}
				if err := p.WriteFrame(iwarptest.Frame{Key: iwarptest.ReplyKey, Revision: 2, Enhanced: true, IRD: 16, ORD: 300}); err != nil {
					return err
				}
				code, err := p.AwaitTerminate()
				if err == nil && code != 0x2006 { // RFC 6581 section 9.1
					err = fmt.Errorf("Terminate %#04x", code)
				}
				return err
			}},
		{name: "Prepare fails", want: "not today", script: func(p *peer) error { _, err := p.Accept(nil); return errors.Join(err, p.AwaitClose()) },
			change: func(o *rdma.Options) {
				o.Prepare = func(rdma.QueuePair) error { return errors.New("not today") }
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv, err := iwarptest.Serve(tc.script) // not connected to if nil
			if err != nil {
				t.Fatal(err)
			}
			defer srv.Close()
			o := options()
			if tc.change != nil {
				tc.change(&o)
			}
			c := Connector{Config: Config{Timeout: patience}}
			if tc.is != nil {
				c.Config.Timeout = 50 * time.Millisecond
			}
			q, err := c.Connect(t.Context(), srv.Addr(), o)
			if err == nil {
				q.Close()
				t.Fatal("connected")
			}
			if !strings.Contains(err.Error(), tc.want) || tc.script != nil && !strings.Contains(err.Error(), srv.Addr()) {
				t.Errorf("error %q, want one with %q and the address", err, tc.want)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("error of more than one line: %q", err)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("error %v is not %v", err, tc.is)
			}
			if err := srv.Close(); err != nil {
				t.Error("script:", err)
			}
		})
	}
}

func TestConnectRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	if _, err := new(Connector).Connect(t.Context(), addr, options()); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Error(err)
	}
	if _, err := new(Connector).Connect(t.Context(), "no port", options()); err == nil {
		t.Error("connected to nowhere")
	}
}

// TestConnectContext checks that the caller's context ends an attempt to
// connect, and does not end the connection afterwards.
func TestConnectContext(t *testing.T) {
	asked := make(chan struct{}, 1)
	srv, err := iwarptest.Serve(func(p *iwarptest.Peer) error {
		if _, err := p.ReadFrame(); err != nil {
			return err
		}
		asked <- struct{}{}
		return p.AwaitClose()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := new(Connector).Connect(ctx, srv.Addr(), options()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}

	good, err := iwarptest.Serve(func(p *iwarptest.Peer) error {
		if _, err := p.Accept([]byte("here")); err != nil {
			return err
		}
		if _, err := p.Receive(); err != nil {
			return err
		}
		return p.Send([]byte("pong"))
	})
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	ctx, cancel = context.WithCancel(t.Context())
	q, err := new(Connector).Connect(ctx, good.Addr(), options())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	cancel()
	if err := post(q, 1); err != nil {
		t.Fatal(err)
	}
	if string(q.Info().PrivateData) != "here" {
		t.Errorf("private data %q", q.Info().PrivateData)
	}
	if err := q.Post(request(rdma.OpSend, pattern(4, 0), rdma.Remote{})); err != nil {
		t.Fatal(err)
	}
	if c := received(t, q.(*QP)); string(c.Buf.Data[:c.Len]) != "pong" {
		t.Errorf("got %q", c.Buf.Data[:c.Len])
	}
}

// TestConnectOther runs over a connection that is no TCP socket.
func TestConnectOther(t *testing.T) {
	near, far := net.Pipe()
	errs := make(chan error, 1)
	go func() {
		p := iwarptest.NewPeer(far)
		defer p.Close()
		errs <- func() error {
			if _, err := p.Accept(nil); err != nil {
				return err
			}
			msg, err := p.Receive()
			if err != nil {
				return err
			}
			return p.Send(msg)
		}()
	}()
	c := Connector{Config: Config{CRC: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return near, nil }}}
	q, err := c.Connect(t.Context(), "pipe", options())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	big := buffer(200_000)
	if err := q.Receive(big); err != nil {
		t.Fatal(err)
	}
	msg := pattern(200_000, 3)
	if err := q.Post(request(rdma.OpSend, msg, rdma.Remote{})); err != nil {
		t.Fatal(err)
	}
	if e := received(t, q.(*QP)); e.Len != len(msg.Data) || string(big.Data) != string(msg.Data) {
		t.Errorf("%d bytes came back", e.Len)
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
	if err := drained(t, q.(*QP)); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
