package lab

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// packetBlock makes the block of a TCP segment between 127.0.0.1 and itself.
func packetBlock(from, to uint16, seq uint32, flags byte, payload []byte) []byte {
	s := segment{
		block:  make([]byte, blockHead),
		packet: make([]byte, etherHead+20+20),
		tcp:    etherHead + 20,
	}
	binary.NativeEndian.PutUint32(s.block, blockPacket)
	s.packet[12] = 8 // IPv4
	ip := s.packet[etherHead:]
	ip[0], ip[9] = 0x45, 6
	copy(ip[12:], []byte{127, 0, 0, 1, 127, 0, 0, 1})
	binary.BigEndian.PutUint16(ip[20:], from)
	binary.BigEndian.PutUint16(ip[22:], to)
	var out bytes.Buffer
	a := aligner{w: &out}
	a.build(&s, seq, flags, payload)
	return out.Bytes()
}

// alignBlocks aligns a capture of the given blocks and returns the segments
// of the copy.
func alignBlocks(t *testing.T, blocks [][]byte) (segments []segment, origin []int) {
	t.Helper()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	if err := os.WriteFile(from, bytes.Join(blocks, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	origin, err := align(from, to)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	for r := bytes.NewReader(data); ; {
		block, err := readBlock(r, nil)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		s, ok := parseSegment(block)
		if !ok {
			t.Fatalf("the copy holds something that is no segment: % x", block[:min(len(block), 80)])
		}
		segments = append(segments, s)
	}
	if len(segments) != len(origin) {
		t.Fatalf("%d segments with %d origins", len(segments), len(origin))
	}
	return segments, origin
}

// randomFrames makes an MPA request and some FPDUs.
func randomFrames(r *rand.Rand, n int) (frames [][]byte) {
	private := make([]byte, r.IntN(20))
	frames = append(frames, append(append([]byte("MPA ID Req Frame"), 0x10, 2, 0, byte(len(private))), private...))
	for range n {
		size := r.IntN(200)
		if r.IntN(10) == 0 {
			size = r.IntN(1 << 16)
		}
		frame := make([]byte, (2+size+3)/4*4+4)
		for i := range frame {
			frame[i] = byte(r.Uint32())
		}
		binary.BigEndian.PutUint16(frame, uint16(size))
		frames = append(frames, frame)
	}
	return frames
}

// TestAlign cuts streams at random, sends parts again and early, and expects
// every frame in segments of its own.
func TestAlign(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		frames := randomFrames(r, 30)
		stream := bytes.Join(frames, nil)
		first := r.Uint32() // may wrap
		blocks := [][]byte{packetBlock(1, 2, first-1, tcpSYN, nil)}
		var data [][]byte
		for at := 0; at < len(stream); {
			n := 1 + r.IntN(12)
			if at == 0 {
				n = 20
			} else if r.IntN(2) == 0 {
				n = 1 + r.IntN(60000)
			}
			n = min(n, len(stream)-at)
			data = append(data, packetBlock(1, 2, first+uint32(at), tcpACK, stream[at:at+n]))
			if r.IntN(5) == 0 { // again, from a little before
				back := min(at, r.IntN(30))
				data = append(data, packetBlock(1, 2, first+uint32(at-back), tcpACK, stream[at-back:at+n]))
			}
			at += n
		}
		for i := 1; i+1 < len(data); i++ { // the first tells whether it is MPA
			if r.IntN(4) == 0 {
				data[i], data[i+1] = data[i+1], data[i]
			}
		}
		blocks = append(blocks, data...)
		blocks = append(blocks, packetBlock(1, 2, first+uint32(len(stream)), tcpFIN|tcpACK, nil))

		got, _ := alignBlocks(t, blocks)
		if got[0].flags != tcpSYN || got[len(got)-1].flags&tcpFIN == 0 {
			t.Fatal("beginning or end of the connection is missing")
		}
		next := first
		i := 0
		for _, frame := range frames {
			for len(frame) > 0 {
				i++
				s := got[i]
				if s.seq != next || len(s.payload) > len(frame) || !bytes.Equal(s.payload, frame[:len(s.payload)]) {
					t.Fatalf("segment %d: %d octets at %d, want the frame of %d octets at %d", i, len(s.payload), s.seq-first, len(frame), next-first)
				}
				if len(s.payload) < len(frame) && len(frame) <= maxPayload {
					t.Fatalf("segment %d holds only %d octets of a frame of %d", i, len(s.payload), len(frame))
				}
				next += uint32(len(s.payload))
				frame = frame[len(s.payload):]
			}
		}
		if i != len(got)-2 {
			t.Fatalf("%d segments too many", len(got)-2-i)
		}
	}
}

func TestAlignKeepsOthers(t *testing.T) {
	request := append([]byte("MPA ID Req Frame"), 0, 1, 0, 0)
	whole := []byte{0, 2, 'o', 'k', 0, 0, 0, 0}
	blocks := [][]byte{
		packetBlock(9, 2, 50, tcpACK, []byte("ordinary")),
		packetBlock(1, 2, 100, tcpACK, request),
		packetBlock(9, 2, 58, tcpACK, []byte("traffic")),
		packetBlock(9, 2, 50, tcpACK, []byte("ordinary")), // a retransmission
		packetBlock(1, 2, 120, tcpACK|tcpFIN, append(bytes.Clone(whole), 0, 9, 'c', 'u', 't')),
		// The same ports once more, and a gap that is never filled.
		packetBlock(1, 2, 700, tcpSYN, nil),
		packetBlock(1, 2, 701, tcpACK, request),
		packetBlock(1, 2, 801, tcpACK, []byte("behind the gap")),
	}
	want := []struct {
		payload string
		flags   byte
		origin  int
	}{
		{"ordinary", tcpACK, 1},
		{string(request), tcpACK | tcpPSH, 2},
		{"traffic", tcpACK, 3},
		{"ordinary", tcpACK, 4},
		{string(whole), tcpACK | tcpPSH, 5},
		{"\x00\x09cut", tcpACK | tcpPSH, 5},
		{"", tcpACK | tcpFIN, 5},
		{"", tcpSYN, 6},
		{string(request), tcpACK | tcpPSH, 7},
		{"behind the gap", tcpACK, 8},
	}
	got, origin := alignBlocks(t, blocks)
	for i, s := range got {
		if i >= len(want) || string(s.payload) != want[i].payload || s.flags != want[i].flags || origin[i] != want[i].origin {
			t.Errorf("segment %d: %q, flags %#x, from frame %d", i, s.payload, s.flags, origin[i])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d segments, want %d", len(got), len(want))
	}
}

// TestParseSegment gives it what is cut short or spoilt.
func TestParseSegment(t *testing.T) {
	good := packetBlock(1, 2, 3, tcpACK, []byte("payload"))
	if s, ok := parseSegment(good); !ok || string(s.payload) != "payload" || s.seq != 3 || s.flags != tcpACK {
		t.Errorf("parseSegment = %+v, %v", s, ok)
	}
	for n := range len(good) {
		parseSegment(good[:n])
		bad := bytes.Clone(good)
		for _, v := range []byte{0, 0x7f, 0xff} {
			bad[n] = v
			parseSegment(bad)
		}
	}
	if _, err := readBlock(bytes.NewReader(good[:len(good)-1]), nil); err == nil || err == io.EOF {
		t.Errorf("a block cut short: %v", err)
	}
	if _, err := readBlock(bytes.NewReader(make([]byte, 64)), nil); err == nil {
		t.Error("a block of no octets was accepted")
	}
}
