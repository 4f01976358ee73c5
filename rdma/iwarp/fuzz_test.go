package iwarp

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
)

// octets is a connection from which given octets are read, at most chunk at a
// time, and that takes all that is written.
type octets struct {
	in    []byte
	chunk int
}

func (c *octets) Read(p []byte) (int, error) {
	if len(c.in) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.in[:min(c.chunk, len(c.in))])
	c.in = c.in[n:]
	return n, nil
}

func (c *octets) Write(p []byte) (int, error)      { return len(p), nil }
func (c *octets) Close() error                     { return nil }
func (c *octets) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (c *octets) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (c *octets) SetDeadline(time.Time) error      { return nil }
func (c *octets) SetReadDeadline(time.Time) error  { return nil }
func (c *octets) SetWriteDeadline(time.Time) error { return nil }

// FuzzFPDU feeds a queue pair with what a peer could send: arbitrary octets, or
// well-framed segments of arbitrary content. Whatever comes, the connection has
// to end in order, and nothing may be written but the exposed memory and the
// receive buffers.
func FuzzFPDU(f *testing.F) {
	f.Add([]byte{}, uint8(0), 1)
	f.Add(iwarptest.FPDU(iwarptest.Segment{Last: true, Opcode: iwarptest.Send, MSN: 1, Payload: []byte("hello")}.ULPDU(), false), uint8(0), 3)
	f.Add(iwarptest.FPDU(iwarptest.Segment{Last: true, Opcode: iwarptest.Terminate, Queue: 2, MSN: 1, Payload: make([]byte, 4)}.ULPDU(), true), uint8(1), 100)
	f.Add([]byte("\x00\x00\x00\x20\x00\x05"+"\x03\x40\x00\x08\x00\x00"+"\x01\x40\x01\x20\x00\x00"), uint8(2), 7)
	f.Add([]byte("\x00\x40\x00\xff\x00\x00"+"\x04\x40\x00\x04\x00\x00"+"\x02\x40\x00\x10\x00\x00"), uint8(3), 7)
	f.Add([]byte("\x00\x00\x00\x10\x00\x00"+"\x00\x40\x00\x10\x00\x10"+"\x03\x00\x00\x04\x00\x00"+"\x03\x40\x00\x04\x00\x00"), uint8(2), 1)
	f.Fuzz(func(t *testing.T, in []byte, mode uint8, chunk int) {
		if len(in) > 1<<12 {
			return
		}
		crc, framed := mode&1 != 0, mode&2 != 0
		conn := &octets{chunk: max(chunk, 1)}
		q := newQP(conn, Config{}.withDefaults(), rdma.Options{MaxReceives: 4, MaxSends: 8},
			agreement{crc: crc, ird: 2, ord: 2}, mode&4 != 0)
		sink, source, target := guarded(), guarded(), guarded()
		recv := guarded()
		window := *recv
		window.Data = recv.Data[guardLen : guardLen+64 : guardLen+64]
		if err := q.Receive(&window); err != nil {
			t.Fatal(err)
		}
		w, err := q.Expose(sink, guardLen, exposedLen, rdma.RemoteWrite)
		if err != nil {
			t.Fatal(err)
		}
		r, err := q.Expose(source, guardLen, exposedLen, rdma.RemoteRead)
		if err != nil {
			t.Fatal(err)
		}
		conn.in = in
		if framed {
			conn.in = segments(in, crc, w, r)
		}
		conn.chunk = max(conn.chunk, len(conn.in)/256) // many small pieces take long, and show no more
		q.start()
		// Two Reads wait for a response, unless the end has come already.
		g := rdma.Gather{Buf: target, Off: guardLen, Len: 100}
		err = q.Post([]rdma.WorkRequest{{Op: rdma.OpRead, Local: []rdma.Gather{g}}, {Op: rdma.OpRead, Local: []rdma.Gather{g}}})
		posted := err == nil
		counts := make(map[rdma.Op]int)
		for {
			var c [4]rdma.Completion
			n, err := q.Poll(c[:])
			if n == 0 {
				var pe *rdma.ProtocolError
				var te *TerminateError
				if !errors.As(err, &pe) && !errors.As(err, &te) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("ended with %v", err)
				}
				break
			}
			for _, e := range c[:n] {
				counts[e.Op]++
			}
		}
		q.Close()
		if counts[rdma.OpReceive] != 1 || posted && counts[rdma.OpRead] != 2 {
			t.Errorf("completions: %v", counts)
		}
		if !intact(sink, exposedLen) || !intact(source, 0) || !intact(recv, 64) || !intact(target, 100) {
			t.Error("memory that nobody offered was written")
		}
	})
}

// segments makes well-framed segments of input: six octets each, for the
// opcode, flags, the length and the offset.
func segments(in []byte, crc bool, w, r rdma.Remote) []byte {
	var out []byte
	msn := [3]uint32{1, 1, 1}
	for ; len(in) >= 6; in = in[6:] {
		op, flags := in[0]&0xf, in[1]
		n, off := int(in[2])<<8|int(in[3]), uint64(in[4])<<8|uint64(in[5])
		s := iwarptest.Segment{Opcode: op, Last: flags&0x40 != 0, Payload: make([]byte, min(n, 12_000)), DDPVersion: flags & 2 >> 1 * 2}
		at := w
		if flags&1 != 0 {
			at = r
		}
		if s.STag = uint32(at.Handle); flags&4 != 0 {
			s.STag++
		}
		switch op {
		case iwarptest.Write, iwarptest.ReadResponse:
			s.Tagged, s.Offset = true, at.Offset+off
			if op == iwarptest.ReadResponse {
				s.Offset = off
			}
		default:
			if op == iwarptest.ReadRequest {
				s.Queue = 1
				s.Payload = iwarptest.Read{SinkSTag: 1, Size: uint32(n), STag: s.STag, Offset: at.Offset + off}.Bytes()
			} else if op == iwarptest.Terminate {
				s.Queue = 2
			}
			s.MSN, s.MO = msn[s.Queue], uint32(off)
			if s.Last {
				msn[s.Queue]++
			}
		}
		out = append(out, iwarptest.FPDU(s.ULPDU(), crc)...)
		if len(out) > 1<<16 {
			break
		}
	}
	return out
}
