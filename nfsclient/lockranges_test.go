package nfsclient

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The ranges of an owner are the same as a list with one entry for each byte.
func TestHeldRanges(t *testing.T) {
	const size = 24
	rapid.Check(t, func(t *rapid.T) {
		states := []*lockState{new(lockState), new(lockState)}
		var l heldRanges
		var model [size]heldRange // start, last and the like left out
		var held [size]bool
		span := func() (uint64, uint64) {
			a := rapid.Uint64Range(0, size-1).Draw(t, "a")
			b := rapid.Uint64Range(0, size-1).Draw(t, "b")
			return min(a, b), max(a, b)
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				start, last := span()
				r := heldRange{start, last, rapid.Bool().Draw(t, "write"), 0, states[rapid.IntRange(0, 1).Draw(t, "via")]}
				l.set(r)
				for i := start; i <= last; i++ {
					held[i], model[i] = true, heldRange{write: r.write, via: r.via}
				}
			},
			"clear": func(t *rapid.T) {
				start, last := span()
				l.clear(start, last)
				for i := start; i <= last; i++ {
					held[i] = false
				}
			},
			"": func(t *rapid.T) {
				var got [size]bool
				for i, r := range l {
					if r.start > r.last || i > 0 && r.start <= l[i-1].last {
						t.Fatalf("out of order: %+v", l)
					}
					if i > 0 && r.start == l[i-1].last+1 && r.write == l[i-1].write && r.via == l[i-1].via {
						t.Fatalf("not joined: %+v", l)
					}
					for b := r.start; b <= r.last; b++ {
						got[b] = true
						if held[b] && (model[b].write != r.write || model[b].via != r.via) {
							t.Fatalf("byte %d: %+v, want %+v", b, r, model[b])
						}
					}
				}
				if got != held {
					t.Fatalf("held %v, want %v", got, held)
				}
				start, last := span()
				var gaps [size]bool
				l.gaps(start, last, func(from, to uint64) {
					for b := from; b <= to; b++ {
						gaps[b] = true
					}
				})
				all := true
				for b := range uint64(size) {
					in := b >= start && b <= last
					if gaps[b] != (in && !held[b]) {
						t.Fatalf("gaps from %d to %d: %v, held %v", start, last, gaps, held)
					}
					if in && (!held[b] || !model[b].write) {
						all = false
					}
				}
				if l.all(start, last) != all {
					t.Fatalf("all of %d to %d locked for writing: %v", start, last, !all)
				}
				for _, st := range states {
					if l.via(st) != slices.ContainsFunc(l, func(r heldRange) bool { return r.via == st }) {
						t.Fatal("via")
					}
				}
			},
		})
	})
}
