package nfs4

import "nfsrdma-fuse/xdr"

// GetAttrArgs asks for attributes of the current object (RFC 8881 section 18.7).
type GetAttrArgs struct {
	AttrRequest Bitmap // within KnownAttrs
}

// Op implements Args.
func (*GetAttrArgs) Op() OpNum { return OpGetAttr }

// Encode implements Args.
func (a *GetAttrArgs) Encode(e *xdr.Encoder) {
	a.AttrRequest.Encode(e)
}

// Decode implements Args.
func (a *GetAttrArgs) Decode(d *xdr.Decoder) {
	a.AttrRequest.Decode(d)
}

// GetAttrRes is the result of GETATTR.
type GetAttrRes struct {
	Status Status
	Attrs  Attrs
}

// Op implements Res.
func (*GetAttrRes) Op() OpNum { return OpGetAttr }

// Result implements Res.
func (r *GetAttrRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *GetAttrRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Attrs.Encode(e)
	}
}

// Decode implements Res.
func (r *GetAttrRes) Decode(d *xdr.Decoder) {
	*r = GetAttrRes{}
	if decodeStatus(d, &r.Status) {
		r.Attrs.Decode(d)
	}
}

// SetAttrArgs sets attributes of the current object (RFC 8881 section 18.30).
type SetAttrArgs struct {
	StateID StateID // of an open for writing if the size is set, else AnonymousStateID
	Attrs   Attrs
}

// Op implements Args.
func (*SetAttrArgs) Op() OpNum { return OpSetAttr }

// Encode implements Args.
func (a *SetAttrArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	a.Attrs.Encode(e)
}

// Decode implements Args.
func (a *SetAttrArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Attrs.Decode(d)
}

// SetAttrRes is the result of SETATTR. It has AttrsSet even if it failed: those
// that were set before (RFC 8881 section 18.30.3).
type SetAttrRes struct {
	Status   Status
	AttrsSet Bitmap
}

// Op implements Res.
func (*SetAttrRes) Op() OpNum { return OpSetAttr }

// Result implements Res.
func (r *SetAttrRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SetAttrRes) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	r.AttrsSet.Encode(e)
}

// Decode implements Res.
func (r *SetAttrRes) Decode(d *xdr.Decoder) {
	r.Status = Status(d.Uint32())
	r.AttrsSet.Decode(d)
}

// VerifyArgs fails with ErrNotSame unless the current object has these attributes
// (RFC 8881 section 18.31).
type VerifyArgs struct {
	Attrs Attrs
}

// Op implements Args.
func (*VerifyArgs) Op() OpNum { return OpVerify }

// Encode implements Args.
func (a *VerifyArgs) Encode(e *xdr.Encoder) {
	a.Attrs.Encode(e)
}

// Decode implements Args.
func (a *VerifyArgs) Decode(d *xdr.Decoder) {
	a.Attrs.Decode(d)
}

// VerifyRes is the result of VERIFY.
type VerifyRes struct {
	Status Status
}

// Op implements Res.
func (*VerifyRes) Op() OpNum { return OpVerify }

// Result implements Res.
func (r *VerifyRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *VerifyRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *VerifyRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// NVerifyArgs fails with ErrSame if the current object has these attributes
// (RFC 8881 section 18.15).
type NVerifyArgs struct {
	Attrs Attrs
}

// Op implements Args.
func (*NVerifyArgs) Op() OpNum { return OpNVerify }

// Encode implements Args.
func (a *NVerifyArgs) Encode(e *xdr.Encoder) {
	a.Attrs.Encode(e)
}

// Decode implements Args.
func (a *NVerifyArgs) Decode(d *xdr.Decoder) {
	a.Attrs.Decode(d)
}

// NVerifyRes is the result of NVERIFY.
type NVerifyRes struct {
	Status Status
}

// Op implements Res.
func (*NVerifyRes) Op() OpNum { return OpNVerify }

// Result implements Res.
func (r *NVerifyRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *NVerifyRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *NVerifyRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// Kinds of access in ACCESS; the last three are those of RFC 8276 section 8.5.
const (
	AccessRead    uint32 = 0x001
	AccessLookup  uint32 = 0x002
	AccessModify  uint32 = 0x004
	AccessExtend  uint32 = 0x008
	AccessDelete  uint32 = 0x010
	AccessExecute uint32 = 0x020
	AccessXARead  uint32 = 0x040
	AccessXAWrite uint32 = 0x080
	AccessXAList  uint32 = 0x100
)

// AccessArgs asks which kinds of access the caller has to the current object
// (RFC 8881 section 18.1).
type AccessArgs struct {
	Access uint32 // kinds asked about
}

// Op implements Args.
func (*AccessArgs) Op() OpNum { return OpAccess }

// Encode implements Args.
func (a *AccessArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.Access)
}

// Decode implements Args.
func (a *AccessArgs) Decode(d *xdr.Decoder) {
	a.Access = d.Uint32()
}

// AccessRes is the result of ACCESS.
type AccessRes struct {
	Status    Status
	Supported uint32 // kinds that the server can tell about
	Access    uint32 // kinds that the caller has
}

// Op implements Res.
func (*AccessRes) Op() OpNum { return OpAccess }

// Result implements Res.
func (r *AccessRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *AccessRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Uint32(r.Supported)
		e.Uint32(r.Access)
	}
}

// Decode implements Res.
func (r *AccessRes) Decode(d *xdr.Decoder) {
	*r = AccessRes{}
	if decodeStatus(d, &r.Status) {
		r.Supported = d.Uint32()
		r.Access = d.Uint32()
	}
}
