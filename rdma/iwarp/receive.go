package iwarp

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// An FPDU comes in like this; nothing is placed before its checks have passed:
//
//	length, DDP header ── parse: versions, opcode, queue
//	                   ── by opcode: STag, rights, bounds | MSN, MO, buffer | the Read it answers
//	payload            ── place: exposed memory | receive buffer | sink of a Read
//	pad, CRC           ── checked, if CRCs are in use
//	last segment       ── deliver: completion | Read Response queued | end
//
// With CRCs, payload is in place before its checksum is known to be good, but
// only where the peer may write at that moment anyway; nothing is delivered.

// receiver is the state of the receiving goroutine.
type receiver struct {
	q   *QP
	s   *stream
	t   target
	seg segment
	len int // of the ULPDU
	pay int // of the payload
	sum uint32

	rest    int  // octets of the payload that are still in the stream
	checked bool // the trailer was read

	hdr     [untaggedLen]byte // for a Terminate
	request []byte            // Read Request header, for a Terminate

	// Next message in each untagged queue, and the Send being received.
	sendMSN, readMSN uint32
	buf              *ulb.Buffer
	got              int

	// A tagged message that has begun and not ended.
	open     bool
	openOp   opcode
	openSTag uint32

	first bool // no FPDU has been received yet
}

// receiveLoop is the receiving goroutine.
func (q *QP) receiveLoop() {
	defer q.wg.Done()
	r := &receiver{q: q, s: newStream(q.link), sendMSN: 1, readMSN: 1, first: true}
	err := r.run()
	q.stop()
	r.drain(err)
	_ = q.link.conn.Close() // nothing is left to lose
}

// run receives until the connection ends, and sees to it that it does. It
// returns what ended the stream of octets, or nil if this end has had enough.
func (r *receiver) run() error {
	for {
		err := r.fpdu()
		if err == nil {
			continue
		}
		var pe *rdma.ProtocolError
		var te *TerminateError
		switch {
		case r.q.failing(): // the deadline that fail has set, or its consequence
			return nil
		case errors.As(err, &pe):
			err = r.checkFault(err)
			if errors.As(err, &pe) {
				r.q.fail(r.q.fault(err), r.terminate(termCode(pe.Terminate)))
				return nil
			}
		case errors.As(err, &te):
			r.q.fail(r.q.fault(err), nil)
			return nil
		case errors.Is(err, errWithdrawn):
			pe = violation(termTaggedSTag, "memory was withdrawn while the peer was writing to it")
			r.q.fail(r.q.fault(pe), r.terminate(termTaggedSTag))
			return nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) { // see cannotSend
			err = r.q.whySilent(err)
		}
		r.q.fail(r.q.lost(err), nil)
		return err
	}
}

// terminate returns a Terminate about the current segment.
func (r *receiver) terminate(code termCode) *terminate {
	t := &terminate{code: code, length: r.len, rdmap: r.request}
	if r.len >= r.seg.headerLen() {
		t.ddp = r.hdr[:r.seg.headerLen()]
	}
	return t
}

// checkFault looks at the checksum of an FPDU that has been found wrong in
// another way, because a damaged one has to be reported as that (RFC 5044
// section 8). It returns the fault to report.
func (r *receiver) checkFault(fault error) error {
	if !r.q.agreed.crc || r.checked || r.len < r.seg.headerLen() {
		return fault
	}
	_ = r.q.link.conn.SetReadDeadline(time.Now().Add(lingerTime)) // fails only on a closed connection
	if err := r.discard(); err != nil {
		return fault
	}
	var pe *rdma.ProtocolError
	if err := r.trailer(); errors.As(err, &pe) {
		return err
	}
	return fault
}

// drain waits for the peer to close, for a short while, so that what this end
// has sent last is not lost to a reset (RFC 5040 section 6.2.1).
func (r *receiver) drain(err error) {
	if err == nil {
		_ = r.q.link.conn.SetReadDeadline(time.Now().Add(lingerTime)) // fails only on a closed connection
		for err == nil {
			_, err = r.q.link.conn.Read(r.s.buf)
		}
	}
}

// fpdu receives one FPDU.
func (r *receiver) fpdu() error {
	q, s := r.q, r.s
	r.t = target{}
	r.request, r.len, r.pay, r.rest, r.checked = nil, 0, 0, 0, false
	if err := s.need(fpduHeader + 2); err != nil {
		return err
	}
	p := s.peek(fpduHeader + 2)
	r.len = int(binary.BigEndian.Uint16(p))
	head := ddpHeaderLen(p[fpduHeader])
	r.seg.tagged = head == taggedLen
	if r.len < head {
		return violation(termMPALength, "FPDU of %d octets, shorter than a DDP header", r.len)
	}
	if err := s.need(fpduHeader + head); err != nil {
		return eofInside(err)
	}
	p = s.take(fpduHeader + head)
	copy(r.hdr[:], p[fpduHeader:])
	r.pay = r.len - head
	r.rest = r.pay
	r.sum = 0
	if q.agreed.crc {
		r.sum = crcAdd(0, p)
	}
	if err := r.seg.parse(r.hdr[:head]); err != nil {
		return err
	}
	if err := r.segment(); err != nil {
		return err
	}
	if q.nudge != nil {
		q.nudge.hear()
	}
	if r.first {
		r.first = false
		q.speak()
	}
	return nil
}

// speak lets the listening end send, now that it has received something.
func (q *QP) speak() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.quiet {
		q.quiet = false
		q.wake()
	}
}

// eofInside turns an end of the stream that comes in the middle of something
// into the error it is.
func eofInside(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// trailer reads pad and checksum.
func (r *receiver) trailer() error {
	pad := padLen(r.len)
	if err := r.s.need(pad + crcLen); err != nil {
		return eofInside(err)
	}
	p := r.s.take(pad + crcLen)
	r.checked = true
	if r.q.agreed.crc && getCRC(p[pad:]) != crcAdd(r.sum, p[:pad]) {
		return violation(termMPACRC, "checksum mismatch")
	}
	return nil
}

// place puts the payload where t says, and reads the trailer.
func (r *receiver) place() error {
	r.t.n, r.t.crc, r.t.sum = r.pay, r.q.agreed.crc, r.sum
	err := r.s.place(&r.t)
	r.sum, r.rest = r.t.sum, r.t.n
	if err != nil {
		return err
	}
	return r.trailer()
}

// control takes the first n octets of the payload of a control message.
func (r *receiver) control(n int) ([]byte, error) {
	if err := r.s.need(n); err != nil {
		return nil, eofInside(err)
	}
	p := r.s.take(n)
	r.rest -= n
	if r.q.agreed.crc {
		r.sum = crcAdd(r.sum, p)
	}
	return p, nil
}

// discard drops the rest of the payload.
func (r *receiver) discard() (err error) {
	r.sum, err = r.s.discard(r.rest, r.q.agreed.crc, r.sum)
	r.rest = 0
	return eofInside(err)
}

// segment checks, places and delivers the segment whose header has been read.
func (r *receiver) segment() error {
	if r.seg.tagged {
		if r.open && (r.seg.op != r.openOp || r.seg.stag != r.openSTag) {
			return violation(termOpcode, "%v began before the %v before it had ended", r.seg.op, r.openOp)
		}
		r.open, r.openOp, r.openSTag = !r.seg.last, r.seg.op, r.seg.stag
	}
	switch r.seg.op {
	case opWrite:
		return r.write()
	case opReadResponse:
		return r.readResponse()
	case opReadRequest:
		return r.readRequest()
	case opTerminate:
		return r.terminated()
	}
	return r.send()
}

// write takes a segment of an RDMA Write. An empty one names no memory (RFC
// 5041 section 5.2).
func (r *receiver) write() error {
	if r.pay > 0 {
		fault := faultSTag
		reg := r.q.table.find(r.seg.stag)
		if reg != nil {
			reg.mu.Lock()
			_, fault = reg.slice(r.seg.stag, r.seg.to, r.pay, rdma.RemoteWrite)
			reg.mu.Unlock()
		}
		if fault != faultNone {
			return violation(fault.tagged(), "RDMA Write of %d octets to STag %#x, offset %#x: %v", r.pay, r.seg.stag, r.seg.to, fault)
		}
		r.t = target{region: reg, stag: r.seg.stag, to: r.seg.to}
	}
	return r.place()
}

// readResponse takes a segment of an RDMA Read Response, which must be the next
// part of what the oldest outstanding Read has asked for.
func (r *receiver) readResponse() error {
	q := r.q
	q.mu.Lock()
	if q.rd.empty() {
		q.mu.Unlock()
		return violation(termOpcode, "RDMA Read Response without a request")
	}
	read := q.rd.first()
	w := q.sq.at(read.index)
	q.mu.Unlock()
	// The entry stays where it is and belongs to this goroutine until popped.
	switch {
	case r.pay > 0 && r.seg.stag != read.stag:
		return violation(termTaggedSTag, "RDMA Read Response to STag %#x, not %#x", r.seg.stag, read.stag)
	case r.pay > 0 && r.seg.to != uint64(read.got):
		return violation(termTaggedBounds, "RDMA Read Response at offset %d, not %d", r.seg.to, read.got)
	case r.pay > w.length-read.got:
		return violation(termTaggedBounds, "RDMA Read Response of more than the %d octets asked for", w.length)
	case r.seg.last != (read.got+r.pay == w.length) && (r.seg.last || r.pay > 0):
		return violation(termTaggedBounds, "RDMA Read Response with %d of %d octets, last %t", read.got+r.pay, w.length, r.seg.last)
	}
	r.t = target{local: w.local[0], off: read.got}
	if err := r.place(); err != nil {
		return err
	}
	read.got += r.pay
	if !r.seg.last {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	w.answered = true
	q.rd.head++
	q.retire()
	return nil
}

// untagged checks the sequence number and offset of a segment (RFC 5041 section
// 7.1) against the next message and what has come of it.
func (r *receiver) untagged(msn uint32, got int) error {
	if r.seg.msn != msn {
		return violation(termUntaggedMSN, "message %d in queue %d, not %d", r.seg.msn, r.seg.qn, msn)
	}
	if r.seg.mo != uint32(got) {
		return violation(termUntaggedMO, "message offset %d in queue %d, not %d", r.seg.mo, r.seg.qn, got)
	}
	return nil
}

// send takes a segment of a Send of any kind.
func (r *receiver) send() error {
	q := r.q
	if err := r.untagged(r.sendMSN, r.got); err != nil {
		return err
	}
	if r.first && q.agreed.sendRTR && r.pay == 0 && r.seg.last && !r.seg.op.invalidates() {
		r.sendMSN++ // only says that the peer is ready (RFC 6581 section 9.2)
		return r.place()
	}
	if r.buf == nil {
		q.mu.Lock()
		r.buf = q.rq.first()
		q.mu.Unlock()
		if r.buf == nil {
			return violation(termUntaggedNoBuf, "%v without a receive buffer for it", r.seg.op)
		}
	}
	if r.pay > len(r.buf.Data)-r.got {
		return violation(termUntaggedTooLong, "%v of at least %d octets into a receive buffer of %d", r.seg.op, r.got+r.pay, len(r.buf.Data))
	}
	r.t = target{local: rdma.Gather{Buf: r.buf, Len: len(r.buf.Data)}, off: r.got}
	if err := r.place(); err != nil {
		return err
	}
	if r.got += r.pay; !r.seg.last {
		return nil
	}
	c := rdma.Completion{Op: rdma.OpReceive, Buf: r.buf, Len: r.got}
	if r.seg.op.invalidates() {
		if !q.table.withdraw(r.seg.stag) {
			return violation(termCannotInval, "%v of unknown STag %#x", r.seg.op, r.seg.stag)
		}
		c.Invalidated, c.HasInvalidated = rdma.Handle(r.seg.stag), true
	}
	r.buf, r.got = nil, 0
	r.sendMSN++
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rq.pop()
	q.complete(c)
	if q.nudge != nil {
		q.nudge.received()
	}
	return nil
}

// readRequest takes an RDMA Read Request and queues the answer.
func (r *receiver) readRequest() error {
	q := r.q
	if err := r.untagged(r.readMSN, 0); err != nil {
		return err
	}
	if r.pay > readRequestLen {
		return violation(termUntaggedTooLong, "RDMA Read Request of %d octets", r.pay)
	}
	if r.pay < readRequestLen || !r.seg.last {
		return violation(termUntaggedMO, "RDMA Read Request of %d octets, last %t", r.pay, r.seg.last)
	}
	p, err := r.control(readRequestLen)
	if err != nil {
		return err
	}
	var header [readRequestLen]byte
	copy(header[:], p)
	if err := r.trailer(); err != nil {
		return err
	}
	var req readRequest
	req.parse(header[:])
	if req.size > 0 { // RFC 5040 section 5.2.1
		fault := faultSTag
		if reg := q.table.find(req.srcSTag); reg != nil {
			reg.mu.Lock()
			_, fault = reg.slice(req.srcSTag, req.srcTO, int(req.size), rdma.RemoteRead)
			reg.mu.Unlock()
		}
		if fault != faultNone {
			r.request = append([]byte(nil), header[:]...)
			return violation(fault.read(), "RDMA Read of %d octets from STag %#x, offset %#x: %v", req.size, req.srcSTag, req.srcTO, fault)
		}
	}
	r.readMSN++
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.resp.full() {
		return violation(termUntaggedNoBuf, "more than %d RDMA Reads outstanding", q.agreed.ird)
	}
	q.resp.push(req)
	q.wake()
	return nil
}

// terminated takes a Terminate message: the peer's last.
func (r *receiver) terminated() error {
	if err := r.untagged(1, 0); err != nil {
		return err
	}
	if r.pay < terminateFixed {
		return violation(termUntaggedMO, "Terminate of %d octets", r.pay)
	}
	p, err := r.control(terminateFixed)
	if err != nil {
		return err
	}
	control := binary.BigEndian.Uint16(p)
	if err := r.discard(); err != nil {
		return err
	}
	if err := r.trailer(); err != nil {
		return err
	}
	return &TerminateError{Control: control}
}
