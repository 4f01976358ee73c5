package iwarp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// seed returns the seed of a random test: from the variable IWARP_SEED, or a
// new one. It is logged.
func seed(t *testing.T) uint64 {
	t.Helper()
	s := uint64(time.Now().UnixNano())
	if v := os.Getenv("IWARP_SEED"); v != "" {
		var err error
		if s, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("IWARP_SEED=%d", s)
	return s
}

// chopper relays TCP connections to addr and cuts the stream into random
// pieces of up to most octets, so that neither end sees the other's writes.
type chopper struct {
	l  net.Listener
	wg sync.WaitGroup
}

func newChopper(t *testing.T, addr string, most int, rnd *rand.Rand) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &chopper{l: l}
	seeds := [2]uint64{rnd.Uint64(), rnd.Uint64()}
	c.wg.Go(func() {
		a, err := l.Accept()
		if err != nil {
			return
		}
		b, err := net.Dial("tcp", addr)
		if err != nil {
			a.Close()
			return
		}
		c.wg.Go(func() { chop(b, a, most, seeds[0]) })
		c.wg.Go(func() { chop(a, b, most, seeds[1]) })
	})
	t.Cleanup(func() { l.Close(); c.wg.Wait() })
	return l.Addr().String()
}

// chop copies from src to dst and passes on the end.
func chop(dst, src net.Conn, most int, seed uint64) {
	defer dst.Close()
	rnd := rand.New(rand.NewPCG(seed, 1))
	buf := make([]byte, most)
	for {
		n, err := src.Read(buf[:1+rnd.IntN(most)])
		for at := 0; at < n; {
			k := min(n-at, 1+rnd.IntN(most))
			if _, err := dst.Write(buf[at : at+k]); err != nil {
				src.Close()
				return
			}
			at += k
		}
		if err != nil {
			return
		}
	}
}

// modelEnd is one end of the random test: a queue pair, the memory it exposes,
// and what that memory must contain according to what the other end has done.
type modelEnd struct {
	q      *QP
	rnd    *rand.Rand
	sinks  []modelRegion
	source *ulb.Buffer
	read   rdma.Remote
	other  *modelEnd

	mu   sync.Mutex
	want [][]byte // expected messages, in order
}

type modelRegion struct {
	buf   *ulb.Buffer
	at    rdma.Remote
	model []byte
}

// TestRandom has both ends do random Sends, Writes, Reads and invalidations at
// once, with random FPDU sizes and the octets in between cut at random, and
// compares the memory with a model after each batch.
func TestRandom(t *testing.T) {
	s := seed(t)
	for round := range 6 {
		rnd := rand.New(rand.NewPCG(s, uint64(round)))
		cfg := func() Config {
			return Config{CRC: rnd.IntN(2) == 0, MaxULPDU: []int{0, 128, 1460, 128 + rnd.IntN(20000)}[rnd.IntN(4)]}
		}
		cc, sc := cfg(), cfg()
		most := []int{30, 300, 5000, 100_000}[rnd.IntN(4)]
		t.Run(fmt.Sprintf("%d %+v %+v pieces of %d", round, cc.MaxULPDU, sc.MaxULPDU, most), func(t *testing.T) {
			budget := 2 << 20 // octets in each direction
			if most < 1000 {
				budget = 100_000
			}
			randomRun(t, cc, sc, most, budget, rnd)
		})
	}
}

func randomRun(t *testing.T, cc, sc Config, most, budget int, rnd *rand.Rand) {
	l, err := Listen("127.0.0.1:0", sc)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := rdma.Options{IRD: 1 + rnd.IntN(4), ORD: 4, MaxReceives: 64, MaxSends: 64}
	accepted := make(chan rdma.QueuePair, 1)
	go func() {
		q, err := l.Accept(t.Context(), o)
		if err != nil {
			t.Error(err)
		}
		accepted <- q
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	q, err := (&Connector{Config: cc}).Connect(ctx, newChopper(t, l.Addr().String(), most, rnd), o)
	if err != nil {
		t.Fatal(err)
	}
	a := newModelEnd(t, q.(*QP), rnd)
	b := newModelEnd(t, (<-accepted).(*QP), rnd)
	a.other, b.other = b, a
	errs := make(chan error, 2)
	announce(a.q)
	for _, e := range []*modelEnd{a, b} {
		go func() { errs <- e.run(budget) }()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
			a.q.Close()
			b.q.Close()
		}
	}
	a.q.Close()
	b.q.Close()
	if err := drained(t, a.q); !t.Failed() && !errors.Is(err, rdma.ErrClosed) && !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
	drained(t, b.q)
}

func newModelEnd(t *testing.T, q *QP, rnd *rand.Rand) *modelEnd {
	e := &modelEnd{q: q, rnd: rand.New(rand.NewPCG(rnd.Uint64(), 2)), source: pattern(300_000, byte(rnd.Int()))}
	var err error
	if e.read, err = q.Expose(e.source, 0, len(e.source.Data), rdma.RemoteRead); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r := modelRegion{buf: buffer(1 + e.rnd.IntN(200_000))}
		r.model = make([]byte, len(r.buf.Data))
		if r.at, err = q.Expose(r.buf, 0, len(r.buf.Data), rdma.RemoteWrite); err != nil {
			t.Fatal(err)
		}
		e.sinks = append(e.sinks, r)
	}
	for range 16 {
		if err := q.Receive(buffer(30_000)); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// run posts batches until the budget is used up, and serves what the other end
// posts. One message of each direction is on its way at most, so that the model
// can be compared with memory that is not being written.
func (e *modelEnd) run(budget int) error {
	rounds := 0
	sent, received, acked := 0, false, true // received: the other end's last message has come
	inFlight := 0
	for {
		if acked && inFlight == 0 && budget > 0 {
			n, used, err := e.postBatch()
			if err != nil {
				return err
			}
			inFlight, acked = n, false
			budget -= used + 1000
			sent++
		}
		if budget <= 0 && acked && inFlight == 0 && !received {
			// Tell the other end, and go on serving it until it says so, too.
			done := rdma.WorkRequest{Op: rdma.OpSend, Local: []rdma.Gather{{Buf: &ulb.Buffer{Data: []byte("done")}, Len: 4}}}
			if err := e.q.Post([]rdma.WorkRequest{done}); err != nil {
				return err
			}
			received = true
			inFlight++
		}
		var c [5]rdma.Completion
		n, err := e.q.Poll(c[:])
		if err != nil {
			return err
		}
		for _, d := range c[:n] {
			if d.Err != nil {
				return d.Err
			}
			if d.Op != rdma.OpReceive {
				inFlight--
				if check, ok := d.Cookie.(func() error); ok {
					if err := check(); err != nil {
						return err
					}
				}
				continue
			}
			msg := string(d.Buf.Data[:d.Len])
			if err := e.q.Receive(d.Buf); err != nil {
				return err
			}
			switch msg {
			case "ack":
				acked = true
				continue
			case "done":
				rounds = -1
			default:
				if err := e.check(msg, d); err != nil {
					return err
				}
				ack := rdma.WorkRequest{Op: rdma.OpSend, Local: []rdma.Gather{{Buf: &ulb.Buffer{Data: []byte("ack")}, Len: 3}}}
				if err := e.q.Post([]rdma.WorkRequest{ack}); err != nil {
					return err
				}
				inFlight++
			}
		}
		if rounds < 0 && received && inFlight == 0 {
			return nil
		}
	}
}

// postBatch posts random Writes and Reads, and a Send behind them, and puts down
// in the other end's model what they do.
func (e *modelEnd) postBatch() (n, octets int, err error) {
	o := e.other
	o.mu.Lock()
	defer o.mu.Unlock()
	var batch []rdma.WorkRequest
	for range e.rnd.IntN(4) {
		s := &o.sinks[e.rnd.IntN(len(o.sinks))]
		off := e.rnd.IntN(len(s.model) + 1)
		k := e.rnd.IntN(len(s.model) - off + 1)
		src := pattern(k, byte(e.rnd.Int()))
		copy(s.model[off:], src.Data)
		batch = append(batch, rdma.WorkRequest{Op: rdma.OpWrite, Local: e.split(src), Remote: rdma.Remote{Handle: s.at.Handle, Offset: s.at.Offset + uint64(off)}})
		octets += k
	}
	for range e.rnd.IntN(min(3, e.q.Info().ReadDepth+1)) {
		off := e.rnd.IntN(len(o.source.Data) + 1)
		k := e.rnd.IntN(len(o.source.Data) - off + 1)
		if e.rnd.IntN(5) == 0 {
			k = 0
		}
		dst := buffer(k + 20)
		check := func() error {
			if !bytes.Equal(dst.Data[10:10+k], o.source.Data[off:off+k]) {
				return fmt.Errorf("Read of %d octets at %d brought other data", k, off)
			}
			if !bytes.Equal(dst.Data[:10], make([]byte, 10)) || !bytes.Equal(dst.Data[10+k:], make([]byte, 10)) {
				return fmt.Errorf("Read of %d octets at %d wrote beyond its buffer", k, off)
			}
			return nil
		}
		batch = append(batch, rdma.WorkRequest{Op: rdma.OpRead, Cookie: check, Local: []rdma.Gather{{Buf: dst, Off: 10, Len: k}},
			Remote: rdma.Remote{Handle: o.read.Handle, Offset: o.read.Offset + uint64(off)}})
		octets += k
	}
	msg := pattern(e.rnd.IntN(30_000), byte(e.rnd.Int()))
	if len(msg.Data) < 5 {
		msg.Data = nil
	}
	send := rdma.WorkRequest{Op: rdma.OpSend, Local: e.split(msg)}
	if e.rnd.IntN(3) == 0 {
		send.Op, send.Remote.Handle = rdma.OpSendInvalidate, o.sinks[e.rnd.IntN(len(o.sinks))].at.Handle
	}
	batch = append(batch, send)
	o.want = append(o.want, msg.Data)
	return len(batch), octets + len(msg.Data), e.q.Post(batch)
}

// split cuts a buffer into random pieces.
func (e *modelEnd) split(b *ulb.Buffer) []rdma.Gather {
	var g []rdma.Gather
	for at := 0; at < len(b.Data) || len(g) == 0; {
		n := len(b.Data) - at
		if len(g) < 5 {
			n = e.rnd.IntN(n + 1)
		}
		g = append(g, rdma.Gather{Buf: b, Off: at, Len: n})
		at += n
	}
	return g
}

// check compares a message, and the memory that was written before it, with the
// model. Memory that was invalidated is exposed again.
func (e *modelEnd) check(msg string, c rdma.Completion) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.want) == 0 || msg != string(e.want[0]) {
		return fmt.Errorf("message of %d octets came, which was not the next one", len(msg))
	}
	e.want = e.want[1:]
	for i := range e.sinks {
		s := &e.sinks[i]
		if !bytes.Equal(s.buf.Data, s.model) {
			return fmt.Errorf("exposed memory differs from the model")
		}
		if c.HasInvalidated && c.Invalidated == s.at.Handle {
			var err error
			if s.at, err = e.q.Expose(s.buf, 0, len(s.model), rdma.RemoteWrite); err != nil {
				return err
			}
		}
	}
	return nil
}
