package ulb

import (
	"context"

	"nfsrdma-fuse/xdr"
)

// Call is one RPC call as a client and a transport agree on it: the encoded
// stream, the eligible arguments left out of it, where an eligible result shall
// land, and how large the reply can get. Any transport can carry it.
//
// The owner fills the exported fields and gives the call to a transport's Send.
// From then on until Done is called it belongs to the transport and must not be
// touched. A Call may be used again afterwards.
type Call struct {
	// Msg is the whole RPC message, its header included. Its bulk items are
	// arguments that RFC 8267 section 6.1 allows to be moved directly.
	Msg xdr.Message
	// ArgBuf is the payload buffer that Msg.Bulk[0].Data lies in, or nil if
	// it lies elsewhere (a transport that needs registered memory then copies).
	ArgBuf *Buffer

	// Sink is where an eligible result shall be placed, up to SinkLen bytes
	// at its start; nil if the call has no such result. The sink may turn out
	// unused: see Reply.Msg.
	Sink    *Buffer
	SinkLen int

	// ReplyMax is the largest length in bytes that the whole RPC reply can
	// have, with what can be placed into Sink not counted.
	ReplyMax int
	// ReplySoft says that ReplyMax is an estimate which the reply could
	// exceed (RFC 8267 section 3.1): on ErrReplyTooLarge the client may send
	// the call again, with a new XID and a larger estimate.
	ReplySoft bool

	// Probe marks a health check, which may take the credit that is kept
	// back from all other calls (RFC 8267 section 6.7.2).
	Probe bool

	// Done is called exactly once after a Send that returned nil: with the
	// reply, or with an error when the connection was lost or the peer refused
	// the message. It runs on the transport's receiving goroutine and must not
	// block. No peer has access to ArgBuf or Sink any more when it is called.
	Done func(c *Call, r Reply, err error)

	// Transport is for the transport that carries the call; it keeps its
	// state here so that a reused Call needs no allocation.
	Transport any
}

// Reply is the answer to a Call.
type Reply struct {
	// Msg is the whole RPC message, its header included. If the eligible
	// result was placed into the sink, Msg.Bulk holds it with position
	// xdr.AnyPos; otherwise it stands in the stream.
	Msg xdr.Message
	// SinkOffered says that the peer was to place the eligible result into the
	// sink. One that stands in the stream nevertheless is a fault of the peer,
	// and the call has failed (RFC 8166 section 6.1).
	SinkOffered bool

	release func()
}

// NewReply returns a reply whose stream is given back by calling release,
// which may be nil.
func NewReply(msg xdr.Message, release func()) Reply { return Reply{Msg: msg, release: release} }

// Release gives the memory of Msg.Stream back to the transport. It must be
// called once, after the reply was decoded.
func (r *Reply) Release() {
	if r.release != nil {
		r.release()
		r.release = nil
	}
	r.Msg = xdr.Message{}
}

// Request is an RPC call received from a peer: on the server's end of a
// connection, or a callback on the client's.
type Request struct {
	// Msg is the whole RPC message. Arguments that the peer offered in a Read
	// chunk have been pulled and stand in Msg.Bulk at their position. It is
	// valid until the handler returns.
	Msg xdr.Message
	// ReplyMax is the largest reply stream in bytes, bulk results not
	// counted, that the transport can return to this call.
	ReplyMax int
	// BulkMax is the number of bytes of a bulk result that the peer has
	// offered to take directly. A longer bulk result, or any if it is zero,
	// counts against ReplyMax.
	BulkMax int
}

// Handler answers calls that a peer sends on a connection. It is called on a
// goroutine of its own for every call; their number is bounded by the credits
// granted. The reply is sent when respond is called, exactly once; its memory
// may be used again when respond has returned. A handler that returns without
// having called respond leaves the call unanswered. Neither req nor respond may
// be used after the handler has returned. ctx ends with the connection.
type Handler func(ctx context.Context, req *Request, respond func(reply xdr.Message) error)

// Limits are what a connection allows, as far as a client's choice of
// transfer sizes depends on it.
type Limits struct {
	// MaxPayload is the largest bulk argument or result in bytes that one
	// call can carry.
	MaxPayload int
	// MaxCalls is the number of calls that can be outstanding at once.
	MaxCalls int
}
