package nfsclient

import (
	"fmt"
	"math/bits"
)

// slotTable is the requester's half of a session channel (RFC 8881 section
// 2.10.6.1): which slots are in use and with which sequence id. It does no I/O
// and is not safe for concurrent use; the session guards it with its lock.
//
// A slot goes through these states:
//
//	          take                      answered
//	free ------------> busy ----------------------------> free (sequence id + 1)
//	                    | |  refused, unsent
//	                    | +-----------------------------> free (same sequence id)
//	                    | doubt                  settled
//	                    +------------> doubtful --------> free
//	                    |                  |
//	                    +------------------+------------> retired
//	                         retire
//
// A busy slot belongs to one request until that request is answered, however
// often it is sent again after a loss of the connection, and whether or not
// anybody still waits for it.
type slotTable struct {
	slots []slotEntry
	free  []uint64 // bit set: slot is free
	busy  int      // slots busy or doubtful

	// limit is the number of slots that may be used for new requests: what
	// the server granted, lowered and raised by target_highest_slotid.
	limit int
}

type slotEntry struct {
	// seq is the sequence id of the request that holds the slot, or of the
	// next request if it is free.
	seq   uint32
	state slotState
}

type slotState uint8

const (
	slotFree slotState = iota
	slotBusy
	slotDoubtful
	slotRetired
)

func (s slotState) String() string {
	switch s {
	case slotFree:
		return "free"
	case slotBusy:
		return "busy"
	case slotDoubtful:
		return "doubtful"
	case slotRetired:
		return "retired"
	}
	return fmt.Sprintf("slotState(%d)", uint8(s))
}

// newSlotTable returns a table of n slots, all free, whose first requests have
// sequence id 1 (RFC 8881 section 18.36.3).
func newSlotTable(n int) *slotTable {
	t := &slotTable{
		slots: make([]slotEntry, n),
		free:  make([]uint64, (n+63)/64),
		limit: n,
	}
	for i := range t.slots {
		t.slots[i].seq = 1
		t.free[i/64] |= 1 << (i % 64)
	}
	return t
}

// take gives out the lowest free slot below the limit, so that the highest
// slot in use stays low. It returns -1 if there is none.
func (t *slotTable) take() (id int, seq uint32) {
	for w, word := range t.free {
		if word == 0 {
			continue
		}
		id := w*64 + bits.TrailingZeros64(word)
		if id >= t.limit {
			return -1, 0
		}
		t.set(id, slotBusy)
		return id, t.slots[id].seq
	}
	return -1, 0
}

// highest returns the highest slot in use, which SEQUENCE tells the server;
// zero if none is.
func (t *slotTable) highest() int {
	for i := len(t.slots) - 1; i > 0; i-- {
		if s := t.slots[i].state; s == slotBusy || s == slotDoubtful {
			return i
		}
	}
	return 0
}

// answered ends the request on slot id: the server has executed it, so that
// the next one has the next sequence id, wrapping from the highest value to
// zero.
func (t *slotTable) answered(id int) {
	t.slots[id].seq++
	t.set(id, slotFree)
}

// refused ends the request on slot id without effect on the sequence id: it
// was never sent, or SEQUENCE itself failed (RFC 8881 section 2.10.6.1.2).
func (t *slotTable) refused(id int) { t.set(id, slotFree) }

// doubt says that the request on slot id has failed in a way that leaves open
// whether the server has seen it (RFC 8267 section 6.6). The slot stays taken
// until settle or retire.
func (t *slotTable) doubt(id int) { t.set(id, slotDoubtful) }

// settle makes a doubtful slot usable again: a SEQUENCE with the same sequence
// id was answered, either as new or as a retry, so that the server now stands
// at that sequence id.
func (t *slotTable) settle(id int) { t.answered(id) }

// retire takes slot id out of use for the rest of the session.
func (t *slotTable) retire(id int) { t.set(id, slotRetired) }

// outstanding tells whether the request with that sequence id holds slot id
// and has not been answered: the test for referring calls of a callback
// (RFC 8881 section 2.10.6.3).
func (t *slotTable) outstanding(id, seq uint32) bool {
	if uint64(id) >= uint64(len(t.slots)) {
		return false
	}
	s := t.slots[id]
	return (s.state == slotBusy || s.state == slotDoubtful) && s.seq == seq
}

// setTarget follows a target_highest_slotid of the server: a hard limit for
// new requests, while those in flight above it go on. It never drops the
// limit below one slot nor raises it above the size of the table, which is
// what the session was created with.
func (t *slotTable) setTarget(highest uint32) {
	n := len(t.slots)
	if uint64(highest)+1 < uint64(n) {
		n = int(highest) + 1
	}
	t.limit = max(n, 1)
}

// idle tells whether no slot is taken.
func (t *slotTable) idle() bool { return t.busy == 0 }

// usable tells whether a slot is free or can become free again.
func (t *slotTable) usable() bool {
	for i := range t.limit {
		if t.slots[i].state != slotRetired {
			return true
		}
	}
	return false
}

// set changes the state of a slot; nothing else does.
func (t *slotTable) set(id int, to slotState) {
	s := &t.slots[id]
	from := s.state
	ok := false
	switch to {
	case slotFree:
		ok = from == slotBusy || from == slotDoubtful
	case slotBusy:
		ok = from == slotFree
	case slotDoubtful:
		ok = from == slotBusy
	case slotRetired:
		ok = from == slotBusy || from == slotDoubtful
	}
	if !ok {
		panic(fmt.Sprintf("nfsclient: slot %d cannot go from %v to %v", id, from, to))
	}
	s.state = to
	if from == slotFree {
		t.free[id/64] &^= 1 << (id % 64)
		t.busy++
	}
	switch to {
	case slotFree:
		t.free[id/64] |= 1 << (id % 64)
		t.busy--
	case slotRetired:
		t.busy--
	}
}

// seqVerdict says what a status of SEQUENCE means for the request that got it.
type seqVerdict uint8

const (
	// seqDone: SEQUENCE succeeded; the slot moves on.
	seqDone seqVerdict = iota
	// seqLater: the server is still busy with this very request; it is to
	// be sent again in the same slot, with the same body, after a pause.
	seqLater
	// seqAgain: the request was not executed and its slot is free with the same
	// sequence id; it is to be issued anew.
	seqAgain
	// seqSkip: as seqAgain, but the server has used up the sequence id.
	seqSkip
	// seqRetire: as seqAgain, but this slot cannot be used any more.
	seqRetire
	// seqSession: the session is gone or cannot be used; the request was not
	// executed.
	seqSession
	// seqFail: the request was not executed and would fail again; its
	// slot is free with the same sequence id.
	seqFail
)
