package rpcrdma

import "fmt"

// Proc is the kind of a message (RFC 8166 section 4.2.4).
type Proc uint32

// Kinds of messages. MSGP and DONE are remnants: they are never sent; a
// responder answers MSGP with ErrChunk and discards DONE (RFC 8166 section 4.6).
const (
	Msg   Proc = 0 // chunk lists, then the payload stream
	NoMsg Proc = 1 // chunk lists only; a chunk holds the payload stream
	MsgP  Proc = 2 // as Msg, with two words about alignment
	Done  Proc = 3 // nothing
	Error Proc = 4 // the transport header of a call could not be processed
)

func (p Proc) String() string {
	switch p {
	case Msg:
		return "RDMA_MSG"
	case NoMsg:
		return "RDMA_NOMSG"
	case MsgP:
		return "RDMA_MSGP"
	case Done:
		return "RDMA_DONE"
	case Error:
		return "RDMA_ERROR"
	}
	return fmt.Sprintf("RDMA procedure %d", uint32(p))
}

// ErrCode says in an Error message what was wrong with a call.
type ErrCode uint32

// Error codes of version 1 (RFC 8166 section 4.5).
const (
	ErrVers  ErrCode = 1 // version not supported; VersLow and VersHigh say which are
	ErrChunk ErrCode = 2 // malformed header, unusable chunks, or a reply that fits nowhere
)

func (c ErrCode) String() string {
	switch c {
	case ErrVers:
		return "ERR_VERS"
	case ErrChunk:
		return "ERR_CHUNK"
	}
	return fmt.Sprintf("RDMA error %d", uint32(c))
}

// Limits of what a decoder takes. They are wider than the profile that NFS
// version 4 is held to (RFC 8267 section 6.4.2), so that a header outside the
// profile can be told from a malformed one, and they bound the memory that a
// peer can make a Header occupy.
const (
	MaxReadSegments  = 64 // segments in the Read list, all positions together
	MaxWriteChunks   = 16 // chunks in the Write list
	MaxChunkSegments = 64 // segments in one Write chunk or in the Reply chunk
)

// Lengths in bytes of the parts of a version 1 header, as they count against
// an inline threshold.
const (
	FixedLen       = 16 // the four words that all versions share
	MinHeaderLen   = 28 // Msg or NoMsg with three empty lists; also ErrVers
	ErrChunkLen    = 20 // Error with ErrChunk
	SegmentLen     = 16 // a segment in a Write chunk or Reply chunk
	ReadSegmentLen = 24 // a segment in the Read list, with the word that announces it
	ChunkLen       = 8  // a Write chunk without its segments: announcing word and count
	ReplyChunkLen  = 4  // what a Reply chunk without its segments adds to MinHeaderLen
)

// Segment names a piece of the requester's memory (RFC 8166 section 3.4.3).
//
//	+--------+--------+--------+--------+
//	| handle | length |     offset      |
//	+--------+--------+--------+--------+
type Segment struct {
	Handle uint32
	Length uint32 // bytes
	Offset uint64
}

// ReadSegment is a segment of the Read list. Segments with equal positions
// form one Read chunk (RFC 8166 section 3.4.5).
//
//	+----------+--------+--------+--------+--------+
//	| position | handle | length |     offset      |
//	+----------+--------+--------+--------+--------+
type ReadSegment struct {
	// Position is the offset in the XDR stream of the data item that was left
	// out, or 0 for a chunk that holds the payload stream itself.
	Position uint32
	Segment
}

// Chunk is a Write chunk or a Reply chunk: a counted array of segments.
//
//	+-------+-----------+-----------+--
//	| count | segment 1 | segment 2 | ...
//	+-------+-----------+-----------+--
type Chunk []Segment

// Len returns the sum of the segments' lengths in bytes.
func (c Chunk) Len() uint64 {
	var n uint64
	for _, s := range c {
		n += uint64(s.Length)
	}
	return n
}

// Header is a transport header. A Header that is decoded into again keeps its
// memory, so that no allocation happens once it has seen the largest message.
//
// Every message starts with the same four words:
//
//	+-----+---------+---------+-----------+
//	| XID | version | credits | procedure |
//	+-----+---------+---------+-----------+
//
// Msg and NoMsg go on with three lists, each closed or made empty by a zero
// word; the payload stream of a Msg follows behind them. MsgP has two words
// more in front of the lists.
//
//	      Read list               Write list          Reply chunk
//	+---+------------+---+   +---+-------+---+   +-----------------+
//	| 1 | ReadSegment|...| 0 | 1 | Chunk |...| 0 | 0, or 1 | Chunk | payload ...
//	+---+------------+---+   +---+-------+---+   +-----------------+
//
// Error goes on with a code, and two words more if that is ErrVers:
//
//	+---+-----+------+        +---+
//	| 1 | low | high |   or   | 2 |
//	+---+-----+------+        +---+
type Header struct {
	XID     uint32
	Vers    uint32
	Credits uint32 // requested in a call, granted in a reply
	Proc    Proc

	Read  []ReadSegment
	Write []Chunk
	// Reply is the Reply chunk; nil means that there is none, which differs
	// from one without segments.
	Reply Chunk

	Align, Threshold uint32 // MsgP only; without meaning

	Err               ErrCode // Error only
	VersLow, VersHigh uint32  // Error with ErrVers only

	segs []Segment // what decoded Write and Reply chunks lie in
}

// Reset makes h a header without chunks and keeps its memory.
func (h *Header) Reset() {
	*h = Header{Read: h.Read[:0], Write: h.Write[:0], segs: h.segs[:0]}
}

// HasChunks tells whether any of the three lists is present.
func (h *Header) HasChunks() bool {
	return len(h.Read) > 0 || len(h.Write) > 0 || h.Reply != nil
}

// Fixed are the words that all versions have in the same place.
type Fixed struct {
	XID     uint32
	Vers    uint32
	Credits uint32
	Proc    Proc
}
