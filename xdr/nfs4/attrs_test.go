package nfs4

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr"
)

// TestEveryAttributeTravels sends each known attribute alone and wants it to
// arrive in the field of its name.
func TestEveryAttributeTravels(t *testing.T) {
	if KnownAttrs.Len() != len(attrOfField) || reflect.TypeFor[Attrs]().NumField() != len(attrOfField)+1 {
		t.Errorf("%d known attributes, %d fields", KnownAttrs.Len(), reflect.TypeFor[Attrs]().NumField()-1)
	}
	for name, n := range attrOfField {
		t.Run(name, func(t *testing.T) {
			if !KnownAttrs.Has(n) {
				t.Errorf("attribute %v is not known", n)
			}
			f := newFiller(uint64(n))
			a := Attrs{Mask: MakeBitmap(n)}
			field := reflect.ValueOf(&a).Elem().FieldByName(name)
			for empty(field) {
				f.value(field, name)
			}
			var got Attrs
			decode(t, encode(t, &a), &got)
			if !equal(a, got) {
				t.Errorf("%+v arrives as %+v", a, got)
			}
		})
	}
}

func TestAttrsRoundTrip(t *testing.T) {
	checkRandom(t, func(t *rapid.T, f *filler) {
		var a, got Attrs
		f.fill(&a)
		f.fill(&got) // what an earlier decoding left behind must not show
		decode(t, encode(t, &a), &got)
		if !equal(a, got) {
			t.Fatalf("%+v arrives as %+v", a, got)
		}
		roundTrip(t, &a)
	})
}

func TestAttrsRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		d    *xdr.Decoder
		err  error
	}{
		{"unknown attribute", stream(3, 0, 0, 1<<30, make([]byte, 4)), ErrUnknownAttr},
		{"attribute without a field", stream(3, 0, 0, 1<<4, make([]byte, 4)), ErrUnknownAttr},
		{"attribute beyond the bitmap", stream(4, 0, 0, 0, 1, make([]byte, 4)), ErrUnknownAttr},
		{"list too long", stream(1, 1<<AttrSize, make([]byte, 12)), errAttrLen},
		{"list too short", stream(1, 1<<AttrSize, make([]byte, 4), 0), errAttrLen},
		{"list without end", stream(1, 1<<AttrSize, MaxAttrs, 0), xdr.ErrShort},
		{"list over the limit", stream(0, make([]byte, MaxAttrs+4)), xdr.ErrRange},
		{"bitmap over the limit", stream(MaxBitmapWords+1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0), xdr.ErrRange},
		{"ACL of nothing", stream(1, 1<<AttrACL, 4, MaxACEs), xdr.ErrShort},
		{"ACL over the limit", stream(1, 1<<AttrACL, 4, MaxACEs+1), xdr.ErrRange},
		{"boolean of two", stream(1, 1<<AttrLinkSupport, 4, 2), xdr.ErrRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a Attrs
			a.Decode(c.d)
			if !errors.Is(c.d.Err(), c.err) {
				t.Errorf("error %v, want %v", c.d.Err(), c.err)
			}
		})
	}
	var e xdr.Encoder
	(&Attrs{Mask: MakeBitmap(AttrFSLocationsInfo)}).Encode(&e)
	if !errors.Is(e.Err(), ErrUnknownAttr) {
		t.Errorf("encoding an attribute without a field: error %v", e.Err())
	}
}

func TestBitmap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		model := map[uint32]bool{}
		var b Bitmap
		for _, n := range rapid.SliceOf(rapid.Uint32Range(0, 120)).Draw(t, "numbers") {
			b.SetBit(n)
			if n < 96 {
				model[n] = true
			}
		}
		for _, n := range rapid.SliceOf(rapid.Uint32Range(0, 120)).Draw(t, "cleared") {
			b.Clear(Attr(n))
			delete(model, n)
		}
		for n := range uint32(130) {
			if b.HasBit(n) != model[n] || b.Has(Attr(n)) != model[n] {
				t.Fatalf("bit %d is %v", n, b.HasBit(n))
			}
		}
		if b.Len() != len(model) || b.IsZero() != (len(model) == 0) {
			t.Fatalf("%v has length %d", b, b.Len())
		}
		c := Bitmap{rapid.Uint32().Draw(t, "c0"), rapid.Uint32().Draw(t, "c1"), rapid.Uint32().Draw(t, "c2")}
		for n := range uint32(96) {
			if b.And(c).HasBit(n) != (b.HasBit(n) && c.HasBit(n)) ||
				b.Or(c).HasBit(n) != (b.HasBit(n) || c.HasBit(n)) ||
				b.AndNot(c).HasBit(n) != (b.HasBit(n) && !c.HasBit(n)) {
				t.Fatalf("wrong set operation on %v and %v", b, c)
			}
		}
		if !b.Or(c).Contains(c) || !b.Contains(b.And(c)) || b.Contains(c) != c.AndNot(b).IsZero() {
			t.Fatalf("Contains is wrong for %v and %v", b, c)
		}
		m := encode(t, &b)
		if n := len(m.Stream); n > 4 && m.Stream[n-1] == 0 && m.Stream[n-2] == 0 && m.Stream[n-3] == 0 && m.Stream[n-4] == 0 {
			t.Fatalf("%v encodes to %x", b, m.Stream)
		}
		var got Bitmap
		decode(t, m, &got)
		if got != b {
			t.Fatalf("%v arrives as %v", b, got)
		}
	})
	var b Bitmap
	decode(t, xdr.Message{Stream: stream(5, 1, 2, 3, 4, 0).Rest()}, &b)
	if b != (Bitmap{1, 2, 3}) {
		t.Errorf("a long bitmap arrives as %v", b)
	}
}

func TestInterner(t *testing.T) {
	var tab interner
	tab.seed = owners.seed
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 5000 { // more than there are slots
				want := fmt.Sprint("user", i%1000, "@example.org")
				if got := tab.get([]byte(want)); got != want {
					t.Errorf("got %q for %q", got, want)
				}
			}
		})
	}
	wg.Wait()
	long := make([]byte, internLen+1)
	if tab.get(long) != string(long) || tab.get(nil) != "" {
		t.Error("strings that are not kept come back wrong")
	}
	for i := range tab.slots {
		if p := tab.slots[i].Load(); p != nil && len(*p) > internLen {
			t.Errorf("kept %d bytes", len(*p))
		}
	}
}
