package nfs4

import "nfsrdma-fuse/xdr"

// LayoutIOMode tells what a layout may be used for (RFC 8881 section 3.3.20).
type LayoutIOMode uint32

// The uses of a layout.
const (
	LayoutIORead LayoutIOMode = 1
	LayoutIORW   LayoutIOMode = 2
	LayoutIOAny  LayoutIOMode = 3 // not in LAYOUTGET
)

// LayoutReturnType tells which layouts are returned or recalled.
type LayoutReturnType uint32

// What can be returned or recalled.
const (
	LayoutReturnFile LayoutReturnType = 1
	LayoutReturnFSID LayoutReturnType = 2
	LayoutReturnAll  LayoutReturnType = 3
)

// MaxLayouts bounds the layouts in a LAYOUTGET result.
const MaxLayouts = 256

// Layout is a layout of a range of a file; the meaning of Body depends on Type.
type Layout struct {
	Offset uint64 // bytes
	Length uint64 // bytes
	IOMode LayoutIOMode
	Type   LayoutType
	Body   []byte // aliases the stream when decoded
}

// Encode appends v.
func (v *Layout) Encode(e *xdr.Encoder) {
	e.Uint64(v.Offset)
	e.Uint64(v.Length)
	e.Uint32(uint32(v.IOMode))
	e.Uint32(uint32(v.Type))
	e.Opaque(v.Body)
}

// Decode takes v.
func (v *Layout) Decode(d *xdr.Decoder) {
	v.Offset = d.Uint64()
	v.Length = d.Uint64()
	v.IOMode = LayoutIOMode(enum(d, uint32(LayoutIORead), uint32(LayoutIOAny)))
	v.Type = LayoutType(d.Uint32())
	v.Body = d.Opaque(MaxLayoutBody)
}

// LayoutGetArgs asks for layouts of the current file (RFC 8881 section 18.43).
type LayoutGetArgs struct {
	SignalAvail bool
	Type        LayoutType
	IOMode      LayoutIOMode
	Offset      uint64 // bytes
	Length      uint64 // bytes
	MinLength   uint64 // bytes
	StateID     StateID
	MaxCount    uint32 // bytes of the result
}

// Op implements Args.
func (*LayoutGetArgs) Op() OpNum { return OpLayoutGet }

// Encode implements Args.
func (a *LayoutGetArgs) Encode(e *xdr.Encoder) {
	e.Bool(a.SignalAvail)
	e.Uint32(uint32(a.Type))
	e.Uint32(uint32(a.IOMode))
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
	e.Uint64(a.MinLength)
	a.StateID.Encode(e)
	e.Uint32(a.MaxCount)
}

// Decode implements Args.
func (a *LayoutGetArgs) Decode(d *xdr.Decoder) {
	a.SignalAvail = d.Bool()
	a.Type = LayoutType(d.Uint32())
	a.IOMode = LayoutIOMode(enum(d, uint32(LayoutIORead), uint32(LayoutIOAny)))
	a.Offset = d.Uint64()
	a.Length = d.Uint64()
	a.MinLength = d.Uint64()
	a.StateID.Decode(d)
	a.MaxCount = d.Uint32()
}

// LayoutGetRes is the result of LAYOUTGET.
type LayoutGetRes struct {
	Status        Status
	ReturnOnClose bool     // of OK
	StateID       StateID  // of OK
	Layouts       []Layout // of OK
	WillSignal    bool     // of ErrLayoutTryLater
}

// Op implements Res.
func (*LayoutGetRes) Op() OpNum { return OpLayoutGet }

// Result implements Res.
func (r *LayoutGetRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LayoutGetRes) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	switch r.Status {
	case OK:
		e.Bool(r.ReturnOnClose)
		r.StateID.Encode(e)
		encodeList(e, r.Layouts)
	case ErrLayoutTryLater:
		e.Bool(r.WillSignal)
	}
}

// Decode implements Res.
func (r *LayoutGetRes) Decode(d *xdr.Decoder) {
	*r = LayoutGetRes{Status: Status(d.Uint32())}
	switch r.Status {
	case OK:
		r.ReturnOnClose = d.Bool()
		r.StateID.Decode(d)
		r.Layouts = decodeList[Layout](d, MaxLayouts, 28)
	case ErrLayoutTryLater:
		r.WillSignal = d.Bool()
	}
}

// LayoutCommitArgs makes what was written by a layout of the current file
// visible (RFC 8881 section 18.42).
type LayoutCommitArgs struct {
	Offset          uint64 // bytes
	Length          uint64 // bytes
	Reclaim         bool
	StateID         StateID
	HasLastWrite    bool
	LastWriteOffset uint64 // if HasLastWrite: of the last byte written
	HasTimeModify   bool
	TimeModify      Time // if HasTimeModify
	Type            LayoutType
	Body            []byte // at most MaxLayoutBody bytes
}

// Op implements Args.
func (*LayoutCommitArgs) Op() OpNum { return OpLayoutCommit }

// Encode implements Args.
func (a *LayoutCommitArgs) Encode(e *xdr.Encoder) {
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
	e.Bool(a.Reclaim)
	a.StateID.Encode(e)
	e.Bool(a.HasLastWrite)
	if a.HasLastWrite {
		e.Uint64(a.LastWriteOffset)
	}
	e.Bool(a.HasTimeModify)
	if a.HasTimeModify {
		a.TimeModify.Encode(e)
	}
	e.Uint32(uint32(a.Type))
	e.Opaque(a.Body)
}

// Decode implements Args.
func (a *LayoutCommitArgs) Decode(d *xdr.Decoder) {
	*a = LayoutCommitArgs{Offset: d.Uint64(), Length: d.Uint64(), Reclaim: d.Bool()}
	a.StateID.Decode(d)
	if a.HasLastWrite = d.Bool(); a.HasLastWrite {
		a.LastWriteOffset = d.Uint64()
	}
	if a.HasTimeModify = d.Bool(); a.HasTimeModify {
		a.TimeModify.Decode(d)
	}
	a.Type = LayoutType(d.Uint32())
	a.Body = d.Opaque(MaxLayoutBody)
}

// LayoutCommitRes is the result of LAYOUTCOMMIT.
type LayoutCommitRes struct {
	Status  Status
	HasSize bool   // the size of the file has changed
	Size    uint64 // if HasSize, bytes
}

// Op implements Res.
func (*LayoutCommitRes) Op() OpNum { return OpLayoutCommit }

// Result implements Res.
func (r *LayoutCommitRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LayoutCommitRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Bool(r.HasSize)
		if r.HasSize {
			e.Uint64(r.Size)
		}
	}
}

// Decode implements Res.
func (r *LayoutCommitRes) Decode(d *xdr.Decoder) {
	*r = LayoutCommitRes{}
	if decodeStatus(d, &r.Status) {
		if r.HasSize = d.Bool(); r.HasSize {
			r.Size = d.Uint64()
		}
	}
}

// LayoutReturnArgs gives layouts back (RFC 8881 section 18.44).
type LayoutReturnArgs struct {
	Reclaim bool
	Type    LayoutType
	IOMode  LayoutIOMode
	Return  LayoutReturnType
	Offset  uint64  // of LayoutReturnFile, bytes
	Length  uint64  // of LayoutReturnFile, bytes
	StateID StateID // of LayoutReturnFile
	Body    []byte  // of LayoutReturnFile, at most MaxLayoutBody bytes
}

// Op implements Args.
func (*LayoutReturnArgs) Op() OpNum { return OpLayoutReturn }

// Encode implements Args.
func (a *LayoutReturnArgs) Encode(e *xdr.Encoder) {
	e.Bool(a.Reclaim)
	e.Uint32(uint32(a.Type))
	e.Uint32(uint32(a.IOMode))
	e.Uint32(uint32(a.Return))
	if a.Return == LayoutReturnFile {
		e.Uint64(a.Offset)
		e.Uint64(a.Length)
		a.StateID.Encode(e)
		e.Opaque(a.Body)
	}
}

// Decode implements Args.
func (a *LayoutReturnArgs) Decode(d *xdr.Decoder) {
	*a = LayoutReturnArgs{
		Reclaim: d.Bool(),
		Type:    LayoutType(d.Uint32()),
		IOMode:  LayoutIOMode(enum(d, uint32(LayoutIORead), uint32(LayoutIOAny))),
		Return:  LayoutReturnType(enum(d, uint32(LayoutReturnFile), uint32(LayoutReturnAll))),
	}
	if a.Return == LayoutReturnFile {
		a.Offset = d.Uint64()
		a.Length = d.Uint64()
		a.StateID.Decode(d)
		a.Body = d.Opaque(MaxLayoutBody)
	}
}

// LayoutReturnRes is the result of LAYOUTRETURN.
type LayoutReturnRes struct {
	Status     Status
	HasStateID bool    // layouts of the file are left
	StateID    StateID // if HasStateID
}

// Op implements Res.
func (*LayoutReturnRes) Op() OpNum { return OpLayoutReturn }

// Result implements Res.
func (r *LayoutReturnRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LayoutReturnRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Bool(r.HasStateID)
		if r.HasStateID {
			r.StateID.Encode(e)
		}
	}
}

// Decode implements Res.
func (r *LayoutReturnRes) Decode(d *xdr.Decoder) {
	*r = LayoutReturnRes{}
	if decodeStatus(d, &r.Status) {
		if r.HasStateID = d.Bool(); r.HasStateID {
			r.StateID.Decode(d)
		}
	}
}
