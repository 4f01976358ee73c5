package tcp

import (
	"bytes"
	"context"
	"io"
	"sync"
	"testing"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpc"
)

const transfer = 1 << 20

// reader answers every call as a READ that returns data; writer answers with an
// empty reply.
func reader(data []byte) ulb.Handler {
	m := readReply(0, data)
	var pool sync.Pool
	return func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
		stream, _ := pool.Get().(*[]byte)
		if stream == nil {
			b := bytes.Clone(m.Stream)
			stream = &b
		}
		copy(*stream, req.Msg.Stream[:4])
		_ = respond(xdr.Message{Stream: *stream, Bulk: m.Bulk})
		pool.Put(stream)
	}
}

// caller makes calls one behind the other with one Call.
type caller struct {
	call ulb.Call
	done chan error
	want int // bytes placed
}

func newCaller(xid uint32) *caller {
	k := &caller{done: make(chan error, 1)}
	var e xdr.Encoder
	(&rpc.CallHeader{XID: xid, Prog: rpc.ProgramNFS, Vers: rpc.VersionNFS4, Proc: rpc.ProcCompound}).Encode(&e)
	k.call = ulb.Call{Msg: e.Message(), ReplyMax: 1024}
	k.call.Done = func(_ *ulb.Call, r ulb.Reply, err error) {
		if err == nil && k.want > 0 && (len(r.Msg.Bulk) != 1 || len(r.Msg.Bulk[0].Data) != k.want) {
			panic("result not in its sink")
		}
		r.Release()
		k.done <- err
	}
	return k
}

func (k *caller) run(c *Conn) error {
	if err := c.Send(context.Background(), &k.call); err != nil {
		return err
	}
	return <-k.done
}

func bench(b *testing.B, width, bytesPerCall int, h ulb.Handler, setup func(k *caller)) {
	a, _ := pair(b, Config{}, Config{Handler: h})
	b.ReportAllocs()
	b.SetBytes(int64(bytesPerCall))
	calls := make(chan struct{}, width)
	b.ResetTimer()
	var wg sync.WaitGroup
	for i := range width {
		k := newCaller(uint32(i))
		setup(k)
		wg.Go(func() {
			for range calls {
				if err := k.run(a); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	for range b.N {
		calls <- struct{}{}
	}
	close(calls)
	wg.Wait()
}

func BenchmarkRead1MiB(b *testing.B) {
	for _, width := range []int{1, 8} {
		b.Run(map[int]string{1: "one", 8: "eight"}[width], func(b *testing.B) {
			bench(b, width, transfer, reader(make([]byte, transfer)), func(k *caller) {
				k.call.Sink, k.call.SinkLen, k.want = &ulb.Buffer{Data: make([]byte, transfer)}, transfer, transfer
			})
		})
	}
}

func BenchmarkWrite1MiB(b *testing.B) {
	for _, width := range []int{1, 8} {
		b.Run(map[int]string{1: "one", 8: "eight"}[width], func(b *testing.B) {
			empty := xdr.Message{Stream: replyTo(0, "")}
			var mu sync.Mutex
			bench(b, width, transfer, func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
				mu.Lock() // one stream for all
				defer mu.Unlock()
				copy(empty.Stream, req.Msg.Stream[:4])
				_ = respond(empty)
			}, func(k *caller) {
				k.call.Msg.Bulk = []xdr.Bulk{{Pos: len(k.call.Msg.Stream), Data: make([]byte, transfer)}}
			})
		})
	}
}

func BenchmarkSmall(b *testing.B) {
	for _, width := range []int{1, 16} {
		b.Run(map[int]string{1: "one", 16: "sixteen"}[width], func(b *testing.B) {
			bench(b, width, 0, reader(make([]byte, 100)), func(*caller) {})
		})
	}
}

// plain moves the same bytes over the same kind of connection with nothing
// around them: size bytes come back for every 200.
func plain(b *testing.B, size int) {
	near, far := pipe(b)
	defer near.Close()
	go func() {
		defer far.Close()
		data, asked := make([]byte, size), make([]byte, 200)
		for {
			if _, err := io.ReadFull(far, asked); err != nil {
				return
			}
			if _, err := far.Write(data); err != nil {
				return
			}
		}
	}()
	data, ask := make([]byte, size), make([]byte, 200)
	b.SetBytes(int64(size))
	for b.Loop() {
		if _, err := near.Write(ask); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(near, data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPlain1MiB(b *testing.B)  { plain(b, transfer) }
func BenchmarkPlainSmall(b *testing.B) { plain(b, 200) }

// underRace is set by the race detector's build, in which a sync.Pool drops a
// part of what it is given.
var underRace bool

func TestNoAllocations(t *testing.T) {
	if underRace {
		t.Skip("under the race detector pools drop what they are given: run without -race")
	}
	c, _ := pair(t, Config{}, Config{Handler: reader(make([]byte, 4096))})
	k := newCaller(7)
	k.call.Sink, k.call.SinkLen, k.want = &ulb.Buffer{Data: make([]byte, 4096)}, 4096, 4096
	// The other end and its handler are counted too.
	if n := testing.AllocsPerRun(1000, func() {
		if err := k.run(c); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for each call", n)
	}
}
