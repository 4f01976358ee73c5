package rdma

import (
	"context"
	"errors"
	"fmt"
	"net"

	"nfsrdma-fuse/ulb"
)

// QueuePair is one connected queue pair of an RDMA provider: a verbs device or
// software iWARP. Work requests are posted in batches and complete through
// Poll; a provider never calls back.
//
// Post, Receive, Expose and Disconnect may be called concurrently. Poll is
// called by one goroutine only. None of them but Poll and Close waits.
//
// When the connection has ended, for whatever reason, Post, Receive and Expose
// return an error and take nothing, and no handle gives access any more.
type QueuePair interface {
	// Info returns what was agreed on while connecting.
	Info() Info

	// Memory provides payload memory that this queue pair can use as the
	// local side of Send, Write and Read. It outlives the queue pair.
	Memory() ulb.Memory

	// Receive posts receive buffers; each takes one Send of the peer, of up
	// to its whole length. They complete in the order in which they were
	// posted.
	Receive(bufs ...*ulb.Buffer) error

	// Post posts work requests, to be carried out in order. It does not wait
	// for them. A batch is taken whole or not at all; the slice and what its
	// Local fields point to are not kept. Sends and Writes complete when their
	// local memory may be used again, Reads when the data is in place; work
	// requests of different kinds may complete in another order than they were
	// posted in. The caller keeps within Info.MaxSends and Info.ReadDepth; a
	// batch that does not is refused.
	Post(batch []WorkRequest) error

	// Expose gives the peer access to n bytes of buf, from offset off on, at
	// most Info.MaxSegment of them, and returns where the peer finds them. The
	// access is in force for every Send posted after Expose has returned, and
	// lasts until an OpInvalidate for its handle completes, or a Send with
	// Invalidate of the peer names it; a Write or Read of the peer that comes
	// later, or is outside the n bytes or of the other kind, ends the
	// connection and touches nothing. Handles are unpredictable and not reused
	// soon.
	Expose(buf *ulb.Buffer, off, n int, access Access) (Remote, error)

	// Poll waits for completions and stores at most len(dst) of them. After
	// the connection has ended, every outstanding work request and receive
	// buffer completes with an error; when all have, Poll returns the error
	// that ended the connection, with n zero, and does so again each time it is
	// called: io.EOF if the peer closed in the ordinary way, ErrClosed if this
	// end did, the cause given to Disconnect, or what went wrong.
	Poll(dst []Completion) (n int, err error)

	// Disconnect ends the connection: with a Terminate telling the peer why
	// if cause is a *ProtocolError, in the ordinary way otherwise. It does not
	// wait; Poll delivers what was outstanding. All handles are withdrawn.
	Disconnect(cause error)

	// Close disconnects and frees the queue pair. It waits until nothing
	// refers to a buffer any more.
	Close() error
}

// Info describes a connected queue pair.
type Info struct {
	Provider   string // "iwarp" or "verbs"
	Device     string // device name; for software iWARP the local address
	LocalAddr  string // address:port
	RemoteAddr string // address:port
	// PrivateData is what the peer sent while connecting, without what the
	// lower layers put before it.
	PrivateData []byte
	// MaxSegment is the largest length in bytes of memory one handle covers.
	MaxSegment int
	// MaxGather is the largest number of Gather elements of one work request.
	MaxGather int
	// ReadDepth is the number of RDMA Reads that may be outstanding from this
	// end (ORD); MaxSends bounds the work requests posted and not completed.
	ReadDepth int
	MaxSends  int
	// AnyMemory says that the local side of a work request and what is exposed
	// may be any memory, so that a Buffer made around bytes from elsewhere will
	// do; otherwise it has to come from Memory.
	AnyMemory bool
	// NoInvalidate says that the device does not report which handle a Send with
	// Invalidate of the peer has withdrawn: the peer must not use it.
	NoInvalidate bool
}

// Handle names memory exposed to the peer (an STag, an rkey).
type Handle uint32

// Remote is a piece of the peer's memory.
type Remote struct {
	Handle Handle
	Offset uint64
}

// Access says what the peer may do with exposed memory.
type Access uint8

// Kinds of access. Memory is exposed for one of them at a time.
const (
	RemoteRead  Access = 1 + iota // the peer may read it: arguments
	RemoteWrite                   // the peer may write it: results
)

// Op is the kind of a work request.
type Op uint8

// Kinds of work requests.
const (
	OpSend           Op = 1 + iota // Send
	OpSendInvalidate               // Send with Invalidate of the peer's handle Remote.Handle
	OpWrite                        // RDMA Write to Remote
	OpRead                         // RDMA Read from Remote
	OpInvalidate                   // local invalidate of the own handle Remote.Handle
	OpReceive                      // only in completions: a message was received
)

// Gather is a piece of local memory.
type Gather struct {
	Buf *ulb.Buffer
	Off int // bytes from the start of Buf.Data
	Len int // bytes
}

// WorkRequest is one element of a batch given to Post.
type WorkRequest struct {
	Op Op
	// Cookie is returned in the completion.
	Cookie any
	// Local is the memory sent or written, or read into: at most
	// Info.MaxGather elements, exactly one for OpRead.
	Local []Gather
	// Remote is the peer's memory (OpWrite, OpRead), or the handle to
	// invalidate.
	Remote Remote
}

// Completion reports the end of a work request or of a receive buffer.
type Completion struct {
	Op     Op
	Cookie any         // of the work request
	Buf    *ulb.Buffer // the receive buffer (OpReceive)
	Len    int         // bytes received (OpReceive)
	// Invalidated is the own handle that the peer's Send has withdrawn, valid
	// if HasInvalidated.
	Invalidated    Handle
	HasInvalidated bool
	// Err is nil, or why the work request failed; ErrFlushed if it was not
	// carried out because the connection had ended.
	Err error
}

// ProtocolError is a fault of the peer that costs the connection.
type ProtocolError struct {
	Layer  string // "MPA", "DDP", "RDMAP", "RPC-over-RDMA"
	Reason string
	// Terminate is the provider's code for the Terminate message, if it has
	// one for this fault.
	Terminate uint32
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("%s protocol error: %s", e.Layer, e.Reason)
}

// Options are what a queue pair needs to know before it is connected. Zero
// values are not defaults: the connection code in this package fills them in.
type Options struct {
	// PrivateData is sent to the peer while connecting (RFC 8797).
	PrivateData []byte
	// PlainPrivateData is sent instead where Info.NoInvalidate is set, unless
	// it is nil.
	PlainPrivateData []byte
	// IRD is the number of RDMA Reads that the peer may have outstanding; ORD
	// is the number that this end wants to.
	IRD, ORD int
	// MaxReceives and MaxSends are the depths of the two queues.
	MaxReceives, MaxSends int
	// Prepare is called when the queue pair can take receive buffers and
	// before the peer can send anything.
	Prepare func(qp QueuePair) error
}

// Connector connects queue pairs: one for each provider.
type Connector interface {
	// Connect resolves addr ("host:port") and connects to it.
	Connect(ctx context.Context, addr string, o Options) (QueuePair, error)
}

// Listener accepts queue pairs.
type Listener interface {
	// Accept waits for a peer and completes the connection with it. An error
	// that concerns this one peer only is a *PeerError; the listener goes on.
	Accept(ctx context.Context, o Options) (QueuePair, error)
	Addr() net.Addr
	Close() error
}

// PeerError is an attempt to connect that failed on the listening end.
type PeerError struct {
	Addr string
	Err  error
}

func (e *PeerError) Error() string { return fmt.Sprintf("connection from %s: %v", e.Addr, e.Err) }

// Unwrap returns the cause.
func (e *PeerError) Unwrap() error { return e.Err }

// ErrClosed is what Poll returns after Disconnect(nil) or Close of this end.
var ErrClosed = errors.New("rdma: connection closed")

// ErrFlushed is the error of work requests and receive buffers that were
// outstanding when the connection ended.
var ErrFlushed = errors.New("rdma: connection ended before the work request was carried out")
