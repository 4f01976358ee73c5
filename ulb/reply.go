package ulb

import (
	"fmt"

	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// ReplyPlan says in which form a reply travels. It is used again from call to
// call so that planning needs no memory.
//
// First Bulk[i] of the message is written to the segments of Write[i], as far as
// Placed reaches and Write[i] is not empty; Rest is what remains. Rest is sent
// behind the header, or, if Long is set, written to the segments of Reply. The
// lengths of the segments are already those to be written and returned; unused
// ones are zero.
type ReplyPlan struct {
	Write []rpcrdma.Chunk
	Reply rpcrdma.Chunk // nil: the call offered none
	Long  bool
	Rest  xdr.Message
	// Placed is the number of bulk items that are paired with a Write chunk,
	// a chunk without segments counted: what is paired with that stays in Rest.
	Placed int

	bulk []xdr.Bulk
}

// Plan decides in which form reply travels, given what the call has offered.
// An error matches ErrChunk: the reply fits nowhere, and the peer is to be told
// so.
//
// Write chunks and eligible results are paired in their order (RFC 8267 section
// 6.4.1): the first result must use the first chunk and so on; a chunk without
// segments asks for its result inline; results without a chunk stay inline;
// chunks without a result, because the call failed before it, come back unused.
//
// It overwrites the lengths in offered.
func (p *ReplyPlan) Plan(reply xdr.Message, offered Offered, t Thresholds) error {
	p.Write, p.Reply, p.Long = offered.Write, offered.Reply, false
	p.Placed = min(len(reply.Bulk), len(offered.Write))
	p.bulk = p.bulk[:0]
	for i, b := range reply.Bulk {
		if i < p.Placed && len(p.Write[i]) > 0 {
			if !fill(p.Write[i], len(b.Data)) {
				return fmt.Errorf("%w: a result of %d bytes for a smaller Write chunk", ErrChunk, len(b.Data))
			}
			continue
		}
		p.bulk = append(p.bulk, b)
	}
	for _, c := range p.Write[p.Placed:] {
		fill(c, 0)
	}
	p.Rest = xdr.Message{Stream: reply.Stream, Bulk: p.bulk}

	head := rpcrdma.MinHeaderLen
	for _, c := range p.Write {
		head += rpcrdma.ChunkLen + len(c)*rpcrdma.SegmentLen
	}
	if p.Reply != nil {
		head += rpcrdma.ReplyChunkLen + len(p.Reply)*rpcrdma.SegmentLen
	}
	n := p.Rest.Len()
	if head+n <= t.Send {
		fill(p.Reply, 0)
		return nil
	}
	if len(p.Reply) == 0 || head > t.Send || !fill(p.Reply, n) {
		return fmt.Errorf("%w: a reply of %d bytes for which the call made no room", ErrChunk, n)
	}
	p.Long = true
	return nil
}

// fill sets the lengths of a chunk's segments to what n bytes take of them,
// and reports whether they suffice.
func fill(c rpcrdma.Chunk, n int) bool {
	for i := range c {
		k := min(int(c[i].Length), n)
		c[i].Length = uint32(k)
		n -= k
	}
	return n == 0
}

// RequestRoom returns Request.ReplyMax and Request.BulkMax for a call that
// offers these chunks.
func RequestRoom(offered Offered, t Thresholds) (reply, bulk int) {
	head := rpcrdma.MinHeaderLen
	for _, c := range offered.Write {
		head += rpcrdma.ChunkLen + len(c)*rpcrdma.SegmentLen
	}
	if offered.Reply != nil {
		head += rpcrdma.ReplyChunkLen + len(offered.Reply)*rpcrdma.SegmentLen
	}
	reply = max(0, t.Send-head)
	if n := offered.Reply.Len(); n > uint64(reply) {
		reply = int(min(n, MaxBuffer))
	}
	if len(offered.Write) > 0 {
		bulk = int(min(offered.Write[0].Len(), MaxBuffer))
	}
	return reply, bulk
}
