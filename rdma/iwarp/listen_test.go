package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
)

func listen(t *testing.T, cfg Config) *Listener {
	t.Helper()
	l, err := Listen("127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dialPeer(t *testing.T, addr string) *iwarptest.Peer {
	t.Helper()
	p, err := iwarptest.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestAcceptFails has clients of every bad kind: each gives a *rdma.PeerError,
// and the listener goes on.
func TestAcceptFails(t *testing.T) {
	l := listen(t, Config{Timeout: 100 * time.Millisecond})
	request := iwarptest.Frame{Key: iwarptest.RequestKey, Revision: 2, Enhanced: true, IRD: 1, ORD: 1}
	with := func(f func(*iwarptest.Frame)) []byte {
		r := request
		f(&r)
		return r.Bytes()
	}
	for _, tc := range []struct {
		name     string
		raw      []byte
		close    bool
		rejected bool // by a reply
		want     string
		prepare  error
	}{
		{name: "silent", want: "no complete MPA request within 100ms"},
		{name: "half a request", raw: request.Bytes()[:22], want: "no complete MPA request within 100ms"},
		{name: "closes", close: true, want: "closed the connection"},
		{name: "closes within the request", raw: request.Bytes()[:22], close: true, want: "closed the connection"},
		{name: "ONC RPC over TCP", raw: []byte("\x80\x00\x00\x28\x00\x00\x00\x01"), want: "does not speak MPA"},
		{name: "reply", raw: with(func(f *iwarptest.Frame) { f.Key = iwarptest.ReplyKey }), want: "reply where a request was due"},
		{name: "markers", raw: with(func(f *iwarptest.Frame) { f.Markers = true }), rejected: true, want: "markers"},
		{name: "revision 3", raw: with(func(f *iwarptest.Frame) { f.Revision = 3 }), want: "revision 3"},
		{name: "private data over-long", raw: with(func(f *iwarptest.Frame) { f.Private = make([]byte, 509) }), want: "513 octets"},
		{name: "early data", raw: append(request.Bytes(), iwarptest.FPDU(iwarptest.Segment{Last: true, Opcode: iwarptest.Send, MSN: 1}.ULPDU(), false)...), want: "octets came behind the frame"},
		{name: "not wanted", raw: request.Bytes(), prepare: errors.New("no room"), rejected: true, want: "no room"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := dialPeer(t, l.Addr().String())
			if err := p.WriteRaw(tc.raw); err != nil {
				t.Fatal(err)
			}
			if tc.close {
				p.Close()
			}
			o := options()
			if tc.prepare != nil {
				o.Prepare = func(rdma.QueuePair) error { return tc.prepare }
			}
			_, err := l.Accept(t.Context(), o)
			var pe *rdma.PeerError
			if !errors.As(err, &pe) || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if !tc.close && pe.Addr != p.Conn.LocalAddr().String() {
				t.Errorf("error names %s", pe.Addr)
			}
			if tc.close {
				return
			}
			if tc.rejected {
				if f, err := p.ReadFrame(); err != nil || !f.Reject {
					t.Errorf("reply %+v, %v", f, err)
				}
			}
			if err := p.AwaitClose(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSilentPeers checks that peers that say nothing hold up nobody.
func TestSilentPeers(t *testing.T) {
	l := listen(t, Config{Timeout: time.Hour})
	for range maxHandshakes - 1 {
		dialPeer(t, l.Addr().String())
	}
	p := dialPeer(t, l.Addr().String())
	done := make(chan error, 1)
	go func() {
		_, err := p.Connect(nil)
		done <- err
	}()
	q, err := l.Accept(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	defer p.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestAcceptEnds(t *testing.T) {
	l := listen(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Accept(ctx, options()); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := l.Accept(t.Context(), options())
		waiting <- err
	}()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error("closed again:", err)
	}
}

// TestListenerIsQuiet checks that the listening end sends nothing before it has
// received an FPDU (RFC 5044 section 7.1.2, rule 4), and then what was waiting.
func TestListenerIsQuiet(t *testing.T) {
	l := listen(t, Config{})
	p := dialPeer(t, l.Addr().String())
	done := make(chan error, 1)
	go func() {
		_, err := p.Connect([]byte("hi"))
		done <- err
	}()
	q, err := l.Accept(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	defer p.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := q.Post(request(rdma.OpSend, pattern(4, 0), rdma.Remote{})); err != nil {
		t.Fatal(err)
	}
	p.Timeout = 20 * time.Millisecond
	if s, err := p.Read(); err == nil {
		t.Errorf("sent first: %+v", s)
	}
	p.Timeout = patience
	if err := p.RDMAWrite(0, 0, nil); err != nil {
		t.Fatal(err)
	}
	if msg, err := p.Receive(); err != nil || len(msg) != 4 {
		t.Errorf("then received %x, %v", msg, err)
	}
	next(t, q.(*QP))
}

// TestReadyToReceive has initiators of the peer-to-peer model (RFC 6581 section
// 9.2) that say they are ready in each way.
func TestReadyToReceive(t *testing.T) {
	for _, tc := range []struct {
		name     string
		ird, ord uint16
		rtr      func(p *iwarptest.Peer) error
	}{
		{"Write", iwarptest.IRDPeerToPeer | 1, iwarptest.ORDWriteRTR | 1, func(p *iwarptest.Peer) error { return p.RDMAWrite(0, 0, nil) }},
		{"Send", iwarptest.IRDPeerToPeer | iwarptest.IRDSendRTR | 1, 1, func(p *iwarptest.Peer) error { return p.Send(nil) }},
		{"Read", iwarptest.IRDPeerToPeer | 1, iwarptest.ORDReadRTR | 1, func(p *iwarptest.Peer) error {
			_, err := p.RDMARead(0, 0, 0)
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := listen(t, Config{})
			p := dialPeer(t, l.Addr().String())
			if err := p.WriteFrame(iwarptest.Frame{Key: iwarptest.RequestKey, Revision: 2, Enhanced: true, IRD: tc.ird, ORD: tc.ord}); err != nil {
				t.Fatal(err)
			}
			o := options()
			o.IRD = 0
			q, err := l.Accept(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			defer p.Close()
			if f, err := p.ReadFrame(); err != nil || f.IRD&0xc000 != tc.ird&0xc000 || f.ORD&0xc000 != tc.ord&0xc000 {
				t.Errorf("reply %+v, %v", f, err)
			}
			if err := tc.rtr(p); err != nil {
				t.Fatal(err)
			}
			// The receive buffer is still there for the first real message.
			if err := q.Post(request(rdma.OpSend, pattern(4, 0), rdma.Remote{})); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Receive(); err != nil {
				t.Fatal(err)
			}
			if err := post(q, 1); err != nil {
				t.Fatal(err)
			}
			if err := p.Send([]byte("first")); err != nil {
				t.Fatal(err)
			}
			if e := received(t, q.(*QP)); string(e.Buf.Data[:e.Len]) != "first" {
				t.Errorf("received %q", e.Buf.Data[:e.Len])
			}
		})
	}
}

// TestReadLimit checks that this end keeps to the negotiated depth (ORD).
func TestReadLimit(t *testing.T) {
	l := listen(t, Config{})
	p := dialPeer(t, l.Addr().String())
	if err := p.WriteFrame(iwarptest.Frame{Key: iwarptest.RequestKey, Revision: 2, Enhanced: true, IRD: 2, ORD: 64}); err != nil {
		t.Fatal(err)
	}
	o := options()
	o.IRD, o.ORD = 3, 8
	qp, err := l.Accept(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer qp.Close()
	q := qp.(*QP)
	f, err := p.ReadFrame()
	if err != nil || f.IRD != 3 || f.ORD != 2 || q.Info().ReadDepth != 2 {
		t.Fatalf("reply %+v, depth %d, %v", f, q.Info().ReadDepth, err)
	}
	read := request(rdma.OpRead, buffer(8), rdma.Remote{Handle: 5, Offset: 6})
	if err := q.Post(append(read, append(read, read...)...)); !errors.Is(err, ErrQueueFull) {
		t.Errorf("3 Reads with ORD 2: %v", err)
	}
	if err := q.Post(append(read, read...)); err != nil {
		t.Fatal(err)
	}
	if err := q.Post(read); !errors.Is(err, ErrQueueFull) {
		t.Errorf("third Read with ORD 2: %v", err)
	}
	p.Close()
}

// TestReadsBeyondLimit has a peer ask for more than was negotiated.
func TestReadsBeyondLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pipe(Config{})
		o := options()
		o.IRD = 3
		at := make(chan rdma.Remote, 1)
		errs := make(chan error, 1)
		go func() {
			errs <- func() error {
				if _, err := p.ReadFrame(); err != nil {
					return err
				}
				if err := p.WriteFrame(iwarptest.Frame{Key: iwarptest.ReplyKey, Revision: 2, Enhanced: true, IRD: 16, ORD: 3}); err != nil {
					return err
				}
				// Nothing is read: one response is being written, three
				// requests wait, and there is one too many.
				src := <-at
				for range 5 {
					if err := p.RequestRead(iwarptest.Read{SinkSTag: 1, Size: 100, STag: uint32(src.Handle), Offset: src.Offset}); err != nil {
						return err
					}
					synctest.Wait()
				}
				return nil
			}()
		}()
		qp, err := c.Connect(t.Context(), "pipe", o)
		if err != nil {
			t.Fatal(err)
		}
		src, err := qp.Expose(pattern(100, 1), 0, 100, rdma.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		at <- src
		if err := <-errs; err != nil {
			t.Error(err)
		}
		var pe *rdma.ProtocolError
		if err := drained(t, qp.(*QP)); !errors.As(err, &pe) || pe.Terminate != uint32(termUntaggedNoBuf) {
			t.Error(err)
		}
		p.Close()
		qp.Close()
	})
}

// failingListener fails now and then, as a socket does when there are no file
// descriptors.
type failingListener struct {
	net.Listener
	fail chan error
}

func (l *failingListener) Accept() (net.Conn, error) {
	select {
	case err := <-l.fail:
		return nil, err
	default:
		return l.Listener.Accept()
	}
}

func TestAcceptSocketError(t *testing.T) {
	tl, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fl := &failingListener{Listener: tl, fail: make(chan error, 1)}
	fl.fail <- fmt.Errorf("too many open files")
	l := NewListener(fl, Config{})
	defer l.Close()
	_, err = l.Accept(t.Context(), options())
	var pe *rdma.PeerError
	if err == nil || errors.As(err, &pe) {
		t.Fatalf("error %v, want one that is about the listener", err)
	}
	p := dialPeer(t, l.Addr().String())
	go p.Connect(nil)
	q, err := l.Accept(t.Context(), options())
	if err != nil {
		t.Fatal(err)
	}
	p.Close()
	q.Close()
	if err := drained(t, q.(*QP)); err == nil {
		t.Error(err)
	}
}
