package tcp

import "sync/atomic"

// Stats are counters of a connection since it was made, and what it holds at
// the moment. On an idle connection Outstanding and Serving are zero.
type Stats struct {
	Calls       uint64 // calls sent
	Replies     uint64 // replies received to them
	BytesPlaced uint64 // bytes of results read into sinks
	Unknown     uint64 // replies to no outstanding call, skipped
	Served      uint64 // calls of the peer that were answered
	Unanswered  uint64 // calls of the peer for which there was no answer

	Outstanding int // calls for which Done was not called yet
	Serving     int // calls of the peer being answered
}

type counters struct {
	calls, replies, placed, unknown, served, unanswered atomic.Uint64
}

// Stats returns the counters of the connection.
func (c *Conn) Stats() Stats {
	s := Stats{
		Calls:       c.count.calls.Load(),
		Replies:     c.count.replies.Load(),
		BytesPlaced: c.count.placed.Load(),
		Unknown:     c.count.unknown.Load(),
		Served:      c.count.served.Load(),
		Unanswered:  c.count.unanswered.Load(),
		Serving:     len(c.serve),
	}
	c.mu.Lock()
	s.Outstanding = len(c.calls)
	c.mu.Unlock()
	return s
}
