package rpcrdma

import (
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// words builds a message from 32-bit words.
func words(w ...uint32) []byte {
	var b []byte
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// visible returns h without the memory it keeps, and with empty lists nil, so
// that headers can be compared.
func visible(h Header) Header {
	h.segs = nil
	if len(h.Read) == 0 {
		h.Read = nil
	}
	if len(h.Write) == 0 {
		h.Write = nil
	}
	return h
}

var formats = []struct {
	name    string
	wire    []byte
	payload []byte
	header  Header
}{
	{
		name:    "short message",
		wire:    words(7, 1, 32, 0, 0, 0, 0, 7, 0),
		payload: words(7, 0),
		header:  Header{XID: 7, Vers: 1, Credits: 32, Proc: Msg},
	},
	{
		name: "argument in a Read chunk of two segments",
		wire: words(7, 1, 32, 0,
			1, 148, 0xa1, 4096, 0x1, 0x2,
			1, 148, 0xa2, 100, 0, 0x3,
			0, 0, 0, 7),
		payload: words(7),
		header: Header{XID: 7, Vers: 1, Credits: 32, Proc: Msg, Read: []ReadSegment{
			{148, Segment{0xa1, 4096, 0x1_0000_0002}},
			{148, Segment{0xa2, 100, 3}},
		}},
	},
	{
		name: "two Write chunks",
		wire: words(8, 1, 32, 0, 0,
			1, 3, 1, 10, 0, 100, 2, 20, 0, 200, 3, 30, 0, 300,
			1, 2, 4, 40, 0, 400, 5, 50, 0, 500,
			0, 0),
		payload: []byte{},
		header: Header{XID: 8, Vers: 1, Credits: 32, Proc: Msg, Write: []Chunk{
			{{1, 10, 100}, {2, 20, 200}, {3, 30, 300}},
			{{4, 40, 400}, {5, 50, 500}},
		}},
	},
	{
		name: "long call with a Reply chunk",
		wire: words(9, 1, 1, 1,
			1, 0, 0xb0, 8192, 0, 0,
			0, 0,
			1, 2, 6, 60, 0, 600, 7, 70, 0, 700),
		header: Header{XID: 9, Vers: 1, Credits: 1, Proc: NoMsg,
			Read:  []ReadSegment{{0, Segment{0xb0, 8192, 0}}},
			Reply: Chunk{{6, 60, 600}, {7, 70, 700}},
		},
	},
	{
		name:    "chunks without segments",
		wire:    words(9, 1, 1, 0, 0, 1, 0, 0, 1, 0),
		payload: []byte{},
		header:  Header{XID: 9, Vers: 1, Credits: 1, Write: []Chunk{{}}, Reply: Chunk{}},
	},
	{
		name:    "padded message",
		wire:    words(9, 1, 1, 2, 4096, 100, 0, 0, 0, 9),
		payload: words(9),
		header:  Header{XID: 9, Vers: 1, Credits: 1, Proc: MsgP, Align: 4096, Threshold: 100},
	},
	{
		name:   "versions refused",
		wire:   words(9, 2, 1, 4, 1, 1, 1),
		header: Header{XID: 9, Vers: 2, Credits: 1, Proc: Error, Err: ErrVers, VersLow: 1, VersHigh: 1},
	},
	{
		name:   "chunks refused",
		wire:   words(9, 1, 1, 4, 2),
		header: Header{XID: 9, Vers: 1, Credits: 1, Proc: Error, Err: ErrChunk},
	},
}

func TestFormats(t *testing.T) {
	for _, f := range formats {
		t.Run(f.name, func(t *testing.T) {
			var h Header
			payload, err := h.Decode(f.wire)
			if err != nil {
				t.Fatal(err)
			}
			if got := visible(h); !reflect.DeepEqual(got, f.header) {
				t.Errorf("decoded\n%+v, want\n%+v", got, f.header)
			}
			if (payload == nil) != (f.payload == nil) || string(payload) != string(f.payload) {
				t.Errorf("payload %v, want %v", payload, f.payload)
			}
			wire := append(f.header.AppendTo([]byte("before")), f.payload...)
			if string(wire) != "before"+string(f.wire) {
				t.Errorf("encoded\n%x, want\n%x", wire[len("before"):], f.wire)
			}
			if got := f.header.Len(); got != len(f.wire)-len(f.payload) {
				t.Errorf("Len() = %d, want %d", got, len(f.wire)-len(f.payload))
			}
		})
	}
}

func TestDoneIsRecognized(t *testing.T) {
	h := Header{XID: 3, Vers: 1, Credits: 1, Proc: Done}
	wire := append(h.AppendTo(nil), make([]byte, 12)...)
	if h.Len() != FixedLen {
		t.Errorf("Len() = %d, want %d", h.Len(), FixedLen)
	}
	var got Header
	if _, err := got.Decode(wire); err != nil || got.Proc != Done {
		t.Errorf("Decode = %v, %v", got.Proc, err)
	}
	if got.ErrorReply(ErrHeader, 1) {
		t.Error("a DONE must not be answered")
	}
}

// A present Reply chunk without segments is not an absent one.
func TestEmptyReplyChunkDiffersFromNone(t *testing.T) {
	var h Header
	if _, err := h.Decode(words(1, 1, 1, 0, 0, 0, 1, 0)); err != nil || h.Reply == nil {
		t.Errorf("present: Reply = %v, %v", h.Reply, err)
	}
	if _, err := h.Decode(words(1, 1, 1, 0, 0, 0, 0)); err != nil || h.Reply != nil {
		t.Errorf("absent: Reply = %v, %v", h.Reply, err)
	}
}

func repeat(n int, w ...uint32) []uint32 {
	var all []uint32
	for range n {
		all = append(all, w...)
	}
	return all
}

func message(parts ...[]uint32) []byte {
	var b []byte
	for _, p := range parts {
		b = append(b, words(p...)...)
	}
	return b
}

func TestRefused(t *testing.T) {
	head := []uint32{5, 1, 1, 0}
	segment := []uint32{1, 2, 3, 4}
	tests := []struct {
		name string
		wire []byte
		err  error
		// answer to the message if it is a call; 0 for none
		answer ErrCode
	}{
		{"empty", nil, ErrShort, 0},
		{"shorter than any header", words(5, 1, 1, 0, 0, 0), ErrShort, 0},
		{"error without a code", words(5, 1, 1, 4), ErrShort, 0},
		{"refused version without the range", words(5, 1, 1, 4, 1, 1), ErrHeader, 0},
		{"unknown error code", words(5, 1, 1, 4, 3, 0, 0), ErrHeader, 0},
		{"error of another version", words(5, 2, 1, 4, 2), ErrUnsupported, 0},
		{"version 2", words(5, 2, 1, 0, 0, 0, 0), ErrUnsupported, ErrVers},
		{"version 0", words(5, 0, 1, 99, 0, 0, 0), ErrUnsupported, ErrVers},
		{"unknown procedure", words(5, 1, 1, 5, 0, 0, 0), ErrHeader, ErrChunk},
		{"long message without a chunk", words(5, 1, 1, 1, 0, 0, 0), ErrHeader, ErrChunk},
		{"Read list not closed", words(5, 1, 1, 0, 1, 0, 1), ErrHeader, ErrChunk},
		{"list word not a boolean", words(5, 1, 1, 0, 2, 0, 0), ErrHeader, ErrChunk},
		{"reply word not a boolean", words(5, 1, 1, 0, 0, 0, 0xffffffff), ErrHeader, ErrChunk},
		{"segment count larger than the message", words(5, 1, 1, 0, 0, 1, 60, 0), ErrHeader, ErrChunk},
		{"huge segment count", words(5, 1, 1, 0, 0, 1, 0xffffffff, 0), ErrHeader, ErrChunk},
		{"too many segments in a chunk", message(head,
			[]uint32{0, 1, MaxChunkSegments + 1}, repeat(MaxChunkSegments+1, segment...), []uint32{0, 0}), ErrHeader, ErrChunk},
		{"too many segments in the Reply chunk", message(head,
			[]uint32{0, 0, 1, MaxChunkSegments + 1}, repeat(MaxChunkSegments+1, segment...)), ErrHeader, ErrChunk},
		{"too many Read segments", message(head,
			repeat(MaxReadSegments+1, 1, 0, 1, 2, 3, 4), []uint32{0, 0, 0}), ErrHeader, ErrChunk},
		{"too many Write chunks", message(head, []uint32{0},
			repeat(MaxWriteChunks+1, 1, 1, 1, 2, 3, 4), []uint32{0, 0}), ErrHeader, ErrChunk},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h Header
			payload, err := h.Decode(tt.wire)
			if !errors.Is(err, tt.err) || payload != nil {
				t.Fatalf("Decode = %v, %v; want %v", payload, err, tt.err)
			}
			if answered := h.ErrorReply(err, 17); answered != (tt.answer != 0) {
				t.Fatalf("ErrorReply = %v", answered)
			} else if !answered {
				return
			}
			var want []byte
			if tt.answer == ErrVers {
				want = words(5, binary.BigEndian.Uint32(tt.wire[4:]), 17, 4, 1, 1, 1)
			} else {
				want = words(5, 1, 17, 4, 2)
			}
			if got := h.AppendTo(nil); string(got) != string(want) {
				t.Errorf("answer %x, want %x", got, want)
			}
		})
	}
}

// What is just inside the limits passes.
func TestLimitsAreReached(t *testing.T) {
	segment := []uint32{1, 2, 3, 4}
	full := append([]uint32{1, MaxChunkSegments}, repeat(MaxChunkSegments, segment...)...)
	var h Header
	_, err := h.Decode(message([]uint32{5, 1, 1, 0},
		repeat(MaxReadSegments, 1, 0, 1, 2, 3, 4), []uint32{0},
		repeat(MaxWriteChunks, full...), []uint32{0}, full))
	if err != nil {
		t.Fatal(err)
	}
	if len(h.Read) != MaxReadSegments || len(h.Write) != MaxWriteChunks || len(h.Reply) != MaxChunkSegments {
		t.Errorf("%d, %d, %d", len(h.Read), len(h.Write), len(h.Reply))
	}
}

func TestEveryTruncationIsRefused(t *testing.T) {
	for _, f := range formats {
		n := len(f.wire) - len(f.payload)
		for i := range n {
			var h Header
			if _, err := h.Decode(f.wire[:i]); err == nil {
				t.Errorf("%s cut to %d of %d bytes was accepted", f.name, i, n)
			}
		}
	}
}

func genChunk() *rapid.Generator[Chunk] {
	return rapid.Map(rapid.SliceOfN(genSegment(), 0, 20), func(s []Segment) Chunk { return append(Chunk{}, s...) })
}

func genSegment() *rapid.Generator[Segment] {
	return rapid.Custom(func(t *rapid.T) Segment {
		return Segment{rapid.Uint32().Draw(t, "handle"), rapid.Uint32().Draw(t, "length"), rapid.Uint64().Draw(t, "offset")}
	})
}

func genHeader() *rapid.Generator[Header] {
	return rapid.Custom(func(t *rapid.T) Header {
		h := Header{
			XID: rapid.Uint32().Draw(t, "xid"), Vers: 1, Credits: rapid.Uint32().Draw(t, "credits"),
			Proc: rapid.SampledFrom([]Proc{Msg, NoMsg, MsgP, Error}).Draw(t, "proc"),
		}
		if h.Proc == Error {
			h.Err = rapid.SampledFrom([]ErrCode{ErrVers, ErrChunk}).Draw(t, "err")
			if h.Err == ErrVers {
				h.VersLow, h.VersHigh = rapid.Uint32().Draw(t, "low"), rapid.Uint32().Draw(t, "high")
			}
			return h
		}
		h.Read = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ReadSegment {
			return ReadSegment{rapid.Uint32().Draw(t, "position"), genSegment().Draw(t, "segment")}
		}), 0, MaxReadSegments).Draw(t, "read")
		h.Write = rapid.SliceOfN(genChunk(), 0, 4).Draw(t, "write")
		if rapid.Bool().Draw(t, "reply") || h.Proc == NoMsg {
			h.Reply = genChunk().Draw(t, "replychunk")
		}
		if h.Proc == MsgP {
			h.Align = rapid.Uint32().Draw(t, "align")
		}
		return h
	})
}

// One Header decodes a sequence of messages, so that what is left from one
// would show in the next.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got Header
		for _, want := range rapid.SliceOfN(genHeader(), 1, 4).Draw(t, "headers") {
			wire := want.AppendTo(nil)
			if want.Len() != len(wire) {
				t.Fatalf("Len() = %d, encoded %d", want.Len(), len(wire))
			}
			payload, err := got.Decode(append(wire, "rest"...))
			if err != nil {
				t.Fatal(err)
			}
			if (want.Proc == Msg || want.Proc == MsgP) != (string(payload) == "rest") {
				t.Fatalf("payload %q of %v", payload, want.Proc)
			}
			if !reflect.DeepEqual(visible(got), visible(want)) {
				t.Fatalf("got\n%+v, want\n%+v", visible(got), visible(want))
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	for _, s := range formats {
		f.Add(s.wire)
	}
	f.Add(words(5, 2, 1, 0, 0, 0, 0))
	f.Add(words(5, 1, 1, 0, 0, 1, 0xffffffff, 0))
	f.Fuzz(func(t *testing.T, wire []byte) {
		var h Header
		payload, err := h.Decode(wire)
		if err != nil {
			if payload != nil {
				t.Fatal("payload beside an error")
			}
			return
		}
		again := append(h.AppendTo(nil), payload...)
		if !strings.HasPrefix(string(wire), string(again)) {
			t.Fatalf("decoded and encoded again: %x, was %x", again, wire)
		}
		var second Header
		if _, err := second.Decode(again); err != nil && h.Proc != Done {
			t.Fatal(err)
		}
	})
}

func TestNoAllocations(t *testing.T) {
	h := Header{XID: 1, Vers: 1, Credits: 32, Proc: Msg,
		Read:  make([]ReadSegment, 16),
		Write: []Chunk{make(Chunk, 16), make(Chunk, 3)},
		Reply: make(Chunk, 16),
	}
	wire := h.AppendTo(nil)
	var got Header
	if n := testing.AllocsPerRun(100, func() {
		wire = h.AppendTo(wire[:0])
		if _, err := got.Decode(wire); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each header", n)
	}
}

func BenchmarkHeader(b *testing.B) {
	h := Header{XID: 1, Vers: 1, Credits: 32, Proc: Msg, Write: []Chunk{make(Chunk, 1)}}
	b.ReportAllocs()
	var wire []byte
	var got Header
	for b.Loop() {
		wire = h.AppendTo(wire[:0])
		if _, err := got.Decode(wire); err != nil {
			b.Fatal(err)
		}
	}
}
