package fusefs

import "testing"

func TestCacheState(t *testing.T) {
	type step struct {
		do     string // begin, end, attrs, exact, open, late
		change uint64
		want   bool // whether to drop
	}
	for name, steps := range map[string][]step{
		"nothing known, nothing to drop": {{"open", 1, false}},
		"found, then opened":             {{"attrs", 1, false}, {"open", 1, false}},
		"another's change":               {{"attrs", 1, false}, {"attrs", 2, true}, {"attrs", 2, false}, {"open", 2, false}},
		"another's change, seen by the open": {
			{"attrs", 1, false}, {"open", 2, true}, {"open", 2, false}},
		"own write, flushed": {
			{"attrs", 1, false}, {"open", 1, false}, {"begin", 0, false}, {"end", 0, false},
			{"exact", 5, false}, {"open", 5, false}},
		"own write, not flushed: the open cannot know": {
			{"attrs", 1, false}, {"begin", 0, false}, {"end", 0, false}, {"open", 5, true}, {"open", 5, false}},
		"own write, stat in between: kept, but not beyond the next open": {
			{"attrs", 1, false}, {"begin", 0, false}, {"end", 0, false}, {"attrs", 5, false},
			{"attrs", 5, false}, {"open", 5, true}, {"open", 5, false}},
		"stat during a write": {
			{"attrs", 1, false}, {"begin", 0, false}, {"attrs", 4, false}, {"end", 0, false}, {"attrs", 5, false}},
		"another's change after an own one was seen": {
			{"attrs", 1, false}, {"begin", 0, false}, {"end", 0, false}, {"exact", 5, false}, {"attrs", 6, true}},
		"open during another's write and ours": {
			{"attrs", 1, false}, {"begin", 0, false}, {"open", 3, true}, {"end", 0, false}, {"exact", 4, false}, {"open", 4, false}},
		"shared, then another's change: nothing doubtful is left": {
			{"attrs", 1, false}, {"begin", 0, false}, {"end", 0, false}, {"attrs", 2, false}, {"attrs", 3, true}, {"open", 3, false}},
		"a drop under way: the next one must not rely on it": {
			{"attrs", 1, false}, {"late", 2, true}, {"open", 2, true}, {"open", 2, false}},
	} {
		var s cacheState
		for i, st := range steps {
			var got bool
			switch st.do {
			case "begin":
				s.begin()
			case "end":
				s.end()
			case "attrs":
				got = s.observe(st.change, false)
			case "exact":
				got = s.observe(st.change, true)
			case "late": // the drop is not done yet
				if s.open(st.change) != st.want {
					t.Errorf("%s: step %d", name, i)
				}
				continue
			case "open":
				got = s.open(st.change)
			}
			if got {
				s.dropped(st.change)
			}
			if got != st.want {
				t.Errorf("%s: step %d (%s %d): %v, expected %v", name, i, st.do, st.change, got, st.want)
			}
		}
	}
}
