package nfs4

import "nfsrdma-fuse/xdr"

// Flags of EXCHANGE_ID (RFC 8881 section 18.35.3).
const (
	ExchgIDSuppMovedRefer   uint32 = 0x00000001
	ExchgIDSuppMovedMigr    uint32 = 0x00000002
	ExchgIDSuppFenceOps     uint32 = 0x00000004 // minor version 2
	ExchgIDBindPrincStateID uint32 = 0x00000100
	ExchgIDUseNonPNFS       uint32 = 0x00010000
	ExchgIDUsePNFSMDS       uint32 = 0x00020000
	ExchgIDUsePNFSDS        uint32 = 0x00040000
	ExchgIDMaskPNFS         uint32 = 0x00070000
	ExchgIDUpdConfirmedRecA uint32 = 0x40000000 // in arguments only
	ExchgIDConfirmedR       uint32 = 0x80000000 // in results only
)

// StateProtect tells how the state of a client is protected from others
// (RFC 8881 section 18.35.3).
type StateProtect uint32

// The kinds of state protection.
const (
	ProtectNone     StateProtect = 0
	ProtectMachCred StateProtect = 1
	ProtectSSV      StateProtect = 2
)

// ImplID names an implementation, for diagnosis only (RFC 8881 section 3.3.21).
type ImplID struct {
	Domain string
	Name   string
	Date   Time
}

// Encode appends v.
func (v *ImplID) Encode(e *xdr.Encoder) {
	e.String(v.Domain)
	e.String(v.Name)
	v.Date.Encode(e)
}

// Decode takes v.
func (v *ImplID) Decode(d *xdr.Decoder) {
	v.Domain = d.String(MaxImplID)
	v.Name = d.String(MaxImplID)
	v.Date.Decode(d)
}

// Bounds of what EXCHANGE_ID and CREATE_SESSION carry.
const (
	MaxImplID     = 1024 // bytes of either string of an ImplID
	MaxAlgorithms = 64   // algorithms offered for SSV
	MaxOID        = 256  // bytes of an object identifier
	MaxGSSHandle  = 1024 // bytes of an RPCSEC_GSS handle
	MaxGSSHandles = 256  // handles in an EXCHANGE_ID result
	MaxSecParms   = 16   // ways offered to secure callbacks
)

// OID is the identifier of an algorithm or security mechanism in DER.
type OID []byte

// Encode appends v.
func (v *OID) Encode(e *xdr.Encoder) { e.Opaque(*v) }

// Decode takes v.
func (v *OID) Decode(d *xdr.Decoder) { *v = d.Opaque(MaxOID) }

// GSSHandle is the handle of an RPCSEC_GSS context.
type GSSHandle []byte

// Encode appends v.
func (v *GSSHandle) Encode(e *xdr.Encoder) { e.Opaque(*v) }

// Decode takes v.
func (v *GSSHandle) Decode(d *xdr.Decoder) { *v = d.Opaque(MaxGSSHandle) }

// ExchangeIDArgs introduces a client to a server (RFC 8881 section 18.35).
//
//	+------------+----------+---------+-----------+------------+---------+------+
//	| verifier 8 | owner .. | flags 4 | protect 4 | its arm .. | 0 / 1 4 | impl |
//	+------------+----------+---------+-----------+------------+---------+------+
type ExchangeIDArgs struct {
	Verf    Verifier // changes when the client loses its state
	OwnerID []byte   // at most MaxOwner bytes; the same for all instances of the client
	Flags   uint32
	Protect StateProtect
	// MustEnforce and MustAllow are sets of operations, for all kinds of
	// protection but ProtectNone.
	MustEnforce, MustAllow Bitmap
	SSV                    SSVParms // of ProtectSSV
	HasImpl                bool
	Impl                   ImplID // if HasImpl
}

// SSVParms are what a client asks of the secret state verifier.
type SSVParms struct {
	HashAlgs   []OID
	EncrAlgs   []OID
	Window     uint32
	NumHandles uint32
}

// Encode appends v.
func (v *SSVParms) Encode(e *xdr.Encoder) {
	encodeList(e, v.HashAlgs)
	encodeList(e, v.EncrAlgs)
	e.Uint32(v.Window)
	e.Uint32(v.NumHandles)
}

// Decode takes v.
func (v *SSVParms) Decode(d *xdr.Decoder) {
	v.HashAlgs = decodeList[OID](d, MaxAlgorithms, 4)
	v.EncrAlgs = decodeList[OID](d, MaxAlgorithms, 4)
	v.Window = d.Uint32()
	v.NumHandles = d.Uint32()
}

// Op implements Args.
func (*ExchangeIDArgs) Op() OpNum { return OpExchangeID }

// Encode implements Args.
func (a *ExchangeIDArgs) Encode(e *xdr.Encoder) {
	a.Verf.Encode(e)
	e.Opaque(a.OwnerID)
	e.Uint32(a.Flags)
	e.Uint32(uint32(a.Protect))
	if a.Protect != ProtectNone {
		a.MustEnforce.Encode(e)
		a.MustAllow.Encode(e)
	}
	if a.Protect == ProtectSSV {
		a.SSV.Encode(e)
	}
	e.Bool(a.HasImpl)
	if a.HasImpl {
		a.Impl.Encode(e)
	}
}

// Decode implements Args.
func (a *ExchangeIDArgs) Decode(d *xdr.Decoder) {
	*a = ExchangeIDArgs{}
	a.Verf.Decode(d)
	a.OwnerID = d.Opaque(MaxOwner)
	a.Flags = d.Uint32()
	a.Protect = StateProtect(enum(d, 0, uint32(ProtectSSV)))
	if a.Protect != ProtectNone {
		a.MustEnforce.Decode(d)
		a.MustAllow.Decode(d)
	}
	if a.Protect == ProtectSSV {
		a.SSV.Decode(d)
	}
	if a.HasImpl = d.Count(1) == 1; a.HasImpl {
		a.Impl.Decode(d)
	}
}

// ExchangeIDRes is the result of EXCHANGE_ID.
type ExchangeIDRes struct {
	Status     Status
	ClientID   ClientID
	SequenceID uint32 // for the first CREATE_SESSION
	Flags      uint32
	Protect    StateProtect
	// MustEnforce and MustAllow are sets of operations, for all kinds of
	// protection but ProtectNone.
	MustEnforce, MustAllow Bitmap
	SSV                    SSVInfo // of ProtectSSV
	// ServerMinorID and ServerMajorID tell connections to the same server
	// apart from others: with equal majors client ids can be shared, with
	// equal minors too sessions (RFC 8881 section 2.10.5).
	ServerMinorID uint64
	ServerMajorID []byte // aliases the stream when decoded
	ServerScope   []byte // aliases the stream when decoded
	HasImpl       bool
	Impl          ImplID // if HasImpl
}

// SSVInfo is what a server grants for the secret state verifier.
type SSVInfo struct {
	HashAlg uint32 // index into what was offered
	EncrAlg uint32 // index into what was offered
	SSVLen  uint32 // bytes
	Window  uint32
	Handles []GSSHandle
}

// Encode appends v.
func (v *SSVInfo) Encode(e *xdr.Encoder) {
	e.Uint32(v.HashAlg)
	e.Uint32(v.EncrAlg)
	e.Uint32(v.SSVLen)
	e.Uint32(v.Window)
	encodeList(e, v.Handles)
}

// Decode takes v.
func (v *SSVInfo) Decode(d *xdr.Decoder) {
	v.HashAlg = d.Uint32()
	v.EncrAlg = d.Uint32()
	v.SSVLen = d.Uint32()
	v.Window = d.Uint32()
	v.Handles = decodeList[GSSHandle](d, MaxGSSHandles, 4)
}

// Op implements Res.
func (*ExchangeIDRes) Op() OpNum { return OpExchangeID }

// Result implements Res.
func (r *ExchangeIDRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *ExchangeIDRes) Encode(e *xdr.Encoder) {
	if !encodeStatus(e, r.Status) {
		return
	}
	e.Uint64(uint64(r.ClientID))
	e.Uint32(r.SequenceID)
	e.Uint32(r.Flags)
	e.Uint32(uint32(r.Protect))
	if r.Protect != ProtectNone {
		r.MustEnforce.Encode(e)
		r.MustAllow.Encode(e)
	}
	if r.Protect == ProtectSSV {
		r.SSV.Encode(e)
	}
	e.Uint64(r.ServerMinorID)
	e.Opaque(r.ServerMajorID)
	e.Opaque(r.ServerScope)
	e.Bool(r.HasImpl)
	if r.HasImpl {
		r.Impl.Encode(e)
	}
}

// Decode implements Res.
func (r *ExchangeIDRes) Decode(d *xdr.Decoder) {
	*r = ExchangeIDRes{}
	if !decodeStatus(d, &r.Status) {
		return
	}
	r.ClientID = ClientID(d.Uint64())
	r.SequenceID = d.Uint32()
	r.Flags = d.Uint32()
	r.Protect = StateProtect(enum(d, 0, uint32(ProtectSSV)))
	if r.Protect != ProtectNone {
		r.MustEnforce.Decode(d)
		r.MustAllow.Decode(d)
	}
	if r.Protect == ProtectSSV {
		r.SSV.Decode(d)
	}
	r.ServerMinorID = d.Uint64()
	r.ServerMajorID = d.Opaque(MaxOwner)
	r.ServerScope = d.Opaque(MaxOwner)
	if r.HasImpl = d.Count(1) == 1; r.HasImpl {
		r.Impl.Decode(d)
	}
}

// ChannelAttrs are the limits of one direction of a session (RFC 8881 section
// 18.36.3). Sizes are in bytes and count the whole RPC message.
//
//	+-------+-----------+-----------+----------+-------+---------+-------+-------+
//	| pad 4 | request 4 | reply   4 | cached 4 | ops 4 | slots 4 | 0/1 4 | ird 4 |
//	+-------+-----------+-----------+----------+-------+---------+-------+-------+
type ChannelAttrs struct {
	HeaderPadSize         uint32
	MaxRequestSize        uint32
	MaxResponseSize       uint32
	MaxResponseSizeCached uint32
	MaxOperations         uint32
	MaxRequests           uint32 // slots
	HasRDMAIRD            bool
	RDMAIRD               uint32 // if HasRDMAIRD
}

// Encode appends v.
func (v *ChannelAttrs) Encode(e *xdr.Encoder) {
	e.Uint32(v.HeaderPadSize)
	e.Uint32(v.MaxRequestSize)
	e.Uint32(v.MaxResponseSize)
	e.Uint32(v.MaxResponseSizeCached)
	e.Uint32(v.MaxOperations)
	e.Uint32(v.MaxRequests)
	e.Bool(v.HasRDMAIRD)
	if v.HasRDMAIRD {
		e.Uint32(v.RDMAIRD)
	}
}

// Decode takes v.
func (v *ChannelAttrs) Decode(d *xdr.Decoder) {
	*v = ChannelAttrs{
		HeaderPadSize:         d.Uint32(),
		MaxRequestSize:        d.Uint32(),
		MaxResponseSize:       d.Uint32(),
		MaxResponseSizeCached: d.Uint32(),
		MaxOperations:         d.Uint32(),
		MaxRequests:           d.Uint32(),
		HasRDMAIRD:            d.Count(1) == 1,
	}
	if v.HasRDMAIRD {
		v.RDMAIRD = d.Uint32()
	}
}

// Flags of CREATE_SESSION (RFC 8881 section 18.36.3).
const (
	CreateSessionPersist      uint32 = 1
	CreateSessionConnBackChan uint32 = 2
	CreateSessionConnRDMA     uint32 = 4
)

// CreateSessionArgs makes a session, and confirms the client id if it is new
// (RFC 8881 section 18.36).
type CreateSessionArgs struct {
	ClientID   ClientID
	SequenceID uint32 // of EXCHANGE_ID, one more for each further session
	Flags      uint32
	ForeChan   ChannelAttrs
	BackChan   ChannelAttrs
	CBProgram  uint32        // RPC program number of the callbacks
	SecParms   []CallbackSec // ways in which the server may secure callbacks
}

// Op implements Args.
func (*CreateSessionArgs) Op() OpNum { return OpCreateSession }

// Encode implements Args.
func (a *CreateSessionArgs) Encode(e *xdr.Encoder) {
	e.Uint64(uint64(a.ClientID))
	e.Uint32(a.SequenceID)
	e.Uint32(a.Flags)
	a.ForeChan.Encode(e)
	a.BackChan.Encode(e)
	e.Uint32(a.CBProgram)
	encodeList(e, a.SecParms)
}

// Decode implements Args.
func (a *CreateSessionArgs) Decode(d *xdr.Decoder) {
	a.ClientID = ClientID(d.Uint64())
	a.SequenceID = d.Uint32()
	a.Flags = d.Uint32()
	a.ForeChan.Decode(d)
	a.BackChan.Decode(d)
	a.CBProgram = d.Uint32()
	a.SecParms = decodeList[CallbackSec](d, MaxSecParms, 4)
}

// CreateSessionRes is the result of CREATE_SESSION.
type CreateSessionRes struct {
	Status     Status
	SessionID  SessionID
	SequenceID uint32 // that of the arguments
	Flags      uint32 // those of the arguments that were granted
	ForeChan   ChannelAttrs
	BackChan   ChannelAttrs
}

// Op implements Res.
func (*CreateSessionRes) Op() OpNum { return OpCreateSession }

// Result implements Res.
func (r *CreateSessionRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *CreateSessionRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.SessionID.Encode(e)
		e.Uint32(r.SequenceID)
		e.Uint32(r.Flags)
		r.ForeChan.Encode(e)
		r.BackChan.Encode(e)
	}
}

// Decode implements Res.
func (r *CreateSessionRes) Decode(d *xdr.Decoder) {
	*r = CreateSessionRes{}
	if decodeStatus(d, &r.Status) {
		r.SessionID.Decode(d)
		r.SequenceID = d.Uint32()
		r.Flags = d.Uint32()
		r.ForeChan.Decode(d)
		r.BackChan.Decode(d)
	}
}

// DestroySessionArgs ends a session (RFC 8881 section 18.37).
type DestroySessionArgs struct {
	SessionID SessionID
}

// Op implements Args.
func (*DestroySessionArgs) Op() OpNum { return OpDestroySession }

// Encode implements Args.
func (a *DestroySessionArgs) Encode(e *xdr.Encoder) {
	a.SessionID.Encode(e)
}

// Decode implements Args.
func (a *DestroySessionArgs) Decode(d *xdr.Decoder) {
	a.SessionID.Decode(d)
}

// DestroySessionRes is the result of DESTROY_SESSION.
type DestroySessionRes struct {
	Status Status
}

// Op implements Res.
func (*DestroySessionRes) Op() OpNum { return OpDestroySession }

// Result implements Res.
func (r *DestroySessionRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *DestroySessionRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *DestroySessionRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// DestroyClientIDArgs ends a client id that has no sessions or state
// (RFC 8881 section 18.50).
type DestroyClientIDArgs struct {
	ClientID ClientID
}

// Op implements Args.
func (*DestroyClientIDArgs) Op() OpNum { return OpDestroyClientID }

// Encode implements Args.
func (a *DestroyClientIDArgs) Encode(e *xdr.Encoder) {
	e.Uint64(uint64(a.ClientID))
}

// Decode implements Args.
func (a *DestroyClientIDArgs) Decode(d *xdr.Decoder) {
	a.ClientID = ClientID(d.Uint64())
}

// DestroyClientIDRes is the result of DESTROY_CLIENTID.
type DestroyClientIDRes struct {
	Status Status
}

// Op implements Res.
func (*DestroyClientIDRes) Op() OpNum { return OpDestroyClientID }

// Result implements Res.
func (r *DestroyClientIDRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *DestroyClientIDRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *DestroyClientIDRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// ReclaimCompleteArgs says that nothing is left to reclaim; every new client id needs
// it before state other than reclaimed can be had (RFC 8881 section 18.51).
type ReclaimCompleteArgs struct {
	OneFS bool // only for the file system of the current filehandle
}

// Op implements Args.
func (*ReclaimCompleteArgs) Op() OpNum { return OpReclaimComplete }

// Encode implements Args.
func (a *ReclaimCompleteArgs) Encode(e *xdr.Encoder) {
	e.Bool(a.OneFS)
}

// Decode implements Args.
func (a *ReclaimCompleteArgs) Decode(d *xdr.Decoder) {
	a.OneFS = d.Bool()
}

// ReclaimCompleteRes is the result of RECLAIM_COMPLETE.
type ReclaimCompleteRes struct {
	Status Status
}

// Op implements Res.
func (*ReclaimCompleteRes) Op() OpNum { return OpReclaimComplete }

// Result implements Res.
func (r *ReclaimCompleteRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *ReclaimCompleteRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *ReclaimCompleteRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }
