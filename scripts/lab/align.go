package lab

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
)

// align copies a capture so that each MPA frame has a TCP segment to itself,
// as an iWARP card would send it. TCP on loopback cuts the stream where it
// likes, and tshark loses its way for good at a segment that ends with fewer
// than eight octets of a frame. Segments keep their sequence numbers, and the
// octets of the stream stay as they are: what is wrong with them is still
// wrong in the copy. Retransmissions go, and segments come in order. Other
// connections are copied unchanged.
//
// The result tells for each frame of the copy, from 0, in which frame of the
// original it was completed, from 1.
func align(from, to string) (origin []int, err error) {
	in, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(out, 1<<20)
	a := aligner{w: w, streams: map[string]*mpaStream{}}
	err = a.copy(bufio.NewReaderSize(in, 1<<20))
	return a.origin, errors.Join(err, w.Flush(), out.Close())
}

type aligner struct {
	w       io.Writer
	err     error // of the first write that failed
	frames  int   // read
	origin  []int // of what was written
	streams map[string]*mpaStream
}

// mpaStream is one direction of a connection that begins as MPA does.
type mpaStream struct {
	next    uint32    // sequence number of the first octet not yet in rest
	rest    []byte    // what is not yet written
	begun   bool      // the request or reply has been written
	last    *segment  // the latest in order
	early   []segment // those behind a gap
	foreign bool      // not MPA after all: everything is copied
}

// segment is a TCP segment of the capture.
type segment struct {
	frame   int
	block   []byte // as it is in the file
	packet  []byte // the part of block that went over the wire
	tcp     int    // offset of the TCP header in packet
	payload []byte
	stream  string // addresses and ports
	seq     uint32
	flags   byte
}

const (
	tcpFIN, tcpSYN, tcpRST, tcpPSH, tcpACK = 1, 2, 4, 8, 16

	// blockHead is the length of what stands before a packet in its block.
	blockHead = 28
	// etherHead is the length of an Ethernet header, which loopback has too.
	etherHead = 14
	// maxEarly bounds the segments kept behind a gap.
	maxEarly = 4096
)

func (a *aligner) copy(r io.Reader) error {
	for {
		block, err := readBlock(r, nil)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if binary.NativeEndian.Uint32(block) != blockPacket {
			a.write(block, 0)
			continue
		}
		a.frames++
		if s, ok := parseSegment(block); ok {
			s.frame = a.frames
			a.segment(s)
		} else {
			a.write(block, a.frames)
		}
		if a.err != nil {
			return a.err
		}
	}
	for _, st := range a.streams {
		a.finish(st)
	}
	return a.err
}

// finish shows what no frame was made of, and what is behind a gap, as it is.
func (a *aligner) finish(st *mpaStream) {
	if len(st.rest) > 0 {
		a.emit(st, len(st.rest), st.last)
	}
	for _, s := range st.early {
		a.write(s.block, s.frame)
	}
	st.early = nil
}

// readBlock reads one block of a pcapng file into buf, if that is long enough.
func readBlock(r io.Reader, buf []byte) ([]byte, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	// dumpcap writes in the byte order of its machine, and that is ours.
	n := binary.NativeEndian.Uint32(head[4:])
	if n < 12 || n > maxBlock || n%4 != 0 {
		return nil, fmt.Errorf("pcapng block of %d octets", n)
	}
	block := append(slices.Grow(buf[:0], int(n)), head[:]...)[:n]
	if _, err := io.ReadFull(r, block[8:]); err != nil {
		return nil, fmt.Errorf("pcapng block: %w", err)
	}
	return block, nil
}

// parseSegment finds the TCP segment in a block. It is content with what a
// capture of loopback holds: Ethernet headers, whole packets, no IPv6
// extension headers.
func parseSegment(block []byte) (s segment, ok bool) {
	if len(block) < blockHead+4 {
		return s, false
	}
	caught, sent := binary.NativeEndian.Uint32(block[20:]), binary.NativeEndian.Uint32(block[24:])
	if caught != sent || int64(caught) > int64(len(block)-blockHead-4) {
		return s, false
	}
	p := block[blockHead : blockHead+caught]
	if len(p) < etherHead+20 {
		return s, false
	}
	ip := p[etherHead:]
	var addrs []byte
	var end int
	switch binary.BigEndian.Uint16(p[12:]) {
	case 0x0800:
		s.tcp, end = etherHead+int(ip[0]&15)*4, etherHead+int(binary.BigEndian.Uint16(ip[2:]))
		if ip[9] != syscall.IPPROTO_TCP {
			return s, false
		}
		addrs = ip[12:20]
	case 0x86dd:
		if len(ip) < 40 || ip[6] != syscall.IPPROTO_TCP {
			return s, false
		}
		s.tcp, end = etherHead+40, etherHead+40+int(binary.BigEndian.Uint16(ip[4:]))
		addrs = ip[8:40]
	default:
		return s, false
	}
	if end > len(p) || s.tcp+20 > end {
		return s, false
	}
	tcp := p[s.tcp:end]
	head := int(tcp[12]>>4) * 4
	if head < 20 || head > len(tcp) {
		return s, false
	}
	s.block, s.packet = block, p
	s.payload = tcp[head:]
	s.stream = string(addrs) + string(tcp[:4])
	s.seq = binary.BigEndian.Uint32(tcp[4:])
	s.flags = tcp[13]
	return s, true
}

// segment takes the next segment of the capture.
func (a *aligner) segment(s segment) {
	st := a.streams[s.stream]
	if s.flags&tcpSYN != 0 && st != nil { // the same ports again
		a.finish(st)
		delete(a.streams, s.stream)
		st = nil
	}
	if len(s.payload) == 0 {
		a.write(s.block, s.frame)
		return
	}
	if st == nil {
		const key = "MPA ID Re" // request and reply
		st = &mpaStream{next: s.seq, foreign: len(s.payload) < len(key) || string(s.payload[:len(key)]) != key}
		a.streams[s.stream] = st
	}
	if st.foreign {
		a.write(s.block, s.frame)
		return
	}
	if int32(s.seq-st.next) > 0 {
		if len(st.early) == maxEarly { // the gap will not be filled any more
			a.finish(st)
			st.foreign = true
			a.write(s.block, s.frame)
			return
		}
		st.early = append(st.early, s)
		return
	}
	a.inOrder(st, s)
	for again := true; again; {
		again = false
		for i, e := range st.early {
			if int32(e.seq-st.next) <= 0 {
				st.early = slices.Delete(st.early, i, i+1)
				// It is seen where the gap was filled, not before.
				e.frame = s.frame
				a.inOrder(st, e)
				again = true
				break
			}
		}
	}
}

// inOrder takes a segment that begins at or before st.next.
func (a *aligner) inOrder(st *mpaStream, s segment) {
	known := st.next - s.seq
	if int64(known) < int64(len(s.payload)) {
		news := s.payload[known:]
		st.rest = append(st.rest, news...)
		st.next += uint32(len(news))
		st.last = &s
	} else {
		s.flags &^= tcpFIN // all of it is known
	}
	for {
		n, ok := frameLength(st.rest, st.begun)
		if !ok {
			break
		}
		a.emit(st, n, &s)
		st.begun = true
	}
	if s.flags&(tcpFIN|tcpRST) != 0 {
		if len(st.rest) > 0 {
			a.emit(st, len(st.rest), &s)
		}
		a.build(&s, st.next, s.flags, nil)
	}
}

// frameLength tells how long the frame at the start of b is: the request or
// reply (RFC 5044 section 7.1.1), or with begun an FPDU (section 4). It fails
// when b does not hold all of it.
func frameLength(b []byte, begun bool) (n int, ok bool) {
	switch {
	case begun && len(b) >= 2:
		n = (2+int(binary.BigEndian.Uint16(b))+3)/4*4 + 4
	case !begun && len(b) >= 20:
		n = 20 + int(binary.BigEndian.Uint16(b[18:]))
	default:
		return 0, false
	}
	return n, n <= len(b)
}

// maxPayload is the most that fits an IPv4 packet with a plain TCP header.
const maxPayload = 65535 - 20 - 20

// emit writes the first n octets that st has as segments of their own, like s.
func (a *aligner) emit(st *mpaStream, n int, s *segment) {
	for n > 0 {
		m := n
		if m > maxPayload {
			m = maxPayload / 2 // so that both parts are long
		}
		a.build(s, st.next-uint32(len(st.rest)), tcpACK|tcpPSH, st.rest[:m])
		st.rest = st.rest[m:]
		n -= m
	}
	if len(st.rest) == 0 {
		st.rest = nil // lets go of what has been written
	}
}

// build writes a segment with the headers of s, but for TCP options. Nobody
// looks at checksums: loopback does not fill them in.
func (a *aligner) build(s *segment, seq uint32, flags byte, payload []byte) {
	head := slices.Clone(s.packet[:s.tcp+20])
	ip, tcp := head[etherHead:], head[s.tcp:]
	if ip[0]>>4 == 4 {
		binary.BigEndian.PutUint16(ip[2:], uint16(len(head)-etherHead+len(payload)))
	} else {
		binary.BigEndian.PutUint16(ip[4:], uint16(20+len(payload)))
	}
	binary.BigEndian.PutUint32(tcp[4:], seq)
	tcp[12], tcp[13] = 5<<4, flags

	n := len(head) + len(payload)
	padded := (n + 3) / 4 * 4
	block := make([]byte, 0, blockHead+padded+4)
	block = append(block, s.block[:blockHead]...) // type, interface, time
	binary.NativeEndian.PutUint32(block[4:], uint32(blockHead+padded+4))
	binary.NativeEndian.PutUint32(block[20:], uint32(n))
	binary.NativeEndian.PutUint32(block[24:], uint32(n))
	block = append(append(block, head...), payload...)
	block = append(block, make([]byte, padded-n)...)
	a.write(binary.NativeEndian.AppendUint32(block, uint32(len(block)+4)), s.frame)
}

// write writes a block; frame is where its packet comes from, 0 if it is none.
func (a *aligner) write(block []byte, frame int) {
	if frame > 0 {
		a.origin = append(a.origin, frame)
	}
	if a.err == nil {
		_, a.err = a.w.Write(block)
	}
}
