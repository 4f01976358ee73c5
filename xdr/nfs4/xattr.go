package nfs4

import "nfsrdma-fuse/xdr"

// GetXattrArgs asks for the value of an extended attribute of the current object
// (RFC 8276 section 8.4.1).
type GetXattrArgs struct {
	Name string // without the "user." of Linux
}

// Op implements Args.
func (*GetXattrArgs) Op() OpNum { return OpGetXattr }

// Encode implements Args.
func (a *GetXattrArgs) Encode(e *xdr.Encoder) {
	e.String(a.Name)
}

// Decode implements Args.
func (a *GetXattrArgs) Decode(d *xdr.Decoder) {
	a.Name = d.String(MaxName)
}

// GetXattrRes is the result of GETXATTR.
type GetXattrRes struct {
	Status Status
	Value  []byte // aliases the stream when decoded
}

// Op implements Res.
func (*GetXattrRes) Op() OpNum { return OpGetXattr }

// Result implements Res.
func (r *GetXattrRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *GetXattrRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Opaque(r.Value)
	}
}

// Decode implements Res.
func (r *GetXattrRes) Decode(d *xdr.Decoder) {
	*r = GetXattrRes{}
	if decodeStatus(d, &r.Status) {
		r.Value = d.Opaque(MaxXattrValue)
	}
}

// SetXattrOption tells what SETXATTR requires.
type SetXattrOption uint32

// The requirements of SETXATTR.
const (
	SetXattrEither  SetXattrOption = 0
	SetXattrCreate  SetXattrOption = 1 // fail with ErrExist if there is one
	SetXattrReplace SetXattrOption = 2 // fail with ErrNoXattr if there is none
)

// SetXattrArgs sets an extended attribute of the current object (RFC 8276 section
// 8.4.2).
type SetXattrArgs struct {
	Option SetXattrOption
	Name   string // without the "user." of Linux
	Value  []byte
}

// Op implements Args.
func (*SetXattrArgs) Op() OpNum { return OpSetXattr }

// Encode implements Args.
func (a *SetXattrArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Option))
	e.String(a.Name)
	e.Opaque(a.Value)
}

// Decode implements Args.
func (a *SetXattrArgs) Decode(d *xdr.Decoder) {
	a.Option = SetXattrOption(enum(d, uint32(SetXattrEither), uint32(SetXattrReplace)))
	a.Name = d.String(MaxName)
	a.Value = d.Opaque(MaxXattrValue)
}

// SetXattrRes is the result of SETXATTR.
type SetXattrRes struct {
	Status Status
	Change ChangeInfo // of the object
}

// Op implements Res.
func (*SetXattrRes) Op() OpNum { return OpSetXattr }

// Result implements Res.
func (r *SetXattrRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SetXattrRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Change.Encode(e)
	}
}

// Decode implements Res.
func (r *SetXattrRes) Decode(d *xdr.Decoder) {
	*r = SetXattrRes{}
	if decodeStatus(d, &r.Status) {
		r.Change.Decode(d)
	}
}

// ListXattrsArgs asks for the names of the extended attributes of the current object
// (RFC 8276 section 8.4.3).
type ListXattrsArgs struct {
	Cookie   uint64 // of the last reply; 0 at the beginning
	MaxCount uint32 // bytes of the encoded names, cookie and eof included
}

// Op implements Args.
func (*ListXattrsArgs) Op() OpNum { return OpListXattrs }

// Encode implements Args.
func (a *ListXattrsArgs) Encode(e *xdr.Encoder) {
	e.Uint64(a.Cookie)
	e.Uint32(a.MaxCount)
}

// Decode implements Args.
func (a *ListXattrsArgs) Decode(d *xdr.Decoder) {
	a.Cookie = d.Uint64()
	a.MaxCount = d.Uint32()
}

// ListXattrsRes is the result of LISTXATTRS.
type ListXattrsRes struct {
	Status Status
	Cookie uint64 // to go on behind the last name
	Names  []Component
	EOF    bool
}

// Op implements Res.
func (*ListXattrsRes) Op() OpNum { return OpListXattrs }

// Result implements Res.
func (r *ListXattrsRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *ListXattrsRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Uint64(r.Cookie)
		encodeList(e, r.Names)
		e.Bool(r.EOF)
	}
}

// Decode implements Res.
func (r *ListXattrsRes) Decode(d *xdr.Decoder) {
	*r = ListXattrsRes{}
	if decodeStatus(d, &r.Status) {
		r.Cookie = d.Uint64()
		r.Names = decodeList[Component](d, MaxXattrNames, 4)
		r.EOF = d.Bool()
	}
}

// RemoveXattrArgs removes an extended attribute of the current object (RFC 8276 section
// 8.4.4).
type RemoveXattrArgs struct {
	Name string // without the "user." of Linux
}

// Op implements Args.
func (*RemoveXattrArgs) Op() OpNum { return OpRemoveXattr }

// Encode implements Args.
func (a *RemoveXattrArgs) Encode(e *xdr.Encoder) {
	e.String(a.Name)
}

// Decode implements Args.
func (a *RemoveXattrArgs) Decode(d *xdr.Decoder) {
	a.Name = d.String(MaxName)
}

// RemoveXattrRes is the result of REMOVEXATTR.
type RemoveXattrRes struct {
	Status Status
	Change ChangeInfo // of the object
}

// Op implements Res.
func (*RemoveXattrRes) Op() OpNum { return OpRemoveXattr }

// Result implements Res.
func (r *RemoveXattrRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *RemoveXattrRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Change.Encode(e)
	}
}

// Decode implements Res.
func (r *RemoveXattrRes) Decode(d *xdr.Decoder) {
	*r = RemoveXattrRes{}
	if decodeStatus(d, &r.Status) {
		r.Change.Decode(d)
	}
}
