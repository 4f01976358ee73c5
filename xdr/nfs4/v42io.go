package nfs4

import "nfsrdma-fuse/xdr"

// ReadPlusArgs reads from the current file and may be told holes (RFC 7862 section
// 15.10). Over RPC-over-RDMA a client uses READ instead, because nothing of its
// result can be placed directly (RFC 8267 section 6.1).
type ReadPlusArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Count   uint32 // bytes
}

// Op implements Args.
func (*ReadPlusArgs) Op() OpNum { return OpReadPlus }

// Encode implements Args.
func (a *ReadPlusArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint32(a.Count)
}

// Decode implements Args.
func (a *ReadPlusArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
}

// Content is a piece of a READ_PLUS result: data or a hole.
type Content struct {
	Hole   bool
	Offset uint64 // bytes
	Length uint64 // bytes, if Hole
	Data   []byte // unless Hole; aliases the stream when decoded
}

// MaxContents bounds the pieces of a READ_PLUS result.
const MaxContents = 4096

// Encode appends v.
func (v *Content) Encode(e *xdr.Encoder) {
	e.Bool(v.Hole) // ContentData or ContentHole
	e.Uint64(v.Offset)
	if v.Hole {
		e.Uint64(v.Length)
	} else {
		e.Opaque(v.Data)
	}
}

// Decode takes v.
func (v *Content) Decode(d *xdr.Decoder) {
	*v = Content{Hole: enum(d, ContentData, ContentHole) == ContentHole, Offset: d.Uint64()}
	if v.Hole {
		v.Length = d.Uint64()
	} else {
		v.Data = d.Opaque(MaxData)
	}
}

// ReadPlusRes is the result of READ_PLUS.
type ReadPlusRes struct {
	Status   Status
	EOF      bool
	Contents []Content
}

// Op implements Res.
func (*ReadPlusRes) Op() OpNum { return OpReadPlus }

// Result implements Res.
func (r *ReadPlusRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *ReadPlusRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Bool(r.EOF)
		encodeList(e, r.Contents)
	}
}

// Decode implements Res.
func (r *ReadPlusRes) Decode(d *xdr.Decoder) {
	*r = ReadPlusRes{}
	if decodeStatus(d, &r.Status) {
		r.EOF = d.Bool()
		r.Contents = decodeList[Content](d, MaxContents, 16)
	}
}

// MaxPattern bounds the pattern of WRITE_SAME, bytes.
const MaxPattern = 64 << 10

// WriteSameArgs writes a pattern over and over into the current file (RFC 7862 section
// 15.12).
type WriteSameArgs struct {
	StateID        StateID
	Stable         StableHow
	Offset         uint64 // bytes
	BlockSize      uint64 // bytes
	BlockCount     uint64
	RelOffBlockNum uint64 // bytes from the start of a block to its number
	BlockNum       uint32 // number of the first block
	RelOffPattern  uint64 // bytes from the start of a block to the pattern
	Pattern        []byte
}

// Op implements Args.
func (*WriteSameArgs) Op() OpNum { return OpWriteSame }

// Encode implements Args.
func (a *WriteSameArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint32(uint32(a.Stable))
	e.Uint64(a.Offset)
	e.Uint64(a.BlockSize)
	e.Uint64(a.BlockCount)
	e.Uint64(a.RelOffBlockNum)
	e.Uint32(a.BlockNum)
	e.Uint64(a.RelOffPattern)
	e.Opaque(a.Pattern)
}

// Decode implements Args.
func (a *WriteSameArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Stable = StableHow(enum(d, uint32(Unstable), uint32(FileSync)))
	a.Offset = d.Uint64()
	a.BlockSize = d.Uint64()
	a.BlockCount = d.Uint64()
	a.RelOffBlockNum = d.Uint64()
	a.BlockNum = d.Uint32()
	a.RelOffPattern = d.Uint64()
	a.Pattern = d.Opaque(MaxPattern)
}

// WriteSameRes is the result of WRITE_SAME.
type WriteSameRes struct {
	Status   Status
	Response WriteResponse
}

// Op implements Res.
func (*WriteSameRes) Op() OpNum { return OpWriteSame }

// Result implements Res.
func (r *WriteSameRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *WriteSameRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Response.Encode(e)
	}
}

// Decode implements Res.
func (r *WriteSameRes) Decode(d *xdr.Decoder) {
	*r = WriteSameRes{}
	if decodeStatus(d, &r.Status) {
		r.Response.Decode(d)
	}
}
