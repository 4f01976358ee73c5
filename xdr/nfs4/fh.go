package nfs4

import "nfsrdma-fuse/xdr"

// PutFHArgs makes FH the current filehandle (RFC 8881 section 18.19).
type PutFHArgs struct {
	FH FH
}

// Op implements Args.
func (*PutFHArgs) Op() OpNum { return OpPutFH }

// Encode implements Args.
func (a *PutFHArgs) Encode(e *xdr.Encoder) {
	a.FH.Encode(e)
}

// Decode implements Args.
func (a *PutFHArgs) Decode(d *xdr.Decoder) {
	a.FH.Decode(d)
}

// PutFHRes is the result of PUTFH.
type PutFHRes struct {
	Status Status
}

// Op implements Res.
func (*PutFHRes) Op() OpNum { return OpPutFH }

// Result implements Res.
func (r *PutFHRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *PutFHRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *PutFHRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// PutRootFHArgs makes the root of the server the current filehandle (RFC 8881 section 18.21).
type PutRootFHArgs struct{}

// Op implements Args.
func (*PutRootFHArgs) Op() OpNum { return OpPutRootFH }

// Encode implements Args.
func (*PutRootFHArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*PutRootFHArgs) Decode(*xdr.Decoder) {}

// PutRootFHRes is the result of PUTROOTFH.
type PutRootFHRes struct {
	Status Status
}

// Op implements Res.
func (*PutRootFHRes) Op() OpNum { return OpPutRootFH }

// Result implements Res.
func (r *PutRootFHRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *PutRootFHRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *PutRootFHRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// PutPubFHArgs makes the public filehandle the current one (RFC 8881 section 18.20).
type PutPubFHArgs struct{}

// Op implements Args.
func (*PutPubFHArgs) Op() OpNum { return OpPutPubFH }

// Encode implements Args.
func (*PutPubFHArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*PutPubFHArgs) Decode(*xdr.Decoder) {}

// PutPubFHRes is the result of PUTPUBFH.
type PutPubFHRes struct {
	Status Status
}

// Op implements Res.
func (*PutPubFHRes) Op() OpNum { return OpPutPubFH }

// Result implements Res.
func (r *PutPubFHRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *PutPubFHRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *PutPubFHRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// GetFHArgs asks for the current filehandle (RFC 8881 section 18.8).
type GetFHArgs struct{}

// Op implements Args.
func (*GetFHArgs) Op() OpNum { return OpGetFH }

// Encode implements Args.
func (*GetFHArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*GetFHArgs) Decode(*xdr.Decoder) {}

// GetFHRes is the result of GETFH.
type GetFHRes struct {
	Status Status
	FH     FH // aliases the stream when decoded
}

// Op implements Res.
func (*GetFHRes) Op() OpNum { return OpGetFH }

// Result implements Res.
func (r *GetFHRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *GetFHRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.FH.Encode(e)
	}
}

// Decode implements Res.
func (r *GetFHRes) Decode(d *xdr.Decoder) {
	*r = GetFHRes{}
	if decodeStatus(d, &r.Status) {
		r.FH.Decode(d)
	}
}

// SaveFHArgs makes the current filehandle (and stateid) the saved one (RFC 8881 section 18.28).
type SaveFHArgs struct{}

// Op implements Args.
func (*SaveFHArgs) Op() OpNum { return OpSaveFH }

// Encode implements Args.
func (*SaveFHArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*SaveFHArgs) Decode(*xdr.Decoder) {}

// SaveFHRes is the result of SAVEFH.
type SaveFHRes struct {
	Status Status
}

// Op implements Res.
func (*SaveFHRes) Op() OpNum { return OpSaveFH }

// Result implements Res.
func (r *SaveFHRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SaveFHRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *SaveFHRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// RestoreFHArgs makes the saved filehandle (and stateid) the current one (RFC 8881 section 18.27).
type RestoreFHArgs struct{}

// Op implements Args.
func (*RestoreFHArgs) Op() OpNum { return OpRestoreFH }

// Encode implements Args.
func (*RestoreFHArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*RestoreFHArgs) Decode(*xdr.Decoder) {}

// RestoreFHRes is the result of RESTOREFH.
type RestoreFHRes struct {
	Status Status
}

// Op implements Res.
func (*RestoreFHRes) Op() OpNum { return OpRestoreFH }

// Result implements Res.
func (r *RestoreFHRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *RestoreFHRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *RestoreFHRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// LookupArgs makes an entry of the current directory the current filehandle
// (RFC 8881 section 18.13).
type LookupArgs struct {
	Name string
}

// Op implements Args.
func (*LookupArgs) Op() OpNum { return OpLookup }

// Encode implements Args.
func (a *LookupArgs) Encode(e *xdr.Encoder) {
	e.String(a.Name)
}

// Decode implements Args.
func (a *LookupArgs) Decode(d *xdr.Decoder) {
	a.Name = d.String(MaxName)
}

// LookupRes is the result of LOOKUP.
type LookupRes struct {
	Status Status
}

// Op implements Res.
func (*LookupRes) Op() OpNum { return OpLookup }

// Result implements Res.
func (r *LookupRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LookupRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *LookupRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// LookupPArgs makes the parent of the current directory the current filehandle
// (RFC 8881 section 18.14).
type LookupPArgs struct{}

// Op implements Args.
func (*LookupPArgs) Op() OpNum { return OpLookupP }

// Encode implements Args.
func (*LookupPArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*LookupPArgs) Decode(*xdr.Decoder) {}

// LookupPRes is the result of LOOKUPP.
type LookupPRes struct {
	Status Status
}

// Op implements Res.
func (*LookupPRes) Op() OpNum { return OpLookupP }

// Result implements Res.
func (r *LookupPRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LookupPRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *LookupPRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }
