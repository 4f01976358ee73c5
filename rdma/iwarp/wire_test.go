package iwarp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// TestWire compares what a queue pair sends with octets written by hand after
// RFC 5044 section 4.1, RFC 5041 section 4, RFC 5040 section 4. The checksums
// were computed with an independent CRC32c.
func TestWire(t *testing.T) {
	text := func(s string) []rdma.Gather { return []rdma.Gather{{Buf: &ulb.Buffer{Data: []byte(s)}, Len: len(s)}} }
	for _, tc := range []struct {
		name string
		cfg  Config
		work []rdma.WorkRequest
		want string
	}{
		{
			name: "Sends: MSN counts up, pad to four",
			work: []rdma.WorkRequest{
				{Op: rdma.OpSend, Local: text("abcd")},
				{Op: rdma.OpSend},
				{Op: rdma.OpSend, Local: text("abcde")},
			},
			want: `0016 41 43 00000000 00000000 00000001 00000000 61626364 00000000
			       0012 41 43 00000000 00000000 00000002 00000000 00000000
			       0017 41 43 00000000 00000000 00000003 00000000 6162636465 000000 00000000`,
		},
		{
			name: "Send with Invalidate",
			work: []rdma.WorkRequest{{Op: rdma.OpSendInvalidate, Local: text("x"), Remote: rdma.Remote{Handle: 0xdeadbeef}}},
			want: `0013 41 44 deadbeef 00000000 00000001 00000000 78 000000 00000000`,
		},
		{
			name: "Write from two pieces",
			work: []rdma.WorkRequest{{Op: rdma.OpWrite, Local: append(text("ab"), text("cdef")...), Remote: rdma.Remote{Handle: 0x01020304, Offset: 0x1122334455667788}}},
			want: `0014 c1 40 01020304 1122334455667788 616263646566 0000 00000000`,
		},
		{
			name: "empty Write",
			work: []rdma.WorkRequest{{Op: rdma.OpWrite, Remote: rdma.Remote{Handle: 1, Offset: 2}}},
			want: `000e c1 40 00000001 0000000000000002 00000000`,
		},
		{
			name: "Write in two segments",
			cfg:  Config{MaxULPDU: 128},
			work: []rdma.WorkRequest{{Op: rdma.OpWrite, Local: text(string(bytes.Repeat([]byte{'w'}, 113))), Remote: rdma.Remote{Handle: 1, Offset: 0x10}}},
			want: `007e 81 40 00000001 0000000000000010 ` + repeatHex("77", 112) + ` 00000000
			       000f c1 40 00000001 0000000000000080 77 000000 00000000`,
		},
		{
			name: "Send in two segments",
			cfg:  Config{MaxULPDU: 128},
			work: []rdma.WorkRequest{{Op: rdma.OpSend, Local: text(string(bytes.Repeat([]byte{'s'}, 105)))}},
			want: `007a 01 43 00000000 00000000 00000001 00000000 ` + repeatHex("73", 104) + ` 00000000
			       0013 41 43 00000000 00000000 00000001 00000068 73 000000 00000000`,
		},
		{
			name: "CRC of an empty Send and of one with pad",
			cfg:  Config{CRC: true},
			work: []rdma.WorkRequest{{Op: rdma.OpSend}, {Op: rdma.OpSend, Local: text("abcde")}},
			want: `0012 41 43 00000000 00000000 00000001 00000000 587be8c4
			       0017 41 43 00000000 00000000 00000002 00000000 6162636465 000000 26be2e21`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := unhex(t, tc.want)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			got := make(chan []byte, 1)
			go func() {
				defer close(got)
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				if _, err := io.ReadFull(conn, make([]byte, 24)); err != nil { // the request
					return
				}
				if _, err := conn.Write(unhex(t, hexReplyKey+"10 02 0004 0010 0010")); err != nil {
					return
				}
				b := make([]byte, len(want))
				n, _ := io.ReadFull(conn, b)
				got <- b[:n]
			}()
			o := options()
			o.PrivateData = nil
			q, err := (&Connector{Config: tc.cfg}).Connect(t.Context(), l.Addr().String(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			if err := q.Post(tc.work); err != nil {
				t.Fatal(err)
			}
			if b := <-got; !bytes.Equal(b, want) {
				t.Errorf("sent %x\nwant %x", b, want)
			}
		})
	}
}

func repeatHex(s string, n int) string {
	var b []byte
	for range n {
		b = append(b, s...)
	}
	return string(b)
}

// crc32c is the checksum bit by bit, as its definition reads: the polynomial
// 0x1edc6f41 reflected, initial value and result inverted.
func crc32c(p []byte) uint32 {
	sum := ^uint32(0)
	for _, v := range p {
		sum ^= uint32(v)
		for range 8 {
			if sum&1 != 0 {
				sum = sum>>1 ^ 0x82f63b78
			} else {
				sum >>= 1
			}
		}
	}
	return ^sum
}

func TestCRC(t *testing.T) {
	// The check value that catalogues of CRCs give for CRC-32C, and the iSCSI
	// examples of RFC 3720 appendix B.4.
	for _, tc := range []struct {
		in   []byte
		want uint32
	}{
		{[]byte("123456789"), 0xe3069283},
		{make([]byte, 32), 0x8a9136aa},
		{bytes.Repeat([]byte{0xff}, 32), 0x62a8ab43},
	} {
		if got := crcAdd(crcAdd(0, tc.in[:3]), tc.in[3:]); got != tc.want || crc32c(tc.in) != tc.want {
			t.Errorf("%x: %#x and %#x, want %#x", tc.in, got, crc32c(tc.in), tc.want)
		}
	}
	var b [4]byte
	putCRC(b[:], 0x8a9136aa)
	if b != [4]byte{0xaa, 0x36, 0x91, 0x8a} || getCRC(b[:]) != 0x8a9136aa {
		t.Errorf("on the wire: %x", b)
	}
}

// TestTerminateCodes checks the encoding of every code against the octets that
// RFC 5040 section 4.8 draws, and that reading it swapped gives it back.
func TestTerminateCodes(t *testing.T) {
	for code, name := range termNames {
		var p [terminateMax]byte
		n := (&terminate{code: code}).put(p[:])
		if n != 4 || p[0] != byte(code>>12)<<4|byte(code>>8&0xf) || p[1] != byte(code) || p[2] != 0 || p[3] != 0 {
			t.Errorf("%s: %x", name, p[:n])
		}
		if code.swapped().swapped() != code {
			t.Errorf("%s: swapped twice is %#x", name, uint16(code.swapped().swapped()))
		}
	}
}

func TestSegmentRoundTrip(t *testing.T) {
	for _, seg := range []segment{
		{op: opWrite, tagged: true, last: true, stag: 0xfffffffe, to: 1<<64 - 1},
		{op: opReadResponse, tagged: true, stag: 1, to: 2},
		{op: opReadRequest, last: true, qn: 1, msn: 1<<32 - 1, mo: 3},
		{op: opSendSEInv, stag: 9, msn: 7, mo: 1<<32 - 1},
		{op: opTerminate, last: true, qn: 2, msn: 1},
	} {
		var p [untaggedLen]byte
		n := seg.put(p[:])
		var got segment
		if err := got.parse(p[:n]); err != nil || got != seg || n != seg.headerLen() || ddpHeaderLen(p[0]) != n {
			t.Errorf("%+v came back as %+v: %v", seg, got, err)
		}
		p[0] |= 0x3c // reserved bits are not checked (RFC 5041 section 4.1)
		p[1] |= 0x30 // (RFC 5040 section 4.1)
		if err := got.parse(p[:n]); err != nil || got != seg {
			t.Errorf("with reserved bits: %+v, %v", got, err)
		}
	}
	var pe *rdma.ProtocolError
	if err := new(segment).parse(make([]byte, untaggedLen)); !errors.As(err, &pe) {
		t.Errorf("version 0 taken: %v", err)
	}
}
