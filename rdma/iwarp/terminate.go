package iwarp

import (
	"encoding/binary"
	"fmt"

	"nfsrdma-fuse/rdma"
)

// termCode names a fault as a Terminate message does: the layer in bits 15-12,
// the error type in bits 11-8, the error code in bits 7-0 (RFC 5040 section 4.8).
type termCode uint16

// The faults that this package reports: RFC 5040 section 4.8, RFC 5041 section
// 7.2, RFC 5044 section 8, RFC 6581 section 8.
const (
	termLocal        termCode = 0x0000 // catastrophic, with no more to say
	termSTag         termCode = 0x0100
	termBounds       termCode = 0x0101
	termAccess       termCode = 0x0102
	termWrap         termCode = 0x0104
	termCannotInval  termCode = 0x0109
	termVersion      termCode = 0x0205
	termOpcode       termCode = 0x0206
	termStreamBroken termCode = 0x0207

	termTaggedSTag      termCode = 0x1100
	termTaggedBounds    termCode = 0x1101
	termTaggedWrap      termCode = 0x1103
	termTaggedVersion   termCode = 0x1104
	termUntaggedQueue   termCode = 0x1201
	termUntaggedNoBuf   termCode = 0x1202
	termUntaggedMSN     termCode = 0x1203
	termUntaggedMO      termCode = 0x1204
	termUntaggedTooLong termCode = 0x1205
	termUntaggedVersion termCode = 0x1206

	termMPACRC    termCode = 0x2002
	termMPALength termCode = 0x2003
	termMPAIRD    termCode = 0x2006
)

var termNames = map[termCode]string{
	0x0000: "RDMAP: local catastrophic error",
	0x0100: "RDMAP: invalid STag",
	0x0101: "RDMAP: base or bounds violation",
	0x0102: "RDMAP: access rights violation",
	0x0103: "RDMAP: STag not associated with the stream",
	0x0104: "RDMAP: tagged offset wraps",
	0x0109: "RDMAP: STag cannot be invalidated",
	0x01ff: "RDMAP: remote protection error",
	0x0205: "RDMAP: invalid RDMAP version",
	0x0206: "RDMAP: unexpected opcode",
	0x0207: "RDMAP: catastrophic error of the stream",
	0x0208: "RDMAP: catastrophic error",
	0x0209: "RDMAP: STag cannot be invalidated",
	0x02ff: "RDMAP: remote operation error",
	0x1000: "DDP: local catastrophic error",
	0x1100: "DDP: invalid STag",
	0x1101: "DDP: base or bounds violation",
	0x1102: "DDP: STag not associated with the stream",
	0x1103: "DDP: tagged offset wraps",
	0x1104: "DDP: invalid DDP version (tagged)",
	0x1201: "DDP: invalid queue number",
	0x1202: "DDP: no buffer for the message (more sent than the credits allow?)",
	0x1203: "DDP: message sequence number out of range",
	0x1204: "DDP: invalid message offset",
	0x1205: "DDP: message too long for the buffer",
	0x1206: "DDP: invalid DDP version (untagged)",
	0x2001: "MPA: TCP connection lost",
	0x2002: "MPA: CRC mismatch",
	0x2003: "MPA: length and markers disagree",
	0x2004: "MPA: invalid request or reply frame",
	0x2005: "MPA: local catastrophic error",
	0x2006: "MPA: insufficient IRD resources",
	0x2007: "MPA: no matching RTR option",
}

func (c termCode) String() string {
	if s := termNames[c]; s != "" {
		return s
	}
	return fmt.Sprintf("layer %d, type %d, code %#02x", c>>12, c>>8&0xf, uint8(c))
}

// swapped returns the code with the layer and the type exchanged.
func (c termCode) swapped() termCode { return c>>12<<8 | c>>8&0xf<<12 | c&0xff }

// violation returns the error for a fault of the peer that code names.
func violation(code termCode, format string, args ...any) *rdma.ProtocolError {
	layer := [...]string{"RDMAP", "DDP", "MPA"}[code>>12]
	return &rdma.ProtocolError{Layer: layer, Reason: fmt.Sprintf(format, args...), Terminate: uint32(code)}
}

// TerminateError says that the peer has ended the connection with a Terminate
// message, and why.
type TerminateError struct {
	// Control are the first two octets of the message: layer, type and code.
	Control uint16
}

func (e *TerminateError) Error() string {
	c := termCode(e.Control)
	// Linux siw exchanges the nibbles of layer and type on little-endian
	// machines, so some codes can be read in two ways.
	_, asIs := termNames[c]
	_, swapped := termNames[c.swapped()]
	switch {
	case asIs && swapped && c != c.swapped():
		return fmt.Sprintf("terminated by the peer: %v (or, from Linux siw, %v)", c, c.swapped())
	case swapped && !asIs:
		c = c.swapped()
	}
	return fmt.Sprintf("terminated by the peer: %v", c)
}

// terminate is a Terminate message to send (RFC 5040 section 4.8):
//
//	0: layer(4) type(4) | 1: code | 2: M D R rsvd(13) | 4: segment length | 6: DDP header | RDMAP header
type terminate struct {
	code   termCode
	length int    // DDP segment length of the offending segment
	ddp    []byte // its DDP header, if there was one
	rdmap  []byte // its Read Request header, if it was one
}

const (
	terminateFixed = 4
	terminateMax   = terminateFixed + 2 + untaggedLen + readRequestLen

	termHasLength = 0x80
	termHasDDP    = 0x40
	termHasRDMAP  = 0x20
)

// put stores the message at the start of p, which has room for terminateMax
// octets, and returns its length. Which headers go along depends on the layer
// (RFC 5040 section 4.8, figure 10).
func (t *terminate) put(p []byte) int {
	binary.BigEndian.PutUint16(p, uint16(t.code))
	p[2], p[3] = 0, 0
	n := terminateFixed
	catastrophic := t.code>>8&0xf == 0
	if len(t.ddp) == 0 || catastrophic || t.code>>12 == 2 {
		return n
	}
	p[2] = termHasLength | termHasDDP
	binary.BigEndian.PutUint16(p[n:], uint16(t.length))
	n += 2
	n += copy(p[n:], t.ddp)
	if t.code>>8 == 0x01 && len(t.rdmap) > 0 {
		p[2] |= termHasRDMAP
		n += copy(p[n:], t.rdmap)
	}
	return n
}
