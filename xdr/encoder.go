package xdr

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encoder appends XDR items to a stream. Its zero value is ready to use; Reset
// lets one encoder serve many messages without allocating.
//
// An Encoder is not safe for concurrent use.
type Encoder struct {
	buf  []byte
	bulk []Bulk
	err  error
}

// Reset discards what was encoded and goes on in buf, whose length is taken
// as zero and whose capacity is used. With a nil buf the encoder keeps the
// buffer it has.
func (e *Encoder) Reset(buf []byte) {
	if buf != nil {
		e.buf = buf
	}
	e.buf = e.buf[:0]
	clear(e.bulk) // do not keep the payload of an old message alive
	e.bulk = e.bulk[:0]
	e.err = nil
}

// Err returns the first error, or nil.
func (e *Encoder) Err() error { return e.err }

// Fail makes err the encoder's error unless it has one already.
func (e *Encoder) Fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Len returns the length of the stream so far, bulk items not counted.
func (e *Encoder) Len() int { return len(e.buf) }

// Bytes returns the stream so far. It aliases the encoder's buffer and is
// valid until the next call of Reset.
func (e *Encoder) Bytes() []byte { return e.buf }

// Message returns what was encoded. It aliases the encoder and is valid until
// the next call of Reset.
func (e *Encoder) Message() Message { return Message{Stream: e.buf, Bulk: e.bulk} }

// Uint32 appends an unsigned integer.
func (e *Encoder) Uint32(v uint32) {
	if e.err == nil {
		e.buf = binary.BigEndian.AppendUint32(e.buf, v)
	}
}

// Int32 appends an integer.
func (e *Encoder) Int32(v int32) { e.Uint32(uint32(v)) }

// Uint64 appends an unsigned hyper integer.
func (e *Encoder) Uint64(v uint64) {
	if e.err == nil {
		e.buf = binary.BigEndian.AppendUint64(e.buf, v)
	}
}

// Int64 appends a hyper integer.
func (e *Encoder) Int64(v int64) { e.Uint64(uint64(v)) }

// Bool appends a boolean.
func (e *Encoder) Bool(v bool) {
	if v {
		e.Uint32(1)
	} else {
		e.Uint32(0)
	}
}

// Fixed appends a fixed-length opaque and its padding.
func (e *Encoder) Fixed(b []byte) {
	if e.err != nil {
		return
	}
	e.buf = append(e.buf, b...)
	e.buf = append(e.buf, zeros[:PadLen(len(b))-len(b)]...)
}

// Opaque appends a variable-length opaque: length word, bytes, padding.
func (e *Encoder) Opaque(b []byte) {
	if !e.length(len(b)) {
		return
	}
	e.Fixed(b)
}

// String appends a string.
func (e *Encoder) String(s string) {
	if !e.length(len(s)) {
		return
	}
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, zeros[:PadLen(len(s))-len(s)]...)
}

// Bulk appends the length word of b and records that b belongs at this place;
// the bytes themselves are not copied and must stay unchanged until the
// message has been sent.
func (e *Encoder) Bulk(b []byte) {
	if !e.length(len(b)) {
		return
	}
	e.bulk = append(e.bulk, Bulk{Pos: len(e.buf), Data: b})
}

// PutUint32 overwrites the word at offset pos, which must have been encoded
// before: for counts and lengths that are known only afterwards.
func (e *Encoder) PutUint32(pos int, v uint32) {
	if e.err == nil {
		binary.BigEndian.PutUint32(e.buf[pos:pos+4], v)
	}
}

// Truncate cuts the stream back to length n and forgets bulk items recorded
// behind it: a responder takes back a result that turned out not to fit.
func (e *Encoder) Truncate(n int) {
	if e.err != nil {
		return
	}
	e.buf = e.buf[:n]
	for len(e.bulk) > 0 && e.bulk[len(e.bulk)-1].Pos > n {
		e.bulk[len(e.bulk)-1] = Bulk{} // do not keep the payload alive
		e.bulk = e.bulk[:len(e.bulk)-1]
	}
}

func (e *Encoder) length(n int) bool {
	if uint64(n) > math.MaxUint32 {
		e.Fail(fmt.Errorf("xdr: item of %d bytes exceeds the 32-bit length word", n))
	}
	e.Uint32(uint32(n))
	return e.err == nil
}
