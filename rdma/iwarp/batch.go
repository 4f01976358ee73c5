package iwarp

import "encoding/binary"

const (
	batchBytes = 1 << 20   // a batch takes no further FPDU from here on
	batchSmall = 32 << 10  // memory for headers, trailers and short payloads
	copyMax    = 256       // payloads up to this length are copied behind the header
	fpduPieces = 2 + 32    // most pieces that one more FPDU can need
	fpduSmall  = 128 + 256 // most of batchSmall that one more FPDU can need
)

// batch is a run of FPDUs that go to the kernel in as few system calls as
// possible. Headers and trailers lie in memory of the batch, one run between
// two payloads; payloads stay where they are.
//
//	small:   [hdr 0]         [trailer 0, hdr 1]         [trailer 1]
//	pieces:  small[..] payload 0 small[..]      payload 1 small[..]
type batch struct {
	pieces [][]byte
	next   int // first piece that is not written completely

	small []byte
	mark  int // start of the run of small that is not among the pieces yet
	bytes int

	// region is the exposed memory that payloads lie in, under stag; nil if
	// there is none. A batch has one at most, so that one lock covers it.
	region *region
	stag   uint32
	begun  bool // some of it is written

	crc     bool
	sum     uint32
	length  int    // of the ULPDU being added
	late    int    // octets before its pad that are not in sum yet
	scratch []byte // for connections that cannot gather
}

func newBatch(crc bool) *batch {
	return &batch{crc: crc, pieces: make([][]byte, 0, maxPieces), small: make([]byte, 0, batchSmall)}
}

func (b *batch) reset() {
	clear(b.pieces)
	b.pieces, b.next = b.pieces[:0], 0
	b.small, b.mark, b.bytes = b.small[:0], 0, 0
	b.region, b.stag, b.begun = nil, 0, false
}

func (b *batch) empty() bool { return b.bytes == 0 }

// room reports whether another FPDU may be added.
func (b *batch) room() bool {
	return b.bytes < batchBytes && len(b.pieces)+fpduPieces <= maxPieces && len(b.small)+fpduSmall <= batchSmall
}

// begin adds the header of an FPDU with n octets of payload, which must follow
// with payload, and then end.
func (b *batch) begin(seg *segment, n int) {
	b.length = seg.headerLen() + n
	at := len(b.small)
	b.small = b.small[:at+fpduHeader+seg.headerLen()]
	binary.BigEndian.PutUint16(b.small[at:], uint16(b.length))
	seg.put(b.small[at+fpduHeader:])
	if b.crc {
		b.sum = crcAdd(0, b.small[at:])
	}
}

// payload adds payload. It must stay unchanged until the batch is written.
func (b *batch) payload(p []byte) {
	if len(p) == 0 {
		return
	}
	if b.crc {
		b.sum = crcAdd(b.sum, p)
	}
	if len(p) <= copyMax && b.region == nil && len(b.small)+len(p)+2*fpduHeader+crcLen <= batchSmall {
		b.small = append(b.small, p...)
		return
	}
	b.cut()
	b.pieces = append(b.pieces, p)
}

// end adds pad and checksum.
func (b *batch) end() {
	pad := padLen(b.length)
	at := len(b.small)
	b.small = b.small[:at+pad+crcLen]
	clear(b.small[at:])
	if b.crc {
		putCRC(b.small[at+pad:], crcAdd(b.sum, b.small[at-b.late:at+pad]))
	}
	b.late = 0
	b.bytes += fpduHeader + b.length + pad + crcLen
}

// readRequest adds an RDMA Read Request.
func (b *batch) readRequest(msn uint32, req *readRequest) {
	b.begin(&segment{op: opReadRequest, last: true, qn: queueRead, msn: msn}, readRequestLen)
	req.put(b.extend(readRequestLen))
	b.end()
}

// terminate adds a Terminate message, the only one of its queue.
func (b *batch) terminate(t *terminate) {
	var p [terminateMax]byte
	n := t.put(p[:])
	b.begin(&segment{op: opTerminate, last: true, qn: queueTerminate, msn: 1}, n)
	copy(b.extend(n), p[:n])
	b.end()
	b.cut()
}

// extend makes room for n octets of payload in the batch's own memory; end
// checksums what the caller stores there.
func (b *batch) extend(n int) []byte {
	at := len(b.small)
	b.small = b.small[:at+n]
	b.late = n
	return b.small[at:]
}

// cut makes a piece of the pending run of small.
func (b *batch) cut() {
	if b.mark < len(b.small) {
		b.pieces = append(b.pieces, b.small[b.mark:])
		b.mark = len(b.small)
	}
}

// lock makes sure that the exposed memory in the batch stays as it is until
// unlock.
func (b *batch) lock() error {
	if b.region == nil {
		return nil
	}
	b.region.mu.Lock()
	if b.region.stag != b.stag {
		b.region.mu.Unlock()
		return errWithdrawn
	}
	return nil
}

func (b *batch) unlock() {
	if b.region != nil {
		b.region.mu.Unlock()
	}
}

// advance counts n octets as written. It reports whether that was the last.
func (b *batch) advance(n int) bool {
	b.begun = true
	for b.next < len(b.pieces) && n >= len(b.pieces[b.next]) {
		n -= len(b.pieces[b.next])
		b.next++
	}
	if n > 0 {
		b.pieces[b.next] = b.pieces[b.next][n:]
	}
	return b.next == len(b.pieces)
}

// copyOut writes batch b to a connection that takes one piece at a time.
func (l *link) copyOut(b *batch) error {
	if err := b.lock(); err != nil {
		return err
	}
	b.scratch = b.scratch[:0]
	for _, p := range b.pieces[b.next:] {
		b.scratch = append(b.scratch, p...)
	}
	b.unlock()
	_, err := l.conn.Write(b.scratch)
	if err == nil {
		b.next = len(b.pieces)
	}
	return err
}
