package rpc

import (
	"encoding/binary"
	"fmt"

	"nfsrdma-fuse/xdr"
)

// Version is the version of the RPC protocol itself.
const Version = 2

// Program numbers, versions and procedures of NFS (RFC 8881 section 16.1,
// RFC 5531 section 8.3). The number of the callback program is chosen by each
// client, from CallbackBase up to and including CallbackLast.
const (
	ProgramNFS   = 100003
	VersionNFS4  = 4
	ProcNull     = 0
	ProcCompound = 1 // CB_COMPOUND in the callback program

	CallbackBase    = 0x40000000
	CallbackLast    = 0x5fffffff
	VersionCallback = 1
)

// Type tells a call from a reply.
type Type uint32

// The two types of messages.
const (
	Call  Type = 0
	Reply Type = 1
)

func (t Type) String() string {
	switch t {
	case Call:
		return "CALL"
	case Reply:
		return "REPLY"
	}
	return fmt.Sprintf("message type %d", uint32(t))
}

// Peek returns the first two words of a message. The two ends of a connection
// choose their XIDs independently of each other, so the type has to be looked
// at before the XID means anything (RFC 8167 section 5.1). It reports false if
// the stream is too short or the type is neither of the two.
func Peek(stream []byte) (xid uint32, t Type, ok bool) {
	if len(stream) < 8 {
		return 0, 0, false
	}
	t = Type(binary.BigEndian.Uint32(stream[4:]))
	return binary.BigEndian.Uint32(stream), t, t <= Reply
}

// Lengths of headers in bytes. CallHeaderLen and ReplyHeaderLen are those with
// empty credential and verifiers; the bodies, padded, come on top.
const (
	CallHeaderLen     = 40
	ReplyHeaderLen    = 24 // of an accepted call, up to the results
	MaxCallHeaderLen  = CallHeaderLen + 2*MaxAuthBody
	MaxReplyHeaderLen = ReplyHeaderLen + MaxAuthBody
)

// CallHeader is all of a call that stands before its arguments (RFC 5531
// section 9).
//
//	+-----+------+---+---------+---------+-----------+------------+----------+
//	| XID | CALL | 2 | program | version | procedure | credential | verifier | arguments ...
//	+-----+------+---+---------+---------+-----------+------------+----------+
type CallHeader struct {
	XID  uint32
	Prog uint32
	Vers uint32
	Proc uint32
	Cred OpaqueAuth
	Verf OpaqueAuth
}

// Encode appends the header to e.
func (h *CallHeader) Encode(e *xdr.Encoder) {
	e.Uint32(h.XID)
	e.Uint32(uint32(Call))
	e.Uint32(Version)
	e.Uint32(h.Prog)
	e.Uint32(h.Vers)
	e.Uint32(h.Proc)
	h.Cred.Encode(e)
	h.Verf.Encode(e)
}

// Decode takes a header from d. A message that is not a call fails with
// ErrType; another version of the RPC protocol fails with an *Error that is to
// be sent back, and leaves XID valid.
func (h *CallHeader) Decode(d *xdr.Decoder) {
	*h = CallHeader{XID: d.Uint32()}
	if Type(d.Uint32()) != Call {
		d.Fail(ErrType)
		return
	}
	if v := d.Uint32(); d.Err() == nil && v != Version {
		d.Fail(&Error{Stat: RPCMismatch, Low: Version, High: Version})
		return
	}
	h.Prog = d.Uint32()
	h.Vers = d.Uint32()
	h.Proc = d.Uint32()
	h.Cred.Decode(d)
	h.Verf.Decode(d)
}

// ReplyHeader is all of a reply that stands before the results (RFC 5531
// section 9).
//
//	+-----+-------+----------+----------+------+-----------------------------+
//	| XID | REPLY | accepted | verifier | stat | results, low and high, or nothing
//	+-----+-------+----------+----------+------+-----------------------------+
//	+-----+-------+----------+--------------+------------+
//	| XID | REPLY | rejected | RPC_MISMATCH | low | high |
//	+-----+-------+----------+--------------+------------+
//	+-----+-------+----------+--------------+-----------+
//	| XID | REPLY | rejected |  AUTH_ERROR  | auth stat |
//	+-----+-------+----------+--------------+-----------+
type ReplyHeader struct {
	XID uint32
	// Verf is the responder's verifier; replies that reject a call have none.
	Verf OpaqueAuth
	// Status says what became of the call; its zero value is success, and
	// results follow the header.
	Status Error
}

// Err returns nil if the call was carried out and an *Error otherwise.
func (h *ReplyHeader) Err() error {
	if h.Status.Stat == Success {
		return nil
	}
	status := h.Status
	return &status
}

// Encode appends the header to e.
func (h *ReplyHeader) Encode(e *xdr.Encoder) {
	e.Uint32(h.XID)
	e.Uint32(uint32(Reply))
	if h.Status.Stat.rejects() {
		e.Uint32(replyDenied)
		e.Uint32(uint32(h.Status.Stat - RPCMismatch))
	} else {
		e.Uint32(replyAccepted)
		h.Verf.Encode(e)
		e.Uint32(uint32(h.Status.Stat))
	}
	switch h.Status.Stat {
	case ProgMismatch, RPCMismatch:
		e.Uint32(h.Status.Low)
		e.Uint32(h.Status.High)
	case AuthError:
		e.Uint32(uint32(h.Status.Auth))
	}
}

// Decode takes a header from d. A message that is not a reply fails with
// ErrType, a status that does not exist with xdr.ErrRange. That the responder
// refused the call is no failure of decoding: see Err.
func (h *ReplyHeader) Decode(d *xdr.Decoder) {
	*h = ReplyHeader{XID: d.Uint32()}
	if Type(d.Uint32()) != Reply {
		d.Fail(ErrType)
		return
	}
	switch d.Uint32() {
	case replyAccepted:
		h.Verf.Decode(d)
		h.Status.Stat = Stat(d.Count(int(SystemErr)))
	case replyDenied:
		h.Status.Stat = RPCMismatch + Stat(d.Count(int(AuthError-RPCMismatch)))
	default:
		d.Fail(xdr.ErrRange)
	}
	switch h.Status.Stat {
	case ProgMismatch, RPCMismatch:
		h.Status.Low = d.Uint32()
		h.Status.High = d.Uint32()
	case AuthError:
		h.Status.Auth = AuthStat(d.Uint32())
	}
}

const (
	replyAccepted = 0
	replyDenied   = 1
)
