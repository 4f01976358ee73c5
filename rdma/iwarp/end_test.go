package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
	"nfsrdma-fuse/ulb"
)

var noDeadline time.Time

// TestCloseStuck closes a connection whose peer reads nothing: all comes back,
// and soon.
func TestCloseStuck(t *testing.T) {
	stop := make(chan struct{})
	q := scripted(t, Config{}, func(p *iwarptest.Peer) error { <-stop; return nil })
	defer close(stop)
	bufs := make(map[*ulb.Buffer]bool)
	for range 3 {
		b := buffer(16 << 20)
		bufs[b] = true
		if err := q.Post(request(rdma.OpSend, b, rdma.Remote{})); err != nil {
			t.Fatal(err)
		}
	}
	if err := post(q, 5); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	q.Close()
	if d := time.Since(start); d > 20*lingerTime {
		t.Errorf("Close took %v", d)
	}
	receives := 0
	for {
		var c [3]rdma.Completion
		n, err := q.Poll(c[:])
		if n == 0 {
			if !errors.Is(err, rdma.ErrClosed) {
				t.Error(err)
			}
			break
		}
		for _, e := range c[:n] {
			if !errors.Is(e.Err, rdma.ErrFlushed) {
				t.Errorf("completion %+v", e)
			}
			if e.Op == rdma.OpReceive {
				receives++
			} else {
				delete(bufs, e.Cookie.(*ulb.Buffer))
			}
		}
	}
	if receives != 5 || len(bufs) != 0 {
		t.Errorf("%d receive buffers came back, %d Sends did not", receives, len(bufs))
	}
}

// TestReset has the peer reset the connection.
func TestReset(t *testing.T) {
	q := scripted(t, Config{}, func(p *iwarptest.Peer) error {
		if _, err := p.Receive(); err != nil {
			return err
		}
		return p.Conn.(*net.TCPConn).SetLinger(0)
	})
	if err := q.Post(request(rdma.OpSend, buffer(1), rdma.Remote{})); err != nil {
		t.Fatal(err)
	}
	err := drained(t, q)
	if err == nil || errors.Is(err, io.EOF) || !strings.Contains(err.Error(), q.Info().RemoteAddr) || !strings.Contains(err.Error(), "reset") {
		t.Errorf("ended with %v", err)
	}
}

// TestDisconnectCause checks what the peer is told.
func TestDisconnectCause(t *testing.T) {
	for _, tc := range []struct {
		cause error
		want  uint16
	}{
		{&rdma.ProtocolError{Layer: "RPC-over-RDMA", Reason: "nonsense"}, 0x0000},
		{&rdma.ProtocolError{Layer: "RPC-over-RDMA", Reason: "nonsense", Terminate: 0x0207}, 0x0207},
		{&rdma.ProtocolError{Layer: "RPC-over-RDMA", Reason: "nonsense", Terminate: 0x123456}, 0x0000},
		{fmt.Errorf("wrapped: %w", &rdma.ProtocolError{}), 0x0000},
		{errors.New("lost interest"), 0xffff},
		{nil, 0xffff},
	} {
		got := make(chan uint16, 1)
		q := scripted(t, Config{}, func(p *iwarptest.Peer) error {
			if _, err := p.Receive(); err != nil {
				return err
			}
			// Octets that are never read make a hasty close a reset, which
			// would swallow the Terminate.
			if err := p.RDMAWrite(0, 0, nil); err != nil {
				return err
			}
			code, err := p.AwaitTerminate()
			if errors.Is(err, io.EOF) {
				code, err = 0xffff, nil
			}
			got <- code
			return err
		})
		if err := q.Post(request(rdma.OpSend, buffer(1), rdma.Remote{})); err != nil {
			t.Fatal(err)
		}
		next(t, q)
		q.Disconnect(tc.cause)
		if code := <-got; code != tc.want {
			t.Errorf("cause %v: Terminate %#04x, want %#04x", tc.cause, code, tc.want)
		}
		err := drained(t, q)
		if tc.cause != nil && err != tc.cause || tc.cause == nil && !errors.Is(err, rdma.ErrClosed) {
			t.Errorf("cause %v came back as %v", tc.cause, err)
		}
	}
}

// TestTerminateSurvives checks that a Terminate reaches a peer that is still
// sending when its fault is found.
func TestTerminateSurvives(t *testing.T) {
	q := scripted(t, Config{}, func(p *iwarptest.Peer) error {
		bad := iwarptest.Segment{Tagged: true, Last: true, Opcode: iwarptest.Write, STag: 5, Payload: make([]byte, 60_000)}
		var segs []iwarptest.Segment
		for range 50 {
			segs = append(segs, bad)
		}
		if err := p.Write(segs...); err != nil {
			return err
		}
		code, err := p.AwaitTerminate()
		if err == nil && code != 0x1100 {
			err = fmt.Errorf("Terminate %#04x", code)
		}
		return err
	})
	var pe *rdma.ProtocolError
	if err := drained(t, q); !errors.As(err, &pe) {
		t.Error(err)
	}
}

// TestLastWords has the peer give its reason and close while this end has much
// to send: the reason is what counts, not that the socket takes no more.
func TestLastWords(t *testing.T) {
	for range 20 {
		q := scripted(t, Config{}, func(p *iwarptest.Peer) error {
			if _, err := p.Read(); err != nil {
				return err
			}
			return p.Terminate(0x1203) // and a reset, because octets are left unread
		})
		for range 8 {
			if err := q.Post(request(rdma.OpSend, buffer(1<<20), rdma.Remote{})); err != nil {
				break // it has ended
			}
		}
		var te *TerminateError
		if err := drained(t, q); !errors.As(err, &te) {
			t.Fatalf("ended with %v", err)
		}
	}
}

// TestSendFails has a connection that can be read but not written.
func TestSendFails(t *testing.T) {
	broken := errors.New("broken")
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		q := newQP(&brokenConn{Conn: near, err: broken}, Config{}.withDefaults(), options(), agreement{}, false)
		q.start()
		if err := q.Post(request(rdma.OpSend, buffer(1), rdma.Remote{})); err != nil {
			t.Fatal(err)
		}
		if err := drained(t, q); !errors.Is(err, broken) {
			t.Error(err)
		}
		far.Close()
		q.Close()
	})
}

type brokenConn struct {
	net.Conn
	err error
}

func (c *brokenConn) Write([]byte) (int, error) { return 0, c.err }

// TestEndedInPrepare ends the connection before it is up.
func TestEndedInPrepare(t *testing.T) {
	l := listen(t, Config{})
	p := dialPeer(t, l.Addr().String())
	go p.Connect(nil)
	o := options()
	o.Prepare = func(q rdma.QueuePair) error { q.Disconnect(nil); return nil }
	q, err := l.Accept(t.Context(), o)
	if err == nil {
		q.Close()
		err = drained(t, q.(*QP))
	}
	if !errors.Is(err, rdma.ErrClosed) && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// TestRefusedWork posts what no queue pair takes. Nothing of such a batch is
// carried out.
func TestRefusedWork(t *testing.T) {
	c, s := pair(t, Config{}, Config{})
	g := rdma.Gather{Buf: buffer(10), Len: 10}
	with := func(off, n int) []rdma.Gather { return []rdma.Gather{{Buf: g.Buf, Off: off, Len: n}} }
	good := rdma.WorkRequest{Op: rdma.OpSend, Local: []rdma.Gather{g}}
	for _, bad := range []rdma.WorkRequest{
		{},
		{Op: rdma.OpReceive},
		{Op: 99},
		{Op: rdma.OpSend, Local: with(1, 10)},
		{Op: rdma.OpSend, Local: with(-1, 1)},
		{Op: rdma.OpSend, Local: with(0, -1)},
		{Op: rdma.OpSend, Local: with(11, 0)},
		{Op: rdma.OpSend, Local: make([]rdma.Gather, maxGather+1)},
		{Op: rdma.OpRead},
		{Op: rdma.OpRead, Local: []rdma.Gather{g, g}},
		{Op: rdma.OpInvalidate, Local: []rdma.Gather{g}},
	} {
		for i := range bad.Local {
			if bad.Local[i].Buf == nil {
				bad.Local[i].Buf = g.Buf
			}
		}
		if err := c.Post([]rdma.WorkRequest{good, bad}); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
	for _, access := range []rdma.Access{0, 3} {
		if _, err := c.Expose(g.Buf, 0, 10, access); err == nil {
			t.Errorf("access %d was given", access)
		}
	}
	tooMany := make([]rdma.WorkRequest, options().MaxSends+1)
	for i := range tooMany {
		tooMany[i] = good
	}
	if err := c.Post(tooMany); !errors.Is(err, ErrQueueFull) {
		t.Error(err)
	}
	if err := c.Receive(make([]*ulb.Buffer, options().MaxReceives-32+1)...); !errors.Is(err, ErrQueueFull) {
		t.Error(err)
	}
	// The first message of all is the first that was good.
	if err := c.Post([]rdma.WorkRequest{{Op: rdma.OpSend, Local: with(0, 3)}}); err != nil {
		t.Fatal(err)
	}
	if e := next(t, s); e.Len != 3 {
		t.Errorf("received %d bytes", e.Len)
	}
}

// TestPrepare checks what can be done before the connection is up.
func TestPrepare(t *testing.T) {
	l := listen(t, Config{})
	p := dialPeer(t, l.Addr().String())
	go p.Connect([]byte("their data"))
	o := options()
	var seen rdma.Info
	o.Prepare = func(q rdma.QueuePair) error {
		seen = q.Info()
		if err := q.Post(request(rdma.OpSend, buffer(1), rdma.Remote{})); err == nil {
			return errors.New("work was taken before the connection is up")
		}
		return post(q, 1)
	}
	q, err := l.Accept(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	defer p.Close()
	if string(seen.PrivateData) != "their data" || seen.RemoteAddr != p.Conn.LocalAddr().String() || seen.Device != "127.0.0.1" || seen.ReadDepth != 8 {
		t.Errorf("info %+v", seen)
	}
}
