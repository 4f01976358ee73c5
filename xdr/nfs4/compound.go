package nfs4

import (
	"errors"

	"nfsrdma-fuse/xdr"
)

// Numbers of the NFS program and of its procedures (RFC 8881 section 16).
const (
	Program      uint32 = 100003
	Version      uint32 = 4
	ProcNull     uint32 = 0
	ProcCompound uint32 = 1

	// CallbackVersion is the version of a client's callback program, whose
	// number the client chooses; its procedures have the numbers above.
	CallbackVersion uint32 = 1
)

// Errors that the decoding of a COMPOUND reply can report, wrapped in an
// xdr.DecodeError.
var (
	// ErrResultOp means that a result belongs to another operation than the
	// one in its place in the request.
	ErrResultOp = errors.New("nfs4: result of another operation than was asked for")
	// ErrResultCount means that a reply has more or fewer results than its
	// status allows.
	ErrResultCount = errors.New("nfs4: wrong number of results")
)

// CompoundArgs are the arguments of COMPOUND (RFC 8881 section 16.2).
//
//	+---------+---------+---------+------+------+------+------+--
//	| tag  .. | minor 4 | count 4 | op 4 | args | op 4 | args | ..
//	+---------+---------+---------+------+------+------+------+--
type CompoundArgs struct {
	Tag   string // for diagnosis, comes back in the reply; at most MaxTag bytes
	Minor uint32 // minor version
	Ops   []Args
	// Count is the number of operations that the requester announced; set by
	// Decode, ignored by Encode. It is larger than len(Ops) if there are more
	// than MaxOps, or if one could not be decoded.
	Count int
}

// Encode appends a. If Ops are pointers into longer-lived structs, it does not
// allocate.
func (a *CompoundArgs) Encode(e *xdr.Encoder) {
	e.String(a.Tag)
	e.Uint32(a.Minor)
	e.Uint32(uint32(len(a.Ops)))
	for _, op := range a.Ops {
		e.Uint32(uint32(op.Op()))
		op.Encode(e)
	}
}

// Decode takes a. An operation that is not known, or whose arguments are
// malformed, becomes an *IllegalArgs and is the last of Ops: a server executes
// the ones before it and answers that one with IllegalArgs.Res (RFC 8881
// section 16.2.3). Malformed arguments also leave their error in the decoder.
func (a *CompoundArgs) Decode(d *xdr.Decoder) {
	*a = CompoundArgs{Tag: d.String(MaxTag), Minor: d.Uint32()}
	n := d.Uint32()
	if d.Err() != nil {
		return
	}
	a.Count = int(n)
	for range min(n, MaxOps) {
		num := OpNum(d.Uint32())
		if d.Err() != nil {
			return
		}
		op := NewArgs(num)
		op.Decode(d)
		if bad, ok := op.(*IllegalArgs); ok {
			a.Ops = append(a.Ops, bad)
			return
		}
		if d.Err() != nil {
			bad := &IllegalArgs{Number: num, Status: ErrBadXDR}
			if errors.Is(d.Err(), ErrUnknownAttr) {
				bad.Status = ErrAttrNotSupp
			}
			a.Ops = append(a.Ops, bad)
			return
		}
		a.Ops = append(a.Ops, op)
	}
}

// IllegalArgs stand for an operation that cannot be executed: its number is
// unknown or not one of minor versions 1 and 2, or its arguments are malformed.
type IllegalArgs struct {
	Number OpNum // as it came from the wire
	Status Status
}

// Op implements Args. It is the number that the result must carry: OpIllegal
// for an unknown one.
func (a *IllegalArgs) Op() OpNum {
	if a.Status == ErrOpIllegal {
		return OpIllegal
	}
	return a.Number
}

// Encode implements Args.
func (*IllegalArgs) Encode(*xdr.Encoder) {}

// Decode implements Args.
func (*IllegalArgs) Decode(*xdr.Decoder) {}

// Res returns the answer to the operation.
func (a *IllegalArgs) Res() *IllegalRes { return Failure(a.Op(), a.Status) }

// Failure returns the result of an operation that failed with a status and
// has nothing else to tell.
func Failure(op OpNum, status Status) *IllegalRes { return &IllegalRes{Number: op, Status: status} }

// IllegalRes is a result that consists of a failure status only: that of
// ILLEGAL, or that of an operation which failed before it was executed. An
// operation with more in its failures than a status (SETATTR, and LOCK and others
// with some statuses) needs its own result.
type IllegalRes struct {
	Status Status
	Number OpNum // of the operation that the result is for
}

// Op implements Res.
func (r *IllegalRes) Op() OpNum { return r.Number }

// Result implements Res.
func (r *IllegalRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *IllegalRes) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	if r.Number == OpSetAttr {
		e.Uint32(0) // no attribute was set
	}
}

// Decode implements Res.
func (r *IllegalRes) Decode(d *xdr.Decoder) {
	r.Status = Status(d.Uint32())
	if r.Number == OpSetAttr {
		new(Bitmap).Decode(d)
	}
	if r.Status == OK {
		d.Fail(xdr.ErrRange)
	}
}

// CompoundRes is the result of COMPOUND (RFC 8881 section 16.2). Its status is
// that of the last result.
//
//	+----------+---------+---------+------+--------+------+--------+--
//	| status 4 | tag  .. | count 4 | op 4 | result | op 4 | result | ..
//	+----------+---------+---------+------+--------+------+--------+--
type CompoundRes struct {
	Status Status
	Tag    string
	Ops    []Res
}

// Encode appends r.
func (r *CompoundRes) Encode(e *xdr.Encoder) {
	w := BeginCompoundRes(e, r.Tag)
	for _, op := range r.Ops {
		w.Add(op)
	}
	w.End(r.Status)
}

// Decode takes r. It allocates the results: a client that knows what it asked
// for uses DecodeResults. The number of results is at most MaxOps.
func (r *CompoundRes) Decode(d *xdr.Decoder) {
	status, tag, n := DecodeCompoundHeader(d)
	*r = CompoundRes{Status: status, Tag: string(tag)}
	for range n {
		op := NewRes(OpNum(d.Uint32()))
		op.Decode(d)
		if d.Err() != nil {
			return
		}
		r.Ops = append(r.Ops, op)
	}
}

// ResWriter encodes the result of a COMPOUND while its operations are
// executed, when status and number of results are not known yet.
type ResWriter struct {
	e     *xdr.Encoder
	begin int // of the status
	count int // of the number of results
	n     uint32
}

// BeginCompoundRes begins the result of a COMPOUND in e.
func BeginCompoundRes(e *xdr.Encoder, tag string) ResWriter {
	w := ResWriter{e: e, begin: e.Len()}
	e.Uint32(0)
	e.String(tag)
	w.count = e.Len()
	e.Uint32(0)
	return w
}

// Add appends a result.
func (w *ResWriter) Add(res Res) {
	w.e.Uint32(uint32(res.Op()))
	res.Encode(w.e)
	w.n++
}

// Mark returns the present length of the stream, for Undo.
func (w *ResWriter) Mark() int { return w.e.Len() }

// Undo takes back the last result, in front of which Mark returned mark.
func (w *ResWriter) Undo(mark int) {
	w.e.Truncate(mark)
	w.n--
}

// End completes the result with the status of the COMPOUND.
func (w *ResWriter) End(status Status) {
	w.e.PutUint32(w.begin, uint32(status))
	w.e.PutUint32(w.count, w.n)
}

// DecodeCompoundHeader takes what stands in front of the results of a
// COMPOUND or CB_COMPOUND: the status, the tag (which aliases the stream) and
// the number of results, at most MaxOps.
func DecodeCompoundHeader(d *xdr.Decoder) (status Status, tag []byte, n int) {
	status = Status(d.Uint32())
	tag = d.Opaque(MaxTag)
	n = d.CountOf(MaxOps, 8)
	return status, tag, n
}

// DecodeRes takes the result of one operation, which must be that of res. It
// returns the status of the result; no result follows one that is not OK. If
// the server says that it does not know the operation, the status is
// ErrOpIllegal and res is left as it was.
func DecodeRes(d *xdr.Decoder, res Res) Status {
	num := OpNum(d.Uint32())
	if num == OpIllegal && res.Op() != OpIllegal {
		if s := Status(d.Uint32()); s != OK && d.Err() == nil {
			return s
		}
		d.Fail(ErrResultOp)
		return ErrBadXDR
	}
	if num != res.Op() {
		d.Fail(ErrResultOp)
		return ErrBadXDR
	}
	res.Decode(d)
	return res.Result()
}

// DecodeResults takes the whole result of a COMPOUND of which ops are the
// results expected, in order. It returns the number of those that were decoded,
// the failed one included, and the status of the COMPOUND. A reply that
// breaks the rules of RFC 8881 section 16.2.3 leaves an error in the decoder.
func DecodeResults(d *xdr.Decoder, ops []Res) (done int, status Status) {
	status, _, n := DecodeCompoundHeader(d)
	if n > len(ops) || status == OK && n != len(ops) {
		d.Fail(ErrResultCount)
	}
	for done < n && d.Err() == nil {
		s := DecodeRes(d, ops[done])
		done++
		if s == OK {
			continue
		}
		if done != n || status == OK {
			d.Fail(ErrResultCount)
		}
		break
	}
	d.End()
	return done, status
}
