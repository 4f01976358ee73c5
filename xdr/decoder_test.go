package xdr

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"testing"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func TestDecoder(t *testing.T) {
	tests := []struct {
		name   string
		stream string
		decode func(d *Decoder) any
		want   any
		err    error
	}{
		{"unsigned", "deadbeef", func(d *Decoder) any { return d.Uint32() }, uint32(0xdeadbeef), nil},
		{"unsigned, cut", "deadbe", func(d *Decoder) any { return d.Uint32() }, uint32(0), ErrShort},
		{"signed", "fffffffe", func(d *Decoder) any { return d.Int32() }, int32(-2), nil},
		{"unsigned hyper", "0102030405060708", func(d *Decoder) any { return d.Uint64() }, uint64(0x0102030405060708), nil},
		{"unsigned hyper, cut", "01020304050607", func(d *Decoder) any { return d.Uint64() }, uint64(0), ErrShort},
		{"signed hyper", "8000000000000000", func(d *Decoder) any { return d.Int64() }, int64(math.MinInt64), nil},
		{"true", "00000001", func(d *Decoder) any { return d.Bool() }, true, nil},
		{"false", "00000000", func(d *Decoder) any { return d.Bool() }, false, nil},
		{"neither", "00000002", func(d *Decoder) any { return d.Bool() }, false, ErrRange},
		{"fixed", "6162636465000000", func(d *Decoder) any { return string(d.Fixed(5)) }, "abcde", nil},
		{"fixed, padding missing", "6162636465", func(d *Decoder) any { return string(d.Fixed(5)) }, "", ErrShort},
		{"fixed, negative", "61626364", func(d *Decoder) any { return string(d.Fixed(-1)) }, "", ErrShort},
		{"fixed, padding overflows", "61626364", func(d *Decoder) any { return string(d.Fixed(math.MaxInt)) }, "", ErrShort},
		{"fixed, empty", "", func(d *Decoder) any { return string(d.Fixed(0)) }, "", nil},
		{"opaque", "0000000361626300", func(d *Decoder) any { return string(d.Opaque(3)) }, "abc", nil},
		{"opaque, padding not zero", "00000003616263ff", func(d *Decoder) any { return string(d.Opaque(3)) }, "abc", nil},
		{"opaque, above its limit", "0000000361626300", func(d *Decoder) any { return string(d.Opaque(2)) }, "", ErrRange},
		{"opaque, cut", "0000000361", func(d *Decoder) any { return string(d.Opaque(3)) }, "", ErrShort},
		{"opaque, huge", "ffffffff61626300", func(d *Decoder) any { return string(d.Opaque(math.MaxInt32)) }, "", ErrRange},
		{"opaque, negative limit", "00000000", func(d *Decoder) any { return string(d.Opaque(-1)) }, "", ErrRange},
		{"string", "0000000568656c6c6f000000", func(d *Decoder) any { return d.String(5) }, "hello", nil},
		{"count", "00000003", func(d *Decoder) any { return d.Count(3) }, 3, nil},
		{"count, above its limit", "00000004", func(d *Decoder) any { return d.Count(3) }, 0, ErrRange},
		{"count of items", "000000020000000000000000", func(d *Decoder) any { n := d.CountOf(9, 4); d.Rest(); return n }, 2, nil},
		{"count of items, stream too short", "0000000300000000", func(d *Decoder) any { return d.CountOf(9, 4) }, 0, ErrShort},
		{"count of items, above its limit", "0000000300000000", func(d *Decoder) any { return d.CountOf(2, 4) }, 0, ErrRange},
		{"rest", "61626364", func(d *Decoder) any { return string(d.Rest()) }, "abcd", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := NewDecoder(unhex(tt.stream))
			if got := tt.decode(d); got != tt.want {
				t.Errorf("got %#v, want %#v", got, tt.want)
			}
			if tt.err == nil {
				d.End()
			}
			if !errors.Is(d.Err(), tt.err) {
				t.Errorf("Err() = %v, want %v", d.Err(), tt.err)
			}
		})
	}
}

func TestDecoderErrorSticks(t *testing.T) {
	d := NewDecoder(unhex("00000007000000080000000900000001"))
	d.Uint32()
	d.Bool()
	if d.Fail(errors.New("later")); !errors.Is(d.Err(), ErrRange) {
		t.Fatal(d.Err())
	}
	pos := d.Pos()
	got := fmt.Sprint(d.Uint32(), d.Int32(), d.Uint64(), d.Int64(), d.Bool(), d.Count(9), d.CountOf(9, 1),
		len(d.Fixed(4)), len(d.Opaque(4)), len(d.String(4)), len(d.Rest()))
	data, beside := d.Bulk(4)
	d.End()
	if want := "0 0 0 0 false 0 0 0 0 0 0"; got != want || data != nil || beside {
		t.Errorf("decoded behind the error: %s, %v, %v", got, data, beside)
	}
	if d.Pos() != pos {
		t.Errorf("moved from %d to %d", pos, d.Pos())
	}
	var at *DecodeError
	if !errors.As(d.Err(), &at) || at.Pos != 8 {
		t.Errorf("position of the error: %v", d.Err())
	}
}

func TestDecoderEnd(t *testing.T) {
	d := NewDecoder(unhex("0000000700000000"))
	d.Uint32()
	d.End()
	if !errors.Is(d.Err(), ErrTrailing) {
		t.Errorf("bytes left: %v", d.Err())
	}
	d.Reset(Message{Stream: unhex("00000007"), Bulk: []Bulk{{Pos: AnyPos, Data: []byte("x")}}})
	d.Uint32()
	d.End()
	if !errors.Is(d.Err(), ErrTrailing) {
		t.Errorf("bulk item left: %v", d.Err())
	}
}

// Growing what the decoder returned must not reach the bytes behind it.
func TestDecoderResultsHaveNoRoom(t *testing.T) {
	stream := unhex("0000000361626300000000016465666700000000")
	d := NewDecoder(stream)
	_ = append(d.Opaque(3), "XXXX"...)
	if got := hex.EncodeToString(stream); got != "0000000361626300000000016465666700000000" {
		t.Errorf("stream is now %s", got)
	}
	data := []byte("abcd")
	d.Reset(Message{Stream: unhex("00000003"), Bulk: []Bulk{{Pos: 4, Data: data}}})
	b, _ := d.Bulk(3)
	_ = append(b, 'X')
	if string(data) != "abcd" {
		t.Errorf("bulk data is now %q", data)
	}
}

func TestDecoderBulk(t *testing.T) {
	tests := []struct {
		name   string
		stream string
		bulk   []Bulk
		max    int
		data   string
		beside bool
		err    error
	}{
		{"in the stream", "000000036162630000000009", nil, 3, "abc", false, nil},
		{"at its position", "0000000300000009", []Bulk{{4, []byte("abc")}}, 3, "abc", true, nil},
		{"next in turn", "0000000300000009", []Bulk{{AnyPos, []byte("abc")}}, 3, "abc", true, nil},
		{"with its padding", "0000000300000009", []Bulk{{4, []byte("abc\x00")}}, 3, "abc", true, nil},
		{"empty", "0000000000000009", []Bulk{{4, nil}}, 3, "", true, nil},
		{"longer than its length word", "0000000300000009", []Bulk{{4, []byte("abcdefgh")}}, 8, "", false, ErrBulk},
		{"shorter than its length word", "0000000300000009", []Bulk{{4, []byte("ab")}}, 8, "", false, ErrBulk},
		{"above the limit", "0000000300000009", []Bulk{{4, []byte("abc")}}, 2, "", false, ErrRange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d Decoder
			d.Reset(Message{Stream: unhex(tt.stream), Bulk: tt.bulk})
			data, beside := d.Bulk(tt.max)
			if string(data) != tt.data || beside != tt.beside || !errors.Is(d.Err(), tt.err) {
				t.Fatalf("got %q, %v, %v", data, beside, d.Err())
			}
			if tt.err != nil {
				return
			}
			if v := d.Uint32(); v != 9 {
				t.Errorf("the item behind is %d", v)
			}
			if d.End(); d.Err() != nil {
				t.Error(d.Err())
			}
		})
	}
}

// A peer that moves something which may not be moved leaves a stream in which
// every item behind it would be taken for another.
func TestDecoderRefusesBulkPassedOver(t *testing.T) {
	tests := []struct {
		name   string
		pos    int
		decode func(d *Decoder)
	}{
		{"moved from an ordinary opaque", 8, func(d *Decoder) { d.Uint32(); d.Opaque(8); d.Uint32() }},
		{"inside an integer", 2, func(d *Decoder) { d.Uint32(); d.Uint32() }},
		{"before everything", 0, func(d *Decoder) { d.Uint32(); d.Uint32() }},
		{"at a word that is no length", 4, func(d *Decoder) { d.Uint32(); d.Uint32(); d.Uint32() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var d Decoder
			d.Reset(Message{Stream: unhex("0000000100000004616263640000000500000006"), Bulk: []Bulk{{tt.pos, []byte("wxyz")}}})
			tt.decode(&d)
			if !errors.Is(d.Err(), ErrBulk) {
				t.Errorf("Err() = %v", d.Err())
			}
		})
	}
}
