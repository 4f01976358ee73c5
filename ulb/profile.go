package ulb

// The profile of chunk lists that a requester keeps to and that every NFS
// version 4 server must accept (RFC 8267 section 6.4.2): a Position-Zero Read
// chunk or one other Read chunk or both, at most one Write chunk, at most
// MaxSegments segments in a chunk.
//
// The planner is narrower still, because servers in use mishandle what the
// profile allows: a Write chunk and a Reply chunk never accompany the same call,
// and no chunk is empty.
const MaxSegments = 16

// Thresholds are what a connection allows, as far as the form of messages
// depends on it. They are seen from the end that plans.
type Thresholds struct {
	// Send is the length in bytes of the longest message that this end can
	// send inline, transport header included; Receive that of the longest
	// message that the peer can (RFC 8166 section 3.3.2).
	Send, Receive int
	// MaxSegment is the largest piece of memory in bytes that one segment can
	// name. It matters to requesters only.
	MaxSegment int
	// NoChunks restricts the requester to messages without chunks, as in the
	// backward direction (RFC 8167 section 5.3).
	NoChunks bool
}

// segments returns the number of segments that a chunk of n bytes needs.
func (t *Thresholds) segments(n int) int {
	if n <= t.MaxSegment {
		return 1
	}
	return (n + t.MaxSegment - 1) / t.MaxSegment
}
