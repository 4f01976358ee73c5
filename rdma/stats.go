package rdma

import "sync/atomic"

// Stats are counters of a connection since it was made, and what it holds at
// the moment. On an idle connection Outstanding, CreditsInUse, Exposed and
// Serving are zero.
type Stats struct {
	Calls        uint64 // calls sent
	Replies      uint64 // replies received to them
	Inline       uint64 // calls that needed no chunk
	ReadChunks   uint64 // calls with a Read chunk for an argument
	LongCalls    uint64 // calls with a Position-Zero Read chunk
	WriteChunks  uint64 // calls with a Write chunk
	ReplyChunks  uint64 // calls with a Reply chunk
	LongReplies  uint64 // replies that came in a Reply chunk
	BytesPulled  uint64 // bytes offered in Read chunks
	BytesPlaced  uint64 // bytes that the peer placed into Write and Reply chunks
	BytesCopied  uint64 // bulk data of calls copied: inline, or because it lay in other memory than a buffer
	RemoteInvals uint64 // handles invalidated by the peer
	LocalInvals  uint64 // handles invalidated by this end

	Served       uint64 // calls of the peer to which a reply was made
	BytesRead    uint64 // bytes pulled from the peer's Read chunks
	BytesWritten uint64 // bytes written into the peer's Write and Reply chunks

	Refused    uint64 // calls that the peer answered with RDMA_ERROR
	Refusals   uint64 // calls of the peer that were answered with RDMA_ERROR
	Unknown    uint64 // replies to no outstanding call, dropped
	Malformed  uint64 // messages dropped because their header made no sense
	Unanswered uint64 // calls of the peer for which there was no answer

	CreditsAsked   int // calls at once that this end wants
	CreditsGranted int // calls at once that the peer allows
	CreditsInUse   int // calls without a reply
	Outstanding    int // calls for which Done was not called yet
	Exposed        int // handles that give the peer access
	Serving        int // calls of the peer being answered
}

// counters are the counting part of Stats.
type counters struct {
	calls, replies, inline, readChunks, longCalls, writeChunks, replyChunks, longReplies,
	bytesPulled, bytesPlaced, bytesCopied, remoteInvals, localInvals,
	served, bytesRead, bytesWritten,
	refused, refusals, unknown, malformed, unanswered atomic.Uint64
	exposed atomic.Int64
}

// Stats returns the counters of the connection.
func (c *Conn) Stats() Stats {
	n := &c.count
	s := Stats{
		Calls:        n.calls.Load(),
		Replies:      n.replies.Load(),
		Inline:       n.inline.Load(),
		ReadChunks:   n.readChunks.Load(),
		LongCalls:    n.longCalls.Load(),
		WriteChunks:  n.writeChunks.Load(),
		ReplyChunks:  n.replyChunks.Load(),
		LongReplies:  n.longReplies.Load(),
		BytesPulled:  n.bytesPulled.Load(),
		BytesPlaced:  n.bytesPlaced.Load(),
		BytesCopied:  n.bytesCopied.Load(),
		RemoteInvals: n.remoteInvals.Load(),
		LocalInvals:  n.localInvals.Load(),
		Served:       n.served.Load(),
		BytesRead:    n.bytesRead.Load(),
		BytesWritten: n.bytesWritten.Load(),
		Refused:      n.refused.Load(),
		Refusals:     n.refusals.Load(),
		Unknown:      n.unknown.Load(),
		Malformed:    n.malformed.Load(),
		Unanswered:   n.unanswered.Load(),
		Exposed:      int(n.exposed.Load()),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.CreditsAsked = c.credits.asked
	s.CreditsGranted = c.credits.granted
	s.CreditsInUse = c.credits.inUse
	s.Outstanding = len(c.calls)
	s.Serving = c.serving
	return s
}
