package nfs4

import "nfsrdma-fuse/xdr"

// Share access and deny in OPEN (RFC 8881 section 18.16.1). The wishes for a
// delegation are or-ed to the access.
const (
	ShareAccessRead  uint32 = 1
	ShareAccessWrite uint32 = 2
	ShareAccessBoth  uint32 = 3

	ShareDenyNone  uint32 = 0
	ShareDenyRead  uint32 = 1
	ShareDenyWrite uint32 = 2
	ShareDenyBoth  uint32 = 3

	WantDelegMask    uint32 = 0xff00
	WantNoPreference uint32 = 0x0000
	WantReadDeleg    uint32 = 0x0100
	WantWriteDeleg   uint32 = 0x0200
	WantAnyDeleg     uint32 = 0x0300
	WantNoDeleg      uint32 = 0x0400
	WantCancel       uint32 = 0x0500

	WantSignalDelegWhenAvail     uint32 = 0x10000
	WantPushDelegWhenUncontended uint32 = 0x20000
)

// CreateMode tells what OPEN does about a file that exists already (RFC 8881
// section 18.16.3).
type CreateMode uint32

// The modes of creation.
const (
	CreateUnchecked   CreateMode = 0 // open it
	CreateGuarded     CreateMode = 1 // fail
	CreateExclusive   CreateMode = 2 // fail unless this verifier made it; no attributes
	CreateExclusive41 CreateMode = 3 // the same with attributes
)

// ClaimType tells what an OPEN is based on (RFC 8881 section 18.16.1).
type ClaimType uint32

// The kinds of claim. Name and filehandle in the comments are how the file is
// named: by OpenArgs.Name in the current directory, or as the current filehandle.
const (
	ClaimNull         ClaimType = 0 // name
	ClaimPrevious     ClaimType = 1 // filehandle; reclaim after a restart of the server
	ClaimDelegateCur  ClaimType = 2 // name; held delegation
	ClaimDelegatePrev ClaimType = 3 // name; delegation of an earlier instance of the client
	ClaimFH           ClaimType = 4 // filehandle
	ClaimDelegCurFH   ClaimType = 5 // filehandle; held delegation
	ClaimDelegPrevFH  ClaimType = 6 // filehandle; delegation of an earlier instance
)

// DelegationType is the type of a delegation.
type DelegationType uint32

// The types of delegation.
const (
	DelegateNone    DelegationType = 0
	DelegateRead    DelegationType = 1
	DelegateWrite   DelegationType = 2
	DelegateNoneExt DelegationType = 3 // none, with a reason
)

// OpenArgs opens a regular file, and may create it (RFC 8881 section 18.16).
//
//	+---------+----------+--------+-------------+----------+
//	| seqid 4 | access 4 | deny 4 | client id 8 | owner .. |
//	+---------+----+-----+--------+---+---------+----------+
//	| create 0/1 4 | mode 4 | attributes and verifier ..   |
//	+---------+----+--------+---------+--------------------+
//	| claim 4 | name, stateid or delegation type        .. |
//	+---------+--------------------------------------------+
type OpenArgs struct {
	Seqid       uint32 // not used in minor version 1
	ShareAccess uint32
	ShareDeny   uint32
	Owner       OpenOwner

	Create      bool
	How         CreateMode // if Create
	CreateAttrs Attrs      // of all modes but CreateExclusive
	CreateVerf  Verifier   // of CreateExclusive and CreateExclusive41

	Claim           ClaimType
	Name            string         // of ClaimNull, ClaimDelegateCur, ClaimDelegatePrev
	DelegateType    DelegationType // of ClaimPrevious
	DelegateStateID StateID        // of ClaimDelegateCur and ClaimDelegCurFH
}

// Op implements Args.
func (*OpenArgs) Op() OpNum { return OpOpen }

// Encode implements Args.
func (a *OpenArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.Seqid)
	e.Uint32(a.ShareAccess)
	e.Uint32(a.ShareDeny)
	a.Owner.Encode(e)
	e.Bool(a.Create)
	if a.Create {
		e.Uint32(uint32(a.How))
		switch a.How {
		case CreateUnchecked, CreateGuarded:
			a.CreateAttrs.Encode(e)
		case CreateExclusive:
			a.CreateVerf.Encode(e)
		case CreateExclusive41:
			a.CreateVerf.Encode(e)
			a.CreateAttrs.Encode(e)
		default:
			e.Fail(xdr.ErrRange)
		}
	}
	e.Uint32(uint32(a.Claim))
	switch a.Claim {
	case ClaimNull, ClaimDelegatePrev:
		e.String(a.Name)
	case ClaimPrevious:
		e.Uint32(uint32(a.DelegateType))
	case ClaimDelegateCur:
		a.DelegateStateID.Encode(e)
		e.String(a.Name)
	case ClaimDelegCurFH:
		a.DelegateStateID.Encode(e)
	case ClaimFH, ClaimDelegPrevFH:
	default:
		e.Fail(xdr.ErrRange)
	}
}

// Decode implements Args.
func (a *OpenArgs) Decode(d *xdr.Decoder) {
	*a = OpenArgs{Seqid: d.Uint32(), ShareAccess: d.Uint32(), ShareDeny: d.Uint32()}
	a.Owner.Decode(d)
	a.Create = d.Bool()
	if a.Create {
		a.How = CreateMode(enum(d, 0, uint32(CreateExclusive41)))
		if a.How >= CreateExclusive {
			a.CreateVerf.Decode(d)
		}
		if a.How != CreateExclusive {
			a.CreateAttrs.Decode(d)
		}
	}
	a.Claim = ClaimType(enum(d, 0, uint32(ClaimDelegPrevFH)))
	switch a.Claim {
	case ClaimNull, ClaimDelegatePrev:
		a.Name = d.String(MaxName)
	case ClaimPrevious:
		a.DelegateType = DelegationType(enum(d, 0, uint32(DelegateNoneExt)))
	case ClaimDelegateCur:
		a.DelegateStateID.Decode(d)
		a.Name = d.String(MaxName)
	case ClaimDelegCurFH:
		a.DelegateStateID.Decode(d)
	}
}

// Flags in OpenRes (RFC 8881 section 18.16.1).
const (
	OpenResultConfirm          uint32 = 0x02 // minor version 0 only
	OpenResultLockTypePOSIX    uint32 = 0x04
	OpenResultPreserveUnlinked uint32 = 0x08
	OpenResultMayNotifyLock    uint32 = 0x20
)

// OpenRes is the result of OPEN. The opened file is the current filehandle.
type OpenRes struct {
	Status     Status
	StateID    StateID
	Change     ChangeInfo // of the directory
	RFlags     uint32
	AttrsSet   Bitmap // attributes that were set by creation
	Delegation Delegation
}

// Op implements Res.
func (*OpenRes) Op() OpNum { return OpOpen }

// Result implements Res.
func (r *OpenRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *OpenRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.StateID.Encode(e)
		r.Change.Encode(e)
		e.Uint32(r.RFlags)
		r.AttrsSet.Encode(e)
		r.Delegation.Encode(e)
	}
}

// Decode implements Res.
func (r *OpenRes) Decode(d *xdr.Decoder) {
	*r = OpenRes{}
	if decodeStatus(d, &r.Status) {
		r.StateID.Decode(d)
		r.Change.Decode(d)
		r.RFlags = d.Uint32()
		r.AttrsSet.Decode(d)
		r.Delegation.Decode(d)
	}
}

// WhyNoDelegation is the reason for DelegateNoneExt.
type WhyNoDelegation uint32

// The reasons for not having been given a delegation.
const (
	WhyNotWanted         WhyNoDelegation = 0
	WhyContention        WhyNoDelegation = 1
	WhyResource          WhyNoDelegation = 2
	WhyNotSuppFType      WhyNoDelegation = 3
	WhyWriteDelegNotSupp WhyNoDelegation = 4
	WhyNotSuppUpgrade    WhyNoDelegation = 5
	WhyNotSuppDowngrade  WhyNoDelegation = 6
	WhyCancelled         WhyNoDelegation = 7
	WhyIsDir             WhyNoDelegation = 8
)

// How SpaceLimit of a Delegation is expressed.
const (
	LimitSize   uint32 = 1 // file size in bytes
	LimitBlocks uint32 = 2 // number of blocks of some size
)

// Delegation is a delegation that was granted, or why none was (RFC 8881
// sections 10.4 and 18.16.1).
type Delegation struct {
	Type DelegationType

	// The following belong to DelegateRead and DelegateWrite.

	StateID     StateID
	Recall      bool // is being recalled already
	Permissions ACE  // users that may open the file without asking the server

	// The following belong to DelegateWrite: up to which size data need not
	// be written back when the file is closed.

	LimitBy       uint32 // LimitSize or LimitBlocks
	LimitFileSize uint64 // bytes
	NumBlocks     uint32
	BytesPerBlock uint32

	// The following belong to DelegateNoneExt.

	Why WhyNoDelegation
	// WillTell tells that the server will push a delegation (with
	// WhyContention), or signal when one is available (with WhyResource).
	WillTell bool
}

// Encode appends v.
func (v *Delegation) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(v.Type))
	switch v.Type {
	case DelegateNone:
	case DelegateRead, DelegateWrite:
		v.StateID.Encode(e)
		e.Bool(v.Recall)
		if v.Type == DelegateWrite {
			e.Uint32(v.LimitBy)
			switch v.LimitBy {
			case LimitSize:
				e.Uint64(v.LimitFileSize)
			case LimitBlocks:
				e.Uint32(v.NumBlocks)
				e.Uint32(v.BytesPerBlock)
			default:
				e.Fail(xdr.ErrRange)
			}
		}
		v.Permissions.Encode(e)
	case DelegateNoneExt:
		e.Uint32(uint32(v.Why))
		if v.Why == WhyContention || v.Why == WhyResource {
			e.Bool(v.WillTell)
		}
	default:
		e.Fail(xdr.ErrRange)
	}
}

// Decode takes v.
func (v *Delegation) Decode(d *xdr.Decoder) {
	*v = Delegation{Type: DelegationType(enum(d, 0, uint32(DelegateNoneExt)))}
	switch v.Type {
	case DelegateRead, DelegateWrite:
		v.StateID.Decode(d)
		v.Recall = d.Bool()
		if v.Type == DelegateWrite {
			v.LimitBy = enum(d, LimitSize, LimitBlocks)
			if v.LimitBy == LimitSize {
				v.LimitFileSize = d.Uint64()
			} else {
				v.NumBlocks = d.Uint32()
				v.BytesPerBlock = d.Uint32()
			}
		}
		v.Permissions.Decode(d)
	case DelegateNoneExt:
		v.Why = WhyNoDelegation(d.Uint32())
		if v.Why == WhyContention || v.Why == WhyResource {
			v.WillTell = d.Bool()
		}
	}
}

// CloseArgs closes an open of the current file (RFC 8881 section 18.2).
type CloseArgs struct {
	Seqid   uint32 // not used in minor version 1
	StateID StateID
}

// Op implements Args.
func (*CloseArgs) Op() OpNum { return OpClose }

// Encode implements Args.
func (a *CloseArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.Seqid)
	a.StateID.Encode(e)
}

// Decode implements Args.
func (a *CloseArgs) Decode(d *xdr.Decoder) {
	a.Seqid = d.Uint32()
	a.StateID.Decode(d)
}

// CloseRes is the result of CLOSE.
type CloseRes struct {
	Status  Status
	StateID StateID // must not be used any more
}

// Op implements Res.
func (*CloseRes) Op() OpNum { return OpClose }

// Result implements Res.
func (r *CloseRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *CloseRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.StateID.Encode(e)
	}
}

// Decode implements Res.
func (r *CloseRes) Decode(d *xdr.Decoder) {
	*r = CloseRes{}
	if decodeStatus(d, &r.Status) {
		r.StateID.Decode(d)
	}
}

// OpenDowngradeArgs gives up some of the access of an open (RFC 8881 section 18.18).
type OpenDowngradeArgs struct {
	StateID     StateID
	Seqid       uint32 // not used in minor version 1
	ShareAccess uint32
	ShareDeny   uint32
}

// Op implements Args.
func (*OpenDowngradeArgs) Op() OpNum { return OpOpenDowngrade }

// Encode implements Args.
func (a *OpenDowngradeArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint32(a.Seqid)
	e.Uint32(a.ShareAccess)
	e.Uint32(a.ShareDeny)
}

// Decode implements Args.
func (a *OpenDowngradeArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Seqid = d.Uint32()
	a.ShareAccess = d.Uint32()
	a.ShareDeny = d.Uint32()
}

// OpenDowngradeRes is the result of OPEN_DOWNGRADE.
type OpenDowngradeRes struct {
	Status  Status
	StateID StateID
}

// Op implements Res.
func (*OpenDowngradeRes) Op() OpNum { return OpOpenDowngrade }

// Result implements Res.
func (r *OpenDowngradeRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *OpenDowngradeRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.StateID.Encode(e)
	}
}

// Decode implements Res.
func (r *OpenDowngradeRes) Decode(d *xdr.Decoder) {
	*r = OpenDowngradeRes{}
	if decodeStatus(d, &r.Status) {
		r.StateID.Decode(d)
	}
}
