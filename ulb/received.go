package ulb

import (
	"errors"
	"fmt"

	"nfsrdma-fuse/xdr/rpcrdma"
)

// ErrChunkList means that the chunk lists of a received call or reply are not
// ones that its receiver can accept. A responder answers ERR_CHUNK (RFC 8166
// section 4.5.2).
var ErrChunkList = errors.New("unacceptable chunk list")

// MaxCall is the largest number of bytes that a responder pulls for one call,
// all Read chunks together.
const MaxCall = MaxBuffer

// Pull is one Read chunk of a received call: Segments are a part of the call's
// Read list, one chunk behind the other.
type Pull struct {
	Position int
	Len      int // bytes, of all segments
	From, To int // segments in the Read list
}

// CheckCall checks the chunk lists of a received call and appends its Read
// chunks to dst, the Position-Zero chunk first and the others in ascending
// order of position. It takes all of the profile of RFC 8267 section 6.4.2, and
// more Write chunks, which the pairing rules of section 6.4.1 allow for.
//
// It brings segments of equal position together, so that the Read list of h
// may change its order.
func CheckCall(h *rpcrdma.Header, dst []Pull) ([]Pull, error) {
	sortByPosition(h.Read)
	total := 0
	for i, s := range h.Read {
		last := len(dst) - 1
		if i == 0 || s.Position != h.Read[i-1].Position {
			if s.Position%4 != 0 { // RFC 8166 section 3.4.5
				return nil, fmt.Errorf("%w: Read chunk at position %d", ErrChunkList, s.Position)
			}
			dst = append(dst, Pull{Position: int(s.Position), From: i})
			last++
		}
		if total += int(s.Length); total > MaxCall || s.Length > MaxCall {
			return nil, fmt.Errorf("%w: Read chunks of more than %d bytes", ErrChunkList, MaxCall)
		}
		dst[last].Len += int(s.Length)
		dst[last].To = i + 1
	}
	others := 0
	for _, p := range dst {
		if p.To-p.From > MaxSegments {
			return nil, fmt.Errorf("%w: Read chunk with %d segments", ErrChunkList, p.To-p.From)
		}
		if p.Position != 0 {
			others++
		}
	}
	long := len(dst) > others
	switch {
	case others > 1:
		return nil, fmt.Errorf("%w: %d Read chunks", ErrChunkList, others)
	case long && h.Proc != rpcrdma.NoMsg:
		return nil, fmt.Errorf("%w: Position-Zero Read chunk besides an inline message", ErrChunkList)
	case !long && h.Proc == rpcrdma.NoMsg:
		return nil, fmt.Errorf("%w: no Read chunk holds the message", ErrChunkList)
	case long && dst[0].Len == 0:
		return nil, fmt.Errorf("%w: empty Position-Zero Read chunk", ErrChunkList)
	}
	for _, c := range h.Write {
		if len(c) > MaxSegments {
			return nil, fmt.Errorf("%w: Write chunk with %d segments", ErrChunkList, len(c))
		}
	}
	if len(h.Reply) > MaxSegments {
		return nil, fmt.Errorf("%w: Reply chunk with %d segments", ErrChunkList, len(h.Reply))
	}
	return dst, nil
}

// sortByPosition sorts a Read list by position and keeps the order of segments
// within a chunk. Lists are short, and sorted as a rule.
func sortByPosition(list []rpcrdma.ReadSegment) {
	for i := 1; i < len(list); i++ {
		for j := i; j > 0 && list[j-1].Position > list[j].Position; j-- {
			list[j-1], list[j] = list[j], list[j-1]
		}
	}
}

// Offered are the chunks that a call offers for its reply.
type Offered struct {
	Write []rpcrdma.Chunk
	Reply rpcrdma.Chunk // nil: none
}

// Received tells what a reply has brought.
type Received struct {
	// Inline: the message stands behind the header. Otherwise it lies in the
	// Reply chunk, Long bytes of it.
	Inline bool
	Long   int
	// Placed is the number of bytes in the first Write chunk. With zero the
	// chunk was not used: the call has failed, or the result is empty.
	Placed int
}

// CheckReply checks the chunk lists of a received reply against what the call
// had offered. They must come back as they were sent, their lengths lowered to
// what was written (RFC 8166 section 3.4.6). Lengths beyond the offer, gaps, or
// results in chunks that were not offered are errors: the peer believes to have
// written where it cannot.
//
// Some liberties that responders in use take do no harm and are accepted: lists
// not repeated, or repeated without segments, where nothing was written.
func CheckReply(h *rpcrdma.Header, offered Offered) (Received, error) {
	var r Received
	if len(h.Read) > 0 {
		return r, fmt.Errorf("%w: a reply with a Read list", ErrChunkList) // section 4.3.1
	}
	if len(h.Write) > len(offered.Write) {
		return r, fmt.Errorf("%w: %d Write chunks returned, %d offered", ErrChunkList, len(h.Write), len(offered.Write))
	}
	for i, c := range h.Write {
		n, err := written(c, offered.Write[i])
		if err != nil {
			return r, fmt.Errorf("%w: Write chunk: %w", ErrChunkList, err)
		}
		if i == 0 {
			r.Placed = n
		}
	}
	if h.Reply != nil {
		n, err := written(h.Reply, offered.Reply)
		if err != nil {
			return r, fmt.Errorf("%w: Reply chunk: %w", ErrChunkList, err)
		}
		r.Long = n
	}
	r.Inline = h.Proc == rpcrdma.Msg
	switch {
	case r.Inline && r.Long > 0:
		return r, fmt.Errorf("%w: both an inline message and one in the Reply chunk", ErrChunkList)
	case !r.Inline && r.Long == 0:
		return r, fmt.Errorf("%w: the Reply chunk that should hold the message is empty", ErrChunkList)
	}
	return r, nil
}

var (
	errCount  = errors.New("other number of segments than offered")
	errLength = errors.New("more bytes written than offered")
	errGap    = errors.New("segments not filled one after the other")
)

// written returns the number of bytes that the peer says it has written.
func written(got, offered rpcrdma.Chunk) (int, error) {
	if len(got) == 0 {
		return 0, nil
	}
	if len(got) != len(offered) {
		return 0, errCount
	}
	total, full := 0, true
	for i, s := range got {
		switch {
		case s.Length > offered[i].Length:
			return 0, errLength
		case s.Length > 0 && !full:
			return 0, errGap
		}
		full = full && s.Length == offered[i].Length
		total += int(s.Length)
	}
	return total, nil
}
