package ulb

import (
	"errors"
	"fmt"

	"nfsrdma-fuse/xdr/rpcrdma"
)

// ErrTooLarge means that a message, or the reply to it, cannot be carried on
// the connection in any form.
var ErrTooLarge = errors.New("message too large for the connection")

// Plan says in which form a call travels.
//
//	              inline          Long == 0, Arg < 0
//	argument by   Read chunk      Arg >= 0: Msg.Bulk[Arg], at its position
//	whole call by Read chunk      Long > 0: a Position-Zero Read chunk; the
//	                              argument may have one of its own besides
//	result into   Write chunk     Sink > 0
//	reply into    Reply chunk     Reply > 0
//
// The peer uses a Reply chunk only if it has to, or always: both are right
// (RFC 8166 section 4.3.3).
type Plan struct {
	// Arg is the index in Msg.Bulk of the argument that travels in a Read
	// chunk of its own, -1 if none does.
	Arg int
	// Position is the XDR position of that argument.
	Position int
	// Long is the length in bytes of the Position-Zero Read chunk: of the
	// message without the argument moved by the other chunk. Zero: no such
	// chunk, the message goes inline.
	Long int
	// Sink is the length in bytes of the Write chunk; zero: none.
	Sink int
	// Reply is the length in bytes of the Reply chunk; zero: none.
	Reply int
}

// Chunks tells whether the call has any chunk.
func (p *Plan) Chunks() bool { return p.Arg >= 0 || p.Long > 0 || p.Sink > 0 || p.Reply > 0 }

// longReduce is the size in bytes from which an argument keeps a Read chunk of
// its own although the rest of the call travels in a Position-Zero Read chunk.
// Smaller ones are spliced in, which saves the server an RDMA Read.
const longReduce = 4096

// PlanCall decides in which form a call travels on a connection. It does not
// change c. The error matches ErrTooLarge; nothing can be done about it but to
// send less or to ask for less.
func PlanCall(c *Call, t Thresholds) (Plan, error) {
	p := Plan{Arg: -1}
	head := rpcrdma.MinHeaderLen
	if err := planResult(c, &t, &p, &head); err != nil {
		return Plan{}, err
	}
	if err := planArgument(c, &t, &p, head); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// planResult provides for the largest reply that the call can have: it must
// fit whatever the peer does (RFC 8166 section 4.3.3). The length of what the
// header needs for it is added to head; replies repeat the same lists.
func planResult(c *Call, t *Thresholds, p *Plan, head *int) error {
	sink := 0
	if c.Sink != nil {
		sink = c.SinkLen
	}
	whole := c.ReplyMax + padLen(sink)
	// A reply that may exceed its estimate gets a Reply chunk in any case: one
	// too small costs an error, an inline message too long the connection.
	if *head+whole <= t.Receive && (!c.ReplySoft || t.NoChunks) {
		return nil
	}
	if t.NoChunks {
		return fmt.Errorf("%w: a reply of %d bytes without chunks", ErrTooLarge, whole)
	}
	if sink > 0 && !c.ReplySoft {
		n := t.segments(sink)
		list := rpcrdma.ChunkLen + n*rpcrdma.SegmentLen
		if n > MaxSegments {
			return fmt.Errorf("%w: a result of %d bytes needs %d segments", ErrTooLarge, sink, n)
		}
		if *head+list+c.ReplyMax <= t.Receive {
			p.Sink = sink
			*head += list
			return nil
		}
		// The rest alone exceeds the threshold. A Write chunk and a Reply
		// chunk together confuse servers, so all of it goes into the latter.
	}
	n := t.segments(padLen(whole))
	list := rpcrdma.ReplyChunkLen + n*rpcrdma.SegmentLen
	if n > MaxSegments || *head+list > t.Receive {
		return fmt.Errorf("%w: a reply of %d bytes needs %d segments", ErrTooLarge, whole, n)
	}
	p.Reply = padLen(whole)
	*head += list
	return nil
}

func planArgument(c *Call, t *Thresholds, p *Plan, head int) error {
	whole := c.Msg.Len()
	if head+whole <= t.Send {
		return nil
	}
	if t.NoChunks {
		return fmt.Errorf("%w: a call of %d bytes without chunks", ErrTooLarge, whole)
	}
	// At most one argument has a Read chunk of its own: the largest.
	for i, b := range c.Msg.Bulk {
		if len(b.Data) > 0 && (p.Arg < 0 || len(b.Data) > len(c.Msg.Bulk[p.Arg].Data)) {
			p.Arg = i
		}
	}
	if p.Arg >= 0 {
		arg := len(c.Msg.Bulk[p.Arg].Data)
		n := t.segments(arg)
		list := n * rpcrdma.ReadSegmentLen
		rest := whole - padLen(arg)
		switch {
		case n > MaxSegments:
			return fmt.Errorf("%w: an argument of %d bytes needs %d segments", ErrTooLarge, arg, n)
		case head+list+rest <= t.Send:
			p.Position = c.Msg.Position(p.Arg)
			return nil
		case arg >= longReduce:
			p.Position = c.Msg.Position(p.Arg)
			whole = rest
			head += list
		default:
			p.Arg = -1
		}
	}
	n := t.segments(whole)
	if n > MaxSegments || head+n*rpcrdma.ReadSegmentLen > t.Send {
		return fmt.Errorf("%w: a call of %d bytes needs %d segments", ErrTooLarge, whole, n)
	}
	p.Long = whole
	return nil
}

func padLen(n int) int { return (n + 3) &^ 3 }
