package tcp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpc"
)

func TestCall(t *testing.T) {
	c, _ := pair(t, Config{}, Config{Handler: echo})
	call, done := newCall(7, "abcdefgh")
	for range 3 { // a Call can be used again
		send(t, c, call)
		if got := results(t, wait(t, done)); got != "abcdefgh" {
			t.Errorf("results %q", got)
		}
	}
	if s := c.Stats(); s.Calls != 3 || s.Replies != 3 || s.Outstanding != 0 {
		t.Errorf("%+v", s)
	}
	if l := c.Limits(); l.MaxPayload != 1<<20 || l.MaxCalls != 64 {
		t.Errorf("%+v", l)
	}
	if !strings.HasPrefix(c.Info(), "tcp 127.0.0.1:") {
		t.Error(c.Info())
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

func TestBulkArgumentsAreGathered(t *testing.T) {
	c, p := connect(t, Config{})
	data := bytes.Repeat([]byte("0123456789abcde"), 50001) // odd length
	var e xdr.Encoder
	(&rpc.CallHeader{XID: 7}).Encode(&e)
	e.Bulk(data)
	e.String("behind")
	e.Bulk([]byte("second"))
	call, _ := newCall(7, "")
	call.Msg = e.Message()
	call.Done = func(*ulb.Call, ulb.Reply, error) {}
	send(t, c, call)
	if got, want := p.record(), e.Message().AppendTo(nil); !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, want %d", len(got), len(want))
	}
}

func TestResultIsPlaced(t *testing.T) {
	for _, size := range []int{ulb.LocateHead, 1000, 4096, 65537, 1<<20 - 1, 1 << 20} {
		c, p := connect(t, Config{})
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(i * 7)
		}
		sink, err := c.Pool().Get(context.Background(), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		call, done := newCall(7, "")
		call.Sink, call.SinkLen = sink, 1<<20
		call.ReplyMax = 400
		send(t, c, call)
		p.record()
		m := readReply(7, data)
		p.write(fragment(true, m.AppendTo(nil)))
		o := wait(t, done)
		if o.err != nil {
			t.Fatal(o.err)
		}
		got := o.reply.Msg
		if len(got.Bulk) != 1 || got.Bulk[0].Pos != xdr.AnyPos || o.reply.SinkOffered {
			t.Fatalf("%d bytes: %d bulk items", size, len(got.Bulk))
		}
		if &got.Bulk[0].Data[0] != &sink.Data[0] || !bytes.Equal(got.Bulk[0].Data, data) {
			t.Errorf("%d bytes: the sink holds something else", size)
		}
		if !bytes.Equal(got.Stream, m.Stream) {
			t.Errorf("%d bytes: stream %x, want %x", size, got.Stream, m.Stream)
		}
		if c.Stats().BytesPlaced != uint64(size) {
			t.Errorf("%d bytes: %+v", size, c.Stats())
		}
		o.reply.Release()
		sink.Release()
	}
}

// However a reply is cut into fragments and arrives, message and sink make up
// what was sent.
func TestResultInFragments(t *testing.T) {
	c, p := connect(t, Config{})
	r := rand.New(rand.NewPCG(1, 2))
	sink := &ulb.Buffer{Data: make([]byte, 1<<16)}
	for xid := range uint32(200) {
		data := make([]byte, r.IntN(4000))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		call, done := newCall(xid, "")
		call.Sink, call.SinkLen = sink, len(sink.Data)
		send(t, c, call)
		p.record()
		m := readReply(xid, data)
		whole := m.AppendTo(nil)
		var wire []byte
		for rest := whole; ; {
			n := r.IntN(len(rest) + 1)
			if r.IntN(4) == 0 {
				wire = append(wire, fragment(true, rest)...)
				break
			}
			wire = append(wire, fragment(false, rest[:n])...)
			rest = rest[n:]
		}
		for len(wire) > 0 {
			n := 1 + r.IntN(len(wire))
			p.write(wire[:n])
			wire = wire[n:]
		}
		o := wait(t, done)
		if o.err != nil {
			t.Fatal(o.err)
		}
		got := o.reply.Msg
		if len(got.Bulk) == 1 { // put it back where it was
			got.Bulk = []xdr.Bulk{{Pos: m.Bulk[0].Pos, Data: got.Bulk[0].Data}}
		}
		if !bytes.Equal(got.AppendTo(nil), whole) {
			t.Fatalf("reply %d to %d bytes of data differs", xid, len(data))
		}
		o.reply.Release()
	}
	if c.Stats().BytesPlaced == 0 {
		t.Error("nothing was placed")
	}
}

// What cannot be placed stays in the stream, and the sink is left alone.
func TestResultIsNotPlaced(t *testing.T) {
	big := make([]byte, 5000)
	other := append(replyTo(7, ""), make([]byte, 5000)...) // an operation that is not known
	tests := []struct {
		name    string
		message []byte
		sink    int
	}{
		{"longer than the sink", readReply(7, big).AppendTo(nil), 4999},
		{"no sink to speak of", readReply(7, big).AppendTo(nil), 0},
		{"came with the head", readReply(7, big[:100]).AppendTo(nil), 5000},
		{"no data", readReply(7, nil).AppendTo(nil), 5000},
		{"not a READ", other, 5000},
		{"length beyond the message", bytes.Replace(readReply(7, big).AppendTo(nil), words(5000), words(1<<30), 1), 8192},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, p := connect(t, Config{})
			sink := &ulb.Buffer{Data: bytes.Repeat([]byte{0xee}, 8192)}
			call, done := newCall(7, "")
			call.Sink, call.SinkLen, call.ReplyMax = sink, tt.sink, 8192
			send(t, c, call)
			p.record()
			p.write(fragment(true, tt.message))
			o := wait(t, done)
			if o.err != nil {
				t.Fatal(o.err)
			}
			if !bytes.Equal(o.reply.Msg.Stream, tt.message) || len(o.reply.Msg.Bulk) != 0 {
				t.Errorf("%d bytes, %d bulk items", len(o.reply.Msg.Stream), len(o.reply.Msg.Bulk))
			}
			if n := bytes.Count(sink.Data, []byte{0xee}); n != len(sink.Data) {
				t.Errorf("%d bytes of the sink were written", len(sink.Data)-n)
			}
			o.reply.Release()
		})
	}
}

func TestReplyLongerThanItsCallAllows(t *testing.T) {
	c, p := connect(t, Config{})
	long := replyTo(7, string(make([]byte, 10000)))
	for _, wire := range [][]byte{
		fragment(true, long),
		append(fragment(false, long[:100]), fragment(true, long[100:])...),
	} {
		call, done := newCall(7, "")
		call.ReplyMax = 5000
		send(t, c, call)
		p.record()
		p.write(wire)
		if o := wait(t, done); !errors.Is(o.err, ulb.ErrReplyTooLarge) || o.reply.Msg.Stream != nil {
			t.Errorf("%v", o.err)
		}
	}
	// The estimate of a soft call is not held against the reply.
	call, done := newCall(8, "")
	call.ReplyMax, call.ReplySoft = 5000, true
	send(t, c, call)
	p.record()
	p.write(fragment(true, replyTo(8, "12345678"+string(make([]byte, 10000)))))
	if got := results(t, wait(t, done)); len(got) != 10008 {
		t.Errorf("%d bytes of results", len(got))
	}
}

func TestReplyToNoCall(t *testing.T) {
	c, p := connect(t, Config{})
	call, done := newCall(7, "")
	send(t, c, call)
	p.record()
	p.write(fragment(true, replyTo(8, "nobody asked"+string(make([]byte, 100000)))))
	p.write(fragment(true, replyTo(7, "answer..")))
	p.write(fragment(true, replyTo(7, "once more")))
	if got := results(t, wait(t, done)); got != "answer.." {
		t.Errorf("results %q", got)
	}
	call, done = newCall(9, "")
	send(t, c, call)
	p.record()
	p.write(fragment(true, replyTo(9, "")))
	results(t, wait(t, done))
	if s := c.Stats(); s.Unknown != 2 || s.Replies != 2 {
		t.Errorf("%+v", s)
	}
}

func TestSendRefuses(t *testing.T) {
	c, p := connect(t, Config{MaxPayload: 8192})
	outstanding, done := newCall(7, "")
	send(t, c, outstanding)
	p.record()

	duplicate, _ := newCall(7, "")
	reply, _ := newCall(8, "")
	reply.Msg = xdr.Message{Stream: replyTo(8, "")}
	short, _ := newCall(8, "")
	short.Msg.Stream = short.Msg.Stream[:7]
	noDone, _ := newCall(8, "")
	noDone.Done = nil
	large, _ := newCall(8, string(make([]byte, 8192+Overhead)))
	sink, _ := newCall(8, "")
	sink.Sink, sink.SinkLen = &ulb.Buffer{Data: make([]byte, 10)}, 11
	for _, tt := range []struct {
		name string
		call *ulb.Call
		want error
	}{
		{"duplicate XID", duplicate, errDuplicate},
		{"a reply", reply, errNotCall},
		{"too short", short, errNotCall},
		{"without Done", noDone, errNotCall},
		{"too large", large, ulb.ErrTooLarge},
		{"sink too small", sink, errSink},
	} {
		if err := c.Send(context.Background(), tt.call); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
	p.write(fragment(true, replyTo(7, "")))
	results(t, wait(t, done))
	if n := len(c.places); n != 0 {
		t.Errorf("%d places taken", n)
	}
}

func TestSendWaitsForAPlace(t *testing.T) {
	c, p := connect(t, Config{MaxCalls: 1})
	first, firstDone := newCall(1, "")
	send(t, c, first)
	p.record()

	// A call that has to wait can be given up, and then leaves nothing.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	second, secondDone := newCall(2, "")
	if err := c.Send(ctx, second); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// A probe need not wait.
	probe, probeDone := newCall(3, "")
	probe.Probe = true
	send(t, c, probe)
	p.record()
	p.write(fragment(true, replyTo(3, "")))
	results(t, wait(t, probeDone))

	sent := make(chan error)
	go func() { sent <- c.Send(context.Background(), second) }()
	p.write(fragment(true, replyTo(1, "")))
	results(t, wait(t, firstDone))
	if err := wait(t, sent); err != nil {
		t.Fatal(err)
	}
	p.record()
	p.write(fragment(true, replyTo(2, "")))
	results(t, wait(t, secondDone))
}

// Cancelling the context of a call that was sent frees nothing.
func TestCancelAfterSend(t *testing.T) {
	c, p := connect(t, Config{})
	ctx, cancel := context.WithCancel(context.Background())
	call, done := newCall(7, "")
	if err := c.Send(ctx, call); err != nil {
		t.Fatal(err)
	}
	p.record()
	cancel()
	if s := c.Stats(); s.Outstanding != 1 || len(c.places) != 1 {
		t.Errorf("%+v, %d places", s, len(c.places))
	}
	p.write(fragment(true, replyTo(7, "late....")))
	if got := results(t, wait(t, done)); got != "late...." {
		t.Errorf("results %q", got)
	}
}

// shuffler is a handler that answers calls when it has all of a round, in
// random order.
func shuffler(round int) ulb.Handler {
	var mu sync.Mutex
	var held []chan struct{}
	return func(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		turn := make(chan struct{})
		mu.Lock()
		held = append(held, turn)
		if len(held) == round {
			rand.Shuffle(round, func(i, j int) { held[i], held[j] = held[j], held[i] })
			for _, h := range held {
				close(h)
			}
			held = held[:0]
		}
		mu.Unlock()
		select {
		case <-turn:
			echo(ctx, req, respond)
		case <-ctx.Done():
		}
	}
}

// Both ends call each other at the same time, with the same XIDs, and answer in
// random order.
func TestManyCallsBothWays(t *testing.T) {
	const width, rounds = 64, 30
	a, b := pair(t, Config{Handler: shuffler(width)}, Config{Handler: shuffler(width)})
	call := func(c *Conn, xid uint32) {
		args := make([]byte, 4*rand.IntN(2000))
		for i := range args {
			args[i] = byte(uint32(i) + xid)
		}
		call, done := newCall(xid, string(args))
		call.ReplyMax = 8192
		if err := c.Send(context.Background(), call); err != nil {
			t.Error(err)
			return
		}
		o := <-done
		if o.err != nil {
			t.Error(o.err)
			return
		}
		m := o.reply.Msg.Stream
		if binary.BigEndian.Uint32(m) != xid || !bytes.Equal(m[rpc.ReplyHeaderLen:], args) {
			t.Errorf("call %d got an answer that is not its own", xid)
		}
		o.reply.Release()
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		var ends sync.WaitGroup
		for _, c := range []*Conn{a, b} {
			ends.Go(func() {
				for r := range rounds {
					var round sync.WaitGroup
					for i := range width {
						round.Go(func() { call(c, uint32(r*width+i)) })
					}
					round.Wait()
				}
			})
		}
		ends.Wait()
	}()
	wait(t, finished)
	for _, c := range []*Conn{a, b} {
		if s := c.Stats(); s.Replies != width*rounds || s.Served != width*rounds && s.Serving == 0 {
			t.Errorf("%+v", s)
		}
	}
}

// A reply may come before the call is written in full, from a peer that has
// seen enough. As long as the writer needs it, the call's memory stays with it.
func TestReplyBeforeTheCallIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe() // a write waits until it is read
		c := newConn(t, near, Config{})
		call, done := newCall(7, string(make([]byte, 100)))
		second, secondDone := newCall(8, "")
		send(t, c, call)
		synctest.Wait()
		send(t, c, second) // waits behind the first
		head := make([]byte, markerLen+8)
		if _, err := io.ReadFull(far, head); err != nil {
			t.Fatal(err)
		}
		p := peer{t, far}
		p.write(fragment(true, replyTo(7, "early...")))
		p.write(fragment(true, replyTo(8, "cannot be"))) // it has not begun
		synctest.Wait()
		if s := c.Stats(); s.Replies != 1 || s.Unknown != 1 || s.Outstanding != 2 || len(done) != 0 {
			t.Errorf("%+v, done: %d", s, len(done))
		}
		if _, err := io.CopyN(io.Discard, far, int64(call.Msg.Len()-8)); err != nil {
			t.Fatal(err)
		}
		if got := results(t, <-done); got != "early..." {
			t.Errorf("results %q", got)
		}
		p.record()
		p.write(fragment(true, replyTo(8, "")))
		results(t, <-secondDone)
		c.Close()
		far.Close()
	})
}
