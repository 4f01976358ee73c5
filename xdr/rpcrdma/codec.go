package rpcrdma

import (
	"encoding/binary"
	"errors"
)

// Version numbers of the transport header.
const (
	Version1 = 1

	// MinVersion and MaxVersion are the range that a responder names when it
	// refuses another version.
	MinVersion = Version1
	MaxVersion = Version1
)

// Errors of decoding. ErrorReply tells how a responder answers them; a
// requester discards the message (RFC 8166 section 4.5).
var (
	// ErrShort means that the message is too short for a header, so that not
	// even its XID can be trusted.
	ErrShort = errors.New("rpcrdma: message shorter than a transport header")
	// ErrUnsupported means that the header is of another version.
	ErrUnsupported = errors.New("rpcrdma: transport header version not supported")
	// ErrHeader means that the header does not parse or exceeds a limit.
	ErrHeader = errors.New("rpcrdma: malformed transport header")
)

// Codec is the set of functions that read and write one version of the
// transport header.
type Codec struct {
	Version uint32
	// Append appends h to dst. It writes what h says, sensible or not.
	Append func(dst []byte, h *Header) []byte
	// Len returns the number of bytes that Append would append.
	Len func(h *Header) int
	// Decode reads the header at the start of msg into h and returns the
	// payload stream behind it, which aliases msg; it is nil for messages that
	// have none. If the error is not ErrShort the four fixed words of h are
	// valid, whatever came behind them.
	Decode func(h *Header, msg []byte) (payload []byte, err error)
}

var codecs = map[uint32]*Codec{Version1: &version1}

// ForVersion returns the codec of the version, or nil if there is none.
func ForVersion(version uint32) *Codec { return codecs[version] }

// Peek reads the words that all versions share. It returns ErrShort for a
// message that is too short for any header (RFC 8166 section 4.5 wants it
// discarded unseen). Messages with a lone error code are the shortest.
func Peek(msg []byte) (Fixed, error) {
	if len(msg) < ErrChunkLen {
		return Fixed{}, ErrShort
	}
	f := Fixed{
		XID:     binary.BigEndian.Uint32(msg),
		Vers:    binary.BigEndian.Uint32(msg[4:]),
		Credits: binary.BigEndian.Uint32(msg[8:]),
		Proc:    Proc(binary.BigEndian.Uint32(msg[12:])),
	}
	if len(msg) < MinHeaderLen && f.Proc != Error {
		return Fixed{}, ErrShort
	}
	return f, nil
}

// ErrorReply turns the error of decoding a call into the header of the answer
// that a responder owes. It reports false if the message is to be discarded
// without an answer. The fields of h that Decode has set are kept where the
// answer repeats them: the XID and the version of the call, even one that is
// not supported (RFC 8166 section 4.5).
func (h *Header) ErrorReply(err error, credits uint32) bool {
	xid, vers, proc := h.XID, h.Vers, h.Proc
	if errors.Is(err, ErrShort) || proc == Error || proc == Done {
		return false
	}
	h.Reset()
	h.XID, h.Vers, h.Credits, h.Proc = xid, vers, credits, Error
	if errors.Is(err, ErrUnsupported) {
		h.Err, h.VersLow, h.VersHigh = ErrVers, MinVersion, MaxVersion
	} else {
		h.Err = ErrChunk
	}
	return true
}
