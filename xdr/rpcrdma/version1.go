package rpcrdma

import (
	"encoding/binary"
	"fmt"

	"nfsrdma-fuse/xdr"
)

var version1 = Codec{
	Version: Version1,
	Append:  append1,
	Len:     len1,
	Decode:  decode1,
}

// AppendTo appends h to dst in the format of version 1.
func (h *Header) AppendTo(dst []byte) []byte { return append1(dst, h) }

// Len returns the length of h in bytes in the format of version 1.
func (h *Header) Len() int { return len1(h) }

// Decode reads a header of version 1; see Codec.Decode.
func (h *Header) Decode(msg []byte) (payload []byte, err error) { return decode1(h, msg) }

func append1(dst []byte, h *Header) []byte {
	dst = appendWords(dst, h.XID, h.Vers, h.Credits, uint32(h.Proc))
	switch h.Proc {
	case Msg, NoMsg:
		return appendChunks(dst, h)
	case MsgP:
		return appendChunks(appendWords(dst, h.Align, h.Threshold), h)
	case Error:
		if h.Err == ErrVers {
			return appendWords(dst, uint32(h.Err), h.VersLow, h.VersHigh)
		}
		return appendWords(dst, uint32(h.Err))
	}
	return dst
}

func appendWords(dst []byte, words ...uint32) []byte {
	for _, w := range words {
		dst = binary.BigEndian.AppendUint32(dst, w)
	}
	return dst
}

func appendChunks(dst []byte, h *Header) []byte {
	for _, r := range h.Read {
		dst = appendSegment(appendWords(dst, 1, r.Position), r.Segment)
	}
	dst = appendWords(dst, 0)
	for _, c := range h.Write {
		dst = appendChunk(dst, c)
	}
	dst = appendWords(dst, 0)
	if h.Reply == nil {
		return appendWords(dst, 0)
	}
	return appendChunk(dst, h.Reply)
}

func appendChunk(dst []byte, c Chunk) []byte {
	dst = appendWords(dst, 1, uint32(len(c)))
	for _, s := range c {
		dst = appendSegment(dst, s)
	}
	return dst
}

func appendSegment(dst []byte, s Segment) []byte {
	dst = appendWords(dst, s.Handle, s.Length)
	return binary.BigEndian.AppendUint64(dst, s.Offset)
}

func len1(h *Header) int {
	n := MinHeaderLen
	switch h.Proc {
	case Msg, NoMsg:
	case MsgP:
		n += 8
	case Error:
		if h.Err == ErrVers {
			return MinHeaderLen
		}
		return ErrChunkLen
	default:
		return FixedLen
	}
	n += ReadSegmentLen * len(h.Read)
	for _, c := range h.Write {
		n += ChunkLen + SegmentLen*len(c)
	}
	if h.Reply != nil {
		n += ReplyChunkLen + SegmentLen*len(h.Reply)
	}
	return n
}

func decode1(h *Header, msg []byte) (payload []byte, err error) {
	h.Reset()
	fixed, err := Peek(msg)
	if err != nil {
		return nil, err
	}
	h.XID, h.Vers, h.Credits, h.Proc = fixed.XID, fixed.Vers, fixed.Credits, fixed.Proc

	d := xdr.NewDecoder(msg[FixedLen:])
	if h.Proc == Error {
		// This arm has the same format in all versions when it refuses a
		// version, so it is read whatever the version word says.
		return nil, decodeError(d, h)
	}
	if h.Vers != Version1 {
		return nil, ErrUnsupported
	}
	switch h.Proc {
	case Done:
		return nil, nil
	case MsgP:
		h.Align, h.Threshold = d.Uint32(), d.Uint32()
	case Msg, NoMsg:
	default:
		return nil, fmt.Errorf("%w: %v", ErrHeader, h.Proc)
	}
	decodeChunks(d, h)
	switch {
	case d.Err() != nil:
		return nil, fmt.Errorf("%w: chunk lists: %w", ErrHeader, d.Err())
	case h.Proc == NoMsg && !h.HasChunks():
		return nil, fmt.Errorf("%w: no chunk holds the payload stream", ErrHeader)
	case h.Proc == NoMsg:
		return nil, nil
	}
	return d.Rest(), nil
}

func decodeError(d *xdr.Decoder, h *Header) error {
	h.Err = ErrCode(d.Uint32())
	switch {
	case h.Err == ErrVers:
		h.VersLow, h.VersHigh = d.Uint32(), d.Uint32()
	case h.Vers != Version1:
		return ErrUnsupported
	case h.Err != ErrChunk:
		return fmt.Errorf("%w: %v", ErrHeader, h.Err)
	}
	if d.Err() != nil {
		return fmt.Errorf("%w: %w", ErrHeader, d.Err())
	}
	return nil
}

func decodeChunks(d *xdr.Decoder, h *Header) {
	for d.Bool() {
		if len(h.Read) == MaxReadSegments {
			d.Fail(xdr.ErrRange)
			return
		}
		h.Read = append(h.Read, ReadSegment{Position: d.Uint32(), Segment: decodeSegment(d)})
	}
	for d.Bool() {
		if len(h.Write) == MaxWriteChunks {
			d.Fail(xdr.ErrRange)
			return
		}
		h.Write = append(h.Write, decodeChunk(d, h))
	}
	if d.Bool() {
		h.Reply = decodeChunk(d, h)
	}
}

// decodeChunk appends the segments to h.segs. Chunks decoded before keep the
// array that they lie in when that grows.
func decodeChunk(d *xdr.Decoder, h *Header) Chunk {
	n := d.CountOf(MaxChunkSegments, SegmentLen)
	if n == 0 {
		return Chunk{}
	}
	from := len(h.segs)
	for range n {
		h.segs = append(h.segs, decodeSegment(d))
	}
	return Chunk(h.segs[from:len(h.segs):len(h.segs)])
}

func decodeSegment(d *xdr.Decoder) Segment {
	return Segment{Handle: d.Uint32(), Length: d.Uint32(), Offset: d.Uint64()}
}
