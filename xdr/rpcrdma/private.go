package rpcrdma

import "bytes"

// Inline thresholds in bytes: the one to assume of a peer that says nothing
// (RFC 8166 section 3.3.2), and the largest that private data can express.
const (
	DefaultInline = 1024
	MaxInline     = 256 << 10
)

// PrivateDataLen is the length in bytes of encoded PrivateData.
const PrivateDataLen = 8

const (
	privateMagic   = "\xf6\xab\x0e\x18"
	privateVersion = 1
	flagInvalidate = 0x01
	sizeUnit       = 1024
)

// PrivateData is what both ends tell each other while connecting (RFC 8797
// section 4).
//
//	+-------------------------------------------+
//	|            identifier (4 bytes)           |
//	+---------+--------------+------+-----------+
//	| version | reserved | R | send |  receive  |
//	+---------+--------------+------+-----------+
type PrivateData struct {
	// Invalidate is the R flag: the sender takes Sends that invalidate one of
	// its handles. It is used only if both ends set it.
	Invalidate bool
	// SendSize and RecvSize are the longest messages in bytes that the sender
	// Sends and that it can receive: multiples of 1024, from DefaultInline to
	// MaxInline. Other values are lowered to the next one that can be encoded;
	// what is below the smallest counts as the smallest.
	SendSize int
	RecvSize int
}

// DefaultPrivateData stands for a peer that sent none (RFC 8797 section 5.1).
func DefaultPrivateData() PrivateData {
	return PrivateData{SendSize: DefaultInline, RecvSize: DefaultInline}
}

// AppendTo appends the encoded private data to dst.
func (p PrivateData) AppendTo(dst []byte) []byte {
	var flags byte
	if p.Invalidate {
		flags |= flagInvalidate
	}
	dst = append(dst, privateMagic...)
	return append(dst, privateVersion, flags, encodeSize(p.SendSize), encodeSize(p.RecvSize))
}

// FindPrivateData looks for private data in what was received while
// connecting. Lower layers may have put bytes of their own before it or behind
// it, so it can begin anywhere (RFC 8797 section 5.2). If there is none it
// returns DefaultPrivateData and false.
func FindPrivateData(b []byte) (PrivateData, bool) {
	for at := 0; ; at++ {
		i := bytes.Index(b[at:], []byte(privateMagic))
		if i < 0 || len(b)-at-i < PrivateDataLen {
			return DefaultPrivateData(), false
		}
		at += i
		if b[at+4] == privateVersion {
			return PrivateData{
				Invalidate: b[at+5]&flagInvalidate != 0,
				SendSize:   decodeSize(b[at+6]),
				RecvSize:   decodeSize(b[at+7]),
			}, true
		}
	}
}

// InlineThresholds returns the longest message in bytes that can be sent to a
// peer and the longest that it can send, from what both ends have told
// (RFC 8797 section 4.2).
func InlineThresholds(own, peer PrivateData) (send, receive int) {
	return min(own.SendSize, peer.RecvSize), min(own.RecvSize, peer.SendSize)
}

func encodeSize(n int) byte {
	return byte(max(DefaultInline, min(n, MaxInline))/sizeUnit - 1)
}

func decodeSize(b byte) int { return (int(b) + 1) * sizeUnit }
