package iwarp

import (
	"io"

	"nfsrdma-fuse/rdma"
)

// Sizes of reads, in octets.
const (
	stageLen = 64 << 10 // staging buffer: headers, small payloads, many small FPDUs at once
	// minFill is what a read into the empty staging buffer asks for at first.
	// It doubles while reads come back full, so that a peer that cuts its FPDUs
	// to the TCP segment size does not cost a system call for each.
	minFill = 4 << 10
	// directMin is the remaining payload from which on reading straight into
	// its place beats copying it out of the staging buffer.
	directMin = 4 << 10
	// tailLen is read behind a payload: its trailer, the next header, and a
	// short message.
	tailLen = 512
)

// target is where the rest of one segment's payload goes: exposed memory, or
// memory that belongs to the queue pair until it completes.
type target struct {
	n int // octets to come

	region *region // if not nil
	stag   uint32
	to     uint64

	local rdma.Gather // otherwise, from its octet off on
	off   int
	crc   bool
	sum   uint32
}

// lock returns what is left of the target, which may be touched until unlock. A
// nil target has nothing.
func (t *target) lock() ([]byte, error) {
	if t == nil {
		return nil, nil
	}
	if t.region != nil {
		t.region.mu.Lock()
		p, fault := t.region.slice(t.stag, t.to, t.n, rdma.RemoteWrite)
		if fault != faultNone {
			t.region.mu.Unlock()
			return nil, errWithdrawn // it was checked when the segment began
		}
		return p, nil
	}
	at := t.local.Off + t.off
	return t.local.Buf.Data[at : at+t.n : at+t.n], nil
}

// placed counts octets stored at the start of what lock returned.
func (t *target) placed(p []byte) {
	if t == nil {
		return
	}
	if t.crc {
		t.sum = crcAdd(t.sum, p)
	}
	t.n -= len(p)
	if t.region != nil {
		t.to += uint64(len(p))
	} else {
		t.off += len(p)
	}
}

func (t *target) unlock() {
	if t != nil && t.region != nil {
		t.region.mu.Unlock()
	}
}

// stream parses what the peer sends: headers in a staging buffer, payloads on
// the shortest way to where they belong.
type stream struct {
	link *link
	buf  []byte
	r, w int // buf[r:w] is not used up yet
	want int // size of the next read into the empty buffer
}

func newStream(l *link) *stream { return &stream{link: l, buf: make([]byte, stageLen), want: minFill} }

// need makes sure that at least n octets, few enough for the buffer, are
// staged. Its error is io.EOF only between octets that belong together if
// nothing is staged.
func (s *stream) need(n int) error {
	for s.w-s.r < n {
		if err := s.fill(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) fill() error {
	if s.r == s.w {
		s.r, s.w = 0, 0
	} else if s.r > 0 && len(s.buf)-s.w < s.want {
		s.w = copy(s.buf, s.buf[s.r:s.w])
		s.r = 0
	}
	room := s.buf[s.w:min(s.w+s.want, len(s.buf))]
	n, err := s.link.read(nil, room)
	s.w += n
	if n == len(room) {
		s.want = min(2*s.want, len(s.buf))
	} else {
		s.want = minFill
	}
	if err == io.EOF && s.r < s.w {
		err = io.ErrUnexpectedEOF
	}
	if n > 0 {
		return nil // an error comes again with the next read
	}
	return err
}

// peek returns n staged octets; take also uses them up. They are valid until
// the next call that reads.
func (s *stream) peek(n int) []byte { return s.buf[s.r : s.r+n] }

func (s *stream) take(n int) []byte {
	p := s.buf[s.r : s.r+n]
	s.r += n
	return p
}

// place moves the target's whole payload from the stream to its place.
func (s *stream) place(t *target) error {
	for t.n > 0 {
		var err error
		switch {
		case s.r < s.w:
			err = s.copyOut(t)
		case t.n >= directMin && s.link.raw != nil:
			err = s.direct(t)
		default:
			err = s.fill()
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) copyOut(t *target) error {
	dst, err := t.lock()
	if err != nil {
		return err
	}
	k := copy(dst, s.buf[s.r:s.w])
	t.placed(dst[:k])
	t.unlock()
	s.r += k
	return nil
}

// direct reads once into the target; if that completes the payload, what is
// behind it comes along into the staging buffer, which is empty.
func (s *stream) direct(t *target) error {
	before := t.n
	s.r, s.w, s.want = 0, 0, minFill
	n, err := s.link.read(t, s.buf[:tailLen])
	s.w = n - (before - t.n)
	return err
}

// discard uses up n octets.
func (s *stream) discard(n int, crc bool, sum uint32) (uint32, error) {
	for n > 0 {
		if err := s.need(1); err != nil {
			return sum, err
		}
		p := s.take(min(n, s.w-s.r))
		if crc {
			sum = crcAdd(sum, p)
		}
		n -= len(p)
	}
	return sum, nil
}
