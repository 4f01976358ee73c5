package iwarptest

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Keys of MPA frames (RFC 5044 section 7.1.1).
const (
	RequestKey = "MPA ID Req Frame"
	ReplyKey   = "MPA ID Rep Frame"
)

// Frame is an MPA Request or Reply.
type Frame struct {
	Key      string // 16 octets
	Markers  bool
	CRC      bool
	Reject   bool
	Enhanced bool // IRD and ORD stand before the private data
	Revision uint8
	// IRD and ORD with the control flags of RFC 6581 section 9 in their two
	// high bits.
	IRD, ORD uint16
	Private  []byte
	// ClaimLength, if not nil, replaces the length of the private data.
	ClaimLength *uint16
}

// Control flags in Frame.IRD and Frame.ORD.
const (
	IRDPeerToPeer = 0x8000
	IRDSendRTR    = 0x4000
	ORDWriteRTR   = 0x8000
	ORDReadRTR    = 0x4000
)

// Bytes returns the frame as it goes onto the wire.
func (f Frame) Bytes() []byte {
	var flags byte
	for i, set := range []bool{f.Markers, f.CRC, f.Reject, f.Enhanced} {
		if set {
			flags |= 0x80 >> i
		}
	}
	body := f.Private
	if f.Enhanced {
		body = binary.BigEndian.AppendUint16(nil, f.IRD)
		body = binary.BigEndian.AppendUint16(body, f.ORD)
		body = append(body, f.Private...)
	}
	n := uint16(len(body))
	if f.ClaimLength != nil {
		n = *f.ClaimLength
	}
	b := append([]byte(f.Key), flags, f.Revision)
	b = binary.BigEndian.AppendUint16(b, n)
	return append(b, body...)
}

// readFrame reads one frame, whatever it says.
func readFrame(r io.Reader) (Frame, error) {
	var h [20]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return Frame{}, fmt.Errorf("reading an MPA frame: %w", err)
	}
	f := Frame{Key: string(h[:16]), Revision: h[17],
		Markers: h[16]&0x80 != 0, CRC: h[16]&0x40 != 0, Reject: h[16]&0x20 != 0, Enhanced: h[16]&0x10 != 0}
	f.Private = make([]byte, binary.BigEndian.Uint16(h[18:]))
	if _, err := io.ReadFull(r, f.Private); err != nil {
		return f, fmt.Errorf("reading MPA private data: %w", err)
	}
	if f.Enhanced && len(f.Private) >= 4 {
		f.IRD = binary.BigEndian.Uint16(f.Private)
		f.ORD = binary.BigEndian.Uint16(f.Private[2:])
		f.Private = f.Private[4:]
	}
	return f, nil
}
