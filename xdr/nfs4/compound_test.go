package nfs4

import (
	"errors"
	"testing"

	"nfsrdma-fuse/xdr"
)

// stream builds a message from numbers (32 bits), byte slices (opaque) and
// items.
func stream(parts ...any) *xdr.Decoder {
	var e xdr.Encoder
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			e.Uint32(uint32(p))
		case OpNum:
			e.Uint32(uint32(p))
		case CBOpNum:
			e.Uint32(uint32(p))
		case Status:
			e.Uint32(uint32(p))
		case []byte:
			e.Opaque(p)
		case item:
			p.Encode(&e)
		default:
			panic("no such part")
		}
	}
	return xdr.NewDecoder(e.Message().AppendTo(nil))
}

func TestCompoundStopsAtBadOperation(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      *xdr.Decoder
		status Status
		op     OpNum
		broken bool // the decoder has an error too
	}{
		{"unknown", stream(0, 1, 3, OpPutRootFH, 999, OpGetFH), ErrOpIllegal, OpIllegal, false},
		{"ILLEGAL itself", stream(0, 1, 3, OpPutRootFH, OpIllegal, OpGetFH), ErrOpIllegal, OpIllegal, false},
		{"of minor version 0", stream(0, 1, 3, OpPutRootFH, OpRenew, 0, 1), ErrNotSupp, OpRenew, false},
		{"cut short", stream(0, 1, 3, OpPutRootFH, OpRead, 0, 0), ErrBadXDR, OpRead, true},
		{"too long a filehandle", stream(0, 1, 3, OpPutRootFH, OpPutFH, make([]byte, MaxFH+1)), ErrBadXDR, OpPutFH, true},
		{"bad discriminant", stream(0, 1, 3, OpPutRootFH, OpSecInfoNoName, 2, OpGetFH), ErrBadXDR, OpSecInfoNoName, true},
		{"unknown attribute", stream(0, 1, 3, OpPutRootFH, OpVerify, 3, 0, 0, 1<<31, make([]byte, 4), OpGetFH), ErrAttrNotSupp, OpVerify, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a CompoundArgs
			a.Decode(c.d)
			if (c.d.Err() != nil) != c.broken {
				t.Errorf("decoder has error %v", c.d.Err())
			}
			if len(a.Ops) != 2 || a.Count != 3 || a.Ops[0].Op() != OpPutRootFH {
				t.Fatalf("decoded %+v", a)
			}
			bad, ok := a.Ops[1].(*IllegalArgs)
			if !ok {
				t.Fatalf("second operation is %+v", a.Ops[1])
			}
			if res := bad.Res(); res.Op() != c.op || res.Result() != c.status {
				t.Errorf("answered with %v of %v, want %v of %v", res.Result(), res.Op(), c.status, c.op)
			}
		})
	}
}

func TestCBCompoundStopsAtBadOperation(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      *xdr.Decoder
		status Status
		op     CBOpNum
	}{
		{"unknown", stream(0, 1, 0, 2, 77, 0), ErrOpIllegal, CBOpIllegal},
		{"cut short", stream(0, 1, 0, 2, CBOpRecall, 0), ErrBadXDR, CBOpRecall},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a CBCompoundArgs
			a.Decode(c.d)
			if len(a.Ops) != 1 || a.Count != 2 {
				t.Fatalf("decoded %+v", a)
			}
			bad, ok := a.Ops[0].(*CBIllegalArgs)
			if !ok {
				t.Fatalf("operation is %+v", a.Ops[0])
			}
			if res := bad.Res(); res.Op() != c.op || res.Result() != c.status {
				t.Errorf("answered with %v of %v, want %v of %v", res.Result(), res.Op(), c.status, c.op)
			}
		})
	}
}

func TestCompoundWithTooManyOperations(t *testing.T) {
	parts := []any{0, 1, 100}
	for range 100 {
		parts = append(parts, OpGetFH)
	}
	var a CompoundArgs
	d := stream(parts...)
	a.Decode(d)
	if len(a.Ops) != MaxOps || a.Count != 100 || d.Err() != nil {
		t.Errorf("decoded %d operations of %d, error %v", len(a.Ops), a.Count, d.Err())
	}
}

func TestCompoundWithBrokenHeader(t *testing.T) {
	var a CompoundArgs
	d := stream(make([]byte, MaxTag+1), 1, 0)
	a.Decode(d)
	if d.Err() == nil || len(a.Ops) != 0 {
		t.Errorf("decoded %+v, error %v", a, d.Err())
	}
}

func TestDecodeResults(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      *xdr.Decoder
		done   int
		status Status
		err    error
	}{
		{"all well", stream(OK, 0, 2, OpPutFH, OK, OpGetFH, OK, []byte{1}), 2, OK, nil},
		{"second fails", stream(ErrStale, 0, 2, OpPutFH, OK, OpGetFH, ErrStale), 2, ErrStale, nil},
		{"first fails", stream(ErrStale, 0, 1, OpPutFH, ErrStale), 1, ErrStale, nil},
		{"no result at all", stream(ErrMinorVersMismatch, 0, 0), 0, ErrMinorVersMismatch, nil},
		{"operation unknown to the server", stream(ErrOpIllegal, 0, 2, OpPutFH, OK, OpIllegal, ErrOpIllegal), 2, ErrOpIllegal, nil},
		{"too few", stream(OK, 0, 1, OpPutFH, OK), 1, OK, ErrResultCount},
		{"too many", stream(OK, 0, 3, OpPutFH, OK, OpGetFH, OK, []byte{1}, OpSaveFH, OK), 0, OK, ErrResultCount},
		{"more behind a failure", stream(ErrStale, 0, 2, OpPutFH, ErrStale, OpGetFH, ErrStale), 1, ErrStale, ErrResultCount},
		{"failure of a success", stream(OK, 0, 2, OpPutFH, OK, OpGetFH, ErrStale), 2, OK, ErrResultCount},
		{"other operation", stream(OK, 0, 2, OpPutFH, OK, OpSaveFH, OK), 2, OK, ErrResultOp},
		{"ILLEGAL that succeeds", stream(OK, 0, 2, OpPutFH, OK, OpIllegal, OK), 2, OK, ErrResultOp},
		{"something behind", stream(OK, 0, 2, OpPutFH, OK, OpGetFH, OK, []byte{1}, 0), 2, OK, xdr.ErrTrailing},
		{"cut short", stream(OK, 0, 2, OpPutFH, OK, OpGetFH), 0, OK, xdr.ErrShort},
		{"count of nothing", stream(OK, 0, 1<<30), 0, OK, xdr.ErrRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fh PutFHRes
			var get GetFHRes
			done, status := DecodeResults(c.d, []Res{&fh, &get})
			if c.err == nil && (done != c.done || status != c.status) {
				t.Errorf("%d results and status %v, want %d and %v", done, status, c.done, c.status)
			}
			if !errors.Is(c.d.Err(), c.err) || (c.err == nil) != (c.d.Err() == nil) {
				t.Errorf("error %v, want %v", c.d.Err(), c.err)
			}
		})
	}
}

func TestResWriterUndo(t *testing.T) {
	var e xdr.Encoder
	e.Uint32(0xdead) // an RPC header in front
	w := BeginCompoundRes(&e, "tag")
	w.Add(&PutFHRes{})
	mark := w.Mark()
	w.Add(&ReadRes{Data: make([]byte, 100)})
	w.Undo(mark)
	w.Add(Failure(OpRead, ErrRepTooBig))
	w.End(ErrRepTooBig)
	if e.Err() != nil || len(e.Message().Bulk) != 0 {
		t.Fatalf("error %v, %d bulk items", e.Err(), len(e.Message().Bulk))
	}
	d := xdr.NewDecoder(e.Bytes()[4:])
	var got CompoundRes
	got.Decode(d)
	d.End()
	if d.Err() != nil || got.Tag != "tag" || got.Status != ErrRepTooBig || len(got.Ops) != 2 ||
		got.Ops[1].Result() != ErrRepTooBig {
		t.Errorf("decoded %+v, error %v", got, d.Err())
	}
}

func TestStatusIsAnError(t *testing.T) {
	err := error(ErrNoEnt)
	if !errors.Is(errors.Join(errors.New("outer"), err), ErrNoEnt) || errors.Is(err, ErrStale) {
		t.Error("errors.Is does not tell statuses apart")
	}
	for s, want := range map[Status]string{
		OK: "NFS4_OK", ErrNoEnt: "NFS4ERR_NOENT", ErrConnNotBoundToSession: "NFS4ERR_CONN_NOT_BOUND_TO_SESSION",
		ErrXattr2Big: "NFS4ERR_XATTR2BIG", 12345: "NFS4ERR_12345",
	} {
		if s.Error() != want {
			t.Errorf("status %d is called %q, want %q", uint32(s), s.Error(), want)
		}
	}
}

func TestNames(t *testing.T) {
	for got, want := range map[string]string{
		OpReadDir.String(): "READDIR", OpNum(500).String(): "OP_500",
		CBOpRecall.String(): "CB_RECALL", CBOpNum(500).String(): "CB_OP_500",
		AttrTimeMetadata.String(): "time_metadata", Attr(90).String(): "attr90",
		MakeBitmap(AttrType, AttrXattrSupport).String(): "{type xattr_support}",
	} {
		if got != want {
			t.Errorf("called %q, want %q", got, want)
		}
	}
}
