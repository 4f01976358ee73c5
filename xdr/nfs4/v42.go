package nfs4

import "nfsrdma-fuse/xdr"

// AllocateArgs reserves space for bytes of the current file (RFC 7862 section 15.1).
type AllocateArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Length  uint64 // bytes
}

// Op implements Args.
func (*AllocateArgs) Op() OpNum { return OpAllocate }

// Encode implements Args.
func (a *AllocateArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
}

// Decode implements Args.
func (a *AllocateArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.Length = d.Uint64()
}

// AllocateRes is the result of ALLOCATE.
type AllocateRes struct {
	Status Status
}

// Op implements Res.
func (*AllocateRes) Op() OpNum { return OpAllocate }

// Result implements Res.
func (r *AllocateRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *AllocateRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *AllocateRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// DeallocateArgs makes a hole in the current file (RFC 7862 section 15.4).
type DeallocateArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Length  uint64 // bytes
}

// Op implements Args.
func (*DeallocateArgs) Op() OpNum { return OpDeallocate }

// Encode implements Args.
func (a *DeallocateArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
}

// Decode implements Args.
func (a *DeallocateArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.Length = d.Uint64()
}

// DeallocateRes is the result of DEALLOCATE.
type DeallocateRes struct {
	Status Status
}

// Op implements Res.
func (*DeallocateRes) Op() OpNum { return OpDeallocate }

// Result implements Res.
func (r *DeallocateRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *DeallocateRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *DeallocateRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CloneArgs makes bytes of the current file share the storage of bytes of the saved
// file (RFC 7862 section 15.13).
type CloneArgs struct {
	SrcStateID StateID
	DstStateID StateID
	SrcOffset  uint64 // bytes
	DstOffset  uint64 // bytes
	Count      uint64 // bytes; 0 means to the end of the source
}

// Op implements Args.
func (*CloneArgs) Op() OpNum { return OpClone }

// Encode implements Args.
func (a *CloneArgs) Encode(e *xdr.Encoder) {
	a.SrcStateID.Encode(e)
	a.DstStateID.Encode(e)
	e.Uint64(a.SrcOffset)
	e.Uint64(a.DstOffset)
	e.Uint64(a.Count)
}

// Decode implements Args.
func (a *CloneArgs) Decode(d *xdr.Decoder) {
	a.SrcStateID.Decode(d)
	a.DstStateID.Decode(d)
	a.SrcOffset = d.Uint64()
	a.DstOffset = d.Uint64()
	a.Count = d.Uint64()
}

// CloneRes is the result of CLONE.
type CloneRes struct {
	Status Status
}

// Op implements Res.
func (*CloneRes) Op() OpNum { return OpClone }

// Result implements Res.
func (r *CloneRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *CloneRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *CloneRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// What SEEK looks for, and what READ_PLUS returns (RFC 7862 section 15.10).
const (
	ContentData uint32 = 0
	ContentHole uint32 = 1
)

// SeekArgs looks for the next data or hole in the current file (RFC 7862 section
// 15.11).
type SeekArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	What    uint32 // ContentData or ContentHole
}

// Op implements Args.
func (*SeekArgs) Op() OpNum { return OpSeek }

// Encode implements Args.
func (a *SeekArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint32(a.What)
}

// Decode implements Args.
func (a *SeekArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.What = d.Uint32()
}

// SeekRes is the result of SEEK.
type SeekRes struct {
	Status Status
	EOF    bool   // the end of the file was reached; ends of files count as holes
	Offset uint64 // bytes
}

// Op implements Res.
func (*SeekRes) Op() OpNum { return OpSeek }

// Result implements Res.
func (r *SeekRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SeekRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Bool(r.EOF)
		e.Uint64(r.Offset)
	}
}

// Decode implements Res.
func (r *SeekRes) Decode(d *xdr.Decoder) {
	*r = SeekRes{}
	if decodeStatus(d, &r.Status) {
		r.EOF = d.Bool()
		r.Offset = d.Uint64()
	}
}

// Hints of IO_ADVISE: bits of IOAdviseArgs.Hints (RFC 7862 section 15.5.1).
const (
	AdviseNormal              uint32 = 0
	AdviseSequential          uint32 = 1
	AdviseSequentialBackwards uint32 = 2
	AdviseRandom              uint32 = 3
	AdviseWillNeed            uint32 = 4
	AdviseWillNeedOpportunist uint32 = 5
	AdviseDontNeed            uint32 = 6
	AdviseNoReuse             uint32 = 7
	AdviseRead                uint32 = 8
	AdviseWrite               uint32 = 9
	AdviseInitProximity       uint32 = 10
)

// IOAdviseArgs tells how bytes of the current file will be used (RFC 7862 section
// 15.5).
type IOAdviseArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Count   uint64 // bytes; 0 means to the end
	Hints   Bitmap
}

// Op implements Args.
func (*IOAdviseArgs) Op() OpNum { return OpIOAdvise }

// Encode implements Args.
func (a *IOAdviseArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint64(a.Count)
	a.Hints.Encode(e)
}

// Decode implements Args.
func (a *IOAdviseArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint64()
	a.Hints.Decode(d)
}

// IOAdviseRes is the result of IO_ADVISE.
type IOAdviseRes struct {
	Status Status
	Hints  Bitmap // those that the server will follow
}

// Op implements Res.
func (*IOAdviseRes) Op() OpNum { return OpIOAdvise }

// Result implements Res.
func (r *IOAdviseRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *IOAdviseRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Hints.Encode(e)
	}
}

// Decode implements Res.
func (r *IOAdviseRes) Decode(d *xdr.Decoder) {
	*r = IOAdviseRes{}
	if decodeStatus(d, &r.Status) {
		r.Hints.Decode(d)
	}
}
