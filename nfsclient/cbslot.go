package nfsclient

// cbSlotTable is the replier's half of the back channel: it remembers the
// reply to the last callback on each slot and tells new requests from retries
// (RFC 8881 section 2.10.6.1). It does no I/O and is not safe for concurrent
// use.
//
// Each slot is idle or executing; begin and finish are the only transitions.
type cbSlotTable struct {
	slots []cbSlot
}

type cbSlot struct {
	seq       uint32
	executing bool
	reply     []byte // the whole cached CB_COMPOUND result, kept for a retry
}

// cbVerdict says what to do with a callback.
type cbVerdict uint8

const (
	cbExecute    cbVerdict = iota // new: execute it, then call finish
	cbReplay                      // a retry: send the reply again
	cbInProgress                  // a retry while the first is executing: NFS4ERR_DELAY
	cbMisordered                  // NFS4ERR_SEQ_MISORDERED
	cbBadSlot                     // NFS4ERR_BADSLOT
)

func newCBSlotTable(n int) *cbSlotTable { return &cbSlotTable{slots: make([]cbSlot, n)} }

// begin looks at the slot and sequence id of a callback. For cbReplay it
// returns the cached reply.
func (t *cbSlotTable) begin(slot, seq uint32) (cbVerdict, []byte) {
	if uint64(slot) >= uint64(len(t.slots)) {
		return cbBadSlot, nil
	}
	s := &t.slots[slot]
	switch {
	case s.executing && seq == s.seq:
		return cbInProgress, nil
	case s.executing:
		return cbMisordered, nil
	case seq == s.seq+1:
		s.seq = seq
		s.executing = true
		return cbExecute, nil
	case seq == s.seq && s.reply != nil:
		return cbReplay, s.reply
	}
	return cbMisordered, nil
}

// finish keeps the reply to the callback that begin has let execute. The
// table keeps a copy in memory of its own.
func (t *cbSlotTable) finish(slot uint32, reply []byte) {
	s := &t.slots[slot]
	s.executing = false
	s.reply = append(s.reply[:0], reply...)
	if s.reply == nil {
		s.reply = []byte{}
	}
}

// highest returns the highest slot the table has.
func (t *cbSlotTable) highest() uint32 { return uint32(len(t.slots) - 1) }
