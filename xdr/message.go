package xdr

// AnyPos is the position of a Bulk item of which only its order is known: it
// belongs to the next bulk item that the decoder meets. A requester uses it for
// results, because a reply does not say where in the stream a Write chunk's
// data was taken from (RFC 8166 section 3.4.6).
const AnyPos = -1

// Bulk is a variable-length opaque whose bytes travel beside the stream. Its
// length word is part of the stream, its bytes and their padding are not.
type Bulk struct {
	// Pos is the offset in the stream, right behind the length word, where
	// Data would stand, with the bytes of earlier bulk items not counted. It is
	// a multiple of four, or AnyPos.
	Pos int
	// Data are the bytes, without XDR padding.
	Data []byte
}

// Message is an encoded message: a stream, and the bulk items left out of it
// in ascending order of position.
type Message struct {
	Stream []byte
	Bulk   []Bulk
}

// Len returns the length in bytes of the message with all bulk items and
// their padding spliced in.
func (m Message) Len() int {
	n := len(m.Stream)
	for _, b := range m.Bulk {
		n += PadLen(len(b.Data))
	}
	return n
}

// Position returns the XDR position of bulk item i: the offset its first byte
// has in the whole message, earlier bulk items included. This is the value
// that the position field of a Read chunk carries (RFC 8166 section 3.4.5).
func (m Message) Position(i int) int {
	pos := m.Bulk[i].Pos
	for _, b := range m.Bulk[:i] {
		pos += PadLen(len(b.Data))
	}
	return pos
}

// AppendTo appends the whole message to dst, bulk items and padding spliced
// in, and returns the extended slice. The items must have positions; AnyPos
// will not do.
func (m Message) AppendTo(dst []byte) []byte {
	at := 0
	for _, b := range m.Bulk {
		dst = append(dst, m.Stream[at:b.Pos]...)
		dst = append(dst, b.Data...)
		dst = append(dst, zeros[:PadLen(len(b.Data))-len(b.Data)]...)
		at = b.Pos
	}
	return append(dst, m.Stream[at:]...)
}

// AppendSegments appends to dst the pieces that, one behind the other, form
// the whole message: for a gathering write. The pieces alias the message.
func (m Message) AppendSegments(dst [][]byte) [][]byte {
	at := 0
	for _, b := range m.Bulk {
		if b.Pos > at {
			dst = append(dst, m.Stream[at:b.Pos])
		}
		if len(b.Data) > 0 {
			dst = append(dst, b.Data)
		}
		if pad := PadLen(len(b.Data)) - len(b.Data); pad > 0 {
			dst = append(dst, zeros[:pad])
		}
		at = b.Pos
	}
	if at < len(m.Stream) {
		dst = append(dst, m.Stream[at:])
	}
	return dst
}

// PadLen returns n rounded up to a multiple of four, the space that an opaque
// of n bytes occupies behind its length word.
func PadLen(n int) int { return (n + 3) &^ 3 }

var zeros [4]byte
