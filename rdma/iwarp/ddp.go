package iwarp

import "encoding/binary"

// DDP headers with the control octet of RDMAP in their second octet (RFC 5041
// sections 4.2 and 4.3, RFC 5040 section 4.1):
//
//	tagged    0: T L rsvd(4) DV(2) | 1: RV(2) rsvd(2) opcode(4) | 2: STag | 6: TO
//	untagged  0: T L rsvd(4) DV(2) | 1: RV(2) rsvd(2) opcode(4) | 2: STag to invalidate | 6: QN | 10: MSN | 14: MO
const (
	taggedLen   = 14
	untaggedLen = 18

	ddpTagged  = 0x80
	ddpLast    = 0x40
	ddpVersion = 0x01 // DV, bits 1-0
	ddpDVMask  = 0x03
)

// Queue numbers of untagged messages (RFC 5040 section 4.1, figure 4).
const (
	queueSend      = 0
	queueRead      = 1
	queueTerminate = 2
)

// segment is the header of one DDP segment.
type segment struct {
	op     opcode
	tagged bool
	last   bool
	stag   uint32 // tagged: the buffer; untagged: the STag to invalidate
	to     uint64 // tagged offset
	qn     uint32
	msn    uint32
	mo     uint32
}

// headerLen returns the length in octets of the segment's DDP header.
func (s *segment) headerLen() int {
	if s.tagged {
		return taggedLen
	}
	return untaggedLen
}

// put stores the header at the start of p and returns its length.
func (s *segment) put(p []byte) int {
	c := byte(ddpVersion)
	if s.last {
		c |= ddpLast
	}
	p[1] = rdmapVersion<<rdmapVersionShift | byte(s.op)
	binary.BigEndian.PutUint32(p[2:], s.stag)
	if s.tagged {
		p[0] = c | ddpTagged
		binary.BigEndian.PutUint64(p[6:], s.to)
		return taggedLen
	}
	p[0] = c
	binary.BigEndian.PutUint32(p[6:], s.qn)
	binary.BigEndian.PutUint32(p[10:], s.msn)
	binary.BigEndian.PutUint32(p[14:], s.mo)
	return untaggedLen
}

// ddpHeaderLen returns the length of the header that starts with control octet c.
func ddpHeaderLen(c byte) int {
	if c&ddpTagged != 0 {
		return taggedLen
	}
	return untaggedLen
}

// parse reads a whole header from p and checks what can be told from it alone:
// the versions, and that opcode, buffer model and queue belong together (RFC
// 5040 section 7.2).
func (s *segment) parse(p []byte) error {
	s.tagged = p[0]&ddpTagged != 0
	s.last = p[0]&ddpLast != 0
	s.op = opcode(p[1] & rdmapOpcodeMask)
	s.stag = binary.BigEndian.Uint32(p[2:])
	if s.tagged {
		s.to = binary.BigEndian.Uint64(p[6:])
		s.qn, s.msn, s.mo = 0, 0, 0
	} else {
		s.to = 0
		s.qn = binary.BigEndian.Uint32(p[6:])
		s.msn = binary.BigEndian.Uint32(p[10:])
		s.mo = binary.BigEndian.Uint32(p[14:])
	}
	if v := p[0] & ddpDVMask; v != ddpVersion {
		code := termUntaggedVersion
		if s.tagged {
			code = termTaggedVersion
		}
		return violation(code, "DDP version %d", v)
	}
	if !s.tagged && s.qn > queueTerminate {
		return violation(termUntaggedQueue, "queue number %d", s.qn)
	}
	if v := p[1] >> rdmapVersionShift; v != rdmapVersion {
		return violation(termVersion, "RDMAP version %d", v)
	}
	if s.op > opTerminate {
		return violation(termOpcode, "opcode %d", s.op)
	}
	if s.tagged != s.op.tagged() || !s.tagged && s.qn != s.op.queue() {
		return violation(termOpcode, "%v in the wrong kind of segment (tagged %t, queue %d)", s.op, s.tagged, s.qn)
	}
	return nil
}
