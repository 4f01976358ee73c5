package nfs4

import "nfsrdma-fuse/xdr"

// Bounds of CB_SEQUENCE.
const (
	MaxReferringLists = 64
	MaxReferringCalls = 1024 // in one list
)

// ReferringCall names a request by its slot.
type ReferringCall struct {
	SequenceID uint32
	SlotID     uint32
}

// Encode appends v.
func (v *ReferringCall) Encode(e *xdr.Encoder) {
	e.Uint32(v.SequenceID)
	e.Uint32(v.SlotID)
}

// Decode takes v.
func (v *ReferringCall) Decode(d *xdr.Decoder) {
	v.SequenceID = d.Uint32()
	v.SlotID = d.Uint32()
}

// ReferringCallList names requests of a session that a callback refers to: their
// replies may still be on their way (RFC 8881 section 2.10.6.3).
type ReferringCallList struct {
	SessionID SessionID
	Calls     []ReferringCall
}

// Encode appends v.
func (v *ReferringCallList) Encode(e *xdr.Encoder) {
	v.SessionID.Encode(e)
	encodeList(e, v.Calls)
}

// Decode takes v.
func (v *ReferringCallList) Decode(d *xdr.Decoder) {
	v.SessionID.Decode(d)
	v.Calls = decodeList[ReferringCall](d, MaxReferringCalls, 8)
}

// CBSequenceArgs takes a slot of the back channel; it is the first operation of every
// CB_COMPOUND (RFC 8881 section 20.9).
//
//	+------------+-------+--------+-----------+---------+------------------+
//	| session 16 | seq 4 | slot 4 | highest 4 | cache 4 | referring    ..  |
//	+------------+-------+--------+-----------+---------+------------------+
type CBSequenceArgs struct {
	SessionID     SessionID
	SequenceID    uint32 // one more than that of the slot's last request
	SlotID        uint32
	HighestSlotID uint32 // highest slot that has a request outstanding
	CacheThis     bool
	Referring     []ReferringCallList
}

// Op implements CBArgs.
func (*CBSequenceArgs) Op() CBOpNum { return CBOpSequence }

// Encode implements CBArgs.
func (a *CBSequenceArgs) Encode(e *xdr.Encoder) {
	a.SessionID.Encode(e)
	e.Uint32(a.SequenceID)
	e.Uint32(a.SlotID)
	e.Uint32(a.HighestSlotID)
	e.Bool(a.CacheThis)
	encodeList(e, a.Referring)
}

// Decode implements CBArgs.
func (a *CBSequenceArgs) Decode(d *xdr.Decoder) {
	a.SessionID.Decode(d)
	a.SequenceID = d.Uint32()
	a.SlotID = d.Uint32()
	a.HighestSlotID = d.Uint32()
	a.CacheThis = d.Bool()
	a.Referring = decodeList[ReferringCallList](d, MaxReferringLists, 20)
}

// CBSequenceRes is the result of CB_SEQUENCE.
type CBSequenceRes struct {
	Status              Status
	SessionID           SessionID
	SequenceID          uint32
	SlotID              uint32
	HighestSlotID       uint32 // highest slot that the client will take
	TargetHighestSlotID uint32 // highest slot that the client wants to be used
}

// Op implements CBRes.
func (*CBSequenceRes) Op() CBOpNum { return CBOpSequence }

// Result implements CBRes.
func (r *CBSequenceRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBSequenceRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.SessionID.Encode(e)
		e.Uint32(r.SequenceID)
		e.Uint32(r.SlotID)
		e.Uint32(r.HighestSlotID)
		e.Uint32(r.TargetHighestSlotID)
	}
}

// Decode implements CBRes.
func (r *CBSequenceRes) Decode(d *xdr.Decoder) {
	*r = CBSequenceRes{}
	if decodeStatus(d, &r.Status) {
		r.SessionID.Decode(d)
		r.SequenceID = d.Uint32()
		r.SlotID = d.Uint32()
		r.HighestSlotID = d.Uint32()
		r.TargetHighestSlotID = d.Uint32()
	}
}

// CBCompoundArgs are the arguments of CB_COMPOUND (RFC 8881 section 20).
//
//	+---------+---------+---------+---------+------+------+------+------+--
//	| tag  .. | minor 4 | ident 4 | count 4 | op 4 | args | op 4 | args | ..
//	+---------+---------+---------+---------+------+------+------+------+--
type CBCompoundArgs struct {
	Tag           string
	Minor         uint32
	CallbackIdent uint32 // not used in minor version 1
	Ops           []CBArgs
	// Count is the number of operations that the requester announced; set by
	// Decode, ignored by Encode. It is larger than len(Ops) if there are more
	// than MaxOps, or if one could not be decoded.
	Count int
}

// Encode appends a.
func (a *CBCompoundArgs) Encode(e *xdr.Encoder) {
	e.String(a.Tag)
	e.Uint32(a.Minor)
	e.Uint32(a.CallbackIdent)
	e.Uint32(uint32(len(a.Ops)))
	for _, op := range a.Ops {
		e.Uint32(uint32(op.Op()))
		op.Encode(e)
	}
}

// Decode takes a. An operation that is not known, or whose arguments are
// malformed, becomes a *CBIllegalArgs and is the last of Ops: a client executes
// the ones before it and answers that one with CBIllegalArgs.Res. Malformed
// arguments also leave their error in the decoder.
func (a *CBCompoundArgs) Decode(d *xdr.Decoder) {
	*a = CBCompoundArgs{Tag: d.String(MaxTag), Minor: d.Uint32(), CallbackIdent: d.Uint32()}
	n := d.Uint32()
	if d.Err() != nil {
		return
	}
	a.Count = int(n)
	for range min(n, MaxOps) {
		num := CBOpNum(d.Uint32())
		if d.Err() != nil {
			return
		}
		op := NewCBArgs(num)
		op.Decode(d)
		if bad, ok := op.(*CBIllegalArgs); ok {
			a.Ops = append(a.Ops, bad)
			return
		}
		if d.Err() != nil {
			a.Ops = append(a.Ops, &CBIllegalArgs{Number: num, Status: ErrBadXDR})
			return
		}
		a.Ops = append(a.Ops, op)
	}
}

// CBIllegalArgs stand for a callback operation that cannot be executed: its
// number is unknown or its arguments are malformed.
type CBIllegalArgs struct {
	Number CBOpNum // as it came from the wire
	Status Status
}

// Op implements CBArgs. It is the number that the result must carry:
// CBOpIllegal for an unknown one.
func (a *CBIllegalArgs) Op() CBOpNum {
	if a.Status == ErrOpIllegal {
		return CBOpIllegal
	}
	return a.Number
}

// Encode implements CBArgs.
func (*CBIllegalArgs) Encode(*xdr.Encoder) {}

// Decode implements CBArgs.
func (*CBIllegalArgs) Decode(*xdr.Decoder) {}

// Res returns the answer to the operation.
func (a *CBIllegalArgs) Res() *CBIllegalRes { return &CBIllegalRes{Number: a.Op(), Status: a.Status} }

// CBIllegalRes is a result that consists of a failure status only: that of
// CB_ILLEGAL, or that of an operation which failed before it was executed.
type CBIllegalRes struct {
	Status Status
	Number CBOpNum // of the operation that the result is for
}

// Op implements CBRes.
func (r *CBIllegalRes) Op() CBOpNum { return r.Number }

// Result implements CBRes.
func (r *CBIllegalRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBIllegalRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBIllegalRes) Decode(d *xdr.Decoder) {
	if decodeStatus(d, &r.Status) {
		d.Fail(xdr.ErrRange)
	}
}

// CBCompoundRes is the result of CB_COMPOUND (RFC 8881 section 20). Its status
// is that of the last result.
type CBCompoundRes struct {
	Status Status
	Tag    string
	Ops    []CBRes
}

// Encode appends r.
func (r *CBCompoundRes) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	e.String(r.Tag)
	e.Uint32(uint32(len(r.Ops)))
	for _, op := range r.Ops {
		e.Uint32(uint32(op.Op()))
		op.Encode(e)
	}
}

// Decode takes r.
func (r *CBCompoundRes) Decode(d *xdr.Decoder) {
	status, tag, n := DecodeCompoundHeader(d)
	*r = CBCompoundRes{Status: status, Tag: string(tag)}
	for range n {
		op := NewCBRes(CBOpNum(d.Uint32()))
		op.Decode(d)
		if d.Err() != nil {
			return
		}
		r.Ops = append(r.Ops, op)
	}
}
