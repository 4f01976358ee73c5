package nfs4

import "nfsrdma-fuse/xdr"

// ReadDirArgs asks for entries of the current directory (RFC 8881 section 18.23).
type ReadDirArgs struct {
	Cookie      uint64   // of the entry to go on behind; 0 at the beginning. 1 and 2 are reserved
	CookieVerf  Verifier // from the reply that Cookie stems from
	DirCount    uint32   // hint: bytes of names and cookies; 0 means none
	MaxCount    uint32   // bytes of the whole result, 16 bytes of frame included
	AttrRequest Bitmap   // within KnownAttrs
}

// Op implements Args.
func (*ReadDirArgs) Op() OpNum { return OpReadDir }

// Encode implements Args.
func (a *ReadDirArgs) Encode(e *xdr.Encoder) {
	e.Uint64(a.Cookie)
	a.CookieVerf.Encode(e)
	e.Uint32(a.DirCount)
	e.Uint32(a.MaxCount)
	a.AttrRequest.Encode(e)
}

// Decode implements Args.
func (a *ReadDirArgs) Decode(d *xdr.Decoder) {
	a.Cookie = d.Uint64()
	a.CookieVerf.Decode(d)
	a.DirCount = d.Uint32()
	a.MaxCount = d.Uint32()
	a.AttrRequest.Decode(d)
}

// ReadDirRes is the result of READDIR. Entries holds the encoded list; Next
// takes one entry after the other from it.
//
//	+----------+-------------+
//	| status 4 | verifier  8 |
//	+---+------+---+---------+-------+
//	| 1 | cookie 8 | name .. | attrs |  for every entry
//	+---+-----+----+---------+-------+
//	| 0 | eof |
//	+---+-----+
type ReadDirRes struct {
	Status     Status
	CookieVerf Verifier
	// Entries are the entries, each with the word 1 in front of it. They
	// alias the stream when decoded.
	Entries []byte
	EOF     bool // no entry follows the last one

	dec   xdr.Decoder // of Entries, once Next was called
	begun bool
}

// Entry is an entry of a directory.
type Entry struct {
	Cookie uint64
	Name   []byte // aliases the stream when decoded
	Attrs  Attrs
}

// Op implements Res.
func (*ReadDirRes) Op() OpNum { return OpReadDir }

// Result implements Res.
func (r *ReadDirRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *ReadDirRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.CookieVerf.Encode(e)
		e.Fixed(r.Entries)
		e.Bool(false)
		e.Bool(r.EOF)
	}
}

// Decode implements Res. It looks at the frame of every entry and leaves the
// names and attributes to Next.
func (r *ReadDirRes) Decode(d *xdr.Decoder) {
	*r = ReadDirRes{}
	if !decodeStatus(d, &r.Status) {
		return
	}
	r.CookieVerf.Decode(d)
	ahead := *d
	start := d.Pos()
	end := start
	for d.Bool() {
		d.Uint64()
		d.Opaque(MaxName)
		for range d.CountOf(MaxBitmapWords, 4) {
			d.Uint32()
		}
		d.Opaque(MaxAttrs)
		end = d.Pos()
		if end-start > MaxReaddir {
			d.Fail(xdr.ErrRange)
		}
	}
	r.EOF = d.Bool()
	if d.Err() == nil && end > start {
		r.Entries = ahead.Rest()[: end-start : end-start]
	}
}

// Next takes the next entry. It returns false behind the last one, and when
// an entry cannot be decoded: see Err.
func (r *ReadDirRes) Next(entry *Entry) bool {
	if !r.begun {
		r.dec.Reset(xdr.Message{Stream: r.Entries})
		r.begun = true
	}
	d := &r.dec
	if d.Err() != nil || d.Remaining() == 0 {
		return false
	}
	if !d.Bool() {
		d.Fail(xdr.ErrRange)
	}
	entry.Cookie = d.Uint64()
	entry.Name = d.Opaque(MaxName)
	entry.Attrs.Decode(d)
	return d.Err() == nil
}

// Err returns why Next stopped early, or nil.
func (r *ReadDirRes) Err() error { return r.dec.Err() }

// Rewind makes Next begin with the first entry again.
func (r *ReadDirRes) Rewind() { r.begun = false }

// readdirFrame is the size of a READDIR result without its entries: verifier,
// end of the list, end of the directory. MaxCount counts it (RFC 8881 section
// 18.23.3).
const readdirFrame = 8 + 4 + 4

// EntryList builds the entries of a READDIR result within the limits that the
// requester has set. Its zero value has no room; Reset begins a list.
type EntryList struct {
	enc      xdr.Encoder
	max, dir int // bytes left for entries, and for names and cookies
	n        int
}

// Reset begins a list for a reply to args. It goes on in buf, which may be nil.
func (l *EntryList) Reset(args *ReadDirArgs, buf []byte) {
	l.enc.Reset(buf)
	l.n = 0
	l.max = min(int(args.MaxCount), MaxReaddir) - readdirFrame
	l.dir = int(args.DirCount)
	if l.dir == 0 {
		l.dir = MaxReaddir
	}
}

// Add appends an entry and tells whether it did: an entry that would exceed
// the limits is left out, and the list is complete (see also Err). DirCount is only a hint,
// so it does not keep out the first entry. If not even that fits, the answer
// is ErrTooSmall (RFC 8881 section 18.23.3).
func (l *EntryList) Add(entry *Entry) bool {
	names := 8 + 4 + xdr.PadLen(len(entry.Name))
	if l.n > 0 && names > l.dir {
		return false
	}
	at := l.enc.Len()
	l.enc.Bool(true)
	l.enc.Uint64(entry.Cookie)
	l.enc.Opaque(entry.Name)
	entry.Attrs.Encode(&l.enc)
	if l.enc.Len() > l.max || l.enc.Err() != nil {
		l.enc.Truncate(at)
		return false
	}
	l.dir -= names
	l.n++
	return true
}

// Len returns the number of entries in the list.
func (l *EntryList) Len() int { return l.n }

// Err returns why an entry could not be encoded, or nil.
func (l *EntryList) Err() error { return l.enc.Err() }

// Bytes returns the list as ReadDirRes.Entries needs it. It is valid until the
// next Reset.
func (l *EntryList) Bytes() []byte { return l.enc.Bytes() }
