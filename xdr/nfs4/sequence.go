package nfs4

import "nfsrdma-fuse/xdr"

// SequenceArgs takes a slot of a session; it is the first operation of nearly every
// COMPOUND (RFC 8881 section 18.46).
//
//	+------------+-------+--------+-----------+---------+
//	| session 16 | seq 4 | slot 4 | highest 4 | cache 4 |
//	+------------+-------+--------+-----------+---------+
type SequenceArgs struct {
	SessionID     SessionID
	SequenceID    uint32 // one more than that of the slot's last request
	SlotID        uint32
	HighestSlotID uint32 // highest slot that has a request outstanding
	CacheThis     bool   // keep the whole reply for a retry
}

// Op implements Args.
func (*SequenceArgs) Op() OpNum { return OpSequence }

// Encode implements Args.
func (a *SequenceArgs) Encode(e *xdr.Encoder) {
	a.SessionID.Encode(e)
	e.Uint32(a.SequenceID)
	e.Uint32(a.SlotID)
	e.Uint32(a.HighestSlotID)
	e.Bool(a.CacheThis)
}

// Decode implements Args.
func (a *SequenceArgs) Decode(d *xdr.Decoder) {
	a.SessionID.Decode(d)
	a.SequenceID = d.Uint32()
	a.SlotID = d.Uint32()
	a.HighestSlotID = d.Uint32()
	a.CacheThis = d.Bool()
}

// Status flags in SequenceRes (RFC 8881 section 18.46.3).
const (
	SeqStatusCBPathDown              uint32 = 0x0001
	SeqStatusCBGSSContextsExpiring   uint32 = 0x0002
	SeqStatusCBGSSContextsExpired    uint32 = 0x0004
	SeqStatusExpiredAllStateRevoked  uint32 = 0x0008
	SeqStatusExpiredSomeStateRevoked uint32 = 0x0010
	SeqStatusAdminStateRevoked       uint32 = 0x0020
	SeqStatusRecallableStateRevoked  uint32 = 0x0040
	SeqStatusLeaseMoved              uint32 = 0x0080
	SeqStatusRestartReclaimNeeded    uint32 = 0x0100
	SeqStatusCBPathDownSession       uint32 = 0x0200
	SeqStatusBackchannelFault        uint32 = 0x0400
	SeqStatusDevIDChanged            uint32 = 0x0800
	SeqStatusDevIDDeleted            uint32 = 0x1000
)

// SequenceRes is the result of SEQUENCE.
//
//	+----------+------------+-------+--------+-----------+----------+---------+
//	| status 4 | session 16 | seq 4 | slot 4 | highest 4 | target 4 | flags 4 |
//	+----------+------------+-------+--------+-----------+----------+---------+
type SequenceRes struct {
	Status              Status
	SessionID           SessionID
	SequenceID          uint32
	SlotID              uint32
	HighestSlotID       uint32 // highest slot that the server will take now
	TargetHighestSlotID uint32 // highest slot that the server wants to be used
	StatusFlags         uint32
}

// Op implements Res.
func (*SequenceRes) Op() OpNum { return OpSequence }

// Result implements Res.
func (r *SequenceRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SequenceRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.SessionID.Encode(e)
		e.Uint32(r.SequenceID)
		e.Uint32(r.SlotID)
		e.Uint32(r.HighestSlotID)
		e.Uint32(r.TargetHighestSlotID)
		e.Uint32(r.StatusFlags)
	}
}

// Decode implements Res.
func (r *SequenceRes) Decode(d *xdr.Decoder) {
	*r = SequenceRes{}
	if decodeStatus(d, &r.Status) {
		r.SessionID.Decode(d)
		r.SequenceID = d.Uint32()
		r.SlotID = d.Uint32()
		r.HighestSlotID = d.Uint32()
		r.TargetHighestSlotID = d.Uint32()
		r.StatusFlags = d.Uint32()
	}
}

// ConnDir tells for which directions of a session a connection is used
// (RFC 8881 section 18.34).
type ConnDir uint32

// The directions of a connection. A server answers with one of the first three.
const (
	ConnFore       ConnDir = 1
	ConnBack       ConnDir = 2
	ConnBoth       ConnDir = 3 // as an argument: fore, and back if the server can
	ConnBackOrBoth ConnDir = 7
)

// BindConnToSessionArgs binds the connection that it comes on to a session
// (RFC 8881 section 18.34).
type BindConnToSessionArgs struct {
	SessionID SessionID
	Dir       ConnDir
	RDMAMode  bool
}

// Op implements Args.
func (*BindConnToSessionArgs) Op() OpNum { return OpBindConnToSession }

// Encode implements Args.
func (a *BindConnToSessionArgs) Encode(e *xdr.Encoder) {
	a.SessionID.Encode(e)
	e.Uint32(uint32(a.Dir))
	e.Bool(a.RDMAMode)
}

// Decode implements Args.
func (a *BindConnToSessionArgs) Decode(d *xdr.Decoder) {
	a.SessionID.Decode(d)
	a.Dir = ConnDir(d.Uint32())
	a.RDMAMode = d.Bool()
}

// BindConnToSessionRes is the result of BIND_CONN_TO_SESSION.
type BindConnToSessionRes struct {
	Status    Status
	SessionID SessionID
	Dir       ConnDir
	RDMAMode  bool
}

// Op implements Res.
func (*BindConnToSessionRes) Op() OpNum { return OpBindConnToSession }

// Result implements Res.
func (r *BindConnToSessionRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *BindConnToSessionRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.SessionID.Encode(e)
		e.Uint32(uint32(r.Dir))
		e.Bool(r.RDMAMode)
	}
}

// Decode implements Res.
func (r *BindConnToSessionRes) Decode(d *xdr.Decoder) {
	*r = BindConnToSessionRes{}
	if decodeStatus(d, &r.Status) {
		r.SessionID.Decode(d)
		r.Dir = ConnDir(d.Uint32())
		r.RDMAMode = d.Bool()
	}
}

// Flavors of security of callbacks and in SECINFO results.
const (
	FlavorNone uint32 = 0
	FlavorSys  uint32 = 1
	FlavorGSS  uint32 = 6
)

// MaxMachine and MaxGIDs bound the credential of FlavorSys (RFC 5531 appendix A).
const (
	MaxMachine = 255
	MaxGIDs    = 16
)

// CallbackSec is one way in which a server may secure callbacks (RFC 8881
// section 18.33.3). The fields after Flavor belong to FlavorSys, those that
// begin with GSS to FlavorGSS.
type CallbackSec struct {
	Flavor uint32

	Stamp    uint32
	Machine  string
	UID, GID uint32
	GIDs     []uint32

	GSSService      uint32
	GSSServerHandle []byte // context of the callback's caller, from the server
	GSSClientHandle []byte // the same, from the client
}

// Encode appends v.
func (v *CallbackSec) Encode(e *xdr.Encoder) {
	e.Uint32(v.Flavor)
	switch v.Flavor {
	case FlavorNone:
	case FlavorSys:
		e.Uint32(v.Stamp)
		e.String(v.Machine)
		e.Uint32(v.UID)
		e.Uint32(v.GID)
		e.Uint32(uint32(len(v.GIDs)))
		for _, g := range v.GIDs {
			e.Uint32(g)
		}
	case FlavorGSS:
		e.Uint32(v.GSSService)
		e.Opaque(v.GSSServerHandle)
		e.Opaque(v.GSSClientHandle)
	default:
		e.Fail(xdr.ErrRange)
	}
}

// Decode takes v.
func (v *CallbackSec) Decode(d *xdr.Decoder) {
	*v = CallbackSec{Flavor: d.Uint32()}
	switch v.Flavor {
	case FlavorNone:
	case FlavorSys:
		v.Stamp = d.Uint32()
		v.Machine = d.String(MaxMachine)
		v.UID = d.Uint32()
		v.GID = d.Uint32()
		if n := d.CountOf(MaxGIDs, 4); n > 0 {
			v.GIDs = make([]uint32, n)
			for i := range v.GIDs {
				v.GIDs[i] = d.Uint32()
			}
		}
	case FlavorGSS:
		v.GSSService = enum(d, 1, 3)
		v.GSSServerHandle = d.Opaque(MaxGSSHandle)
		v.GSSClientHandle = d.Opaque(MaxGSSHandle)
	default:
		d.Fail(xdr.ErrRange) // without its arm the union has no known length
	}
}

// BackchannelCtlArgs changes the program and the security of callbacks
// (RFC 8881 section 18.33).
type BackchannelCtlArgs struct {
	CBProgram uint32
	SecParms  []CallbackSec
}

// Op implements Args.
func (*BackchannelCtlArgs) Op() OpNum { return OpBackchannelCtl }

// Encode implements Args.
func (a *BackchannelCtlArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.CBProgram)
	encodeList(e, a.SecParms)
}

// Decode implements Args.
func (a *BackchannelCtlArgs) Decode(d *xdr.Decoder) {
	a.CBProgram = d.Uint32()
	a.SecParms = decodeList[CallbackSec](d, MaxSecParms, 4)
}

// BackchannelCtlRes is the result of BACKCHANNEL_CTL.
type BackchannelCtlRes struct {
	Status Status
}

// Op implements Res.
func (*BackchannelCtlRes) Op() OpNum { return OpBackchannelCtl }

// Result implements Res.
func (r *BackchannelCtlRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *BackchannelCtlRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *BackchannelCtlRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// MaxSSV bounds the secret and the digest of SET_SSV, bytes.
const MaxSSV = 1024

// SetSSVArgs changes the secret state verifier (RFC 8881 section 18.47).
type SetSSVArgs struct {
	SSV    []byte
	Digest []byte
}

// Op implements Args.
func (*SetSSVArgs) Op() OpNum { return OpSetSSV }

// Encode implements Args.
func (a *SetSSVArgs) Encode(e *xdr.Encoder) {
	e.Opaque(a.SSV)
	e.Opaque(a.Digest)
}

// Decode implements Args.
func (a *SetSSVArgs) Decode(d *xdr.Decoder) {
	a.SSV = d.Opaque(MaxSSV)
	a.Digest = d.Opaque(MaxSSV)
}

// SetSSVRes is the result of SET_SSV.
type SetSSVRes struct {
	Status Status
	Digest []byte
}

// Op implements Res.
func (*SetSSVRes) Op() OpNum { return OpSetSSV }

// Result implements Res.
func (r *SetSSVRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SetSSVRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Opaque(r.Digest)
	}
}

// Decode implements Res.
func (r *SetSSVRes) Decode(d *xdr.Decoder) {
	*r = SetSSVRes{}
	if decodeStatus(d, &r.Status) {
		r.Digest = d.Opaque(MaxSSV)
	}
}
