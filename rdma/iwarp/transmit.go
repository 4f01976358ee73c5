package iwarp

import (
	"nfsrdma-fuse/rdma"
)

// turnBytes is how much the send queue, or the RDMA Read Responses, may send
// while the other of the two is waiting. A message that has begun is finished
// first: messages are never mixed (RFC 5041 section 5.3).
const turnBytes = 256 << 10

// message is the kind of message in progress.
type message uint8

const (
	messageNone message = iota
	messageWork
	messageResponse
	messageNudge
)

// transmitter cuts messages into FPDUs. It belongs to the holder of the right
// to send and needs no lock.
type transmitter struct {
	b                      *batch
	maxTagged, maxUntagged int // largest payloads of one segment

	sendMSN, readMSN uint32 // of the last message in each queue

	kind message // in progress
	off  int     // octets of it that are in batches

	w     *work // messageWork
	index uint64
	piece int    // where off lies in w.local,
	at    int    // and in that piece
	sink  uint32 // OpRead

	req readRequest // messageResponse
	src *region

	cut     uint64 // work requests before this are wholly in batches
	settled uint64 // and before this, written

	responding bool // whose turn it is
	used       int  // octets sent in this turn
}

func (t *transmitter) init(crc bool, maxULPDU int) {
	t.b = newBatch(crc)
	t.maxTagged = (maxULPDU - taggedLen) &^ 7
	t.maxUntagged = (maxULPDU - untaggedLen) &^ 7
}

// unfinished reports whether octets of a message that has begun are still to be
// written.
func (t *transmitter) unfinished() bool { return t.kind != messageNone || !t.b.empty() }

func (t *transmitter) beginNudge() { t.kind, t.off = messageNudge, 0 }

func (t *transmitter) beginWork(w *work, index uint64, sink uint32) {
	t.kind, t.off, t.w, t.index, t.piece, t.at, t.sink = messageWork, 0, w, index, 0, 0, sink
	switch w.op {
	case rdma.OpSend, rdma.OpSendInvalidate:
		t.sendMSN++
	case rdma.OpRead:
		t.readMSN++
	}
}

// beginResponse starts the answer to req from src, which is nil if the memory
// has been withdrawn since the request came in.
func (t *transmitter) beginResponse(req readRequest, src *region) {
	t.kind, t.off, t.req, t.src = messageResponse, 0, req, src
	if req.size == 0 { // RFC 5040 section 5.2.1: the STag means nothing
		t.src = nil
	}
}

// take claims the batch for the exposed memory that the message in progress
// reads. It reports false if the batch is taken by other memory.
func (t *transmitter) take() bool {
	if t.kind != messageResponse || t.src == nil {
		return true
	}
	if t.b.region != nil && (t.b.region != t.src || t.b.stag != t.req.srcSTag) {
		return false
	}
	t.b.region, t.b.stag = t.src, t.req.srcSTag
	return true
}

// addFPDU adds the next FPDU of the message in progress to the batch.
func (t *transmitter) addFPDU() error {
	switch t.kind {
	case messageResponse:
		return t.addResponse()
	case messageNudge:
		t.b.begin(&segment{op: opWrite, tagged: true, last: true}, 0)
		t.b.end()
		t.kind = messageNone
	case messageWork:
		t.addWork()
	}
	return nil
}

func (t *transmitter) addWork() {
	w := t.w
	var seg segment
	limit := t.maxUntagged
	switch w.op {
	case rdma.OpSend:
		seg = segment{op: opSend, qn: queueSend, msn: t.sendMSN, mo: uint32(t.off)}
	case rdma.OpSendInvalidate:
		seg = segment{op: opSendInv, stag: uint32(w.remote.Handle), qn: queueSend, msn: t.sendMSN, mo: uint32(t.off)}
	case rdma.OpWrite:
		limit = t.maxTagged
		seg = segment{op: opWrite, tagged: true, stag: uint32(w.remote.Handle), to: w.remote.Offset + uint64(t.off)}
	case rdma.OpRead:
		t.addReadRequest()
		return
	}
	n := min(w.length-t.off, limit)
	t.off += n
	seg.last = t.off == w.length
	t.b.begin(&seg, n)
	for n > 0 {
		g := &w.local[t.piece]
		k := min(n, g.Len-t.at)
		at := g.Off + t.at
		t.b.payload(g.Buf.Data[at : at+k])
		n -= k
		if t.at += k; t.at == g.Len {
			t.piece, t.at = t.piece+1, 0
		}
	}
	t.b.end()
	if seg.last {
		t.endWork()
	}
}

func (t *transmitter) endWork() {
	t.kind, t.w, t.cut = messageNone, nil, t.index+1
}

func (t *transmitter) addReadRequest() {
	t.b.readRequest(t.readMSN, &readRequest{sinkSTag: t.sink, size: uint32(t.w.length),
		srcSTag: uint32(t.w.remote.Handle), srcTO: t.w.remote.Offset})
	t.endWork()
}

func (t *transmitter) addResponse() error {
	seg := segment{op: opReadResponse, tagged: true, stag: t.req.sinkSTag, to: t.req.sinkTO + uint64(t.off)}
	n := min(int(t.req.size)-t.off, t.maxTagged)
	seg.last = t.off+n == int(t.req.size)
	if t.req.size == 0 {
		t.b.begin(&seg, 0)
		t.b.end()
		t.kind = messageNone
		return nil
	}
	fault := faultSTag
	if t.src != nil {
		t.src.mu.Lock() // the checksum is computed here
		var p []byte
		p, fault = t.src.slice(t.req.srcSTag, t.req.srcTO+uint64(t.off), n, rdma.RemoteRead)
		if fault == faultNone {
			t.b.begin(&seg, n)
			t.b.payload(p)
			t.b.end()
		}
		t.src.mu.Unlock()
	}
	if fault != faultNone {
		t.kind = messageNone
		return violation(fault.read(), "memory was withdrawn before the peer had read it")
	}
	if t.off += n; seg.last {
		t.kind, t.src = messageNone, nil
	}
	return nil
}
