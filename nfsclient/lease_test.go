package nfsclient

import (
	"testing"
	"time"
)

func TestLease(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	l := newLease(10*time.Second, at(100))
	if l.due() != at(105) {
		t.Errorf("due %v", l.due())
	}
	l.renewed(at(104))
	l.renewed(at(103)) // answered later, but sent before
	if l.due() != at(109) {
		t.Errorf("due %v", l.due())
	}
}

func TestHealth(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s float64) time.Time { return start.Add(time.Duration(s * float64(time.Second))) }
	h := health{timeout: 20 * time.Second}
	check := func(s float64, want pulse, next float64) {
		t.Helper()
		p, n := h.check(at(s))
		if p != want || next == 0 != n.IsZero() || next != 0 && n != at(next) {
			t.Errorf("at %v: %v, next %v; want %v, %v", s, p, n.Sub(start), want, next)
		}
	}
	check(0, pulseFine, 0) // nothing outstanding: silence means nothing
	check(100, pulseFine, 0)
	h.sent(at(100))
	check(100, pulseFine, 110)
	h.sent(at(105))
	h.done(at(106), true)
	check(110, pulseFine, 116)
	check(116, pulseProbe, 126)
	check(117, pulseFine, 126) // one probe is enough
	h.sent(at(117))
	h.done(at(120), true)
	check(126, pulseFine, 130)
	check(130, pulseProbe, 140)
	check(140, pulseDead, 0)
	h.heard(at(141)) // a callback is a sign of life too
	check(141, pulseFine, 151)
	h.done(at(142), false)
	check(200, pulseFine, 0)
}

func TestBackoff(t *testing.T) {
	var b backoff
	var total, last time.Duration
	for {
		d, ok := b.next()
		if !ok {
			break
		}
		if d < last || d < minPause || d > maxPause {
			t.Fatalf("pause of %v after one of %v", d, last)
		}
		last = d
		total += d
	}
	if total < maxPatience || total > maxPatience+maxPause {
		t.Errorf("patience of %v", total)
	}
}
