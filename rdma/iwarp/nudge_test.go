package iwarp

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
)

// pipe returns a connector whose peer is p, over a connection without a
// socket, so that it can run in a synctest bubble.
func pipe(cfg Config) (c Connector, p *iwarptest.Peer) {
	near, far := net.Pipe()
	cfg.DialContext = func(context.Context, string, string) (net.Conn, error) { return near, nil }
	p = iwarptest.NewPeer(far)
	p.Timeout = 10_000 * time.Hour
	return Connector{Config: cfg}, p
}

// TestNudge has a server that misses the first message, as Linux siw does, and
// looks when the next octets arrive.
func TestNudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pipe(Config{})
		type event struct {
			after time.Duration
			seg   iwarptest.Segment
		}
		seen := make(chan event, 100)
		go func() {
			defer close(seen)
			if _, err := p.Accept(nil); err != nil {
				return
			}
			start := time.Now()
			for {
				s, err := p.Read()
				if err != nil {
					return
				}
				seen <- event{time.Since(start), s}
			}
		}()
		q, err := c.Connect(t.Context(), "pipe", options())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // an idle connection is not nudged
		if err := q.Post(request(rdma.OpSend, pattern(4, 0), rdma.Remote{})); err != nil {
			t.Fatal(err)
		}
		want := func(op uint8, after time.Duration) {
			t.Helper()
			e := <-seen
			if e.seg.Opcode != op || e.after != after {
				t.Fatalf("opcode %d after %v, want %d after %v", e.seg.Opcode, e.after, op, after)
			}
			if op == iwarptest.Write && (!e.seg.Tagged || !e.seg.Last || e.seg.STag != 0 || e.seg.Offset != 0 || len(e.seg.Payload) != 0) {
				t.Fatalf("nudge %+v", e.seg)
			}
		}
		at := time.Minute
		want(iwarptest.Send, at)
		for wait := 50 * time.Millisecond; wait <= 400*time.Millisecond; wait *= 2 {
			at += wait
			want(iwarptest.Write, at)
		}
		// The server wakes up.
		if err := post(q, 2); err != nil {
			t.Fatal(err)
		}
		if err := p.Send([]byte("late")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour) // no more nudges
		if err := q.Post(request(rdma.OpSend, pattern(4, 0), rdma.Remote{})); err != nil {
			t.Fatal(err)
		}
		at += time.Hour
		want(iwarptest.Send, at)
		nudges := 0
		for wait := time.Second; nudges < rdma.MaxNudges; wait *= 2 {
			at += wait
			want(iwarptest.Write, at)
			nudges++
		}
		time.Sleep(100 * time.Hour)
		p.Close()
		if e, more := <-seen; more {
			t.Errorf("and then %+v", e)
		}
		q.Close()
	})
}

// TestNudgeOff checks that nudging can be switched off, and that a listening
// end never does it.
func TestNudgeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, p := pipe(Config{NudgeAfter: -1})
		ops := make(chan string, 1)
		go func() {
			if _, err := p.Accept(nil); err != nil {
				return
			}
			got := ""
			for {
				s, err := p.Read()
				if err != nil {
					ops <- got
					return
				}
				got += fmt.Sprint(s.Opcode)
			}
		}()
		q, err := c.Connect(t.Context(), "pipe", options())
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Post(request(rdma.OpSend, pattern(4, 0), rdma.Remote{})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		q.Close()
		if got := <-ops; got != "3" {
			t.Errorf("opcodes %s", got)
		}
		p.Close()
	})
	c, s := pair(t, Config{}, Config{})
	if c.nudge == nil || s.nudge != nil {
		t.Error("the wrong end nudges")
	}
}
