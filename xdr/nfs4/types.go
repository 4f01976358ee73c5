package nfs4

import (
	"nfsrdma-fuse/xdr"
)

// Limits of items on the wire. Those that the RFCs give are so marked; the
// others bound what this package takes from a peer, far above what file systems
// in use need.
const (
	MaxFH          = 128       // bytes of a filehandle (RFC 8881 section 3.1)
	MaxOwner       = 1024      // bytes of an owner, client or server id, server scope (RFC 8881 section 3.1)
	MaxName        = 1024      // bytes of a component of a path
	MaxLinkText    = 8 << 10   // bytes of the text of a symbolic link
	MaxData        = 16 << 20  // bytes of data in a READ or WRITE
	MaxTag         = 1024      // bytes of the tag of a COMPOUND
	MaxOps         = 64        // operations that are decoded from a COMPOUND
	MaxReaddir     = 4 << 20   // bytes of the entries in a READDIR reply
	MaxStateIDs    = 4096      // stateids in TEST_STATEID
	MaxAttrs       = 256 << 10 // bytes of an attribute list
	MaxOwnerString = 1024      // bytes of a user or group name in an attribute or ACE
	MaxACEs        = 4096      // entries of an ACL
	MaxLabel       = 4 << 10   // bytes of a security label
	MaxXattrValue  = 64 << 10  // bytes of the value of an extended attribute
	MaxXattrNames  = 16 << 10  // names in a LISTXATTRS reply
	MaxLayoutBody  = 256 << 10 // bytes of a layout, device address or layout update
	MaxBitmapWords = 8         // words of a bitmap that are looked at or skipped
)

// ClientID is the short name that a server has given a client.
type ClientID uint64

// FH is a filehandle, at most MaxFH bytes. A decoded one aliases the stream.
type FH []byte

// Encode appends v.
func (v FH) Encode(e *xdr.Encoder) { e.Opaque(v) }

// Decode takes v.
func (v *FH) Decode(d *xdr.Decoder) { *v = d.Opaque(MaxFH) }

// Clone returns a copy that does not alias the stream it was decoded from.
func (v FH) Clone() FH { return append(FH(nil), v...) }

// SessionID names a session (RFC 8881 section 2.10.1).
type SessionID [16]byte

// Encode appends v.
func (v *SessionID) Encode(e *xdr.Encoder) { e.Fixed(v[:]) }

// Decode takes v.
func (v *SessionID) Decode(d *xdr.Decoder) { copy(v[:], d.Fixed(len(v))) }

// Verifier tells instances of a client, a server or a directory apart; it has
// no meaning but to be equal or not.
type Verifier [8]byte

// Encode appends v.
func (v *Verifier) Encode(e *xdr.Encoder) { e.Fixed(v[:]) }

// Decode takes v.
func (v *Verifier) Decode(d *xdr.Decoder) { copy(v[:], d.Fixed(len(v))) }

// DeviceID names a pNFS data device (RFC 8881 section 3.3.14).
type DeviceID [16]byte

// Encode appends v.
func (v *DeviceID) Encode(e *xdr.Encoder) { e.Fixed(v[:]) }

// Decode takes v.
func (v *DeviceID) Decode(d *xdr.Decoder) { copy(v[:], d.Fixed(len(v))) }

// StateID names open, lock, delegation or layout state (RFC 8881 section 8.2).
//
//	+--------+--------------------------+
//	| seq  4 | other                 12 |
//	+--------+--------------------------+
type StateID struct {
	// Seq counts the changes of the state. Zero in a request means
	// whatever is newest at the server (section 8.2.2).
	Seq   uint32
	Other [12]byte
}

// The stateids with a special meaning (RFC 8881 section 8.2.3).
var (
	// AnonymousStateID stands for no open; locks and share reservations are
	// still obeyed.
	AnonymousStateID = StateID{}
	// BypassStateID in a READ asks the server to let the read pass locks.
	BypassStateID = StateID{Seq: 0xffffffff, Other: [12]byte{
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}}
	// CurrentStateID stands for the stateid that an earlier operation of the
	// same COMPOUND returned.
	CurrentStateID = StateID{Seq: 1}
	// InvalidStateID is never valid; it says that a layout stateid is gone.
	InvalidStateID = StateID{Seq: 0xffffffff}
)

// IsSpecial tells whether v is one of the special stateids.
func (v StateID) IsSpecial() bool {
	return v.Other == [12]byte{} || v.Other == BypassStateID.Other
}

// Encode appends v.
func (v *StateID) Encode(e *xdr.Encoder) {
	e.Uint32(v.Seq)
	e.Fixed(v.Other[:])
}

// Decode takes v.
func (v *StateID) Decode(d *xdr.Decoder) {
	v.Seq = d.Uint32()
	copy(v.Other[:], d.Fixed(len(v.Other)))
}

// Time is a point in time, or a span: seconds since the beginning of 1970 in
// UTC, and nanoseconds to add (RFC 8881 section 3.3.1).
type Time struct {
	Sec  int64
	Nsec uint32 // below 1e9
}

// Encode appends v.
func (v *Time) Encode(e *xdr.Encoder) {
	e.Int64(v.Sec)
	e.Uint32(v.Nsec)
}

// Decode takes v.
func (v *Time) Decode(d *xdr.Decoder) {
	v.Sec = d.Int64()
	v.Nsec = d.Uint32()
}

// FSID names a file system within a server (RFC 8881 section 5.8.1.9).
type FSID struct {
	Major uint64
	Minor uint64
}

// Encode appends v.
func (v *FSID) Encode(e *xdr.Encoder) {
	e.Uint64(v.Major)
	e.Uint64(v.Minor)
}

// Decode takes v.
func (v *FSID) Decode(d *xdr.Decoder) {
	v.Major = d.Uint64()
	v.Minor = d.Uint64()
}

// SpecData is the device number of a device file (RFC 8881 section 5.8.2.31).
type SpecData struct {
	Major uint32
	Minor uint32
}

// Encode appends v.
func (v *SpecData) Encode(e *xdr.Encoder) {
	e.Uint32(v.Major)
	e.Uint32(v.Minor)
}

// Decode takes v.
func (v *SpecData) Decode(d *xdr.Decoder) {
	v.Major = d.Uint32()
	v.Minor = d.Uint32()
}

// ChangeInfo tells how an operation changed a directory (RFC 8881 section 3.3.8).
type ChangeInfo struct {
	Atomic bool   // Before and After were taken in one step with the operation
	Before uint64 // change attribute before
	After  uint64 // change attribute after
}

// Encode appends v.
func (v *ChangeInfo) Encode(e *xdr.Encoder) {
	e.Bool(v.Atomic)
	e.Uint64(v.Before)
	e.Uint64(v.After)
}

// Decode takes v.
func (v *ChangeInfo) Decode(d *xdr.Decoder) {
	v.Atomic = d.Bool()
	v.Before = d.Uint64()
	v.After = d.Uint64()
}

// StateOwner is the owner of opens or locks: a name that the client chose, within
// its client id. In minor version 1 the server takes the client id of the session
// and ignores ClientID (RFC 8881 section 18.16.3).
type StateOwner struct {
	ClientID ClientID
	Owner    []byte // at most MaxOwner bytes
}

// Encode appends v.
func (v *StateOwner) Encode(e *xdr.Encoder) {
	e.Uint64(uint64(v.ClientID))
	e.Opaque(v.Owner)
}

// Decode takes v.
func (v *StateOwner) Decode(d *xdr.Decoder) {
	v.ClientID = ClientID(d.Uint64())
	v.Owner = d.Opaque(MaxOwner)
}

// OpenOwner is the owner of opens.
type OpenOwner = StateOwner

// LockOwner is the owner of byte-range locks.
type LockOwner = StateOwner

// NetAddr is a transport address in the form of RFC 5665.
type NetAddr struct {
	NetID string // "tcp", "tcp6", "rdma", "rdma6"
	Addr  string // universal address, the port as two decimal octets
}

// Encode appends v.
func (v *NetAddr) Encode(e *xdr.Encoder) {
	e.String(v.NetID)
	e.String(v.Addr)
}

// Decode takes v.
func (v *NetAddr) Decode(d *xdr.Decoder) {
	v.NetID = d.String(MaxNetAddr)
	v.Addr = d.String(MaxNetAddr)
}

// MaxNetAddr bounds both strings of a NetAddr, bytes.
const MaxNetAddr = 256

// FileType is the type of a file system object (RFC 8881 section 5.8.1.2).
type FileType uint32

// The file types.
const (
	TypeReg       FileType = 1
	TypeDir       FileType = 2
	TypeBlk       FileType = 3
	TypeChr       FileType = 4
	TypeLnk       FileType = 5
	TypeSock      FileType = 6
	TypeFifo      FileType = 7
	TypeAttrDir   FileType = 8
	TypeNamedAttr FileType = 9
)

// decodeStatus takes the status of a result and tells whether the body of a
// successful one follows.
func decodeStatus(d *xdr.Decoder, s *Status) bool {
	*s = Status(d.Uint32())
	return *s == OK && d.Err() == nil
}

// encodeStatus appends the status of a result and tells whether the body of a
// successful one follows.
func encodeStatus(e *xdr.Encoder, s Status) bool {
	e.Uint32(uint32(s))
	return s == OK
}

// enum takes a discriminant between lo and hi.
func enum(d *xdr.Decoder, lo, hi uint32) uint32 {
	v := d.Uint32()
	if v < lo || v > hi {
		d.Fail(xdr.ErrRange)
		return lo
	}
	return v
}

// codec is what the elements of a list implement.
type codec[T any] interface {
	*T
	Encode(*xdr.Encoder)
	Decode(*xdr.Decoder)
}

// encodeList appends the number of elements, and the elements.
func encodeList[T any, P codec[T]](e *xdr.Encoder, list []T) {
	e.Uint32(uint32(len(list)))
	for i := range list {
		P(&list[i]).Encode(e)
	}
}

// decodeList takes a list of at most limit elements that occupy at least size
// bytes each. An empty one is nil.
func decodeList[T any, P codec[T]](d *xdr.Decoder, limit, size int) []T {
	n := d.CountOf(limit, size)
	if n == 0 {
		return nil
	}
	list := make([]T, n)
	for i := range list {
		P(&list[i]).Decode(d)
		if d.Err() != nil {
			return nil
		}
	}
	return list
}
