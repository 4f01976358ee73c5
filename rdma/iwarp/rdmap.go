package iwarp

import (
	"encoding/binary"
	"fmt"
)

// opcode is the kind of an RDMAP message (RFC 5040 section 4.1, figure 4).
type opcode uint8

const (
	opWrite opcode = iota
	opReadRequest
	opReadResponse
	opSend
	opSendInv
	opSendSE
	opSendSEInv
	opTerminate
)

const (
	rdmapVersion      = 1
	rdmapVersionShift = 6
	rdmapOpcodeMask   = 0x0f
)

func (o opcode) String() string {
	names := [...]string{"RDMA Write", "RDMA Read Request", "RDMA Read Response", "Send", "Send with Invalidate",
		"Send with Solicited Event", "Send with Solicited Event and Invalidate", "Terminate"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

func (o opcode) tagged() bool { return o == opWrite || o == opReadResponse }

func (o opcode) invalidates() bool { return o == opSendInv || o == opSendSEInv }

// queue returns the queue that untagged messages of kind o go to.
func (o opcode) queue() uint32 {
	switch o {
	case opReadRequest:
		return queueRead
	case opTerminate:
		return queueTerminate
	}
	return queueSend
}

// readRequest is the payload of an RDMA Read Request (RFC 5040 section 4.4):
//
//	0: sink STag | 4: sink TO | 12: size | 16: source STag | 20: source TO
type readRequest struct {
	sinkSTag uint32
	sinkTO   uint64
	size     uint32
	srcSTag  uint32
	srcTO    uint64
}

const readRequestLen = 28

func (r *readRequest) put(p []byte) {
	binary.BigEndian.PutUint32(p[0:], r.sinkSTag)
	binary.BigEndian.PutUint64(p[4:], r.sinkTO)
	binary.BigEndian.PutUint32(p[12:], r.size)
	binary.BigEndian.PutUint32(p[16:], r.srcSTag)
	binary.BigEndian.PutUint64(p[20:], r.srcTO)
}

func (r *readRequest) parse(p []byte) {
	r.sinkSTag = binary.BigEndian.Uint32(p[0:])
	r.sinkTO = binary.BigEndian.Uint64(p[4:])
	r.size = binary.BigEndian.Uint32(p[12:])
	r.srcSTag = binary.BigEndian.Uint32(p[16:])
	r.srcTO = binary.BigEndian.Uint64(p[20:])
}
