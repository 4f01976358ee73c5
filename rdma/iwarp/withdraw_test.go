package iwarp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
)

// scripted connects a queue pair to a script that has accepted, and may send.
func scripted(t *testing.T, cfg Config, script func(p *iwarptest.Peer) error) *QP {
	t.Helper()
	srv, err := iwarptest.Serve(func(p *iwarptest.Peer) error {
		if _, err := p.Accept(nil); err != nil {
			return err
		}
		if s, err := p.Read(); err != nil || s.Opcode != iwarptest.Write {
			return fmt.Errorf("first segment %+v, %w", s, err)
		}
		return script(p)
	})
	if err != nil {
		t.Fatal(err)
	}
	q, err := (&Connector{Config: cfg}).Connect(t.Context(), srv.Addr(), options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error("script:", err)
		}
		q.Close()
	})
	announce(q.(*QP))
	return q.(*QP)
}

// announce has the connecting end send something, so that the listening one may
// (RFC 5044 section 7.1.2, rule 4).
func announce(q *QP) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.nudgeDue = true
	q.wake()
}

// TestWithdrawDuringWrite withdraws memory while the peer is in the middle of
// an FPDU that is being placed into it. The invalidation must not wait for the
// peer, and no octet may land afterwards.
func TestWithdrawDuringWrite(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, size := range []int{500, 60_000} { // by way of the staging buffer, and directly
			t.Run(fmt.Sprintf("crc %t, %d octets", crc, size), func(t *testing.T) {
				at := make(chan rdma.Remote, 1)
				half := make(chan struct{})
				withdrawn := make(chan struct{})
				q := scripted(t, Config{CRC: crc}, func(p *iwarptest.Peer) error {
					r := <-at
					b := iwarptest.FPDU(iwarptest.Segment{Tagged: true, Last: true, Opcode: iwarptest.Write, STag: uint32(r.Handle),
						Offset: r.Offset, Payload: bytes.Repeat([]byte{1}, size)}.ULPDU(), p.CRC)
					if err := p.WriteRaw(b[:size/2]); err != nil {
						return err
					}
					close(half)
					<-withdrawn
					if err := p.WriteRaw(b[size/2:]); err != nil {
						return err
					}
					code, err := p.AwaitTerminate()
					if err == nil && code != 0x1100 {
						err = fmt.Errorf("Terminate %#04x", code)
					}
					return err
				})
				buf := buffer(size)
				r, err := q.Expose(buf, 0, size, rdma.RemoteWrite)
				if err != nil {
					t.Fatal(err)
				}
				at <- r
				<-half
				reg := q.table.find(uint32(r.Handle))
				for placed := false; !placed; { // until some of the half has been placed
					reg.mu.Lock()
					placed = buf.Data[0] == 1
					reg.mu.Unlock()
				}
				if err := q.Post(request(rdma.OpInvalidate, nil, r)); err != nil {
					t.Fatal(err)
				}
				next(t, q)
				for i := range buf.Data {
					buf.Data[i] = 0xa5 // it is somebody else's now
				}
				close(withdrawn)
				var pe *rdma.ProtocolError
				if err := drained(t, q); !errors.As(err, &pe) {
					t.Errorf("ended with %v", err)
				}
				if !bytes.Equal(buf.Data, bytes.Repeat([]byte{0xa5}, size)) {
					t.Error("octets landed in withdrawn memory")
				}
			})
		}
	}
}

// TestWithdrawDuringRead withdraws memory while it is being sent to a peer that
// does not take it. The peer must not see what is put there afterwards.
func TestWithdrawDuringRead(t *testing.T) {
	const size = 16 << 20 // more than the sockets hold
	at := make(chan rdma.Remote, 1)
	begun, withdrawn := make(chan struct{}), make(chan struct{})
	q := scripted(t, Config{}, func(p *iwarptest.Peer) error {
		r := <-at
		if err := p.RequestRead(iwarptest.Read{SinkSTag: 1, Size: size, STag: uint32(r.Handle), Offset: r.Offset}); err != nil {
			return err
		}
		first, err := p.Read() // it is on its way
		if err != nil || first.Opcode != iwarptest.ReadResponse {
			return fmt.Errorf("response %+v, %w", first, err)
		}
		close(begun)
		<-withdrawn
		if err := p.Conn.SetReadDeadline(noDeadline); err != nil {
			return err
		}
		rest, err := io.ReadAll(p.Conn)
		if bytes.IndexByte(rest, 0xee) >= 0 {
			return fmt.Errorf("memory was sent after it was withdrawn")
		}
		if len(rest) > size*3/4 {
			return fmt.Errorf("%d octets came, the response was to be cut off: %w", len(rest), err)
		}
		return nil
	})
	buf := buffer(size)
	r, err := q.Expose(buf, 0, size, rdma.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	at <- r
	<-begun
	if err := q.Post(request(rdma.OpInvalidate, nil, r)); err != nil {
		t.Fatal(err)
	}
	next(t, q)
	for i := range buf.Data {
		buf.Data[i] = 0xee
	}
	close(withdrawn)
	var pe *rdma.ProtocolError
	if err := drained(t, q); !errors.As(err, &pe) {
		t.Errorf("ended with %v", err)
	}
}

// TestInvalidateBehindWrite checks that invalidations keep their place behind
// work that has not begun, and do not wait for octets of work that has.
func TestInvalidateBehindWrite(t *testing.T) {
	go1 := make(chan struct{})
	q := scripted(t, Config{}, func(p *iwarptest.Peer) error {
		<-go1
		return p.AwaitClose()
	})
	expose := func() rdma.Remote {
		r, err := q.Expose(buffer(10), 0, 10, rdma.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := expose(), expose()
	big := buffer(16 << 20)
	if err := q.Post(request(rdma.OpSend, big, rdma.Remote{})); err != nil { // gets stuck
		t.Fatal(err)
	}
	for begun := false; !begun; {
		q.mu.Lock()
		begun = q.sq.begun == 1
		q.mu.Unlock()
	}
	batch := append(request(rdma.OpInvalidate, nil, a), request(rdma.OpSend, buffer(1), rdma.Remote{})...)
	if err := q.Post(append(batch, request(rdma.OpInvalidate, nil, b)...)); err != nil {
		t.Fatal(err)
	}
	if q.table.find(uint32(a.Handle)) != nil {
		t.Error("the invalidation waits for octets of work before it")
	}
	if q.table.find(uint32(b.Handle)) == nil {
		t.Error("the invalidation did not wait for work before it to begin")
	}
	close(go1)
	for _, want := range []rdma.Op{rdma.OpSend, rdma.OpInvalidate, rdma.OpSend, rdma.OpInvalidate} {
		if c := next(t, q); c.Op != want {
			t.Errorf("completion of %v, want %v", c.Op, want)
		}
	}
}
