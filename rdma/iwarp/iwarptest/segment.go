package iwarptest

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Opcodes of RDMAP (RFC 5040 section 4.1).
const (
	Write        = 0
	ReadRequest  = 1
	ReadResponse = 2
	Send         = 3
	SendInv      = 4
	SendSE       = 5
	SendSEInv    = 6
	Terminate    = 7
)

// Segment is a DDP segment that carries (part of) an RDMAP message.
type Segment struct {
	Tagged bool
	Last   bool
	Opcode uint8
	// DDPVersion and RDMAPVersion are 1 when zero.
	DDPVersion, RDMAPVersion uint8
	// STag is the tagged buffer, or what a Send with Invalidate invalidates.
	STag    uint32
	Offset  uint64 // TO, tagged
	Queue   uint32 // untagged
	MSN, MO uint32 // untagged
	Payload []byte
}

// ULPDU returns the segment with its header.
func (s Segment) ULPDU() []byte {
	one := func(v uint8) uint8 {
		if v == 0 {
			return 1
		}
		return v
	}
	c := one(s.DDPVersion) & 3
	if s.Tagged {
		c |= 0x80
	}
	if s.Last {
		c |= 0x40
	}
	b := []byte{c, one(s.RDMAPVersion)<<6 | s.Opcode&0xf}
	b = binary.BigEndian.AppendUint32(b, s.STag)
	if s.Tagged {
		b = binary.BigEndian.AppendUint64(b, s.Offset)
	} else {
		b = binary.BigEndian.AppendUint32(b, s.Queue)
		b = binary.BigEndian.AppendUint32(b, s.MSN)
		b = binary.BigEndian.AppendUint32(b, s.MO)
	}
	return append(b, s.Payload...)
}

func parseSegment(u []byte) (Segment, error) {
	if len(u) < 14 || u[0]&0x80 == 0 && len(u) < 18 {
		return Segment{}, fmt.Errorf("ULPDU of %d octets", len(u))
	}
	s := Segment{Tagged: u[0]&0x80 != 0, Last: u[0]&0x40 != 0, DDPVersion: u[0] & 3,
		RDMAPVersion: u[1] >> 6, Opcode: u[1] & 0xf, STag: binary.BigEndian.Uint32(u[2:])}
	if s.Tagged {
		s.Offset = binary.BigEndian.Uint64(u[6:])
		s.Payload = u[14:]
		return s, nil
	}
	s.Queue = binary.BigEndian.Uint32(u[6:])
	s.MSN = binary.BigEndian.Uint32(u[10:])
	s.MO = binary.BigEndian.Uint32(u[14:])
	s.Payload = u[18:]
	return s, nil
}

// FPDU frames a ULPDU: length, pad, checksum. A checksum field that is not in
// use is zero.
func FPDU(ulpdu []byte, crc bool) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	b = append(b, ulpdu...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	var sum uint32
	if crc {
		sum = Checksum(b)
	}
	return binary.LittleEndian.AppendUint32(b, sum)
}

// Checksum returns the CRC32c of an FPDU up to its CRC field.
func Checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Read is the content of an RDMA Read Request (RFC 5040 section 4.4).
type Read struct {
	SinkSTag   uint32
	SinkOffset uint64
	Size       uint32
	STag       uint32
	Offset     uint64
}

// Bytes returns the payload of the Read Request.
func (r Read) Bytes() []byte {
	b := binary.BigEndian.AppendUint32(nil, r.SinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.SinkOffset)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, r.STag)
	return binary.BigEndian.AppendUint64(b, r.Offset)
}

// Read returns the content of a Read Request.
func (s Segment) Read() (Read, error) {
	p := s.Payload
	if s.Opcode != ReadRequest || len(p) != 28 {
		return Read{}, fmt.Errorf("no Read Request but opcode %d with %d octets", s.Opcode, len(p))
	}
	return Read{SinkSTag: binary.BigEndian.Uint32(p), SinkOffset: binary.BigEndian.Uint64(p[4:]),
		Size: binary.BigEndian.Uint32(p[12:]), STag: binary.BigEndian.Uint32(p[16:]), Offset: binary.BigEndian.Uint64(p[20:])}, nil
}
