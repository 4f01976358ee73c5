package nfs4

import (
	"math/bits"
	"strings"

	"nfsrdma-fuse/xdr"
)

// Bitmap is a set of small numbers: attributes, operations, hints or kinds of
// notification. Bit n stands in word n/32 (RFC 8881 section 3.2). It holds
// 96 bits, more than the RFCs have numbers for.
type Bitmap [3]uint32

// MakeBitmap returns the set of the attributes given.
func MakeBitmap(attrs ...Attr) Bitmap {
	var b Bitmap
	for _, a := range attrs {
		b.Set(a)
	}
	return b
}

// bitmapBits is the number of bits that a Bitmap holds.
const bitmapBits = 32 * len(Bitmap{})

// Has tells whether attribute a is in the set.
func (b Bitmap) Has(a Attr) bool { return b.HasBit(uint32(a)) }

// HasBit tells whether number n is in the set.
func (b Bitmap) HasBit(n uint32) bool { return n < uint32(bitmapBits) && b[n/32]>>(n%32)&1 != 0 }

// Set adds attribute a to the set; one that no Bitmap can hold is ignored.
func (b *Bitmap) Set(a Attr) { b.SetBit(uint32(a)) }

// SetBit adds number n to the set; one that no Bitmap can hold is ignored.
func (b *Bitmap) SetBit(n uint32) {
	if n < uint32(bitmapBits) {
		b[n/32] |= 1 << (n % 32)
	}
}

// Clear removes attribute a from the set.
func (b *Bitmap) Clear(a Attr) {
	if n := uint32(a); n < uint32(bitmapBits) {
		b[n/32] &^= 1 << (n % 32)
	}
}

// And returns the numbers that are in both sets.
func (b Bitmap) And(c Bitmap) Bitmap { return Bitmap{b[0] & c[0], b[1] & c[1], b[2] & c[2]} }

// Or returns the numbers that are in either set.
func (b Bitmap) Or(c Bitmap) Bitmap { return Bitmap{b[0] | c[0], b[1] | c[1], b[2] | c[2]} }

// AndNot returns the numbers that are in b and not in c.
func (b Bitmap) AndNot(c Bitmap) Bitmap { return Bitmap{b[0] &^ c[0], b[1] &^ c[1], b[2] &^ c[2]} }

// IsZero tells whether the set is empty.
func (b Bitmap) IsZero() bool { return b == Bitmap{} }

// Contains tells whether all of c is in b.
func (b Bitmap) Contains(c Bitmap) bool { return c.AndNot(b).IsZero() }

// Len returns the number of elements.
func (b Bitmap) Len() int {
	return bits.OnesCount32(b[0]) + bits.OnesCount32(b[1]) + bits.OnesCount32(b[2])
}

// String lists the set as names of attributes.
func (b Bitmap) String() string {
	var s []string
	for n := range uint32(bitmapBits) {
		if b.HasBit(n) {
			s = append(s, Attr(n).String())
		}
	}
	return "{" + strings.Join(s, " ") + "}"
}

// Encode appends b without trailing words of zero.
func (b *Bitmap) Encode(e *xdr.Encoder) {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	e.Uint32(uint32(n))
	for _, w := range b[:n] {
		e.Uint32(w)
	}
}

// Decode takes b. Numbers too large for a Bitmap are dropped: what a peer
// supports or asks for beyond them cannot be used here.
func (b *Bitmap) Decode(d *xdr.Decoder) { b.decode(d) }

// decode takes b and tells whether numbers were dropped.
func (b *Bitmap) decode(d *xdr.Decoder) (dropped bool) {
	*b = Bitmap{}
	n := d.CountOf(MaxBitmapWords, 4)
	for i := range n {
		w := d.Uint32()
		if i < len(b) {
			b[i] = w
		} else if w != 0 {
			dropped = true
		}
	}
	return dropped
}
