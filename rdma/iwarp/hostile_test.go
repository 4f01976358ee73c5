package iwarp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
	"nfsrdma-fuse/ulb"
)

// victim is a queue pair whose peer is a script. It has exposed the middle of
// one buffer for writing and of another for reading, posted two receive buffers
// of 64 bytes, and sent one message.
type victim struct {
	*QP
	sink, source *ulb.Buffer
	write, read  rdma.Remote
	withdrawn    rdma.Remote // was exposed for writing once
	withdrawnBuf *ulb.Buffer
	recv         []*ulb.Buffer
}

const (
	guardLen   = 500
	exposedLen = 10_000
)

func guarded() *ulb.Buffer {
	b := buffer(2*guardLen + exposedLen)
	for i := range b.Data {
		b.Data[i] = 0xa5
	}
	return b
}

// intact reports whether all bytes of b are as guarded made them, but for the
// first n bytes of the exposed part.
func intact(b *ulb.Buffer, n int) bool {
	for i, v := range b.Data {
		if v != 0xa5 && (i < guardLen || i >= guardLen+n) {
			return false
		}
	}
	return true
}

// newVictim connects a victim to a scripted server that has accepted and received the
// message.
func newVictim(t *testing.T, cfg Config, script func(p *iwarptest.Peer, v *victim) error) (*victim, *iwarptest.Server) {
	t.Helper()
	ready := make(chan *victim, 1)
	srv, err := iwarptest.Serve(func(p *iwarptest.Peer) error {
		if _, err := p.Accept(nil); err != nil {
			return err
		}
		if msg, err := p.Receive(); err != nil || string(msg) != "hello" {
			return fmt.Errorf("first message %q: %w", msg, err)
		}
		return script(p, <-ready)
	})
	if err != nil {
		t.Fatal(err)
	}
	qp, err := (&Connector{Config: cfg}).Connect(t.Context(), srv.Addr(), options())
	if err != nil {
		t.Fatal(err)
	}
	v := &victim{QP: qp.(*QP), sink: guarded(), source: guarded(), withdrawnBuf: guarded()}
	v.recv = []*ulb.Buffer{buffer(64), buffer(64)}
	if err := v.Receive(v.recv...); err != nil {
		t.Fatal(err)
	}
	expose := func(b *ulb.Buffer, a rdma.Access) rdma.Remote {
		r, err := v.Expose(b, guardLen, exposedLen, a)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	v.write, v.read = expose(v.sink, rdma.RemoteWrite), expose(v.source, rdma.RemoteRead)
	v.withdrawn = expose(v.withdrawnBuf, rdma.RemoteWrite)
	if err := v.Post(request(rdma.OpInvalidate, nil, v.withdrawn)); err != nil {
		t.Fatal(err)
	}
	next(t, v.QP)
	if err := v.Post(request(rdma.OpSend, &ulb.Buffer{Data: []byte("hello")}, rdma.Remote{})); err != nil {
		t.Fatal(err)
	}
	next(t, v.QP)
	ready <- v
	t.Cleanup(func() {
		v.Close()
		if err := srv.Close(); err != nil {
			t.Error("script:", err)
		}
	})
	return v, srv
}

// TestViolations has a peer break one rule in each case. The connection must
// end with the right Terminate and a *rdma.ProtocolError, and no octet may
// land where it was not allowed to.
func TestViolations(t *testing.T) {
	type peer = iwarptest.Peer
	type segment = iwarptest.Segment
	data := bytes.Repeat([]byte{1}, 1000)
	write := func(stag uint32, to uint64, data []byte) segment {
		return segment{Tagged: true, Last: true, Opcode: iwarptest.Write, STag: stag, Offset: to, Payload: data}
	}
	send := func(msn, mo uint32, last bool, data []byte) segment {
		return segment{Last: last, Opcode: iwarptest.Send, MSN: msn, MO: mo, Payload: data}
	}
	readRequest := func(stag uint32, to uint64, n uint32) segment {
		return segment{Last: true, Opcode: iwarptest.ReadRequest, Queue: 1, MSN: 1,
			Payload: iwarptest.Read{SinkSTag: 1, Size: n, STag: stag, Offset: to}.Bytes()}
	}
	with := func(s segment, f func(*segment)) segment { f(&s); return s }
	wr := func(v *victim) uint32 { return uint32(v.write.Handle) }
	rd := func(v *victim) uint32 { return uint32(v.read.Handle) }

	for _, tc := range []struct {
		name string
		rule string
		code uint16
		do   func(v *victim) []segment
		raw  []byte
	}{
		{name: "write to unknown STag", rule: "RFC 5041 7.1", code: 0x1100,
			do: func(v *victim) []segment { return []segment{write(wr(v)+1, v.write.Offset, data)} }},
		{name: "write to STag 0", rule: "RFC 5041 7.1", code: 0x1100,
			do: func(v *victim) []segment { return []segment{write(0, 0, data)} }},
		{name: "write to withdrawn STag", rule: "RFC 5041 7.1", code: 0x1100,
			do: func(v *victim) []segment {
				return []segment{write(uint32(v.withdrawn.Handle), v.withdrawn.Offset, data)}
			}},
		{name: "write below", rule: "RFC 5041 7.1", code: 0x1101,
			do: func(v *victim) []segment { return []segment{write(wr(v), v.write.Offset-1, data)} }},
		{name: "write across the end", rule: "RFC 5041 7.1", code: 0x1101,
			do: func(v *victim) []segment { return []segment{write(wr(v), v.write.Offset+exposedLen-999, data)} }},
		{name: "write behind the end", rule: "RFC 5041 7.1", code: 0x1101,
			do: func(v *victim) []segment { return []segment{write(wr(v), v.write.Offset+exposedLen, data[:1])} }},
		{name: "write with wrapping offset", rule: "RFC 5041 7.1", code: 0x1103,
			do: func(v *victim) []segment { return []segment{write(wr(v), 1<<64-500, data)} }},
		{name: "write to memory exposed for reading", rule: "RFC 5040 8.1.1", code: 0x0102,
			do: func(v *victim) []segment { return []segment{write(rd(v), v.read.Offset, data)} }},
		{name: "write changes its STag", rule: "RFC 5041 4.2", code: 0x0206,
			do: func(v *victim) []segment {
				first := with(write(wr(v), v.write.Offset, nil), func(s *segment) { s.Last = false })
				return []segment{first, write(rd(v), v.read.Offset, data)}
			}},
		{name: "read of unknown STag", rule: "RFC 5040 7.2", code: 0x0100,
			do: func(v *victim) []segment { return []segment{readRequest(rd(v)+1, v.read.Offset, 10)} }},
		{name: "read of memory exposed for writing", rule: "RFC 5040 7.2", code: 0x0102,
			do: func(v *victim) []segment { return []segment{readRequest(wr(v), v.write.Offset, 10)} }},
		{name: "read below", rule: "RFC 5040 7.2", code: 0x0101,
			do: func(v *victim) []segment { return []segment{readRequest(rd(v), v.read.Offset-1, 10)} }},
		{name: "read across the end", rule: "RFC 5040 7.2", code: 0x0101,
			do: func(v *victim) []segment { return []segment{readRequest(rd(v), v.read.Offset, exposedLen+1)} }},
		{name: "read of 4 GiB", rule: "RFC 5040 7.2", code: 0x0101,
			do: func(v *victim) []segment { return []segment{readRequest(rd(v), v.read.Offset, 1<<32-1)} }},
		{name: "read with wrapping offset", rule: "RFC 5040 7.2", code: 0x0104,
			do: func(v *victim) []segment { return []segment{readRequest(rd(v), 1<<64-5, 10)} }},
		{name: "read request too short", rule: "RFC 5040 4.4", code: 0x1204,
			do: func(v *victim) []segment {
				return []segment{with(readRequest(rd(v), v.read.Offset, 1), func(s *segment) { s.Payload = s.Payload[:27] })}
			}},
		{name: "read request too long", rule: "RFC 5040 4.4", code: 0x1205,
			do: func(v *victim) []segment {
				return []segment{with(readRequest(rd(v), v.read.Offset, 1), func(s *segment) { s.Payload = append(s.Payload, 0) })}
			}},
		{name: "read request not last", rule: "RFC 5040 4.4", code: 0x1204,
			do: func(v *victim) []segment {
				return []segment{with(readRequest(rd(v), v.read.Offset, 1), func(s *segment) { s.Last = false })}
			}},
		{name: "read request with wrong MSN", rule: "RFC 5041 4.3", code: 0x1203,
			do: func(v *victim) []segment {
				return []segment{with(readRequest(rd(v), v.read.Offset, 1), func(s *segment) { s.MSN = 2 })}
			}},
		{name: "read response without request", rule: "RFC 5040 5.2.2", code: 0x0206,
			do: func(v *victim) []segment {
				return []segment{with(write(wr(v), v.write.Offset, data), func(s *segment) { s.Opcode = iwarptest.ReadResponse })}
			}},
		{name: "MSN 0", rule: "RFC 5041 4.3", code: 0x1203,
			do: func(v *victim) []segment { return []segment{send(0, 0, true, data[:10])} }},
		{name: "MSN skipped", rule: "RFC 5041 4.3", code: 0x1203,
			do: func(v *victim) []segment { return []segment{send(2, 0, true, data[:10])} }},
		{name: "MSN repeated", rule: "RFC 5041 4.3", code: 0x1203,
			do: func(v *victim) []segment {
				return []segment{send(1, 0, true, data[:10]), send(1, 0, true, data[:10])}
			}},
		{name: "MO not 0 at first", rule: "RFC 5041 4.3", code: 0x1204,
			do: func(v *victim) []segment { return []segment{send(1, 4, true, data[:10])} }},
		{name: "MO with a gap", rule: "RFC 5041 5.2", code: 0x1204,
			do: func(v *victim) []segment {
				return []segment{send(1, 0, false, data[:10]), send(1, 11, true, data[:10])}
			}},
		{name: "MO repeated", rule: "RFC 5041 5.2", code: 0x1204,
			do: func(v *victim) []segment {
				return []segment{send(1, 0, false, data[:10]), send(1, 0, true, data[:10])}
			}},
		{name: "send too long", rule: "RFC 5040 5.3", code: 0x1205,
			do: func(v *victim) []segment { return []segment{send(1, 0, true, data[:65])} }},
		{name: "send too long in two segments", rule: "RFC 5040 5.3", code: 0x1205,
			do: func(v *victim) []segment {
				return []segment{send(1, 0, false, data[:60]), send(1, 60, true, data[:5])}
			}},
		{name: "send without a buffer", rule: "RFC 5041 7.1", code: 0x1202,
			do: func(v *victim) []segment {
				return []segment{send(1, 0, true, nil), send(2, 0, true, data[:1]), send(3, 0, true, data[:1])}
			}},
		{name: "invalidate unknown STag", rule: "RFC 5040 5.3", code: 0x0109,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, nil), func(s *segment) { s.Opcode, s.STag = iwarptest.SendInv, wr(v)+1 })}
			}},
		{name: "invalidate withdrawn STag", rule: "RFC 5040 5.3", code: 0x0109,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, nil), func(s *segment) {
					s.Opcode, s.STag = iwarptest.SendSEInv, uint32(v.withdrawn.Handle)
				})}
			}},
		{name: "write behind its invalidation", rule: "RFC 5041 7.1", code: 0x1100,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, nil), func(s *segment) { s.Opcode, s.STag = iwarptest.SendInv, wr(v) }),
					write(wr(v), v.write.Offset, data)}
			}},
		{name: "queue 3", rule: "RFC 5041 7.1", code: 0x1201,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, data[:1]), func(s *segment) { s.Queue = 3 })}
			}},
		{name: "send in queue 1", rule: "RFC 5040 4.1", code: 0x0206,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, data[:1]), func(s *segment) { s.Queue = 1 })}
			}},
		{name: "tagged send", rule: "RFC 5040 4.1", code: 0x0206,
			do: func(v *victim) []segment {
				return []segment{with(write(wr(v), v.write.Offset, data), func(s *segment) { s.Opcode = iwarptest.Send })}
			}},
		{name: "untagged write", rule: "RFC 5040 4.1", code: 0x0206,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, data[:1]), func(s *segment) { s.Opcode = iwarptest.Write })}
			}},
		{name: "immediate data", rule: "RFC 7306 is not spoken", code: 0x0206,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, data[:8]), func(s *segment) { s.Opcode = 8 })}
			}},
		{name: "tagged DDP version", rule: "RFC 5041 4.1", code: 0x1104,
			do: func(v *victim) []segment {
				return []segment{with(write(wr(v), v.write.Offset, data), func(s *segment) { s.DDPVersion = 2 })}
			}},
		{name: "untagged DDP version", rule: "RFC 5041 4.1", code: 0x1206,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, nil), func(s *segment) { s.DDPVersion = 3 })}
			}},
		{name: "RDMAP version", rule: "RFC 5040 4.1", code: 0x0205,
			do: func(v *victim) []segment {
				return []segment{with(send(1, 0, true, nil), func(s *segment) { s.RDMAPVersion = 2 })}
			}},
		{name: "ULPDU shorter than tagged header", rule: "RFC 5041 4.2", code: 0x2003,
			raw: []byte{0, 13, 0xc1, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{name: "ULPDU shorter than untagged header", rule: "RFC 5041 4.3", code: 0x2003,
			raw: []byte{0, 17, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		{name: "empty ULPDU", rule: "RFC 5041 4.4", code: 0x2003, raw: make([]byte, 8)},
		{name: "garbage", rule: "RFC 5041 4.1", code: 0x1104, raw: bytes.Repeat([]byte{0xff}, 64)},
		{name: "short Terminate", rule: "RFC 5040 4.8", code: 0x1204,
			do: func(v *victim) []segment {
				return []segment{{Opcode: iwarptest.Terminate, Last: true, Queue: 2, MSN: 1, Payload: data[:3]}}
			}},
	} {
		for _, crc := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/crc=%t", tc.name, crc), func(t *testing.T) {
				v, _ := newVictim(t, Config{CRC: crc}, func(p *peer, v *victim) error {
					var err error
					if tc.do != nil {
						err = p.Write(tc.do(v)...)
					} else {
						err = p.WriteRaw(tc.raw)
					}
					if err != nil {
						return err
					}
					code, err := p.AwaitTerminate()
					if err == nil && code != tc.code {
						err = fmt.Errorf("Terminate %#04x, want %#04x (%s)", code, tc.code, tc.rule)
					}
					if err == nil {
						err = p.AwaitClose()
					}
					return err
				})
				err := drained(t, v.QP)
				var pe *rdma.ProtocolError
				if !errors.As(err, &pe) || pe.Terminate != uint32(tc.code) {
					t.Fatalf("connection ended with %v", err)
				}
				if !strings.Contains(err.Error(), v.Info().RemoteAddr) {
					t.Errorf("%q does not name the peer", err)
				}
				if !intact(v.sink, 0) || !intact(v.source, 0) || !intact(v.withdrawnBuf, 0) {
					t.Error("memory was touched")
				}
			})
		}
	}
}

// TestBadCRC checks that a damaged FPDU is reported as such, whatever the
// damage makes it look like.
func TestBadCRC(t *testing.T) {
	for at := 2; at < 60; at++ { // a damaged length is damage of another kind
		v, _ := newVictim(t, Config{CRC: true}, func(p *iwarptest.Peer, v *victim) error {
			b := iwarptest.FPDU(iwarptest.Segment{Tagged: true, Last: true, Opcode: iwarptest.Write, STag: uint32(v.write.Handle),
				Offset: v.write.Offset, Payload: bytes.Repeat([]byte{0xa5}, 41)}.ULPDU(), true)
			if at >= len(b) {
				return fmt.Errorf("FPDU of %d octets", len(b))
			}
			b[at] ^= 0x10
			if at == 2 {
				b[at] ^= 0x10 ^ 0x40 // keep the kind of header, which the length depends on
			}
			if err := p.WriteRaw(b); err != nil {
				return err
			}
			code, err := p.AwaitTerminate()
			if err == nil && code != 0x2002 {
				err = fmt.Errorf("octet %d damaged: Terminate %#04x", at, code)
			}
			return err
		})
		var pe *rdma.ProtocolError
		if err := drained(t, v.QP); !errors.As(err, &pe) || pe.Layer != "MPA" {
			t.Errorf("octet %d damaged: %v", at, err)
		}
		if !intact(v.sink, 41) {
			t.Errorf("octet %d damaged: memory outside was touched", at)
		}
	}
}

// TestTerminateHeaders checks which headers go along with a Terminate (RFC 5040
// section 4.8, figure 10), octet by octet.
func TestTerminateHeaders(t *testing.T) {
	type segment = iwarptest.Segment
	for _, tc := range []struct {
		name string
		seg  segment
		want func(u []byte) []byte
	}{
		{name: "DDP fault: length and DDP header",
			seg: segment{Tagged: true, Last: true, Opcode: iwarptest.Write, STag: 77, Offset: 5, Payload: []byte("xyz")},
			want: func(u []byte) []byte {
				return append([]byte{0x11, 0x00, 0xc0, 0, 0, 17}, u[:14]...)
			}},
		{name: "protection fault: and the Read Request",
			seg: segment{Last: true, Opcode: iwarptest.ReadRequest, Queue: 1, MSN: 1, Payload: iwarptest.Read{SinkSTag: 1, Size: 2, STag: 3}.Bytes()},
			want: func(u []byte) []byte {
				return append([]byte{0x01, 0x00, 0xe0, 0, 0, 46}, u...)
			}},
		{name: "operation fault: DDP header",
			seg: segment{Last: true, Opcode: 9, MSN: 1},
			want: func(u []byte) []byte {
				return append([]byte{0x02, 0x06, 0xc0, 0, 0, 18}, u...)
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, _ := newVictim(t, Config{}, func(p *iwarptest.Peer, v *victim) error {
				if err := p.Write(tc.seg); err != nil {
					return err
				}
				s, err := p.Read()
				if err != nil {
					return err
				}
				if want := tc.want(tc.seg.ULPDU()); s.Opcode != iwarptest.Terminate || s.Queue != 2 || s.MSN != 1 || !bytes.Equal(s.Payload, want) {
					return fmt.Errorf("got %+v, want %x", s, want)
				}
				return nil
			})
			drained(t, v.QP)
		})
	}
}

// TestTerminated checks what becomes of a Terminate from the peer, in the
// octet order of RFC 5040 and in that of Linux siw.
func TestTerminated(t *testing.T) {
	for _, tc := range []struct {
		control uint16
		want    string
	}{
		{0x1203, "DDP: message sequence number out of range"},
		{0x2103, "DDP: message sequence number out of range"}, // siw
		{0x0206, "RDMAP: unexpected opcode"},
		{0x2006, "RDMAP: unexpected opcode"}, // siw, if it is not MPA's code 6
		{0x1101, "DDP: base or bounds violation"},
		{0x0000, "catastrophic"},
		{0xabcd, "layer 10, type 11, code 0xcd"},
	} {
		v, _ := newVictim(t, Config{}, func(p *iwarptest.Peer, v *victim) error {
			if err := p.Terminate(tc.control); err != nil {
				return err
			}
			return p.AwaitClose()
		})
		err := drained(t, v.QP)
		var te *TerminateError
		if !errors.As(err, &te) || te.Control != tc.control || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("Terminate %#04x: %v", tc.control, err)
		}
	}
}

// TestPeerCloses checks how the end of the TCP stream is reported.
func TestPeerCloses(t *testing.T) {
	for _, tc := range []struct {
		name string
		raw  []byte
		want error
	}{
		{"between messages", nil, io.EOF},
		{"within a length", []byte{0}, io.ErrUnexpectedEOF},
		{"within a trailer", iwarptest.FPDU(iwarptest.Segment{Last: true, Opcode: iwarptest.Send, MSN: 1}.ULPDU(), false)[:22], io.ErrUnexpectedEOF},
		{"within a header", []byte{0, 20, 0x41, 0x43, 0}, io.ErrUnexpectedEOF},
		{"within a payload", iwarptest.FPDU(iwarptest.Segment{Last: true, Opcode: iwarptest.Send, MSN: 1, Payload: make([]byte, 9)}.ULPDU(), false)[:25], io.ErrUnexpectedEOF},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, _ := newVictim(t, Config{}, func(p *iwarptest.Peer, v *victim) error { return p.WriteRaw(tc.raw) })
			if err := drained(t, v.QP); !errors.Is(err, tc.want) || !strings.Contains(err.Error(), v.Info().RemoteAddr) {
				t.Errorf("ended with %v", err)
			}
			if err := v.Post(request(rdma.OpSend, buffer(1), rdma.Remote{})); err == nil {
				t.Error("a dead connection takes work")
			}
			if err := v.Receive(buffer(1)); err == nil {
				t.Error("a dead connection takes receive buffers")
			}
			if _, err := v.Expose(buffer(1), 0, 1, rdma.RemoteRead); err == nil {
				t.Error("a dead connection exposes memory")
			}
		})
	}
}
