package nfs4

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr"
)

// TestRoundTrip encodes and decodes random arguments and results of every
// operation, with bulk items in the stream and beside it.
func TestRoundTrip(t *testing.T) {
	for name, proto := range everyItem() {
		t.Run(name, func(t *testing.T) {
			checkRandom(t, func(t *rapid.T, f *filler) {
				v := fresh(proto)
				f.fill(v)
				roundTrip(t, v)
			})
		})
	}
}

// roundTrip wants v to come back from the wire: what is decoded encodes to the
// same bytes and, decoded again, is the same value.
func roundTrip(t fatal, v item) {
	t.Helper()
	m := encode(t, v)
	whole := m.AppendTo(nil)
	if len(whole)%4 != 0 {
		t.Fatalf("%T occupies %d bytes", v, len(whole))
	}
	anyPos := xdr.Message{Stream: m.Stream}
	for _, b := range m.Bulk {
		anyPos.Bulk = append(anyPos.Bulk, xdr.Bulk{Pos: xdr.AnyPos, Data: b.Data})
	}
	for _, m := range []xdr.Message{m, anyPos, {Stream: whole}} {
		got := fresh(v)
		decode(t, m, got)
		if again := encode(t, got).AppendTo(nil); !bytes.Equal(again, whole) {
			t.Fatalf("%T encodes to\n%x, after decoding to\n%x", v, whole, again)
		}
		twice := fresh(v)
		decode(t, xdr.Message{Stream: whole}, twice)
		if !equal(got, twice) {
			t.Fatalf("%T decodes to\n%+v and to\n%+v", v, got, twice)
		}
	}
}

// TestEveryFieldTravels wants every field of every struct to reach the other
// side in some arm of its union.
func TestEveryFieldTravels(t *testing.T) {
	for name, proto := range everyItem() {
		t.Run(name, func(t *testing.T) {
			missing := map[string]bool{}
			leaves(reflect.ValueOf(proto).Elem(), "", func(path string, _ reflect.Value) { missing[path] = true })
			for seed := range uint64(2000) {
				if len(missing) == 0 {
					return
				}
				v, got := fresh(proto), fresh(proto)
				newFiller(seed).fill(v)
				decode(t, encode(t, v), got)
				sent := map[string]reflect.Value{}
				leaves(reflect.ValueOf(v).Elem(), "", func(path string, f reflect.Value) { sent[path] = f })
				leaves(reflect.ValueOf(got).Elem(), "", func(path string, f reflect.Value) {
					if s := sent[path]; !empty(f) && same(s, f) {
						delete(missing, path)
					}
				})
			}
			for path := range missing {
				t.Errorf("field %s never arrived", path)
			}
		})
	}
}

// leaves calls visit for the fields of v that are not structs.
func leaves(v reflect.Value, path string, visit func(string, reflect.Value)) {
	if v.Kind() != reflect.Struct {
		visit(path, v)
		return
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Beside" {
			leaves(v.Field(i), path+"."+f.Name, visit)
		}
	}
}

// empty tells whether v has no value, or for a status the one of success.
func empty(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}

func TestConstructorsKnowEveryOperation(t *testing.T) {
	for n := range opNames {
		a, r := NewArgs(n), NewRes(n)
		if r.Op() != n {
			t.Errorf("NewRes(%v) is of operation %v", n, r.Op())
		}
		bad, illegal := a.(*IllegalArgs)
		switch n {
		case OpOpenConfirm, OpRenew, OpSetClientID, OpSetClientIDConfirm, OpReleaseLockOwner:
			if !illegal || bad.Status != ErrNotSupp || bad.Op() != n {
				t.Errorf("NewArgs(%v) = %+v, want the operation refused", n, a)
			}
		case OpIllegal:
			if !illegal || bad.Status != ErrOpIllegal {
				t.Errorf("NewArgs(%v) = %+v, want an illegal operation", n, a)
			}
		default:
			if illegal || a.Op() != n {
				t.Errorf("NewArgs(%v) = %T of operation %v", n, a, a.Op())
			}
		}
	}
	for n := range cbOpNames {
		a, r := NewCBArgs(n), NewCBRes(n)
		if a.Op() != n || r.Op() != n {
			t.Errorf("%v: constructors make %v and %v", n, a.Op(), r.Op())
		}
	}
	for _, n := range []OpNum{0, 1, 2, 76, 10043, 1 << 31} {
		if a := NewArgs(n); a.Op() != OpIllegal {
			t.Errorf("NewArgs(%d) is of operation %v", n, a.Op())
		}
	}
}

// TestResultsBeginWithStatus holds for failures of every operation: the first
// word is the status, and only a few results have more to tell.
func TestResultsBeginWithStatus(t *testing.T) {
	for n := range opNames {
		r := NewRes(n)
		var e xdr.Encoder
		e.Uint32(uint32(ErrStale))
		if n == OpSetAttr {
			e.Uint32(0)
		}
		decode(t, e.Message(), r)
		if r.Result() != ErrStale {
			t.Errorf("%v: result %v", n, r.Result())
		}
		if got := encode(t, r); !bytes.Equal(got.Stream, e.Bytes()) {
			t.Errorf("%v: failure encodes to %x", n, got.Stream)
		}
		if got := encode(t, Failure(n, ErrStale)); !bytes.Equal(got.Stream, e.Bytes()) {
			t.Errorf("%v: Failure encodes to %x", n, got.Stream)
		}
	}
	for n := range cbOpNames {
		r := NewCBRes(n)
		d := stream(ErrDelay)
		r.Decode(d)
		d.End()
		if d.Err() != nil || r.Result() != ErrDelay {
			t.Errorf("%v: result %v, error %v", n, r.Result(), d.Err())
		}
		if got := encode(t, r); !bytes.Equal(got.Stream, []byte{0, 0, 0x27, 0x18}) {
			t.Errorf("%v: failure encodes to %x", n, got.Stream)
		}
	}
}
