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

// TestNudger plays the machine through by hand.
func TestNudger(t *testing.T) {
	const ms = time.Millisecond
	n := &nudger{first: 50 * ms}
	fire := func(wantNudge bool, wantAgain time.Duration) {
		t.Helper()
		nudge, again := n.fire()
		if nudge != wantNudge || again != wantAgain {
			t.Fatalf("nudge %t, again in %v; want %t, %v", nudge, again, wantNudge, wantAgain)
		}
	}
	if d := n.sent(0); d != 0 {
		t.Fatal("armed by nothing")
	}
	if d := n.sent(1); d != 50*ms {
		t.Fatalf("first wait %v", d)
	}
	if d := n.sent(1); d != 0 {
		t.Fatal("armed twice")
	}
	fire(true, 100*ms)
	fire(true, 200*ms)
	n.heard++ // something was received: the silence is over
	n.received()
	fire(false, 1000*ms)
	fire(true, 2000*ms)
	n.received()
	fire(false, 0) // nothing is outstanding
	if d := n.sent(1); d != 1000*ms {
		t.Fatalf("wait on a connection that has worked: %v", d)
	}
	for i := range nudgeMax {
		fire(true, 2000*ms<<i)
	}
	fire(false, 0) // enough
	if d := n.sent(1); d != 1000*ms {
		t.Fatal("the next Send does not start again")
	}
	// A call of the peer and the reply to it cancel out.
	m := &nudger{first: ms}
	m.sent(1)
	m.received() // the reply
	m.received() // a call
	if m.sent(1); m.outstanding != 1 {
		t.Fatal(m.outstanding)
	}
}

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
		for wait := time.Second; nudges < nudgeMax; wait *= 2 {
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
