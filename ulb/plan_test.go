package ulb

import (
	"errors"
	"testing"

	"nfsrdma-fuse/xdr"
)

// msg returns a message with a stream of n bytes and bulk items of the given
// sizes at its end.
func msg(n int, bulk ...int) xdr.Message {
	m := xdr.Message{Stream: make([]byte, n)}
	for i, k := range bulk {
		data := make([]byte, k)
		for j := range data {
			data[j] = byte(j*7 + i)
		}
		m.Bulk = append(m.Bulk, xdr.Bulk{Pos: n - 4*(len(bulk)-1-i), Data: data})
	}
	for i := range m.Stream {
		m.Stream[i] = byte(i)
	}
	return m
}

func TestPlanCall(t *testing.T) {
	big := Thresholds{Send: 4096, Receive: 4096, MaxSegment: 1 << 20}
	small := Thresholds{Send: 1024, Receive: 1024, MaxSegment: 1 << 20}
	split := Thresholds{Send: 4096, Receive: 4096, MaxSegment: 65_536}
	back := Thresholds{Send: 4096, Receive: 4096, NoChunks: true}
	sink := &Buffer{}
	for _, c := range []struct {
		name string
		call Call
		t    Thresholds
		want Plan
	}{
		{"a short call with a short reply has no chunks (RFC 8166 section 3.5.1)",
			Call{Msg: msg(200), ReplyMax: 300}, big, Plan{Arg: -1}},
		{"up to the threshold itself, header included (section 3.3.2)",
			Call{Msg: msg(4096 - 28), ReplyMax: 4096 - 28}, big, Plan{Arg: -1}},
		{"one word more is a Long Call (section 3.5.3)",
			Call{Msg: msg(4096 - 24), ReplyMax: 300}, big, Plan{Arg: -1, Long: 4072}},
		{"a reply that could be one word more needs a Reply chunk (section 4.3.3)",
			Call{Msg: msg(200), ReplyMax: 4096 - 24}, big, Plan{Arg: -1, Reply: 4072}},
		{"without private data the threshold is 1024 (section 3.3.3)",
			Call{Msg: msg(200), ReplyMax: 1000}, small, Plan{Arg: -1, Reply: 1000}},
		{"a small argument stays inline",
			Call{Msg: msg(200, 2000), ReplyMax: 300}, big, Plan{Arg: -1}},
		{"a large one goes into a Read chunk at its position (section 3.4.5)",
			Call{Msg: msg(200, 262_144), ReplyMax: 300}, big, Plan{Arg: 0, Position: 200}},
		{"its padding does not travel (section 3.4.5.2)",
			Call{Msg: msg(200, 262_143), ReplyMax: 300}, big, Plan{Arg: 0, Position: 200}},
		{"of two arguments one has a chunk, the larger: one positioned Read chunk (RFC 8267 section 6.4.2)",
			Call{Msg: msg(200, 500, 50_001), ReplyMax: 300}, big, Plan{Arg: 1, Position: 700}},
		{"of two large ones the second goes along in the Position-Zero chunk",
			Call{Msg: msg(200, 60_001, 50_001), ReplyMax: 300}, big, Plan{Arg: 0, Position: 196, Long: 200 + 50_004}},
		{"a Long Call with a large argument has both (section 6.4.2)",
			Call{Msg: msg(9000, 50_000), ReplyMax: 300}, big, Plan{Arg: 0, Position: 9000, Long: 9000}},
		{"a small argument is not worth a chunk of its own then",
			Call{Msg: msg(9000, 1001), ReplyMax: 300}, big, Plan{Arg: -1, Long: 10_004}},
		{"a result for a Write chunk",
			Call{Msg: msg(200), ReplyMax: 300, Sink: sink, SinkLen: 262_144}, big, Plan{Arg: -1, Sink: 262_144}},
		{"a small result stays inline (section 4.3.2.3: empty Write list)",
			Call{Msg: msg(200), ReplyMax: 300, Sink: sink, SinkLen: 2000}, big, Plan{Arg: -1}},
		{"never an empty Write chunk: servers crash",
			Call{Msg: msg(200), ReplyMax: 300, Sink: sink, SinkLen: 0}, big, Plan{Arg: -1}},
		{"never a Write chunk and a Reply chunk: everything into the latter",
			Call{Msg: msg(200), ReplyMax: 5000, Sink: sink, SinkLen: 10_001}, big, Plan{Arg: -1, Reply: 15_004}},
		{"the Write list counts in the reply's header (section 4.3.2)",
			Call{Msg: msg(200), ReplyMax: 4096 - 28 - 24, Sink: sink, SinkLen: 8192}, big, Plan{Arg: -1, Sink: 8192}},
		{"and does not fit here",
			Call{Msg: msg(200), ReplyMax: 4096 - 28 - 20, Sink: sink, SinkLen: 8192}, big, Plan{Arg: -1, Reply: 4048 + 8192}},
		{"a Write chunk of sixteen segments",
			Call{Msg: msg(200), ReplyMax: 300, Sink: sink, SinkLen: 1 << 20}, split, Plan{Arg: -1, Sink: 1 << 20}},
		{"Read chunk and Reply chunk together",
			Call{Msg: msg(200, 50_000), ReplyMax: 9000}, big, Plan{Arg: 0, Position: 200, Reply: 9000}},
		{"an estimate that may be exceeded gets a Reply chunk even if it is small",
			Call{Msg: msg(200), ReplyMax: 300, ReplySoft: true}, big, Plan{Arg: -1, Reply: 300}},
		{"with a sink too: then everything goes into it",
			Call{Msg: msg(200), ReplyMax: 300, ReplySoft: true, Sink: sink, SinkLen: 8192}, big, Plan{Arg: -1, Reply: 8492}},
		{"a result inline counts with its padding",
			Call{Msg: msg(200), ReplyMax: 2067, Sink: sink, SinkLen: 2001}, big, Plan{Arg: -1, Sink: 2001}},
		{"a Reply chunk is a multiple of four long, as every XDR stream",
			Call{Msg: msg(200), ReplyMax: 5001}, big, Plan{Arg: -1, Reply: 5004}},
		{"backward: inline or not at all (RFC 8167 section 5.3)",
			Call{Msg: msg(200), ReplyMax: 300}, back, Plan{Arg: -1}},
	} {
		got, err := PlanCall(&c.call, c.t)
		if err != nil || got != c.want {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name string
		call Call
		t    Thresholds
	}{
		{"a seventeenth segment of a Write chunk (RFC 8267 section 6.4.2)",
			Call{Msg: msg(200), ReplyMax: 300, Sink: sink, SinkLen: 1<<20 + 1}, split},
		{"of a Read chunk", Call{Msg: msg(200, 1<<20+1), ReplyMax: 300}, split},
		{"of a Reply chunk", Call{Msg: msg(200), ReplyMax: 1<<20 + 1}, split},
		{"of a Position-Zero Read chunk", Call{Msg: msg(1<<20 + 4), ReplyMax: 300}, split},
		{"a header longer than the threshold",
			Call{Msg: msg(1 << 20), ReplyMax: 1 << 20}, Thresholds{Send: 512, Receive: 512, MaxSegment: 65_536}},
		{"backward call", Call{Msg: msg(4072), ReplyMax: 300}, back},
		{"backward reply", Call{Msg: msg(200), ReplyMax: 4072}, back},
	} {
		if got, err := PlanCall(&c.call, c.t); !errors.Is(err, ErrTooLarge) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
	call := Call{Msg: msg(200, 50_000), ReplyMax: 300, Sink: sink, SinkLen: 8192}
	if n := testing.AllocsPerRun(100, func() { _, _ = PlanCall(&call, big) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
