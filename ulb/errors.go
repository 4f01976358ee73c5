package ulb

import (
	"errors"
	"fmt"
)

// Errors that a transport gives to Call.Done besides *ConnError. The peer
// answered, and the connection goes on; but with none of them is it known
// whether the peer has carried out the call (RFC 8267 section 6.6).
var (
	// ErrReplyTooLarge means that the reply did not fit into what a call with
	// ReplySoft had provided for it. The client may send the call again with a
	// larger ReplyMax and a new XID (RFC 8267 section 3.1).
	ErrReplyTooLarge = errors.New("reply larger than the client's estimate")
	// ErrChunk means that the peer could not make use of the message or of
	// its chunks (RDMA_ERROR with ERR_CHUNK). Sending it again would have the
	// same outcome (RFC 8267 section 6.4.2).
	ErrChunk = errors.New("peer refused the message: ERR_CHUNK")
	// ErrVersion means that the peer does not speak this version of the
	// transport protocol. Done gets a *VersionError, which matches it.
	ErrVersion = errors.New("peer refused the transport version")
)

// VersionError is ErrVersion with the versions that the peer does support.
type VersionError struct {
	Low, High uint32
}

func (e *VersionError) Error() string {
	return fmt.Sprintf("%v, it supports %d to %d", ErrVersion, e.Low, e.High)
}

// Is makes errors.Is find ErrVersion.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }

// ConnError tells that a connection was lost, or could not be made. What it
// means for a call: it may or may not have been carried out, and can be sent
// again only on another connection.
type ConnError struct {
	Transport string // "rdma" or "tcp"
	Peer      string // address:port
	Err       error  // the cause
}

func (e *ConnError) Error() string {
	return fmt.Sprintf("%s connection with %s: %v", e.Transport, e.Peer, e.Err)
}

// Unwrap returns the cause.
func (e *ConnError) Unwrap() error { return e.Err }
