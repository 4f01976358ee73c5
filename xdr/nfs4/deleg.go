package nfs4

import "nfsrdma-fuse/xdr"

// DelegReturnArgs returns the delegation of the current object (RFC 8881 section 18.6).
type DelegReturnArgs struct {
	StateID StateID
}

// Op implements Args.
func (*DelegReturnArgs) Op() OpNum { return OpDelegReturn }

// Encode implements Args.
func (a *DelegReturnArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
}

// Decode implements Args.
func (a *DelegReturnArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
}

// DelegReturnRes is the result of DELEGRETURN.
type DelegReturnRes struct {
	Status Status
}

// Op implements Res.
func (*DelegReturnRes) Op() OpNum { return OpDelegReturn }

// Result implements Res.
func (r *DelegReturnRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *DelegReturnRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *DelegReturnRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// DelegPurgeArgs gives up the delegations of an earlier instance of the client that
// were not reclaimed (RFC 8881 section 18.5).
type DelegPurgeArgs struct {
	ClientID ClientID
}

// Op implements Args.
func (*DelegPurgeArgs) Op() OpNum { return OpDelegPurge }

// Encode implements Args.
func (a *DelegPurgeArgs) Encode(e *xdr.Encoder) {
	e.Uint64(uint64(a.ClientID))
}

// Decode implements Args.
func (a *DelegPurgeArgs) Decode(d *xdr.Decoder) {
	a.ClientID = ClientID(d.Uint64())
}

// DelegPurgeRes is the result of DELEGPURGE.
type DelegPurgeRes struct {
	Status Status
}

// Op implements Res.
func (*DelegPurgeRes) Op() OpNum { return OpDelegPurge }

// Result implements Res.
func (r *DelegPurgeRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *DelegPurgeRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *DelegPurgeRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// TestStateIDArgs asks which stateids are still valid (RFC 8881 section 18.48).
type TestStateIDArgs struct {
	StateIDs []StateID
}

// Op implements Args.
func (*TestStateIDArgs) Op() OpNum { return OpTestStateID }

// Encode implements Args.
func (a *TestStateIDArgs) Encode(e *xdr.Encoder) {
	encodeList(e, a.StateIDs)
}

// Decode implements Args.
func (a *TestStateIDArgs) Decode(d *xdr.Decoder) {
	a.StateIDs = decodeList[StateID](d, MaxStateIDs, 16)
}

// TestStateIDRes is the result of TEST_STATEID.
type TestStateIDRes struct {
	Status   Status
	Statuses []Status // one for each stateid
}

// Op implements Res.
func (*TestStateIDRes) Op() OpNum { return OpTestStateID }

// Result implements Res.
func (r *TestStateIDRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *TestStateIDRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		encodeList(e, r.Statuses)
	}
}

// Decode implements Res.
func (r *TestStateIDRes) Decode(d *xdr.Decoder) {
	*r = TestStateIDRes{}
	if decodeStatus(d, &r.Status) {
		r.Statuses = decodeList[Status](d, MaxStateIDs, 4)
	}
}

// Encode appends s.
func (s *Status) Encode(e *xdr.Encoder) { e.Uint32(uint32(*s)) }

// Decode takes s.
func (s *Status) Decode(d *xdr.Decoder) { *s = Status(d.Uint32()) }

// FreeStateIDArgs frees lock state without locks, or acknowledges that state was
// revoked (RFC 8881 section 18.38).
type FreeStateIDArgs struct {
	StateID StateID
}

// Op implements Args.
func (*FreeStateIDArgs) Op() OpNum { return OpFreeStateID }

// Encode implements Args.
func (a *FreeStateIDArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
}

// Decode implements Args.
func (a *FreeStateIDArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
}

// FreeStateIDRes is the result of FREE_STATEID.
type FreeStateIDRes struct {
	Status Status
}

// Op implements Res.
func (*FreeStateIDRes) Op() OpNum { return OpFreeStateID }

// Result implements Res.
func (r *FreeStateIDRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *FreeStateIDRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *FreeStateIDRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// WantDelegationArgs asks for a delegation of the current object (RFC 8881
// section 18.49).
type WantDelegationArgs struct {
	Want         uint32         // WantReadDeleg and the like
	Claim        ClaimType      // ClaimFH, ClaimDelegPrevFH or ClaimPrevious
	DelegateType DelegationType // of ClaimPrevious
}

// Op implements Args.
func (*WantDelegationArgs) Op() OpNum { return OpWantDelegation }

// Encode implements Args.
func (a *WantDelegationArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.Want)
	e.Uint32(uint32(a.Claim))
	switch a.Claim {
	case ClaimFH, ClaimDelegPrevFH:
	case ClaimPrevious:
		e.Uint32(uint32(a.DelegateType))
	default:
		e.Fail(xdr.ErrRange)
	}
}

// Decode implements Args.
func (a *WantDelegationArgs) Decode(d *xdr.Decoder) {
	*a = WantDelegationArgs{Want: d.Uint32(), Claim: ClaimType(d.Uint32())}
	switch a.Claim {
	case ClaimFH, ClaimDelegPrevFH:
	case ClaimPrevious:
		a.DelegateType = DelegationType(enum(d, 0, uint32(DelegateNoneExt)))
	default:
		d.Fail(xdr.ErrRange)
	}
}

// WantDelegationRes is the result of WANT_DELEGATION.
type WantDelegationRes struct {
	Status     Status
	Delegation Delegation
}

// Op implements Res.
func (*WantDelegationRes) Op() OpNum { return OpWantDelegation }

// Result implements Res.
func (r *WantDelegationRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *WantDelegationRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Delegation.Encode(e)
	}
}

// Decode implements Res.
func (r *WantDelegationRes) Decode(d *xdr.Decoder) {
	*r = WantDelegationRes{}
	if decodeStatus(d, &r.Status) {
		r.Delegation.Decode(d)
	}
}

// GetDirDelegationArgs asks for a delegation of the current directory
// (RFC 8881 section 18.39).
type GetDirDelegationArgs struct {
	SignalAvail    bool   // the server shall signal when one is available
	NotifyTypes    Bitmap // NotifyChangeChildAttrs and the like
	ChildAttrDelay Time
	DirAttrDelay   Time
	ChildAttrs     Bitmap
	DirAttrs       Bitmap
}

// Op implements Args.
func (*GetDirDelegationArgs) Op() OpNum { return OpGetDirDelegation }

// Encode implements Args.
func (a *GetDirDelegationArgs) Encode(e *xdr.Encoder) {
	e.Bool(a.SignalAvail)
	a.NotifyTypes.Encode(e)
	a.ChildAttrDelay.Encode(e)
	a.DirAttrDelay.Encode(e)
	a.ChildAttrs.Encode(e)
	a.DirAttrs.Encode(e)
}

// Decode implements Args.
func (a *GetDirDelegationArgs) Decode(d *xdr.Decoder) {
	a.SignalAvail = d.Bool()
	a.NotifyTypes.Decode(d)
	a.ChildAttrDelay.Decode(d)
	a.DirAttrDelay.Decode(d)
	a.ChildAttrs.Decode(d)
	a.DirAttrs.Decode(d)
}

// GetDirDelegationRes is the result of GET_DIR_DELEGATION.
type GetDirDelegationRes struct {
	Status Status
	// Unavailable tells that the request was understood but no delegation
	// granted; then only WillSignal has a value.
	Unavailable bool
	WillSignal  bool // the server will signal when one is available
	CookieVerf  Verifier
	StateID     StateID
	NotifyTypes Bitmap
	ChildAttrs  Bitmap
	DirAttrs    Bitmap
}

// Op implements Res.
func (*GetDirDelegationRes) Op() OpNum { return OpGetDirDelegation }

// Result implements Res.
func (r *GetDirDelegationRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *GetDirDelegationRes) Encode(e *xdr.Encoder) {
	if !encodeStatus(e, r.Status) {
		return
	}
	e.Bool(r.Unavailable)
	if r.Unavailable {
		e.Bool(r.WillSignal)
		return
	}
	r.CookieVerf.Encode(e)
	r.StateID.Encode(e)
	r.NotifyTypes.Encode(e)
	r.ChildAttrs.Encode(e)
	r.DirAttrs.Encode(e)
}

// Decode implements Res.
func (r *GetDirDelegationRes) Decode(d *xdr.Decoder) {
	*r = GetDirDelegationRes{}
	if !decodeStatus(d, &r.Status) {
		return
	}
	if r.Unavailable = d.Bool(); r.Unavailable {
		r.WillSignal = d.Bool()
		return
	}
	r.CookieVerf.Decode(d)
	r.StateID.Decode(d)
	r.NotifyTypes.Decode(d)
	r.ChildAttrs.Decode(d)
	r.DirAttrs.Decode(d)
}
