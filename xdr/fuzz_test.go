package xdr

import (
	"bytes"
	"reflect"
	"testing"
)

// ops is how many kinds of items a script can ask for.
const ops = 12

// run takes from d the items that script asks for, one byte each: the kind and
// an argument. It returns what it got until the decoder failed.
func run(d *Decoder, script []byte) []any {
	var got []any
	for _, c := range script {
		kind, arg := c%ops, int(c/ops)
		var v any
		switch kind {
		case 0:
			v = d.Uint32()
		case 1:
			v = d.Int32()
		case 2:
			v = d.Uint64()
		case 3:
			v = d.Int64()
		case 4:
			v = d.Bool()
		case 5:
			v = d.Fixed(arg)
		case 6:
			v = d.Opaque(arg)
		case 7:
			v = d.String(arg)
		case 8:
			v = d.Count(arg)
		case 9:
			v = d.CountOf(arg, 4)
		case 10, 11:
			v, _ = d.Bulk(arg)
		}
		if d.Err() != nil {
			break
		}
		got = append(got, v)
	}
	return got
}

// encode is the inverse of run; bulk items go beside the stream.
func encode(e *Encoder, script []byte, values []any) {
	for i, v := range values {
		switch v := v.(type) {
		case uint32:
			e.Uint32(v)
		case int32:
			e.Int32(v)
		case uint64:
			e.Uint64(v)
		case int64:
			e.Int64(v)
		case bool:
			e.Bool(v)
		case string:
			e.String(v)
		case int:
			e.Uint32(uint32(v))
		case []byte:
			switch script[i] % ops {
			case 5:
				e.Fixed(v)
			case 6:
				e.Opaque(v)
			default:
				e.Bulk(v)
			}
		}
	}
}

// same compares values; empty and nil bytes are the same thing.
func same(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, ok := a[i].([]byte)
		if y, both := b[i].([]byte); ok && both {
			if !bytes.Equal(x, y) {
				return false
			}
		} else if !reflect.DeepEqual(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Any script on any stream, with one bulk item anywhere beside it: the decoder
// stays inside its memory and stops at the first error, and what it returned
// survives being encoded and decoded again, whether the bulk items travel in
// the stream or beside it.
func FuzzDecoder(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4}, []byte("\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x09\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"), -2, []byte(nil))
	f.Add([]byte{6 + 5*ops, 0}, []byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x07"), -2, []byte(nil))
	f.Add([]byte{8 + 5*ops, 10 + 8*ops, 0}, []byte("\x00\x00\x00\x05\x00\x00\x00\x03\x00\x00\x00\x07"), 8, []byte("abc"))
	f.Add([]byte{10 + 8*ops, 11 + 8*ops}, []byte("\x00\x00\x00\x03\x00\x00\x00\x02xy\x00\x00"), -1, []byte("abc\x00"))
	f.Add([]byte{7 + 20*ops, 9 + 3*ops, 0, 0, 0}, []byte("\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00\x03"), -2, []byte(nil))
	f.Add([]byte{0, 6 + 9*ops}, []byte("\x00\x00\x00\x01\x00\x00\x00\x04abcd"), 6, []byte("abcd"))
	f.Fuzz(func(t *testing.T, script, stream []byte, pos int, data []byte) {
		m := Message{Stream: stream}
		if pos >= AnyPos {
			m.Bulk = []Bulk{{Pos: pos, Data: data}}
		}
		var d Decoder
		d.Reset(m)
		got := run(&d, script)
		if d.Pos() < 0 || d.Pos() > len(stream) {
			t.Fatalf("at %d of %d", d.Pos(), len(stream))
		}
		if err := d.Err(); err != nil {
			if more := run(&d, []byte{0, 2, 6 + 4*ops, 10 + 4*ops}); len(more) > 0 || d.Err() != err {
				t.Fatalf("went on behind %v: %v", err, more)
			}
		}

		var e Encoder
		encode(&e, script, got)
		e.Fixed(make([]byte, 256)) // what a count at the end of the script counts
		if e.Err() != nil {
			t.Fatal(e.Err())
		}
		again := e.Message()
		d.Reset(again)
		if second := run(&d, script[:len(got)]); !same(second, got) || d.Err() != nil {
			t.Fatalf("beside the stream: %v, %v; was %v", second, d.Err(), got)
		}
		d.Reset(Message{Stream: again.AppendTo(nil)})
		if second := run(&d, script[:len(got)]); !same(second, got) || d.Err() != nil {
			t.Fatalf("in the stream: %v, %v; was %v", second, d.Err(), got)
		}
	})
}
