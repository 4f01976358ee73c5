package iwarp

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"sync"

	"nfsrdma-fuse/rdma"
)

// stagSource makes STags that no peer can guess from those it has seen, and
// that come back only after 2^32-1 others: it encrypts a counter with a block
// cipher of 32 bits (a Feistel network whose round function is AES).
type stagSource struct {
	block   cipher.Block
	counter uint32
	in, out [aes.BlockSize]byte
}

func newStagSource() *stagSource {
	var key [16]byte
	rand.Read(key[:]) // never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key length is right
	}
	return &stagSource{block: block}
}

// next returns another STag; it is never 0, which nudges and zero-length
// messages use.
func (s *stagSource) next() uint32 {
	for {
		s.counter++
		if v := s.encrypt(s.counter); v != 0 {
			return v
		}
	}
}

func (s *stagSource) encrypt(v uint32) uint32 {
	l, r := uint16(v>>16), uint16(v)
	for i := range byte(4) {
		l, r = r, l^s.round(i, r)
	}
	return uint32(l)<<16 | uint32(r)
}

func (s *stagSource) round(i byte, v uint16) uint16 {
	s.in[0] = i
	binary.BigEndian.PutUint16(s.in[1:], v)
	s.block.Encrypt(s.out[:], s.in[:])
	return binary.BigEndian.Uint16(s.out[:])
}

// base returns an unpredictable page-aligned tagged offset that looks like an
// address in user space.
func (s *stagSource) base() uint64 {
	s.in[0] = 0xff
	binary.BigEndian.PutUint32(s.in[1:], s.counter)
	s.block.Encrypt(s.out[:], s.in[:])
	return binary.BigEndian.Uint64(s.out[:])&(1<<47-1)&^4095 | 1<<32
}

// region is memory that the peer can reach under one STag.
//
//	free ── expose ──> live ── withdraw ──> free
//
// Whoever touches mem holds mu and has seen under it that stag is the one it
// means: a region object is used again for other memory.
type region struct {
	mu     sync.Mutex
	stag   uint32 // 0: not live
	access rdma.Access
	base   uint64 // tagged offset of mem[0]
	mem    []byte
}

// slice returns the n octets at tagged offset to, or the fault of an access to
// them. The caller holds r.mu.
func (r *region) slice(stag uint32, to uint64, n int, access rdma.Access) ([]byte, accessFault) {
	switch {
	case stag == 0 || r.stag != stag:
		return nil, faultSTag
	case to+uint64(n) < to:
		return nil, faultWrap
	case to < r.base || to-r.base > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-(to-r.base):
		return nil, faultBounds
	case r.access != access:
		return nil, faultAccess
	}
	off := to - r.base
	return r.mem[off : off+uint64(n) : off+uint64(n)], faultNone
}

// accessFault is what is wrong with an access to exposed memory.
type accessFault uint8

const (
	faultNone accessFault = iota
	faultSTag
	faultBounds
	faultWrap
	faultAccess
)

func (f accessFault) String() string {
	return [...]string{"", "unknown or withdrawn STag", "outside of the exposed memory", "tagged offset wraps", "access not granted"}[f]
}

// tagged returns the code for a fault in a tagged segment (RFC 5041 section
// 7.2; rights are RDMAP's business).
func (f accessFault) tagged() termCode {
	return [...]termCode{0, termTaggedSTag, termTaggedBounds, termTaggedWrap, termAccess}[f]
}

// read returns the code for a fault in a Read Request (RFC 5040 section 4.8).
func (f accessFault) read() termCode {
	return [...]termCode{0, termSTag, termBounds, termWrap, termAccess}[f]
}

// stagTable holds the regions of one queue pair, which is its protection
// domain: an STag of another queue pair is unknown here.
type stagTable struct {
	mu     sync.Mutex
	closed bool
	source *stagSource
	live   map[uint32]*region
	free   []*region
}

func newStagTable() *stagTable {
	return &stagTable{source: newStagSource(), live: make(map[uint32]*region)}
}

// sink returns an STag for the sink of an RDMA Read, which is not in the table:
// only the matching Read Response can use it.
func (t *stagTable) sink() uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.source.next()
}

// expose makes mem reachable. It reports false once the table is closed.
func (t *stagTable) expose(mem []byte, access rdma.Access) (stag uint32, base uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, 0, false
	}
	var r *region
	if n := len(t.free); n > 0 {
		r = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		r = new(region)
	}
	stag, base = t.source.next(), t.source.base()
	// Nobody holds the lock of a free region for longer than it takes to see
	// that it is not the one meant.
	r.mu.Lock()
	r.stag, r.base, r.access, r.mem = stag, base, access, mem
	r.mu.Unlock()
	t.live[stag] = r
	return stag, base, true
}

// find returns the region that stag names, or nil.
func (t *stagTable) find(stag uint32) *region {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.live[stag]
}

// withdraw ends the access under stag. When it returns nobody reads or writes
// the memory any more. It reports whether stag was in force.
func (t *stagTable) withdraw(stag uint32) bool {
	t.mu.Lock()
	r := t.live[stag]
	delete(t.live, stag)
	t.mu.Unlock()
	if r == nil {
		return false
	}
	r.kill()
	t.mu.Lock()
	t.free = append(t.free, r)
	t.mu.Unlock()
	return true
}

func (r *region) kill() {
	r.mu.Lock()
	r.stag, r.mem = 0, nil
	r.mu.Unlock()
}

// close withdraws everything for good.
func (t *stagTable) close() {
	t.mu.Lock()
	t.closed = true
	live := t.live
	t.live = nil
	t.mu.Unlock()
	for _, r := range live {
		r.kill()
	}
}

// len returns the number of STags in force.
func (t *stagTable) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.live)
}
