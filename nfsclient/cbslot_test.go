package nfsclient

import (
	"testing"

	"pgregory.net/rapid"
)

func TestCBSlotTable(t *testing.T) {
	table := newCBSlotTable(2)
	step := func(slot, seq uint32, want cbVerdict, reply string) {
		t.Helper()
		got, cached := table.begin(slot, seq)
		if got != want || string(cached) != reply {
			t.Errorf("slot %d sequence %d: %d %q, want %d %q", slot, seq, got, cached, want, reply)
		}
	}
	step(2, 1, cbBadSlot, "")
	step(0, 0, cbMisordered, "") // nothing to replay on a slot that was never used
	step(0, 2, cbMisordered, "")
	step(0, 1, cbExecute, "")
	step(0, 1, cbInProgress, "")
	step(0, 2, cbMisordered, "")
	step(1, 1, cbExecute, "") // slots do not know of each other
	table.finish(0, []byte("one"))
	step(0, 1, cbReplay, "one")
	step(0, 2, cbExecute, "")
	table.finish(0, nil)
	step(0, 2, cbReplay, "")
	step(0, 1, cbMisordered, "")
	step(1, 1, cbInProgress, "")
	table.slots[1] = cbSlot{seq: 0xffffffff}
	step(1, 0, cbExecute, "")
}

// Every callback is executed once, however often it is sent.
func TestCBSlotTableExactlyOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table := newCBSlotTable(1)
		executed := map[uint32]int{}
		running, seq := false, uint32(0)
		t.Repeat(map[string]func(*rapid.T){
			"next": func(t *rapid.T) {
				if running {
					t.Skip("one is being carried out")
				}
				seq++
				if v, _ := table.begin(0, seq); v != cbExecute {
					t.Fatalf("new request %d: %d", seq, v)
				}
				executed[seq]++
				running = true
			},
			"finish": func(t *rapid.T) {
				if !running {
					t.Skip("none is being carried out")
				}
				table.finish(0, []byte{byte(seq)})
				running = false
			},
			"again": func(t *rapid.T) {
				at := seq - rapid.Uint32Range(0, 3).Draw(t, "back")
				v, cached := table.begin(0, at)
				switch {
				case v == cbExecute:
					t.Fatalf("request %d executed again", at)
				case v == cbReplay && (at != seq || running || cached[0] != byte(seq)):
					t.Fatalf("replay of %d: %x", at, cached)
				case at == seq && seq > 0 && v == cbMisordered:
					t.Fatalf("retry of %d is misordered", at)
				}
			},
		})
	})
}
