package rdmatest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// endsAtBoth checks that the connection ends at both ends with an error that
// is not the one of an ordinary close; the second may be told no more than that
// the first has closed.
func endsAtBoth(t *testing.T, first, second *end) {
	t.Helper()
	_, err, other := drainBoth(first, second)
	for _, err := range []error{err, other} {
		if err == nil || errors.Is(err, rdma.ErrClosed) {
			t.Errorf("connection ended with %v, want a fault", err)
		}
	}
	if errors.Is(err, io.EOF) && !device.QuietFaults {
		t.Errorf("%s: connection ended with %v, want a fault", first.name, err)
	}
}

func testSendWithoutReceive(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	c.post(rdma.WorkRequest{Op: rdma.OpSend, Local: all(c.buffer(64, 0))})
	// On InfiniBand only the sender learns of it, and the receiver sees it go.
	endsAtBoth(t, c, s)
}

func testSendTooLong(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	rb := s.buffer(128, 0)
	tail := bytes.Clone(rb.Data[64:])
	s.receive(&ulb.Buffer{Data: rb.Data[:64:64], Region: rb.Region})
	c.post(rdma.WorkRequest{Op: rdma.OpSend, Local: all(c.buffer(65, 0xff))})
	left, err := s.drain()
	if errors.Is(err, io.EOF) || errors.Is(err, rdma.ErrClosed) {
		t.Errorf("connection ended with %v, want a fault", err)
	}
	if len(left) != 1 || left[0].Err == nil {
		t.Errorf("completions %+v, want the receive buffer with an error", left)
	}
	if !bytes.Equal(rb.Data[64:], tail) {
		t.Error("memory behind the receive buffer was written")
	}
	if _, err := c.drain(); errors.Is(err, rdma.ErrClosed) {
		t.Errorf("sender's connection ended with %v", err)
	}
}

func testDisconnect(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	cb := []*ulb.Buffer{c.buffer(16, 0), c.buffer(16, 0), c.buffer(16, 0)}
	sb := []*ulb.Buffer{s.buffer(16, 0), s.buffer(16, 0)}
	c.receive(cb...)
	s.receive(sb...)
	// What was sent before still arrives.
	c.post(rdma.WorkRequest{Op: rdma.OpSend, Cookie: "last", Local: all(c.buffer(5, 0))})
	c.expect(rdma.OpSend, "last")
	if got := s.expect(rdma.OpReceive, nil); got.Len != 5 {
		t.Errorf("message of %d bytes", got.Len)
	}
	c.qp.Disconnect(nil)
	check := func(e *end, bufs []*ulb.Buffer, want error) {
		left, err := e.drain()
		if !errors.Is(err, want) {
			t.Errorf("%s: connection ended with %v, want %v", e.name, err, want)
		}
		if len(left) != len(bufs) {
			t.Fatalf("%s: %d completions, want %d", e.name, len(left), len(bufs))
		}
		for i, done := range left {
			if done.Op != rdma.OpReceive || done.Buf != bufs[i] || !errors.Is(done.Err, rdma.ErrFlushed) {
				t.Errorf("%s: completion %d: %+v", e.name, i, done)
			}
		}
		for range 2 { // the error is returned again
			if _, again := e.poll(); !errors.Is(again, want) {
				t.Errorf("%s: Poll after the end: %v", e.name, again)
			}
		}
	}
	check(c, cb, rdma.ErrClosed)
	check(s, sb[1:], io.EOF)
}

func testDisconnectWithCause(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	s.receive(s.buffer(16, 0))
	cause := &rdma.ProtocolError{Layer: "RPC-over-RDMA", Reason: "the test says so"}
	c.qp.Disconnect(cause)
	c.qp.Disconnect(errors.New("a second cause changes nothing"))
	if _, err := c.drain(); !errors.Is(err, cause) {
		t.Errorf("own end: %v, want the cause", err)
	}
	if _, err := s.drain(); errors.Is(err, io.EOF) && !device.QuietFaults || errors.Is(err, rdma.ErrClosed) {
		t.Errorf("peer's end: %v, want to be told of a fault", err)
	}
}

func testAfterEnd(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	cb, sb := c.buffer(16, 0), s.buffer(16, 0)
	c.qp.Disconnect(nil)
	for _, e := range []struct {
		*end
		buf *ulb.Buffer
	}{{c, cb}, {s, sb}} {
		e.drain()
		if err := e.qp.Post([]rdma.WorkRequest{{Op: rdma.OpSend, Local: all(e.buf)}}); err == nil {
			t.Errorf("%s: Post after the end was taken", e.name)
		}
		if err := e.qp.Receive(e.buf); err == nil {
			t.Errorf("%s: Receive after the end was taken", e.name)
		}
		if _, err := e.qp.Expose(e.buf, 0, 16, rdma.RemoteRead); err == nil {
			t.Errorf("%s: Expose after the end gave a handle", e.name)
		}
		if left, _ := e.drain(); len(left) > 0 {
			t.Errorf("%s: completions of what was refused: %+v", e.name, left)
		}
		for range 2 {
			if err := e.qp.Close(); err != nil {
				t.Errorf("%s: Close: %v", e.name, err)
			}
		}
	}
}

func testCloseWakesPoll(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	polled := make(chan error, 2)
	for _, e := range []*end{c, s} {
		go func() {
			n, err := e.qp.Poll(make([]rdma.Completion, 1))
			if n != 0 {
				err = fmt.Errorf("%d completions", n)
			}
			polled <- err
		}()
	}
	if err := c.qp.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case err := <-polled:
			if !errors.Is(err, io.EOF) && !errors.Is(err, rdma.ErrClosed) {
				t.Errorf("Poll: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("Poll still waits after Close")
		}
	}
}
