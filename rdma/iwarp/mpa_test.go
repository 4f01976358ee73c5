package iwarp

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"

	"nfsrdma-fuse/rdma"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	hexRequestKey = "4d504120494420526571204672616d65 "
	hexReplyKey   = "4d504120494420526570204672616d65 "
)

// TestMPARequest compares a request with one written by hand: revision 2,
// enhanced, IRD 16, ORD 3, and the private data of RFC 8797.
func TestMPARequest(t *testing.T) {
	private := unhex(t, "f6ab0e18 01 01 03 03")
	for _, tc := range []struct {
		crc  bool
		want string
	}{
		{false, hexRequestKey + "10 02 000c 0010 0003 f6ab0e18 01010303"},
		{true, hexRequestKey + "50 02 000c 0010 0003 f6ab0e18 01010303"},
	} {
		_, got, err := newInitiator(offer{crc: tc.crc, ird: 16, ord: 3, private: private})
		if err != nil || !bytes.Equal(got, unhex(t, tc.want)) {
			t.Errorf("crc %t: %x, %v", tc.crc, got, err)
		}
	}
}

// TestMPAReply feeds replies to an initiator that has offered IRD 16 and ORD 8.
func TestMPAReply(t *testing.T) {
	long := strings.Repeat("00", 513)
	for _, tc := range []struct {
		name    string
		reply   string
		crc     bool // asked for
		want    agreement
		private string
		err     string // part of the message
		code    uint32
	}{
		{name: "knfsd", reply: "10 02 000c 0010 0010 f6ab0e18 01000303", want: agreement{ird: 16, ord: 8}, private: "f6ab0e1801000303"},
		{name: "ORD is cut to the peer's IRD", reply: "10 02 0004 0002 0001", want: agreement{ird: 16, ord: 2}},
		{name: "IRD is raised to the peer's ORD", reply: "10 02 0004 0010 0020", want: agreement{ird: 32, ord: 8}},
		{name: "IRD cannot be raised that far", reply: "10 02 0004 0010 1000", err: "insists on 4096 RDMA Reads", code: 0x2006},
		{name: "depths left to the consumer", reply: "10 02 0004 3fff 3fff", want: agreement{ird: 16, ord: 8}},
		{name: "control flags are no depths", reply: "10 02 0004 c010 c004", want: agreement{ird: 16, ord: 8}},
		{name: "peer wants CRC", reply: "50 02 0004 0010 0010", want: agreement{crc: true, ird: 16, ord: 8}},
		{name: "CRC asked for", reply: "10 02 0004 0010 0010", crc: true, want: agreement{crc: true, ird: 16, ord: 8}},
		{name: "reserved bits are ignored", reply: "1f 02 0004 0010 0010", want: agreement{ird: 16, ord: 8}},
		{name: "no enhanced data", reply: "00 02 0002 aabb", want: agreement{ird: 16}, private: "aabb"},
		{name: "revision 1 has no enhanced data", reply: "10 01 0002 aabb", want: agreement{ird: 16}, private: "aabb"},
		{name: "largest private data", reply: "10 02 0200 0010 0010" + strings.Repeat("07", 508), want: agreement{ird: 16, ord: 8}, private: strings.Repeat("07", 508)},
		{name: "rejected", reply: "30 02 0004 0010 0010", err: "/proc/fs/nfsd/portlist"},
		{name: "rejected for want of reads", reply: "30 02 0004 0010 0040", err: "may need 64 inbound RDMA Reads where this end offered 16"},
		{name: "rejected in revision 1", reply: "20 01 0000", err: "rejected"},
		{name: "markers", reply: "90 02 0004 0010 0010", err: "markers"},
		{name: "revision 0", reply: "00 00 0000", err: "revision 0"},
		{name: "revision 3", reply: "10 03 0004 0010 0010", err: "revision 3"},
		{name: "private data too long", reply: "00 02 0201" + long, err: "513 octets of private data"},
		{name: "enhanced data cut off", reply: "10 02 0003 001000", err: "do not hold IRD and ORD"},
		{name: "octets behind the reply", reply: "10 02 0004 0010 0010 00", err: "1 octets came behind the frame"},
	} {
		for _, chunk := range []int{1, 7, 1000} {
			t.Run(fmt.Sprintf("%s/%d octets at a time", tc.name, chunk), func(t *testing.T) {
				o := offer{crc: tc.crc, ird: 16, ord: 8}
				n, _, err := newInitiator(o)
				if err != nil {
					t.Fatal(err)
				}
				reply := unhex(t, hexReplyKey+tc.reply)
				if chunk < len(reply) && strings.Contains(tc.name, "behind") {
					t.Skip("what comes behind the frame is only seen if it comes with it")
				}
				got, err := feed(n, reply, chunk, func() (agreement, error) { return n.settle(o) })
				checkAgreement(t, got, err, tc.want, tc.private, tc.err)
				var pe *rdma.ProtocolError
				if errors.As(err, &pe) && pe.Terminate != tc.code {
					t.Errorf("code %#x", pe.Terminate)
				}
			})
		}
	}
}

// feed gives input octets in chunks and then settles.
func feed(n *negotiation, in []byte, chunk int, settle func() (agreement, error)) (agreement, error) {
	for len(in) > 0 {
		k := min(chunk, len(in))
		done, err := n.input(in[:k])
		if err != nil {
			return agreement{}, err
		}
		if in = in[k:]; done {
			return settle()
		}
	}
	return agreement{}, errors.New("not complete")
}

func checkAgreement(t *testing.T, got agreement, err error, want agreement, private, part string) {
	t.Helper()
	if part != "" {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error %v, want one about %q", err, part)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if hex.EncodeToString(got.private) != private {
		t.Errorf("private data %x, want %s", got.private, private)
	}
	got.private, want.private = nil, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("agreed on %+v, want %+v", got, want)
	}
}

// TestMPAAnswer feeds requests to a responder with IRD 8, ORD 4 and private
// data ee.
func TestMPAAnswer(t *testing.T) {
	for _, tc := range []struct {
		name    string
		request string
		crc     bool
		reply   string
		want    agreement
		private string
		err     string
	}{
		{name: "Linux client", request: "10 02 000c 0010 0000 f6ab0e18 01010303", private: "f6ab0e1801010303",
			reply: "10 02 0005 0008 0004 ee", want: agreement{ird: 8, ord: 4}},
		{name: "ORD is cut to the peer's IRD", request: "10 02 0004 0001 0001", reply: "10 02 0005 0008 0001 ee", want: agreement{ird: 8, ord: 1}},
		{name: "IRD 0", request: "10 02 0004 0000 0001", reply: "10 02 0005 0008 0000 ee", want: agreement{ird: 8}},
		{name: "peer's ORD is too large: it has to come down", request: "10 02 0004 0010 0020", reply: "10 02 0005 0008 0004 ee", want: agreement{ird: 8, ord: 4}},
		{name: "depths left to the consumer", request: "10 02 0004 3fff 3fff", reply: "10 02 0005 3fff 3fff ee", want: agreement{ird: 8, ord: 4}},
		{name: "peer wants CRC", request: "50 02 0004 0010 0010", reply: "50 02 0005 0008 0004 ee", want: agreement{crc: true, ird: 8, ord: 4}},
		{name: "CRC asked for", request: "10 02 0004 0010 0010", crc: true, reply: "50 02 0005 0008 0004 ee", want: agreement{crc: true, ird: 8, ord: 4}},
		{name: "revision 1", request: "00 01 0001 77", private: "77", reply: "00 01 0001 ee", want: agreement{ird: 8}},
		{name: "revision 1 knows no enhanced data", request: "10 01 0001 77", private: "77", reply: "00 01 0001 ee", want: agreement{ird: 8}},
		{name: "revision 2, not enhanced", request: "00 02 0000", reply: "00 02 0001 ee", want: agreement{ird: 8}},
		{name: "peer to peer, all indications", request: "10 02 0004 c010 c010", reply: "10 02 0005 8008 c004 ee", want: agreement{ird: 8, ord: 4}},
		{name: "peer to peer, by a Write", request: "10 02 0004 8010 8010", reply: "10 02 0005 8008 8004 ee", want: agreement{ird: 8, ord: 4}},
		{name: "peer to peer, by a Send", request: "10 02 0004 c010 0010", reply: "10 02 0005 c008 0004 ee", want: agreement{ird: 8, ord: 4, sendRTR: true}},
		{name: "peer to peer, by nothing", request: "10 02 0004 8010 0010", reply: "10 02 0005 8008 8004 ee", want: agreement{ird: 8, ord: 4}},
		{name: "flags without peer to peer mean nothing", request: "10 02 0004 4010 c010", reply: "10 02 0005 0008 0004 ee", want: agreement{ird: 8, ord: 4}},
		{name: "markers are refused", request: "90 02 0004 0010 0010", reply: "30 02 0004 0008 0004", err: "markers"},
		{name: "reject bit", request: "30 02 0004 0010 0010", reply: "30 02 0004 0008 0004", err: "reject bit"},
		{name: "revision 3", request: "10 03 0004 0010 0010", err: "revision 3"},
		{name: "revision 0", request: "00 00 0000", err: "revision 0"},
		{name: "private data too long", request: "10 02 0201", err: "513 octets"},
		{name: "early data", request: "10 02 0004 0010 0010 0012 41", err: "3 octets came behind"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := offer{crc: tc.crc, ird: 8, ord: 4, private: []byte{0xee}}
			n := newResponder()
			var reply []byte
			got, err := feed(n, unhex(t, hexRequestKey+tc.request), 1000, func() (agreement, error) {
				var a agreement
				var err error
				reply, a, err = n.answer(o)
				return a, err
			})
			checkAgreement(t, got, err, tc.want, tc.private, tc.err)
			if want := ""; tc.reply != "" {
				want = hexReplyKey + tc.reply
				if !bytes.Equal(reply, unhex(t, want)) {
					t.Errorf("reply %x, want %s", reply[mpaKeyLen:], tc.reply)
				}
			} else if len(reply) > 0 {
				t.Errorf("reply %x to a frame that must be dropped", reply)
			}
		})
	}
}

// TestMPAKey checks that a peer that speaks something else is found out with its
// first octets.
func TestMPAKey(t *testing.T) {
	for _, tc := range []struct {
		n    *negotiation
		in   string
		want string
	}{
		{newResponder(), "GET / HT", `began with "GET / HT"`},
		{newResponder(), "MPA ID Rep Frame", "got a reply where a request was due"},
		{&negotiation{key: mpaReplyKey}, "MPA ID Req Frame", "is connecting, too"},
		{&negotiation{key: mpaReplyKey}, "\x80\x00\x00\x18", "does not speak MPA"},
		{&negotiation{key: mpaReplyKey}, "MPA ID RepxFrame", "does not speak MPA"},
	} {
		if done, err := tc.n.input([]byte(tc.in)); done || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, %v", tc.in, done, err)
		}
	}
}

func TestMPAOffer(t *testing.T) {
	for _, tc := range []struct {
		o    offer
		want string
	}{
		{offer{private: make([]byte, 509)}, "509 bytes"},
		{offer{ird: 0x3fff}, "IRD 16383"},
		{offer{ord: 0x4000}, "ORD 16384"},
		{offer{ird: -1}, "IRD -1"},
		{offer{private: make([]byte, 508), ird: 0x3ffe, ord: 0x3ffe}, ""},
	} {
		_, _, err := newInitiator(tc.o)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%d octets, IRD %d, ORD %d: %v", len(tc.o.private), tc.o.ird, tc.o.ord, err)
		}
	}
}

// FuzzMPA feeds arbitrary octets to both roles, in two pieces. A frame that is
// taken must come out the same when it is made again.
func FuzzMPA(f *testing.F) {
	f.Add([]byte(mpaRequestKey+"\x10\x02\x00\x04\x00\x10\x00\x10"), 5)
	f.Add([]byte(mpaRequestKey+"\x50\x02\x00\x06\xc0\x10\xc0\x10pd"), 20)
	f.Add([]byte(mpaReplyKey+"\x30\x01\x00\x02pd"), 21)
	f.Add([]byte(mpaReplyKey+"\x00\x02\xff\xff"), 0)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		for _, key := range []string{mpaRequestKey, mpaReplyKey} {
			n := &negotiation{key: key}
			at := min(max(cut, 0), len(in))
			done, err := n.input(in[:at])
			if err == nil && !done {
				done, err = n.input(in[at:])
			}
			if err != nil || !done {
				continue
			}
			o := offer{ird: 4, ord: 4}
			if key == mpaRequestKey {
				if _, a, err := n.answer(o); err == nil && (a.ord > 4 || a.ird < 4 || a.ord < 0) {
					t.Errorf("agreed on %+v", a)
				}
			} else if a, err := n.settle(o); err == nil && (a.ord > 4 || a.ird < 4 || a.ird > maxReadDepth) {
				t.Errorf("settled on %+v", a)
			}
			again := &negotiation{key: key}
			if done, err := again.input(n.peer.appendTo(nil, key)); !done || err != nil {
				t.Fatalf("own frame refused: %v", err)
			}
			if a, b := fmt.Sprint(n.peer), fmt.Sprint(again.peer); a != b {
				t.Errorf("%s came back as %s", a, b)
			}
		}
	})
}
