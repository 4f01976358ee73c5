package ulb

import (
	"errors"
	"reflect"
	"testing"

	"nfsrdma-fuse/xdr/rpcrdma"
)

func lengths(c rpcrdma.Chunk) []int {
	l := []int{}
	for _, s := range c {
		l = append(l, int(s.Length))
	}
	return l
}

// How a responder forms replies, and pairs results with Write chunks.
func TestReplyPlan(t *testing.T) {
	list := func(c ...rpcrdma.Chunk) []rpcrdma.Chunk { return c }
	for _, c := range []struct {
		name    string
		stream  int
		results []int
		offered Offered
		write   [][]int // lengths returned
		reply   []int   // lengths returned, nil: no Reply chunk
		long    bool
		rest    int // bytes left
	}{
		{"short reply (RFC 8166 section 3.5.1)", 200, nil, Offered{}, nil, nil, false, 200},
		{"result without a chunk stays inline (RFC 8267 section 6.4.1)", 200, []int{1001}, Offered{}, nil, nil, false, 1204},
		{"result in its chunk", 200, []int{5000}, Offered{Write: list(chunk(8000))}, [][]int{{5000}}, nil, false, 200},
		{"segments are filled one after the other (RFC 8166 section 3.4.6)", 200, []int{5001},
			Offered{Write: list(chunk(4000, 4000, 4000))}, [][]int{{4000, 1001, 0}}, nil, false, 200},
		{"a small result must use it all the same (RFC 8267 section 6.4.1)", 200, []int{5},
			Offered{Write: list(chunk(8000))}, [][]int{{5}}, nil, false, 200},
		{"an empty result uses it, and leaves it empty", 200, []int{0}, Offered{Write: list(chunk(8000))}, [][]int{{0}}, nil, false, 200},
		{"no result: unused chunk (RFC 8166 section 4.3.2.2)", 200, nil, Offered{Write: list(chunk(8000, 8000))}, [][]int{{0, 0}}, nil, false, 200},
		{"in order; an empty chunk asks for inline (RFC 8267 section 6.4.3)", 200, []int{100, 55, 300},
			Offered{Write: list(chunk(1000), chunk(), chunk(1000))}, [][]int{{100}, {}, {300}}, nil, false, 256},
		{"more results than chunks", 200, []int{100, 200}, Offered{Write: list(chunk(1000))}, [][]int{{100}}, nil, false, 400},
		{"more chunks than results: the COMPOUND failed", 200, []int{100}, Offered{Write: list(chunk(1000), chunk(1000))}, [][]int{{100}, {0}}, nil, false, 200},
		{"a Reply chunk is not needed (RFC 8166 section 4.3.3)", 200, nil, Offered{Reply: chunk(8000, 8000)}, nil, []int{0, 0}, false, 200},
		{"it is (section 3.5.3)", 9000, nil, Offered{Reply: chunk(8000, 8000)}, nil, []int{8000, 1000}, true, 9000},
		{"at the threshold", 4096 - 28 - 4 - 16, nil, Offered{Reply: chunk(8000)}, nil, []int{0}, false, 4048},
		{"one word beyond", 4096 - 28 - 4 - 12, nil, Offered{Reply: chunk(8000)}, nil, []int{4052}, true, 4052},
		{"reduced first, then long (section 3.5.3)", 9000, []int{5000},
			Offered{Write: list(chunk(5000)), Reply: chunk(9000)}, [][]int{{5000}}, []int{9000}, true, 9000},
		{"an unreduced result goes into the Reply chunk with its padding", 200, []int{5001}, Offered{Reply: chunk(9000)}, nil, []int{5204}, true, 5204},
	} {
		var p ReplyPlan
		if err := p.Plan(msg(c.stream, c.results...), c.offered, Thresholds{Send: 4096, Receive: 4096}); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var write [][]int
		for _, w := range p.Write {
			write = append(write, lengths(w))
		}
		var reply []int
		if p.Reply != nil {
			reply = lengths(p.Reply)
		}
		if !reflect.DeepEqual(write, c.write) || !reflect.DeepEqual(reply, c.reply) || p.Long != c.long || p.Rest.Len() != c.rest {
			t.Errorf("%s: Write %v, Reply %v, long %t, rest %d", c.name, write, reply, p.Long, p.Rest.Len())
		}
	}
	// What fits nowhere is told by ERR_CHUNK (RFC 8166 section 4.5.3).
	for _, c := range []struct {
		name    string
		stream  int
		results []int
		offered Offered
	}{
		{"too long for an inline message", 4096, nil, Offered{}},
		{"for the Reply chunk", 9001, nil, Offered{Reply: chunk(4500, 4500)}},
		{"for a Reply chunk without segments", 9000, nil, Offered{Reply: chunk()}},
		{"result too long for its Write chunk", 200, []int{5001}, Offered{Write: list(chunk(5000))}},
		{"although there is a Reply chunk", 200, []int{5001}, Offered{Write: list(chunk(5000)), Reply: chunk(9000)}},
		{"lists too long to return", 9000, nil, Offered{Write: list(chunk(many(300, 1)...)), Reply: chunk(9000)}},
	} {
		var p ReplyPlan
		if err := p.Plan(msg(c.stream, c.results...), c.offered, Thresholds{Send: 4096}); !errors.Is(err, ErrChunk) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRequestRoom(t *testing.T) {
	for _, c := range []struct {
		offered     Offered
		reply, bulk int
	}{
		{Offered{}, 4096 - 28, 0},
		{Offered{Write: []rpcrdma.Chunk{chunk(5000, 6000)}}, 4096 - 28 - 8 - 32, 11_000},
		{Offered{Reply: chunk(100)}, 4096 - 28 - 4 - 16, 0},
		{Offered{Reply: chunk(50_000, 6)}, 50_006, 0},
		{Offered{Reply: chunk(many(16, 0xffffffff)...)}, MaxBuffer, 0},
		{Offered{Write: []rpcrdma.Chunk{chunk(), chunk(6000)}}, 4096 - 28 - 8 - 8 - 16, 0},
	} {
		if reply, bulk := RequestRoom(c.offered, Thresholds{Send: 4096}); reply != c.reply || bulk != c.bulk {
			t.Errorf("%v: %d and %d, want %d and %d", c.offered, reply, bulk, c.reply, c.bulk)
		}
	}
}
