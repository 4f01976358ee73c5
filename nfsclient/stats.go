package nfsclient

import (
	"sync/atomic"

	"nfsrdma-fuse/xdr/nfs4"
)

// counters count what the client does.
type counters struct {
	calls, failures [maxOpNum]atomic.Uint64 // by main operation

	delays       atomic.Uint64
	abandoned    atomic.Uint64
	resends      atomic.Uint64
	reconnects   atomic.Uint64
	sessionsLost atomic.Uint64
	callbacks    atomic.Uint64
	recalls      atomic.Uint64
	rewritten    atomic.Uint64
	copied       atomic.Uint64
}

// maxOpNum bounds operation numbers, those of extended attributes included.
const maxOpNum = 80

// count counts a request whose results have come.
func (s *counters) count(r *request, done int, status nfs4.Status) {
	op := r.mainOp()
	if op >= maxOpNum {
		return
	}
	s.calls[op].Add(1)
	if status != nfs4.OK && (r.modify < 0 || done <= r.modify) {
		s.failures[op].Add(1)
	}
}

// OpStats counts the requests whose main operation is Op.
type OpStats struct {
	Op       nfs4.OpNum
	Calls    uint64 // requests answered
	Failures uint64 // of those, requests that failed
}

// Stats is what the client has done and holds.
type Stats struct {
	Ops          []OpStats // operations used at least once
	Delays       uint64    // pauses because the server could not do it at the time
	Abandoned    uint64    // requests whose caller did not wait for the answer
	Resends      uint64    // requests sent again in their slot
	Reconnects   uint64    // connections made after the first
	SessionsLost uint64
	Callbacks    uint64 // callbacks served
	Recalls      uint64 // delegations recalled by the server
	Rewritten    uint64 // bytes written again because the server had lost them
	BytesCopied  uint64 // file data copied from one piece of memory to another

	OpenFiles   int // files open
	Delegations int // delegations held
	Locks       int // ranges of bytes locked
	LockWaiters int // operations that wait for a lock
	Uncommitted int // bytes of memory held for data not yet on stable storage
	Outstanding int // requests not finished, abandoned ones included
}

// Stats returns a snapshot.
func (c *Client) Stats() Stats {
	s := &c.stats
	out := Stats{
		Delays: s.delays.Load(), Abandoned: s.abandoned.Load(), Resends: s.resends.Load(),
		Reconnects: s.reconnects.Load(), SessionsLost: s.sessionsLost.Load(),
		Callbacks: s.callbacks.Load(), Recalls: s.recalls.Load(), Rewritten: s.rewritten.Load(),
		BytesCopied: s.copied.Load(),
		Outstanding: int(c.live.Load()),
	}
	for op := range s.calls {
		if n := s.calls[op].Load(); n > 0 {
			out.Ops = append(out.Ops, OpStats{nfs4.OpNum(op), n, s.failures[op].Load()})
		}
	}
	c.state.stats(&out)
	return out
}
