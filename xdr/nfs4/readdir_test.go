package nfs4

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr"
)

// TestEntryListLimits builds lists within random limits: the result never
// exceeds MaxCount, and an entry is left out only where it would.
func TestEntryListLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		args := &ReadDirArgs{
			MaxCount: rapid.Uint32Range(0, 2000).Draw(t, "maxcount"),
			DirCount: rapid.Uint32Range(0, 500).Draw(t, "dircount"),
		}
		f := newFiller(rapid.Uint64().Draw(t, "seed"))
		var l EntryList
		l.Reset(args, nil)
		var kept []Entry
		names := 0
		for {
			var e Entry
			f.fill(&e)
			size := 4 + 8 + 4 + xdr.PadLen(len(e.Name)) + len(encode(t, &e.Attrs).Stream)
			before := len(l.Bytes())
			name := 8 + 4 + xdr.PadLen(len(e.Name))
			fits := readdirFrame+before+size <= int(args.MaxCount) &&
				(args.DirCount == 0 || len(kept) == 0 || names+name <= int(args.DirCount))
			if got := l.Add(&e); got != fits {
				t.Fatalf("entry of %d bytes behind %d: added is %v", size, before, got)
			}
			if !fits {
				if len(l.Bytes()) != before {
					t.Fatalf("an entry that does not fit leaves %d bytes", len(l.Bytes())-before)
				}
				break
			}
			kept = append(kept, e)
			names += name
		}
		if l.Len() != len(kept) || l.Err() != nil {
			t.Fatalf("%d entries of %d, error %v", l.Len(), len(kept), l.Err())
		}
		res := &ReadDirRes{Entries: l.Bytes(), EOF: true}
		m := encode(t, res)
		if n := len(m.Stream) - 4; len(kept) > 0 && n > int(args.MaxCount) {
			t.Fatalf("a result of %d bytes where %d were allowed", n, args.MaxCount)
		}
		var got ReadDirRes
		decode(t, m, &got)
		for i := range kept {
			var e Entry
			if !got.Next(&e) || !equal(e, kept[i]) {
				t.Fatalf("entry %d is %+v, want %+v", i, e, kept[i])
			}
		}
	})
}

func TestReadDirRefused(t *testing.T) {
	verf := []any{OK, 0, 0}
	entry := func(name []byte, rest ...any) []any {
		return append(append(append([]any{}, verf...), 1, 0, 9, name), rest...)
	}
	for _, c := range []struct {
		name string
		d    *xdr.Decoder
		err  error
	}{
		{"no end", stream(entry([]byte("a"), 0, []byte{})...), xdr.ErrShort},
		{"name over the limit", stream(entry(make([]byte, MaxName+1), 0, []byte{}, 0, 1)...), xdr.ErrRange},
		{"attributes without end", stream(entry([]byte("a"), 0, 4000)...), xdr.ErrShort},
		{"neither entry nor end", stream(entry([]byte("a"), 0, []byte{}, 2, 1)...), xdr.ErrRange},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r ReadDirRes
			r.Decode(c.d)
			if !errors.Is(c.d.Err(), c.err) || r.Entries != nil {
				t.Errorf("error %v with %d bytes of entries, want %v", c.d.Err(), len(r.Entries), c.err)
			}
		})
	}
}

// TestReadDirBadAttributes has an entry whose frame is sound and whose
// attributes are not: the entries before it can be had.
func TestReadDirBadAttributes(t *testing.T) {
	d := stream(OK, 0, 0,
		1, 0, 1, []byte("good"), 0, []byte{},
		1, 0, 2, []byte("bad"), 1, 1<<AttrSize, []byte{0, 0, 0, 0},
		0, 1)
	var r ReadDirRes
	r.Decode(d)
	d.End()
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	var e Entry
	if !r.Next(&e) || string(e.Name) != "good" {
		t.Fatalf("first entry %+v, error %v", e, r.Err())
	}
	for range 2 {
		if r.Next(&e) || r.Err() == nil {
			t.Fatalf("second entry %+v, error %v", e, r.Err())
		}
	}
}

func TestReadDirTooLarge(t *testing.T) {
	var e xdr.Encoder
	e.Uint32(uint32(OK))
	e.Uint64(0)
	name := make([]byte, MaxName)
	for e.Len() < MaxReaddir+3*MaxName {
		e.Bool(true)
		e.Uint64(1)
		e.Opaque(name)
		e.Uint32(0)
		e.Opaque(nil)
	}
	e.Bool(false)
	e.Bool(true)
	d := xdr.NewDecoder(e.Bytes())
	var r ReadDirRes
	r.Decode(d)
	if !errors.Is(d.Err(), xdr.ErrRange) || r.Entries != nil {
		t.Errorf("error %v with %d bytes of entries", d.Err(), len(r.Entries))
	}
}
