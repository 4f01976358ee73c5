package xdr

import (
	"encoding/hex"
	"errors"
	"math"
	"testing"
)

func TestEncoder(t *testing.T) {
	tests := []struct {
		name   string
		encode func(e *Encoder)
		want   string
	}{
		{"unsigned", func(e *Encoder) { e.Uint32(0xdeadbeef) }, "deadbeef"},
		{"signed", func(e *Encoder) { e.Int32(-2) }, "fffffffe"},
		{"unsigned hyper", func(e *Encoder) { e.Uint64(0x0102030405060708) }, "0102030405060708"},
		{"signed hyper", func(e *Encoder) { e.Int64(math.MinInt64) }, "8000000000000000"},
		{"true", func(e *Encoder) { e.Bool(true) }, "00000001"},
		{"false", func(e *Encoder) { e.Bool(false) }, "00000000"},
		{"fixed, aligned", func(e *Encoder) { e.Fixed([]byte("abcd")) }, "61626364"},
		{"fixed, padded", func(e *Encoder) { e.Fixed([]byte("abcde")) }, "6162636465000000"},
		{"fixed, empty", func(e *Encoder) { e.Fixed(nil) }, ""},
		{"opaque, empty", func(e *Encoder) { e.Opaque(nil) }, "00000000"},
		{"opaque, one of padding", func(e *Encoder) { e.Opaque([]byte("abc")) }, "0000000361626300"},
		{"opaque, three of padding", func(e *Encoder) { e.Opaque([]byte("a")) }, "0000000161000000"},
		{"string", func(e *Encoder) { e.String("hello") }, "0000000568656c6c6f000000"},
		{"string, empty", func(e *Encoder) { e.String("") }, "00000000"},
		{"bulk: length word only", func(e *Encoder) { e.Bulk([]byte("abcde")) }, "00000005"},
		{"patched count", func(e *Encoder) {
			at := e.Len()
			e.Uint32(0)
			e.Uint32(7)
			e.PutUint32(at, 1)
		}, "0000000100000007"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e Encoder
			tt.encode(&e)
			if e.Err() != nil {
				t.Fatal(e.Err())
			}
			if got := hex.EncodeToString(e.Bytes()); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if e.Len() != len(tt.want)/2 {
				t.Errorf("Len() = %d", e.Len())
			}
		})
	}
}

func TestEncoderErrorSticks(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	var e Encoder
	e.Uint32(1)
	e.Fail(first)
	e.Fail(second)
	e.Uint32(2)
	e.Uint64(2)
	e.Bool(true)
	e.Fixed([]byte("abcd"))
	e.Opaque([]byte("abcd"))
	e.String("abcd")
	e.Bulk([]byte("abcd"))
	e.PutUint32(0, 9)
	e.Truncate(0)
	if e.Err() != first {
		t.Errorf("Err() = %v", e.Err())
	}
	if got := hex.EncodeToString(e.Bytes()); got != "00000001" || len(e.Message().Bulk) != 0 {
		t.Errorf("encoded behind the error: %s, %d bulk items", got, len(e.Message().Bulk))
	}
	e.Reset(nil)
	e.Uint32(3)
	if e.Err() != nil || e.Len() != 4 {
		t.Errorf("after Reset: %v, %d bytes", e.Err(), e.Len())
	}
}

func TestEncoderResetTakesTheBuffer(t *testing.T) {
	buf := make([]byte, 3, 16)
	var e Encoder
	e.Bulk(make([]byte, 8))
	e.Reset(buf)
	e.Uint32(0x01020304)
	if got := hex.EncodeToString(buf[:4]); got != "01020304" {
		t.Errorf("buffer holds %s", got)
	}
	if len(e.Message().Bulk) != 0 || cap(e.bulk) == 0 || e.bulk[:1][0].Data != nil {
		t.Error("bulk item of the message before is still there")
	}
}

func TestEncoderTruncate(t *testing.T) {
	var e Encoder
	e.Uint32(1)
	e.Bulk([]byte("first"))
	keep := e.Len()
	e.Uint32(2)
	e.Bulk([]byte("second"))
	e.Truncate(keep)
	m := e.Message()
	if len(m.Stream) != keep || len(m.Bulk) != 1 || string(m.Bulk[0].Data) != "first" {
		t.Fatalf("%d bytes, %d bulk items", len(m.Stream), len(m.Bulk))
	}
	if e.bulk[:2][1].Data != nil {
		t.Error("the item taken back is kept alive")
	}
	e.Truncate(keep - 4) // the length word of the first item goes: so does the item
	if m := e.Message(); len(m.Bulk) != 0 || len(m.Stream) != 4 {
		t.Errorf("%d bytes, %d bulk items", len(m.Stream), len(m.Bulk))
	}
}
