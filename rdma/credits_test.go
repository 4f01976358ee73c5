package rdma

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func ready(w *waiter) bool {
	select {
	case err := <-w.ready:
		return err == nil
	default:
		return false
	}
}

func TestCredits(t *testing.T) {
	c := newCredits(8)
	w := make([]waiter, 12)
	for i := range w {
		w[i] = newWaiter()
	}
	// Exactly one call until the first reply (RFC 8166 section 3.3.3), be it
	// a probe.
	if !c.take(&w[0], false) || c.take(&w[1], false) || c.take(&w[2], true) {
		t.Fatal("not exactly one call before the first reply")
	}
	c.replied(4)
	// Of four, one is kept back (RFC 8267 section 6.7.2); the probe has it.
	if !ready(&w[1]) || !ready(&w[2]) || c.inUse != 2 {
		t.Fatalf("after the grant %d are in use", c.inUse)
	}
	if !c.take(&w[3], false) || c.take(&w[4], false) {
		t.Fatal("the limit of four is not three calls and a probe")
	}
	if !c.take(&w[5], true) || c.take(&w[6], true) {
		t.Fatal("a probe does not get the credit kept back, or a second one does")
	}
	// Probes come first when one is free.
	c.give()
	if !ready(&w[6]) || ready(&w[4]) {
		t.Fatal("a waiting call was served before a waiting probe")
	}
	c.give()
	if ready(&w[4]) {
		t.Fatal("a call got the credit kept back")
	}
	c.give()
	if !ready(&w[4]) {
		t.Fatal("a free credit was not given to the call that waits")
	}
	// A grant of zero counts as one (section 3.3.1); more than asked for is
	// not used.
	c.replied(0)
	if c.limit() != 1 {
		t.Errorf("limit %d after a grant of 0", c.limit())
	}
	c.replied(1 << 31)
	if c.limit() != 8 {
		t.Errorf("limit %d after a grant of 2^31", c.limit())
	}
	c.give()
	if c.inUse != 0 {
		t.Fatalf("%d in use", c.inUse)
	}
	// A limit of one is shared between calls and probes.
	c.granted = 1
	if !c.take(&w[7], false) || c.take(&w[8], true) || c.take(&w[9], false) {
		t.Fatal("limit of one")
	}
	if !c.cancel(&w[8]) || c.cancel(&w[8]) {
		t.Error("cancel of a waiting probe")
	}
	errEnd := errors.New("end")
	c.fail(errEnd)
	if err := <-w[9].ready; !errors.Is(err, errEnd) {
		t.Errorf("waiting call: %v", err)
	}
}

func TestTokens(t *testing.T) {
	tk := tokens{limit: 4}
	w := make([]waiter, 6)
	for i := range w {
		w[i] = newWaiter()
	}
	if !tk.take(&w[0], 3) || tk.take(&w[1], 2) || tk.take(&w[2], 1) {
		t.Fatal("a small request passed a large one")
	}
	if !tk.cancel(&w[1]) || !ready(&w[2]) {
		t.Fatal("the one behind a cancelled request was not served")
	}
	if tk.cancel(&w[2]) {
		t.Fatal("one that was served was cancelled")
	}
	if tk.take(&w[3], 4) {
		t.Fatal("more than the limit")
	}
	tk.give(3)
	if ready(&w[3]) {
		t.Fatal("more than the limit")
	}
	tk.give(1)
	if !ready(&w[3]) || tk.used != 4 {
		t.Fatal("not served")
	}
}

// The account against a plain count: never beyond the limit, never a call in
// the place kept back, nobody waits while there is room.
func TestCreditsRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newCredits(rapid.IntRange(1, 20).Draw(rt, "asked"))
		type entry struct {
			w     *waiter
			probe bool
		}
		var waiting []entry
		calls, probes := 0, 0 // outstanding
		add := func(probe bool) {
			if probe {
				probes++
			} else {
				calls++
			}
		}
		limit := 1
		rt.Repeat(map[string]func(*rapid.T){
			"take": func(rt *rapid.T) {
				probe := rapid.Bool().Draw(rt, "probe")
				w := newWaiter()
				if c.take(&w, probe) {
					add(probe)
				} else {
					waiting = append(waiting, entry{&w, probe})
				}
			},
			"reply": func(rt *rapid.T) {
				if calls+probes == 0 {
					return
				}
				if calls > 0 && (probes == 0 || rapid.Bool().Draw(rt, "call")) {
					calls--
				} else {
					probes--
				}
				grant := rapid.OneOf(rapid.Uint32Range(0, 30), rapid.Uint32()).Draw(rt, "grant")
				limit = int(min(max(grant, 1), uint32(c.asked)))
				c.replied(grant)
			},
			"cancel": func(rt *rapid.T) {
				if len(waiting) == 0 {
					return
				}
				i := rapid.IntRange(0, len(waiting)-1).Draw(rt, "who")
				if !c.cancel(waiting[i].w) {
					rt.Fatal("not in the queue")
				}
				waiting = append(waiting[:i:i], waiting[i+1:]...)
			},
			"": func(rt *rapid.T) {
				var left []entry
				for _, e := range waiting {
					if ready(e.w) {
						add(e.probe)
					} else {
						left = append(left, e)
					}
				}
				waiting = left
				if c.inUse != calls+probes || c.limit() != limit {
					rt.Fatalf("%d in use and limit %d, want %d and %d", c.inUse, c.limit(), calls+probes, limit)
				}
				for _, e := range waiting {
					if c.available(e.probe) && (e.probe || c.probes.empty()) {
						rt.Fatal("somebody waits although there is room")
					}
				}
			},
		})
	})
}
