package nfs4

import (
	"bytes"
	"runtime"
	"testing"

	"nfsrdma-fuse/xdr"
)

// allocPerByte bounds what the decoding of a message may allocate, as a
// multiple of its length, and allocBase what a message without a length may.
// The dearest item is an ACE, whose 16 bytes on the wire become 32 in memory,
// within an operation, whose struct with attributes has 800.
const (
	allocPerByte = 400
	allocBase    = 64 << 10
)

// fixpoint decodes data, and if that succeeds encodes it, and decodes and
// encodes it again: both encodings must be the same.
func fixpoint[T item](t *testing.T, data []byte, empty func() T) (v T, ok bool) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	v = empty()
	d := xdr.NewDecoder(data)
	v.Decode(d)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(allocPerByte*len(data)+allocBase) {
		t.Errorf("decoding %d bytes allocates %d", len(data), n)
	}
	if d.Err() != nil {
		return v, false
	}
	first := encode(t, v).AppendTo(nil)
	w := empty()
	decode(t, xdr.Message{Stream: first}, w)
	if second := encode(t, w).AppendTo(nil); !bytes.Equal(first, second) {
		t.Fatalf("%x decodes and encodes to\n%x and again to\n%x", data, first, second)
	}
	return v, true
}

// seeds adds random items of every kind that pick accepts.
func seeds(f *testing.F, build func(fill *filler) item) {
	for seed := range uint64(100) {
		f.Add(encode(f, build(newFiller(seed))).AppendTo(nil))
	}
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 64))
}

// pick returns one of the items of a map with random content.
func (f *filler) pick(want func(item) bool) item {
	for {
		n := OpNum(f.r.IntN(80))
		var all []item
		all = append(all, NewArgs(n), NewRes(n), NewCBArgs(CBOpNum(n)), NewCBRes(CBOpNum(n)))
		for _, it := range all {
			switch it.(type) {
			case *IllegalArgs, *IllegalRes, *CBIllegalArgs, *CBIllegalRes:
				continue
			}
			if want(it) {
				f.fill(it)
				return it
			}
		}
	}
}

func isArgs(it item) bool {
	_, res := it.(Res)
	_, ok := it.(Args)
	return ok && !res
}

func isCBArgs(it item) bool {
	_, res := it.(CBRes)
	_, ok := it.(CBArgs)
	return ok && !res
}

func isRes(it item) bool   { _, ok := it.(Res); return ok }
func isCBRes(it item) bool { _, ok := it.(CBRes); return ok }

func (f *filler) compoundArgs() *CompoundArgs {
	c := &CompoundArgs{Tag: string(f.bytes(8)), Minor: 2}
	for range f.r.IntN(5) {
		c.Ops = append(c.Ops, f.pick(isArgs).(Args))
	}
	return c
}

func (f *filler) compoundRes() *CompoundRes {
	c := &CompoundRes{Tag: string(f.bytes(8))}
	for range f.r.IntN(5) {
		op := f.pick(isRes).(Res)
		c.Status = op.Result()
		c.Ops = append(c.Ops, op)
	}
	return c
}

func FuzzCompoundArgs(f *testing.F) {
	seeds(f, func(f *filler) item { return f.compoundArgs() })
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, ok := fixpoint(t, data, func() *CompoundArgs { return new(CompoundArgs) }); ok {
			if len(c.Ops) > MaxOps || c.Count < len(c.Ops) {
				t.Errorf("%d operations of %d", len(c.Ops), c.Count)
			}
		}
	})
}

func FuzzCompoundRes(f *testing.F) {
	seeds(f, func(f *filler) item { return f.compoundRes() })
	f.Fuzz(func(t *testing.T, data []byte) {
		fixpoint(t, data, func() *CompoundRes { return new(CompoundRes) })
		// What a client does: it knows which results it expects.
		var seq SequenceRes
		var fh PutFHRes
		var attr GetAttrRes
		d := xdr.NewDecoder(data)
		DecodeResults(d, []Res{&seq, &fh, &attr})
	})
}

func FuzzCBCompound(f *testing.F) {
	seeds(f, func(f *filler) item {
		c := &CBCompoundArgs{Tag: string(f.bytes(8)), Minor: 1}
		for range f.r.IntN(5) {
			c.Ops = append(c.Ops, f.pick(isCBArgs).(CBArgs))
		}
		return c
	})
	seeds(f, func(f *filler) item {
		c := &CBCompoundRes{Tag: string(f.bytes(8))}
		for range f.r.IntN(5) {
			c.Ops = append(c.Ops, f.pick(isCBRes).(CBRes))
		}
		return c
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		fixpoint(t, data, func() *CBCompoundArgs { return new(CBCompoundArgs) })
		fixpoint(t, data, func() *CBCompoundRes { return new(CBCompoundRes) })
	})
}

func FuzzAttrs(f *testing.F) {
	seeds(f, func(f *filler) item {
		a := new(Attrs)
		f.fill(a)
		return a
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		a, ok := fixpoint(t, data, func() *Attrs { return new(Attrs) })
		if ok && !KnownAttrs.Contains(a.Mask) {
			t.Errorf("decoded %v, of which some are not known", a.Mask)
		}
	})
}

func FuzzReadDir(f *testing.F) {
	seeds(f, func(f *filler) item {
		r := new(ReadDirRes)
		f.fill(r)
		return r
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, ok := fixpoint(t, data, func() *ReadDirRes { return new(ReadDirRes) })
		if !ok {
			return
		}
		var e Entry
		n := 0
		for r.Next(&e) {
			if len(e.Name) > MaxName {
				t.Errorf("a name of %d bytes", len(e.Name))
			}
			n++
		}
		if n > len(r.Entries)/24 {
			t.Errorf("%d entries in %d bytes", n, len(r.Entries))
		}
		if r.Next(&e) {
			t.Error("an entry behind the last one")
		}
	})
}
