package nfsclient

import (
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr/nfs4"
)

// replier is the server's half of a slot table, as RFC 8881 section 2.10.6.1
// has it: what the requester's half is held against.
type replier struct {
	seq []uint32 // last sequence id executed, by slot
}

func (r *replier) receive(slot int, seq uint32) nfs4.Status {
	switch seq {
	case r.seq[slot] + 1:
		r.seq[slot] = seq
		return nfs4.OK
	case r.seq[slot]:
		return nfs4.OK // from the reply cache
	}
	return nfs4.ErrSeqMisordered
}

// Whatever happens to requests on their way, slots are never given out twice, and
// the server never finds them out of order.
func TestSlotTableAgainstReplier(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 130).Draw(t, "slots")
		table := newSlotTable(n)
		server := &replier{seq: make([]uint32, n)}
		if rapid.Bool().Draw(t, "near the wrap") {
			for i := range table.slots {
				table.slots[i].seq = 0xfffffffe
				server.seq[i] = 0xfffffffd
			}
		}
		type request struct {
			slot int
			seq  uint32
			done bool // carried out by the server
		}
		var open, doubtful []request
		limit := n
		drop := func(list *[]request, i int) request {
			r := (*list)[i]
			*list = append((*list)[:i], (*list)[i+1:]...)
			return r
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				id, seq := table.take()
				if id < 0 {
					if len(open)+len(doubtful) < limit && table.usable() && retired(table) == 0 {
						t.Fatalf("no slot, though %d of %d are in use", len(open)+len(doubtful), limit)
					}
					return
				}
				if id >= limit {
					t.Fatalf("slot %d given out above the limit of %d", id, limit)
				}
				for _, r := range append(open, doubtful...) {
					if r.slot == id {
						t.Fatalf("slot %d given out twice", id)
					}
				}
				open = append(open, request{slot: id, seq: seq})
			},
			"send": func(t *rapid.T) { // or send again
				if len(open) == 0 {
					t.Skip("no slot is taken")
				}
				r := &open[rapid.IntRange(0, len(open)-1).Draw(t, "which")]
				if s := server.receive(r.slot, r.seq); s != nfs4.OK {
					t.Fatalf("slot %d sequence %d: %v", r.slot, r.seq, s)
				}
				r.done = true
			},
			"answer": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("no slot is taken")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				if r := drop(&open, i); r.done {
					table.answered(r.slot)
				} else {
					table.refused(r.slot) // was never sent
				}
			},
			"doubt": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("no slot is taken")
				}
				r := drop(&open, rapid.IntRange(0, len(open)-1).Draw(t, "which"))
				table.doubt(r.slot)
				doubtful = append(doubtful, r)
			},
			"settle": func(t *rapid.T) {
				if len(doubtful) == 0 {
					t.Skip("no slot is in doubt")
				}
				r := drop(&doubtful, rapid.IntRange(0, len(doubtful)-1).Draw(t, "which"))
				if s := server.receive(r.slot, r.seq); s != nfs4.OK {
					t.Fatalf("settling slot %d with sequence %d: %v", r.slot, r.seq, s)
				}
				table.settle(r.slot)
			},
			"target": func(t *rapid.T) {
				target := rapid.Uint32Range(0, uint32(n+3)).Draw(t, "target")
				table.setTarget(target)
				limit = min(int(target)+1, n)
			},
			"": func(t *rapid.T) {
				if table.busy != len(open)+len(doubtful) || table.idle() != (table.busy == 0) {
					t.Fatalf("%d busy, want %d", table.busy, len(open)+len(doubtful))
				}
				high := 0
				for _, r := range append(open, doubtful...) {
					high = max(high, r.slot)
					if !table.outstanding(uint32(r.slot), r.seq) || table.outstanding(uint32(r.slot), r.seq+1) {
						t.Fatalf("slot %d sequence %d not outstanding", r.slot, r.seq)
					}
				}
				if table.highest() != high {
					t.Fatalf("highest %d, want %d", table.highest(), high)
				}
			},
		})
	})
}

func retired(t *slotTable) (n int) {
	for _, s := range t.slots {
		if s.state == slotRetired {
			n++
		}
	}
	return n
}

func TestSlotTableRetire(t *testing.T) {
	table := newSlotTable(2)
	for range 2 {
		id, _ := table.take()
		table.retire(id)
	}
	if id, _ := table.take(); id >= 0 || table.usable() || !table.idle() {
		t.Errorf("slot %d of a table with none left", id)
	}
	defer func() {
		if recover() == nil {
			t.Error("a free slot was answered")
		}
	}()
	newSlotTable(1).answered(0)
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		status nfs4.Status
		resent bool
		want   seqVerdict
	}{
		{nfs4.OK, false, seqDone},
		{nfs4.ErrDelay, false, seqLater},
		{nfs4.ErrDelay, true, seqLater},
		{nfs4.ErrSeqMisordered, false, seqSession},
		{nfs4.ErrSeqMisordered, true, seqLater}, // may be in progress (RFC 8881 section 2.10.6.2)
		{nfs4.ErrSeqFalseRetry, true, seqSkip},
		{nfs4.ErrBadSlot, false, seqRetire},
		{nfs4.ErrBadHighSlot, false, seqAgain},
		{nfs4.ErrBadSession, false, seqSession},
		{nfs4.ErrDeadSession, true, seqSession},
		{nfs4.ErrConnNotBoundToSession, false, seqAgain},
		{nfs4.ErrReqTooBig, false, seqFail},
		{nfs4.ErrTooManyOps, false, seqFail},
	} {
		if got := judge(c.status, c.resent); got != c.want {
			t.Errorf("%v, resent %v: %d, want %d", c.status, c.resent, got, c.want)
		}
	}
}
