package rdma

import (
	"testing"
	"time"
)

// TestNudger plays the machine through by hand.
func TestNudger(t *testing.T) {
	const ms = time.Millisecond
	n := &Nudger{First: 50 * ms}
	fire := func(wantNudge bool, wantAgain time.Duration) {
		t.Helper()
		nudge, again := n.Fire()
		if nudge != wantNudge || again != wantAgain {
			t.Fatalf("nudge %t, again in %v; want %t, %v", nudge, again, wantNudge, wantAgain)
		}
	}
	if d := n.Sent(0); d != 0 {
		t.Fatal("armed by nothing")
	}
	if d := n.Sent(1); d != 50*ms {
		t.Fatalf("first wait %v", d)
	}
	if d := n.Sent(1); d != 0 {
		t.Fatal("armed twice")
	}
	fire(true, 100*ms)
	fire(true, 200*ms)
	n.Heard++ // something was received: the silence is over
	n.Received()
	fire(false, 1000*ms)
	fire(true, 2000*ms)
	n.Received()
	fire(false, 0) // nothing is outstanding
	if d := n.Sent(1); d != 1000*ms {
		t.Fatalf("wait on a connection that has worked: %v", d)
	}
	for i := range MaxNudges {
		fire(true, 2000*ms<<i)
	}
	fire(false, 0) // enough
	if d := n.Sent(1); d != 1000*ms {
		t.Fatal("the next Send does not start again")
	}
	// A call of the peer and the reply to it cancel out.
	m := &Nudger{First: ms}
	m.Sent(1)
	m.Received() // the reply
	m.Received() // a call
	if m.Sent(1); m.outstanding != 1 {
		t.Fatal(m.outstanding)
	}
}
