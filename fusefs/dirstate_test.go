package fusefs

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"nfsrdma-fuse/xdr/nfs4"
)

func TestDirState(t *testing.T) {
	type step struct {
		do            string // begin, end, own, attrs
		change, after uint64
		foreign       bool
	}
	for name, steps := range map[string][]step{
		"seen twice":       {{"attrs", 1, 0, false}, {"attrs", 1, 0, false}},
		"another's change": {{"attrs", 1, 0, false}, {"attrs", 2, 0, true}, {"attrs", 2, 0, false}},
		"own changes":      {{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"own", 1, 2, false}, {"end", 0, 0, false}, {"attrs", 2, 0, false}},
		"another's change before an own one": {
			{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"own", 2, 3, true}, {"end", 0, 0, false}, {"attrs", 3, 0, false}},
		"answers in another order": {
			{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"begin", 0, 0, false}, {"own", 2, 3, false}, {"end", 0, 0, false},
			{"own", 1, 2, false}, {"end", 0, 0, false}, {"attrs", 3, 0, false}},
		"answers in another order, with another's change between": {
			{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"begin", 0, 0, false}, {"own", 3, 4, false}, {"end", 0, 0, false},
			{"own", 1, 2, false}, {"end", 0, 0, true}, {"attrs", 4, 0, false}},
		"attributes ahead of the answer": {
			{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"attrs", 2, 0, false}, {"own", 1, 2, false}, {"end", 0, 0, false}},
		"attributes with another's change during an own one": {
			{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"attrs", 3, 0, false}, {"own", 1, 2, false}, {"end", 0, 0, true}, {"attrs", 3, 0, false}},
		"own change that failed": {{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"end", 0, 0, false}, {"attrs", 1, 0, false}},
		"own change with an unknown outcome": {
			{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"end", 0, 0, false}, {"attrs", 2, 0, true}},
		"open that made nothing": {{"attrs", 1, 0, false}, {"begin", 0, 0, false}, {"own", 1, 1, false}, {"end", 0, 0, false}},
		"nothing known":          {{"begin", 0, 0, false}, {"own", 4, 5, false}, {"end", 0, 0, false}, {"attrs", 5, 0, false}},
	} {
		var d dirState
		for i, s := range steps {
			var got bool
			switch s.do {
			case "begin":
				d.begin()
			case "end":
				got = d.end()
			case "own":
				got = d.changed(nfs4.ChangeInfo{Atomic: true, Before: s.change, After: s.after})
			case "attrs":
				got = d.observe(s.change)
			}
			if got != s.foreign {
				t.Errorf("%s: step %d (%s %d): %v, expected %v", name, i, s.do, s.change, got, s.foreign)
			}
		}
	}
}

// TestDirStateOrder answers own changes in every order that there may be: as long
// as nobody else makes one, nothing becomes doubtful, and if somebody does, it is
// found.
func TestDirStateOrder(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for round := range 2000 {
		var d dirState
		d.observe(0)
		d.miss("x", 0)
		foreign := round%2 == 1
		at, other := uint64(0), rng.IntN(8)
		var answers []nfs4.ChangeInfo
		for i := range 8 {
			if foreign && i == other {
				at++
			}
			answers = append(answers, nfs4.ChangeInfo{Before: at, After: at + 1})
			at++
			d.begin()
		}
		rng.Shuffle(len(answers), func(i, j int) { answers[i], answers[j] = answers[j], answers[i] })
		found := false
		for _, ci := range answers {
			found = d.changed(ci) || found
			found = d.end() || found
		}
		found = d.observe(at) || found
		if found != foreign {
			t.Fatalf("seed %d, round %d: another's change %v, found %v (%v)", seed, round, foreign, found, answers)
		}
	}
}

func TestMissingNamesAreBounded(t *testing.T) {
	var d dirState
	if d.miss("a", 0) {
		t.Error("a name is remembered though nothing is known of the directory")
	}
	d.observe(1)
	for i := range maxMissing {
		if !d.miss(fmt.Sprint(i), 0) {
			t.Fatalf("name %d is not remembered", i)
		}
	}
	if d.miss("one more", 0) {
		t.Error("more names are remembered than the limit says")
	}
	d.appear("0")
	if d.isMissing("0") || !d.isMissing("1") {
		t.Error("a name that has appeared, or the wrong one, is forgotten")
	}
	if n := len(d.takeMissing()); n != maxMissing-1 || d.isMissing("1") {
		t.Errorf("%d names were taken", n)
	}
	d.observe(2)
	if d.miss("late", 0) {
		t.Error("a name is remembered by an answer from before another's change")
	}
}
