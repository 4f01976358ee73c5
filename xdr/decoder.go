package xdr

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors that a decoder reports. They are wrapped with the offset at which
// decoding stopped.
var (
	// ErrShort means that the stream ended inside an item.
	ErrShort = errors.New("xdr: stream ends inside an item")
	// ErrRange means that a length, count or discriminant is not one that the
	// receiver allows.
	ErrRange = errors.New("xdr: value out of range")
	// ErrBulk means that a bulk item moved beside the stream does not agree
	// with its length word, or that no bulk item belongs where it says.
	ErrBulk = errors.New("xdr: bulk item does not match the stream")
	// ErrTrailing means that bytes were left behind the last item.
	ErrTrailing = errors.New("xdr: bytes behind the last item")
)

// DecodeError tells where in a stream decoding failed.
type DecodeError struct {
	Pos int // offset in the stream, bytes
	Err error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("%v (at offset %d)", e.Err, e.Pos) }

// Unwrap returns the cause, so that errors.Is finds ErrShort and the like.
func (e *DecodeError) Unwrap() error { return e.Err }

// Decoder takes XDR items from a stream. What it returns aliases the stream,
// strings excepted; nothing is allocated for it. Reset lets one decoder serve
// many messages.
//
// A Decoder is not safe for concurrent use.
type Decoder struct {
	buf  []byte
	bulk []Bulk
	pos  int
	err  error
}

// NewDecoder returns a decoder of a message without bulk items beside it.
func NewDecoder(stream []byte) *Decoder { return &Decoder{buf: stream} }

// Reset starts over with the message m.
func (d *Decoder) Reset(m Message) {
	d.buf, d.bulk, d.pos, d.err = m.Stream, m.Bulk, 0, nil
}

// Err returns the first error, or nil.
func (d *Decoder) Err() error { return d.err }

// Fail makes err the decoder's error, with the present offset, unless it has
// one already.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err = &DecodeError{Pos: d.pos, Err: err}
	}
}

// Pos returns the offset of the next item in the stream.
func (d *Decoder) Pos() int { return d.pos }

// Remaining returns the number of bytes not decoded yet, bulk items beside
// the stream not counted.
func (d *Decoder) Remaining() int { return len(d.buf) - d.pos }

// Rest returns the bytes not decoded yet and moves behind them.
func (d *Decoder) Rest() []byte { return d.take(d.Remaining()) }

// End fails the decoder if anything is left over.
func (d *Decoder) End() {
	if d.err == nil && (d.Remaining() > 0 || len(d.bulk) > 0) {
		d.Fail(ErrTrailing)
	}
}

func (d *Decoder) take(n int) []byte {
	if d.err != nil {
		return nil
	}
	// A bulk item that was passed over was moved from where none may be: what
	// follows in the stream is not what it seems. AnyPos compares as largest.
	if len(d.bulk) > 0 && uint(d.pos) > uint(d.bulk[0].Pos) {
		d.Fail(ErrBulk)
		return nil
	}
	if n < 0 || n > len(d.buf)-d.pos {
		d.Fail(ErrShort)
		return nil
	}
	b := d.buf[d.pos : d.pos+n : d.pos+n]
	d.pos += n
	return b
}

// Uint32 takes an unsigned integer.
func (d *Decoder) Uint32() uint32 {
	b := d.take(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Int32 takes an integer.
func (d *Decoder) Int32() int32 { return int32(d.Uint32()) }

// Uint64 takes an unsigned hyper integer.
func (d *Decoder) Uint64() uint64 {
	b := d.take(8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

// Int64 takes a hyper integer.
func (d *Decoder) Int64() int64 { return int64(d.Uint64()) }

// Bool takes a boolean; anything but 0 and 1 is an error (RFC 4506 section 4.4).
func (d *Decoder) Bool() bool {
	v := d.Uint32()
	if v > 1 {
		d.Fail(ErrRange)
		return false
	}
	return v == 1
}

// Fixed takes a fixed-length opaque of n bytes and its padding.
func (d *Decoder) Fixed(n int) []byte {
	if d.err == nil && (n < 0 || n > len(d.buf)-d.pos) {
		d.Fail(ErrShort)
	}
	b := d.take(PadLen(n))
	if b == nil {
		return nil
	}
	return b[:n:n]
}

// Opaque takes a variable-length opaque of at most max bytes.
func (d *Decoder) Opaque(max int) []byte {
	n := d.Count(max)
	return d.Fixed(n)
}

// String takes a string of at most max bytes. It allocates the string.
func (d *Decoder) String(max int) string { return string(d.Opaque(max)) }

// Count takes a length or count word of at most max. A count of items is
// checked against max and not against what is left of the stream, so callers
// that allocate in proportion to it use CountOf.
func (d *Decoder) Count(max int) int {
	n := d.Uint32()
	if int64(n) > int64(max) { // signed: a negative max allows nothing
		d.Fail(ErrRange)
		return 0
	}
	return int(n)
}

// CountOf takes a count of items that each occupy at least size bytes: a count
// that the rest of the stream cannot hold is an error before anything is
// allocated for it.
func (d *Decoder) CountOf(max, size int) int {
	n := d.Count(max)
	if d.err == nil && n > d.Remaining()/size {
		d.Fail(ErrShort)
		return 0
	}
	return n
}

// Bulk takes a variable-length opaque of at most max bytes that may have been
// moved beside the stream. It tells whether it was. An item moved beside the
// stream may carry its padding (some responders write it into the chunk); it
// is cut off.
func (d *Decoder) Bulk(max int) (data []byte, beside bool) {
	n := d.Count(max)
	if d.err != nil {
		return nil, false
	}
	if len(d.bulk) > 0 && (d.bulk[0].Pos == d.pos || d.bulk[0].Pos == AnyPos) {
		data = d.bulk[0].Data
		if len(data) != n && len(data) != PadLen(n) {
			d.Fail(ErrBulk)
			return nil, false
		}
		d.bulk = d.bulk[1:]
		return data[:n:n], true
	}
	return d.Fixed(n), false
}
