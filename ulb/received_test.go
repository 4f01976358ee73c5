package ulb

import (
	"errors"
	"reflect"
	"testing"

	"nfsrdma-fuse/xdr/rpcrdma"
)

// reads builds a Read list from pairs of position and length.
func reads(pl ...uint32) []rpcrdma.ReadSegment {
	var l []rpcrdma.ReadSegment
	for i := 0; i < len(pl); i += 2 {
		l = append(l, rpcrdma.ReadSegment{Position: pl[i], Segment: rpcrdma.Segment{Handle: uint32(i), Length: pl[i+1]}})
	}
	return l
}

// chunk builds a Write or Reply chunk from lengths.
func chunk(lengths ...uint32) rpcrdma.Chunk {
	c := rpcrdma.Chunk{}
	for i, n := range lengths {
		c = append(c, rpcrdma.Segment{Handle: uint32(100 + i), Length: n, Offset: uint64(i)})
	}
	return c
}

func many(n int, length uint32) []uint32 {
	l := make([]uint32, n)
	for i := range l {
		l[i] = length
	}
	return l
}

func manyReads(n int, pos uint32) []rpcrdma.ReadSegment {
	var l []rpcrdma.ReadSegment
	for range n {
		l = append(l, reads(pos, 100)...)
	}
	return l
}

// A responder accepts the profile of RFC 8267 section 6.4.2 and tells what is
// beyond it by ERR_CHUNK.
func TestCheckCall(t *testing.T) {
	for _, c := range []struct {
		name string
		h    rpcrdma.Header
		want []Pull // nil with ok false: refused
		ok   bool
	}{
		{"no chunks", rpcrdma.Header{}, nil, true},
		{"one Read chunk", rpcrdma.Header{Read: reads(88, 1000)}, []Pull{{88, 1000, 0, 1}}, true},
		{"in several segments of any length (RFC 8166 section 3.4.5)",
			rpcrdma.Header{Read: reads(88, 1000, 88, 3, 88, 77)}, []Pull{{88, 1080, 0, 3}}, true},
		{"a Position-Zero chunk", rpcrdma.Header{Proc: rpcrdma.NoMsg, Read: reads(0, 5000)}, []Pull{{0, 5000, 0, 1}}, true},
		{"both", rpcrdma.Header{Proc: rpcrdma.NoMsg, Read: reads(0, 5000, 0, 2, 120, 999)}, []Pull{{0, 5002, 0, 2}, {120, 999, 2, 3}}, true},
		{"both, mixed up", rpcrdma.Header{Proc: rpcrdma.NoMsg, Read: reads(120, 999, 0, 5000, 120, 1, 0, 2)}, []Pull{{0, 5002, 0, 2}, {120, 1000, 2, 4}}, true},
		{"sixteen segments", rpcrdma.Header{Read: manyReads(16, 88)}, []Pull{{88, 1600, 0, 16}}, true},
		{"seventeen", rpcrdma.Header{Read: manyReads(17, 88)}, nil, false},
		{"a Write chunk of sixteen segments", rpcrdma.Header{Write: []rpcrdma.Chunk{chunk(many(16, 9)...)}}, nil, true},
		{"of seventeen", rpcrdma.Header{Write: []rpcrdma.Chunk{chunk(many(17, 9)...)}}, nil, false},
		{"several Write chunks, an empty one among them (section 6.4.3)",
			rpcrdma.Header{Write: []rpcrdma.Chunk{chunk(9), chunk(), chunk(9)}}, nil, true},
		{"a Reply chunk of seventeen segments", rpcrdma.Header{Reply: chunk(many(17, 9)...)}, nil, false},
		{"two positioned Read chunks", rpcrdma.Header{Read: reads(88, 1000, 2000, 10)}, nil, false},
		{"position not a multiple of four (RFC 8166 section 3.4.5)", rpcrdma.Header{Read: reads(90, 1000)}, nil, false},
		{"a Position-Zero chunk besides an inline message", rpcrdma.Header{Read: reads(0, 1000)}, nil, false},
		{"no message at all (section 4.5.2)", rpcrdma.Header{Proc: rpcrdma.NoMsg, Read: reads(88, 1000)}, nil, false},
		{"an empty message", rpcrdma.Header{Proc: rpcrdma.NoMsg, Read: reads(0, 0)}, nil, false},
		{"unreasonably long (section 8.1.4)", rpcrdma.Header{Read: reads(88, 0xffffffff)}, nil, false},
		{"in total", rpcrdma.Header{Read: reads(88, 3<<20, 88, 3<<20)}, nil, false},
	} {
		got, err := CheckCall(&c.h, nil)
		if c.ok != (err == nil) || c.ok && !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
		if err != nil && !errors.Is(err, ErrChunkList) {
			t.Errorf("%s: %v does not match ErrChunkList", c.name, err)
		}
	}
}

// A requester believes the lengths in a reply only within what it has offered.
func TestCheckReply(t *testing.T) {
	w := Offered{Write: []rpcrdma.Chunk{chunk(1000, 1000, 500)}}
	r := Offered{Reply: chunk(4096, 4096)}
	list := func(c ...rpcrdma.Chunk) []rpcrdma.Chunk { return c }
	for _, c := range []struct {
		name    string
		h       rpcrdma.Header
		offered Offered
		want    Received
		ok      bool
	}{
		{"inline", rpcrdma.Header{}, Offered{}, Received{Inline: true}, true},
		{"whole Write chunk", rpcrdma.Header{Write: list(chunk(1000, 1000, 500))}, w, Received{Inline: true, Placed: 2500}, true},
		{"part of it (RFC 8166 section 3.4.6)", rpcrdma.Header{Write: list(chunk(1000, 7, 0))}, w, Received{Inline: true, Placed: 1007}, true},
		{"unused (section 4.3.2.2)", rpcrdma.Header{Write: list(chunk(0, 0, 0))}, w, Received{Inline: true}, true},
		{"returned empty (RFC 8267 section 6.4.1)", rpcrdma.Header{Write: list(chunk())}, w, Received{Inline: true}, true},
		{"not returned", rpcrdma.Header{}, w, Received{Inline: true}, true},
		{"Reply chunk", rpcrdma.Header{Proc: rpcrdma.NoMsg, Reply: chunk(4096, 1)}, r, Received{Long: 4097}, true},
		{"inline, Reply chunk zeroed (section 4.3.3)", rpcrdma.Header{Reply: chunk(0, 0)}, r, Received{Inline: true}, true},
		{"inline, Reply chunk without segments", rpcrdma.Header{Reply: chunk()}, r, Received{Inline: true}, true},
		{"inline, Reply chunk not returned", rpcrdma.Header{}, r, Received{Inline: true}, true},
		{"a segment too long", rpcrdma.Header{Write: list(chunk(1001, 0, 0))}, w, Received{}, false},
		{"a later one", rpcrdma.Header{Write: list(chunk(1000, 1000, 501))}, w, Received{}, false},
		{"a length near the 32-bit limit", rpcrdma.Header{Write: list(chunk(0xffffffff, 0, 0))}, w, Received{}, false},
		{"a gap", rpcrdma.Header{Write: list(chunk(999, 1, 0))}, w, Received{}, false},
		{"a segment more", rpcrdma.Header{Write: list(chunk(1000, 0, 0, 0))}, w, Received{}, false},
		{"a segment less", rpcrdma.Header{Write: list(chunk(1000, 0))}, w, Received{}, false},
		{"a chunk more", rpcrdma.Header{Write: list(chunk(1, 0, 0), chunk(1))}, w, Received{}, false},
		{"a chunk that was not offered", rpcrdma.Header{Write: list(chunk(1))}, Offered{}, Received{}, false},
		{"an empty one even", rpcrdma.Header{Write: list(chunk())}, Offered{}, Received{}, false},
		{"a Read list (section 4.3.1)", rpcrdma.Header{Read: reads(88, 1)}, Offered{}, Received{}, false},
		{"Reply chunk too long", rpcrdma.Header{Proc: rpcrdma.NoMsg, Reply: chunk(4096, 4097)}, r, Received{}, false},
		{"Reply chunk not offered", rpcrdma.Header{Proc: rpcrdma.NoMsg, Reply: chunk(4096)}, Offered{}, Received{}, false},
		{"no message in it", rpcrdma.Header{Proc: rpcrdma.NoMsg, Reply: chunk(0, 0)}, r, Received{}, false},
		{"message in the Write chunk", rpcrdma.Header{Proc: rpcrdma.NoMsg, Write: list(chunk(1000, 0, 0))}, w, Received{}, false},
		{"both inline and long", rpcrdma.Header{Reply: chunk(100, 0)}, r, Received{}, false},
	} {
		got, err := CheckReply(&c.h, c.offered)
		if c.ok != (err == nil) || c.ok && got != c.want {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		if err != nil && !errors.Is(err, ErrChunkList) {
			t.Errorf("%s: %v does not match ErrChunkList", c.name, err)
		}
	}
}
