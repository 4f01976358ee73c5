package nfs4

import "nfsrdma-fuse/xdr"

// StableHow tells how far a server must carry written data before it answers
// (RFC 8881 section 18.32).
type StableHow uint32

// The degrees of stability.
const (
	Unstable StableHow = 0 // a COMMIT must follow
	DataSync StableHow = 1 // data, and what is needed to find it again, on stable storage
	FileSync StableHow = 2 // data and all metadata on stable storage
)

// ReadArgs reads from the current file (RFC 8881 section 18.22).
type ReadArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Count   uint32 // bytes
}

// Op implements Args.
func (*ReadArgs) Op() OpNum { return OpRead }

// Encode implements Args.
func (a *ReadArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint32(a.Count)
}

// Decode implements Args.
func (a *ReadArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
}

// ReadRes is the result of READ. The data is DDP-eligible (RFC 8267 section
// 6.1).
//
//	+----------+--------+-----------+----------------------+
//	| status 4 | eof  4 | length  4 | data   length, padded |
//	+----------+--------+-----------+----------------------+
type ReadRes struct {
	Status Status
	EOF    bool
	Data   []byte // aliases the stream, or the memory it was placed into
	// Beside tells that Data had been moved beside the stream when it was
	// decoded.
	Beside bool
}

// Op implements Res.
func (*ReadRes) Op() OpNum { return OpRead }

// Result implements Res.
func (r *ReadRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *ReadRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Bool(r.EOF)
		e.Bulk(r.Data)
	}
}

// Decode implements Res.
func (r *ReadRes) Decode(d *xdr.Decoder) {
	*r = ReadRes{}
	if decodeStatus(d, &r.Status) {
		r.EOF = d.Bool()
		r.Data, r.Beside = d.Bulk(MaxData)
	}
}

// WriteArgs writes to the current file (RFC 8881 section 18.32). The data is
// DDP-eligible (RFC 8267 section 6.1).
//
//	+------------+----------+----------+-----------+-----------------------+
//	| stateid 16 | offset 8 | stable 4 | length  4 | data   length, padded |
//	+------------+----------+----------+-----------+-----------------------+
type WriteArgs struct {
	StateID StateID
	Offset  uint64 // bytes
	Stable  StableHow
	Data    []byte // at most MaxData bytes
}

// Op implements Args.
func (*WriteArgs) Op() OpNum { return OpWrite }

// Encode implements Args.
func (a *WriteArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint32(uint32(a.Stable))
	e.Bulk(a.Data)
}

// Decode implements Args.
func (a *WriteArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.Stable = StableHow(enum(d, uint32(Unstable), uint32(FileSync)))
	a.Data, _ = d.Bulk(MaxData)
}

// WriteRes is the result of WRITE.
type WriteRes struct {
	Status    Status
	Count     uint32    // bytes written
	Committed StableHow // at least what was asked for
	Verf      Verifier  // differs from an earlier one if unstable data was lost since
}

// Op implements Res.
func (*WriteRes) Op() OpNum { return OpWrite }

// Result implements Res.
func (r *WriteRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *WriteRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Uint32(r.Count)
		e.Uint32(uint32(r.Committed))
		r.Verf.Encode(e)
	}
}

// Decode implements Res.
func (r *WriteRes) Decode(d *xdr.Decoder) {
	*r = WriteRes{}
	if decodeStatus(d, &r.Status) {
		r.Count = d.Uint32()
		r.Committed = StableHow(enum(d, uint32(Unstable), uint32(FileSync)))
		r.Verf.Decode(d)
	}
}

// CommitArgs brings unstable data of the current file to stable storage
// (RFC 8881 section 18.3).
type CommitArgs struct {
	Offset uint64 // bytes
	Count  uint32 // bytes; 0 means up to the end of the file
}

// Op implements Args.
func (*CommitArgs) Op() OpNum { return OpCommit }

// Encode implements Args.
func (a *CommitArgs) Encode(e *xdr.Encoder) {
	e.Uint64(a.Offset)
	e.Uint32(a.Count)
}

// Decode implements Args.
func (a *CommitArgs) Decode(d *xdr.Decoder) {
	a.Offset = d.Uint64()
	a.Count = d.Uint32()
}

// CommitRes is the result of COMMIT.
type CommitRes struct {
	Status Status
	Verf   Verifier // to be compared with those of the WRITEs
}

// Op implements Res.
func (*CommitRes) Op() OpNum { return OpCommit }

// Result implements Res.
func (r *CommitRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *CommitRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Verf.Encode(e)
	}
}

// Decode implements Res.
func (r *CommitRes) Decode(d *xdr.Decoder) {
	*r = CommitRes{}
	if decodeStatus(d, &r.Status) {
		r.Verf.Decode(d)
	}
}

// ReadLinkArgs asks for the text of the current symbolic link (RFC 8881 section 18.24).
type ReadLinkArgs struct{}

// Op implements Args.
func (*ReadLinkArgs) Op() OpNum { return OpReadLink }

// Encode implements Args.
func (*ReadLinkArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*ReadLinkArgs) Decode(*xdr.Decoder) {}

// ReadLinkRes is the result of READLINK. The text is DDP-eligible (RFC 8267
// section 6.1).
type ReadLinkRes struct {
	Status Status
	Text   []byte // aliases the stream when decoded
}

// Op implements Res.
func (*ReadLinkRes) Op() OpNum { return OpReadLink }

// Result implements Res.
func (r *ReadLinkRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *ReadLinkRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Bulk(r.Text)
	}
}

// Decode implements Res.
func (r *ReadLinkRes) Decode(d *xdr.Decoder) {
	*r = ReadLinkRes{}
	if decodeStatus(d, &r.Status) {
		r.Text, _ = d.Bulk(MaxLinkText)
	}
}
