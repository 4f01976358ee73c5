package tcp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"nfsrdma-fuse/xdr"
)

// ErrRecord means that what the peer sent is not a stream of records that hold
// RPC messages, or exceeds what was agreed. It costs the connection.
var ErrRecord = errors.New("malformed record")

const (
	markerLen    = 4
	lastFragment = 1 << 31
)

// recordReader takes records apart into their fragments (RFC 5531 section 11):
//
//	 1 bit   31 bits
//	+------+--------+----------+------+--------+----------+--
//	| last | length | fragment | last | length | fragment | ...
//	+------+--------+----------+------+--------+----------+--
//
// The last fragment of a record has its first bit set.
type recordReader struct {
	r     *bufio.Reader
	limit int // length of the longest record, bytes

	left      int  // bytes of the present fragment not read yet
	last      bool // it is the last of its record
	length    int  // of the record, as far as its fragments have announced
	fragments int  // seen of the record
}

// next begins a record. It returns io.EOF if the peer has ended the connection
// behind the one before.
func (rr *recordReader) next() error {
	rr.left, rr.last, rr.length, rr.fragments = 0, false, 0, 0
	if _, err := rr.r.Peek(1); err != nil {
		return err
	}
	return rr.marker()
}

// marker reads the marker of the next fragment.
func (rr *recordReader) marker() error {
	b, err := rr.r.Peek(markerLen)
	if err != nil {
		return unexpected(err)
	}
	m := binary.BigEndian.Uint32(b)
	rr.left, rr.last = int(m&^lastFragment), m&lastFragment != 0
	if rr.left > rr.limit-rr.length {
		return fmt.Errorf("%w: %d bytes and more, %d are allowed", ErrRecord, rr.length+rr.left, rr.limit)
	}
	if rr.fragments++; rr.fragments > maxFragments {
		return fmt.Errorf("%w: more than %d fragments", ErrRecord, maxFragments)
	}
	rr.length += rr.left
	_, err = rr.r.Discard(markerLen)
	return err
}

// more tells whether bytes of the record are left, and goes to the fragment
// that they are in.
func (rr *recordReader) more() (bool, error) {
	for rr.left == 0 {
		if rr.last {
			return false, nil
		}
		if err := rr.marker(); err != nil {
			return false, err
		}
	}
	return true, nil
}

// read fills p, or as much of it as the record has left. Only what goes wrong
// with the connection is an error.
func (rr *recordReader) read(p []byte) (n int, err error) {
	for n < len(p) {
		if ok, err := rr.more(); !ok || err != nil {
			return n, err
		}
		k, err := io.ReadFull(rr.r, p[n:n+min(len(p)-n, rr.left)])
		n += k
		rr.left -= k
		if err != nil {
			return n, unexpected(err)
		}
	}
	return n, nil
}

// skip goes to the end of the record.
func (rr *recordReader) skip() error {
	for {
		if ok, err := rr.more(); !ok || err != nil {
			return err
		}
		k, err := rr.r.Discard(rr.left)
		rr.left -= k
		if err != nil {
			return unexpected(err)
		}
	}
}

// rest reads what is left of the record into rec, behind the first n bytes
// there. It returns errTooLong as soon as the record turns out to be longer
// than bound.
func (rr *recordReader) rest(rec *record, n, bound int) (*record, error) {
	for {
		ok, err := rr.more()
		if err != nil {
			return rec, err
		}
		if rr.length > bound {
			return rec, errTooLong
		}
		if !ok {
			rec.n = n
			return rec, nil
		}
		rec = rec.grow(n, n+rr.left)
		k, err := rr.read(rec.buf[n : n+rr.left])
		n += k
		if err != nil {
			return rec, err
		}
	}
}

// errTooLong says that a record is longer than its receiver allows; the rest of
// it is still to be skipped.
var errTooLong = errors.New("record too long")

func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// record is the memory of a received message.
type record struct {
	buf []byte
	n   int // length of the message, bytes
	// bulk is for a reply whose result was placed elsewhere.
	bulk [1]xdr.Bulk

	class int
	free  func() // puts the record back: made once, so that handing it out is free
}

func (r *record) message() []byte { return r.buf[:r.n:r.n] }

// Sizes of the memory of records: small messages, and the usual transfer sizes
// with what surrounds the payload.
var recordSizes = [...]int{1 << 10, 8 << 10, 72 << 10, 264 << 10, 520 << 10, 1<<20 + Overhead, maxPayload + Overhead}

// records keeps unused records by size, for all connections; the garbage
// collector may take them.
var records [len(recordSizes)]sync.Pool

// newRecord returns a record with room for n bytes, which are at most those of
// the largest size.
func newRecord(n int) *record {
	class := 0
	for n > recordSizes[class] {
		class++
	}
	if r, ok := records[class].Get().(*record); ok {
		return r
	}
	r := &record{buf: make([]byte, recordSizes[class]), class: class}
	r.free = func() {
		r.bulk[0] = xdr.Bulk{}
		records[r.class].Put(r)
	}
	return r
}

// grow returns a record that has room for n bytes and begins with the first
// keep bytes of r: r itself if it is large enough.
func (r *record) grow(keep, n int) *record {
	if n <= len(r.buf) {
		return r
	}
	larger := newRecord(n)
	copy(larger.buf, r.buf[:keep])
	r.free()
	return larger
}
