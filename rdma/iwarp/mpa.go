package iwarp

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"nfsrdma-fuse/rdma"
)

// MPA Request and Reply frames (RFC 5044 section 7.1.1, RFC 6581 section 6):
//
//	0: key (16) | 16: M C R S rsvd(4) | 17: revision | 18: length of private data | 20: private data
//
// With S set, the private data begins with the enhanced connection data (RFC
// 6581 section 9):
//
//	0: A B IRD(14) | 2: C D ORD(14)
const (
	mpaKeyLen     = 16
	mpaHeaderLen  = 20
	mpaMaxPrivate = 512
	mpaEnhanced   = 4 // length of the enhanced connection data

	mpaRequestKey = "MPA ID Req Frame"
	mpaReplyKey   = "MPA ID Rep Frame"

	mpaFlagMarkers  = 0x80
	mpaFlagCRC      = 0x40
	mpaFlagReject   = 0x20
	mpaFlagEnhanced = 0x10

	mpaRevision = 2

	depthMask   = 0x3fff // IRD, ORD
	depthManual = 0x3fff // not negotiated here (RFC 6581 section 9.1)

	maxReadDepth = 256 // what this end lets a peer ask for
)

// rtrKinds are the ready-to-receive indications of the peer-to-peer model (RFC
// 6581 section 9.2).
type rtrKinds uint8

const (
	rtrSend rtrKinds = 1 << iota
	rtrWrite
	rtrRead
)

// offer is what one end brings into the negotiation.
type offer struct {
	crc      bool
	ird, ord int
	private  []byte
}

// agreement is what came of it.
type agreement struct {
	crc     bool
	ird     int // Read Requests that the peer may have outstanding
	ord     int // Read Requests that this end may have outstanding
	private []byte
	// sendRTR says that the peer's first message may be an empty Send that
	// only tells it is ready, and takes no receive buffer.
	sendRTR bool
}

// mpaFrame is a decoded frame.
type mpaFrame struct {
	markers, crc, reject bool
	revision             uint8

	enhanced bool // the fields up to private are valid
	p2p      bool
	rtr      rtrKinds
	ird, ord int

	private []byte
}

func (f *mpaFrame) appendTo(b []byte, key string) []byte {
	b = append(b, key...)
	var flags byte
	if f.markers {
		flags |= mpaFlagMarkers
	}
	if f.crc {
		flags |= mpaFlagCRC
	}
	if f.reject {
		flags |= mpaFlagReject
	}
	n := len(f.private)
	if f.enhanced {
		flags |= mpaFlagEnhanced
		n += mpaEnhanced
	}
	b = append(b, flags, f.revision)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if f.enhanced {
		ird, ord := uint16(f.ird), uint16(f.ord)
		if f.p2p {
			ird |= 0x8000
		}
		if f.rtr&rtrSend != 0 {
			ird |= 0x4000
		}
		if f.rtr&rtrWrite != 0 {
			ord |= 0x8000
		}
		if f.rtr&rtrRead != 0 {
			ord |= 0x4000
		}
		b = binary.BigEndian.AppendUint16(b, ird)
		b = binary.BigEndian.AppendUint16(b, ord)
	}
	return append(b, f.private...)
}

// negotiation is the exchange of MPA frames without the connection under it.
//
//	initiator: newInitiator ── first ──> waiting ── input complete ──> settle ──> agreed | failed
//	responder: newResponder ───────────> waiting ── input complete ──> answer ──> agreed | failed
//
// input takes octets in pieces of any size and fails as soon as they can no
// longer become a good frame.
type negotiation struct {
	key  string // of the frame that is awaited
	in   []byte
	peer mpaFrame
}

func newResponder() *negotiation { return &negotiation{key: mpaRequestKey} }

// newInitiator returns the negotiation of the connecting end and the frame it
// starts with.
func newInitiator(o offer) (n *negotiation, first []byte, err error) {
	if err := o.check(); err != nil {
		return nil, nil, err
	}
	f := mpaFrame{crc: o.crc, revision: mpaRevision, enhanced: true, ird: o.ird, ord: o.ord, private: o.private}
	return &negotiation{key: mpaReplyKey}, f.appendTo(nil, mpaRequestKey), nil
}

func (o *offer) check() error {
	if n := len(o.private) + mpaEnhanced; n > mpaMaxPrivate {
		return fmt.Errorf("iwarp: private data of %d bytes, at most %d fit into an MPA frame", len(o.private), mpaMaxPrivate-mpaEnhanced)
	}
	if o.ird < 0 || o.ird >= depthManual || o.ord < 0 || o.ord >= depthManual {
		return fmt.Errorf("iwarp: IRD %d and ORD %d must be below %d", o.ird, o.ord, depthManual)
	}
	return nil
}

func mpaFault(format string, args ...any) error {
	return &rdma.ProtocolError{Layer: "MPA", Reason: fmt.Sprintf(format, args...)}
}

// input takes octets from the peer. It reports whether the frame is complete.
func (n *negotiation) input(p []byte) (done bool, err error) {
	n.in = append(n.in, p...)
	if k := min(len(n.in), mpaKeyLen); string(n.in[:k]) != n.key[:k] {
		switch {
		case n.key == mpaReplyKey && bytes.HasPrefix([]byte(mpaRequestKey), n.in[:k]):
			return false, mpaFault("the peer is connecting, too, instead of listening")
		case n.key == mpaRequestKey && bytes.HasPrefix([]byte(mpaReplyKey), n.in[:k]):
			return false, mpaFault("got a reply where a request was due")
		}
		return false, mpaFault("the peer does not speak MPA: it began with %q", n.in[:k])
	}
	if len(n.in) < mpaHeaderLen {
		return false, nil
	}
	f := &n.peer
	flags := n.in[16]
	f.markers = flags&mpaFlagMarkers != 0
	f.crc = flags&mpaFlagCRC != 0
	f.reject = flags&mpaFlagReject != 0
	f.revision = n.in[17]
	f.enhanced = flags&mpaFlagEnhanced != 0 && f.revision == mpaRevision
	size := int(binary.BigEndian.Uint16(n.in[18:]))
	switch {
	case f.revision < 1 || f.revision > mpaRevision:
		return false, mpaFault("revision %d, this end knows 1 and 2", f.revision)
	case size > mpaMaxPrivate:
		return false, mpaFault("%d octets of private data, at most %d are allowed", size, mpaMaxPrivate)
	case f.enhanced && size < mpaEnhanced:
		return false, mpaFault("%d octets of private data do not hold IRD and ORD", size)
	}
	rest := n.in[mpaHeaderLen:]
	if len(rest) < size {
		return false, nil
	}
	if len(rest) > size {
		return false, mpaFault("%d octets came behind the frame, before this end was ready for them", len(rest)-size)
	}
	if f.enhanced {
		ird, ord := binary.BigEndian.Uint16(rest), binary.BigEndian.Uint16(rest[2:])
		f.ird, f.ord = int(ird&depthMask), int(ord&depthMask)
		if f.p2p = ird&0x8000 != 0; f.p2p {
			if ird&0x4000 != 0 {
				f.rtr |= rtrSend
			}
			if ord&0x8000 != 0 {
				f.rtr |= rtrWrite
			}
			if ord&0x4000 != 0 {
				f.rtr |= rtrRead
			}
		}
		rest = rest[mpaEnhanced:]
	}
	f.private = rest
	return true, nil
}

// settle ends the negotiation of the initiator that made offer o.
func (n *negotiation) settle(o offer) (agreement, error) {
	f := &n.peer
	if f.reject {
		e := &RejectedError{IRD: o.ird, ORD: o.ord}
		if f.enhanced {
			e.Enhanced, e.PeerIRD, e.PeerORD = true, f.ird, f.ord
		}
		return agreement{}, e
	}
	if f.markers {
		return agreement{}, mpaFault("the peer wants markers, which this end does not implement")
	}
	a := agreement{crc: o.crc || f.crc, ird: o.ird, ord: o.ord, private: f.private}
	if !f.enhanced {
		a.ord = 0 // nothing is known about the peer's queue
		return a, nil
	}
	if f.ird != depthManual {
		a.ord = min(o.ord, f.ird)
	}
	if f.ord != depthManual && f.ord > a.ird { // RFC 6581 section 9.1
		if f.ord > maxReadDepth {
			return agreement{}, violation(termMPAIRD, "the peer insists on %d RDMA Reads, this end has room for %d", f.ord, maxReadDepth)
		}
		a.ird = f.ord
	}
	return a, nil
}

// answer ends the negotiation of the responder with offer o. The reply is to be
// sent even if err is not nil, unless it is empty.
func (n *negotiation) answer(o offer) (reply []byte, a agreement, err error) {
	if err := o.check(); err != nil {
		return nil, agreement{}, err
	}
	f := &n.peer
	r := mpaFrame{revision: f.revision, crc: o.crc || f.crc, enhanced: f.enhanced, ird: o.ird, ord: o.ord}
	if f.reject || f.markers {
		r.reject = true
		reason := "the request has the reject bit set"
		if f.markers {
			reason = "the peer wants markers, which this end does not implement"
		}
		return r.appendTo(nil, mpaReplyKey), agreement{}, mpaFault("%s", reason)
	}
	a = agreement{crc: r.crc, ird: o.ird, private: f.private}
	if f.enhanced {
		switch {
		case f.ird == depthManual:
			a.ord, r.ord = o.ord, depthManual
		default:
			a.ord = min(o.ord, f.ird)
			r.ord = a.ord
		}
		if f.p2p {
			r.p2p = true
			if r.rtr = f.rtr & (rtrWrite | rtrRead); r.rtr == 0 {
				r.rtr = f.rtr & rtrSend
			}
			if r.rtr == 0 {
				r.rtr = rtrWrite
			}
			a.sendRTR = r.rtr == rtrSend
			if r.rtr&rtrRead != 0 {
				a.ird = max(a.ird, 1)
			}
		}
		if r.ird = a.ird; f.ord == depthManual {
			r.ird = depthManual
		}
	}
	r.private = o.private
	return r.appendTo(nil, mpaReplyKey), a, nil
}

// reject returns the reply that turns a complete request down.
func (n *negotiation) reject(o offer) []byte {
	r := mpaFrame{revision: n.peer.revision, reject: true, enhanced: n.peer.enhanced, ird: o.ird, ord: o.ord}
	return r.appendTo(nil, mpaReplyKey)
}

// RejectedError says that the listening end turned the connection down with
// the reject bit of its MPA reply.
type RejectedError struct {
	IRD, ORD         int // what this end offered
	Enhanced         bool
	PeerIRD, PeerORD int // what the peer named, if Enhanced
}

func (e *RejectedError) Error() string {
	s := "the server rejected the connection (MPA reject bit)"
	switch {
	case e.IRD == 0:
		s += ": this end offered no inbound RDMA Reads (IRD 0), which a storage server needs; offer at least 1"
	case e.Enhanced && e.PeerORD > e.IRD && e.PeerORD != depthManual:
		s += fmt.Sprintf(": it may need %d inbound RDMA Reads where this end offered %d", e.PeerORD, e.IRD)
	default:
		s += ": no service there takes RDMA connections with these parameters; " +
			"see that the NFS server listens for RDMA on this port (/proc/fs/nfsd/portlist) and what its kernel log says"
	}
	return s
}
