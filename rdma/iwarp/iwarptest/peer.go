package iwarptest

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// DefaultTimeout is how long a Peer waits in each of its methods.
const DefaultTimeout = 10 * time.Second

// Peer is one connection. One goroutine may read and another write at a time.
type Peer struct {
	// Conn is the connection itself, for what no method does.
	Conn net.Conn
	// CRC says whether checksums are sent and checked. Accept and Connect set
	// it to what was negotiated.
	CRC bool
	// Timeout limits each read and write; DefaultTimeout if zero.
	Timeout time.Duration
	// SendMSN, ReadMSN and TerminateMSN are the sequence numbers of the next
	// message that Send, RDMARead and Terminate make. They start at 1.
	SendMSN, ReadMSN, TerminateMSN uint32

	r *bufio.Reader
}

// NewPeer returns a peer on an established connection.
func NewPeer(conn net.Conn) *Peer {
	return &Peer{Conn: conn, SendMSN: 1, ReadMSN: 1, TerminateMSN: 1, r: bufio.NewReaderSize(conn, 1<<16)}
}

// Dial connects to addr. No MPA frame is sent yet.
func Dial(addr string) (*Peer, error) {
	conn, err := net.DialTimeout("tcp", addr, DefaultTimeout)
	if err != nil {
		return nil, err
	}
	return NewPeer(conn), nil
}

// Close closes the connection.
func (p *Peer) Close() error { return p.Conn.Close() }

func (p *Peer) deadline() time.Time {
	if p.Timeout > 0 {
		return time.Now().Add(p.Timeout)
	}
	return time.Now().Add(DefaultTimeout)
}

// WriteRaw writes octets as they are.
func (p *Peer) WriteRaw(b []byte) error {
	if err := p.Conn.SetWriteDeadline(p.deadline()); err != nil {
		return err
	}
	_, err := p.Conn.Write(b)
	return err
}

// ReadRaw reads exactly n octets.
func (p *Peer) ReadRaw(n int) ([]byte, error) {
	if err := p.Conn.SetReadDeadline(p.deadline()); err != nil {
		return nil, err
	}
	b := make([]byte, n)
	_, err := io.ReadFull(p.r, b)
	return b, err
}

// WriteFrame sends an MPA frame.
func (p *Peer) WriteFrame(f Frame) error { return p.WriteRaw(f.Bytes()) }

// ReadFrame receives an MPA frame.
func (p *Peer) ReadFrame() (Frame, error) {
	if err := p.Conn.SetReadDeadline(p.deadline()); err != nil {
		return Frame{}, err
	}
	return readFrame(p.r)
}

// Accept receives a request and accepts it in the way Linux knfsd does: IRD
// and ORD 16, checksums if the peer wants them. It returns the request.
func (p *Peer) Accept(private []byte) (Frame, error) {
	req, err := p.ReadFrame()
	if err != nil {
		return req, err
	}
	if req.Key != RequestKey {
		return req, fmt.Errorf("key %q", req.Key)
	}
	p.CRC = req.CRC
	return req, p.WriteFrame(Frame{Key: ReplyKey, CRC: req.CRC, Revision: req.Revision, Enhanced: req.Enhanced,
		IRD: 16, ORD: 16, Private: private})
}

// Connect sends a request with IRD and ORD 16 and returns the reply.
func (p *Peer) Connect(private []byte) (Frame, error) {
	err := p.WriteFrame(Frame{Key: RequestKey, CRC: p.CRC, Revision: 2, Enhanced: true, IRD: 16, ORD: 16, Private: private})
	if err != nil {
		return Frame{}, err
	}
	f, err := p.ReadFrame()
	if err == nil && (f.Key != ReplyKey || f.Reject) {
		err = fmt.Errorf("rejected: %+v", f)
	}
	p.CRC = p.CRC || f.CRC
	return f, err
}

// Write sends segments, each as one FPDU, all in one piece.
func (p *Peer) Write(segs ...Segment) error {
	var b []byte
	for _, s := range segs {
		b = append(b, FPDU(s.ULPDU(), p.CRC)...)
	}
	return p.WriteRaw(b)
}

// Read receives the next FPDU.
func (p *Peer) Read() (Segment, error) {
	h, err := p.ReadRaw(2)
	if err != nil {
		return Segment{}, err
	}
	n := int(binary.BigEndian.Uint16(h))
	pad := (4 - (2+n)%4) % 4
	b, err := p.ReadRaw(n + pad + 4)
	if err != nil {
		return Segment{}, fmt.Errorf("within an FPDU: %w", err)
	}
	if p.CRC {
		want := Checksum(append(h, b[:n+pad]...))
		if got := binary.LittleEndian.Uint32(b[n+pad:]); got != want {
			return Segment{}, fmt.Errorf("CRC %#x instead of %#x", got, want)
		}
	}
	return parseSegment(b[:n])
}

// maxPayload is what Send and RDMAWrite put into one segment.
const maxPayload = 60000

// Send sends a message with the next sequence number.
func (p *Peer) Send(msg []byte) error { return p.send(Send, 0, msg) }

// SendInvalidate sends a message that invalidates the peer's stag.
func (p *Peer) SendInvalidate(stag uint32, msg []byte) error { return p.send(SendInv, stag, msg) }

func (p *Peer) send(op uint8, stag uint32, msg []byte) error {
	var segs []Segment
	for at := 0; ; {
		n := min(len(msg)-at, maxPayload)
		last := at+n == len(msg)
		segs = append(segs, Segment{Opcode: op, STag: stag, Last: last, MSN: p.SendMSN, MO: uint32(at), Payload: msg[at : at+n]})
		if at += n; last {
			break
		}
	}
	p.SendMSN++
	return p.Write(segs...)
}

// RDMAWrite writes data to the peer's memory.
func (p *Peer) RDMAWrite(stag uint32, offset uint64, data []byte) error {
	return p.tagged(Write, stag, offset, data)
}

// RespondRead answers a Read Request with data.
func (p *Peer) RespondRead(r Read, data []byte) error {
	return p.tagged(ReadResponse, r.SinkSTag, r.SinkOffset, data)
}

func (p *Peer) tagged(op uint8, stag uint32, offset uint64, data []byte) error {
	var segs []Segment
	for at := 0; ; {
		n := min(len(data)-at, maxPayload)
		last := at+n == len(data)
		segs = append(segs, Segment{Tagged: true, Opcode: op, STag: stag, Last: last, Offset: offset + uint64(at), Payload: data[at : at+n]})
		if at += n; last {
			break
		}
	}
	return p.Write(segs...)
}

// RequestRead sends a Read Request with the next sequence number.
func (p *Peer) RequestRead(r Read) error {
	s := Segment{Opcode: ReadRequest, Last: true, Queue: 1, MSN: p.ReadMSN, Payload: r.Bytes()}
	p.ReadMSN++
	return p.Write(s)
}

// RDMARead reads n octets of the peer's memory and returns them. Nothing but
// the Read Response may come in between.
func (p *Peer) RDMARead(stag uint32, offset uint64, n int) ([]byte, error) {
	r := Read{SinkSTag: 0x600d0000 | p.ReadMSN, SinkOffset: 1 << 20, Size: uint32(n), STag: stag, Offset: offset}
	if err := p.RequestRead(r); err != nil {
		return nil, err
	}
	var data []byte
	for {
		s, err := p.Read()
		switch {
		case err != nil:
			return data, err
		case s.Opcode == Terminate:
			return data, &TerminateError{Segment: s}
		case s.Opcode != ReadResponse || s.STag != r.SinkSTag || s.Offset != r.SinkOffset+uint64(len(data)):
			return data, fmt.Errorf("Read Response expected at %d, got %+v", len(data), s)
		}
		if data = append(data, s.Payload...); s.Last {
			if len(data) != n {
				return data, fmt.Errorf("Read Response of %d octets instead of %d", len(data), n)
			}
			return data, nil
		}
	}
}

// Receive returns the next message of a Send of any kind. Empty RDMA Writes,
// which wake a server up, are skipped.
func (p *Peer) Receive() ([]byte, error) {
	var msg []byte
	for {
		s, err := p.Read()
		switch {
		case err != nil:
			return msg, err
		case s.Opcode == Write && len(s.Payload) == 0:
			continue
		case s.Opcode == Terminate:
			return msg, &TerminateError{Segment: s}
		case s.Tagged || s.Queue != 0:
			return msg, fmt.Errorf("Send expected, got %+v", s)
		}
		if msg = append(msg, s.Payload...); s.Last {
			return msg, nil
		}
	}
}

// Terminate sends a Terminate message without headers. Control are its first
// two octets: layer, type and code (RFC 5040 section 4.8).
func (p *Peer) Terminate(control uint16) error {
	b := binary.BigEndian.AppendUint16(nil, control)
	s := Segment{Opcode: Terminate, Last: true, Queue: 2, MSN: p.TerminateMSN, Payload: append(b, 0, 0)}
	p.TerminateMSN++
	return p.Write(s)
}

// TerminateError is a Terminate message received where something else was
// expected.
type TerminateError struct{ Segment Segment }

// Control returns the layer, type and code.
func (e *TerminateError) Control() uint16 {
	if len(e.Segment.Payload) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(e.Segment.Payload)
}

func (e *TerminateError) Error() string { return fmt.Sprintf("Terminate %#04x", e.Control()) }

// AwaitTerminate reads until a Terminate comes, and returns its layer, type and
// code. What comes before it is dropped.
func (p *Peer) AwaitTerminate() (uint16, error) {
	for {
		s, err := p.Read()
		if err != nil {
			return 0, fmt.Errorf("no Terminate: %w", err)
		}
		if s.Opcode == Terminate {
			return (&TerminateError{Segment: s}).Control(), nil
		}
	}
}

// AwaitClose reads until the other end has closed the connection.
func (p *Peer) AwaitClose() error {
	if err := p.Conn.SetReadDeadline(p.deadline()); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, p.r)
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return fmt.Errorf("still open after %v", p.Timeout)
	}
	return nil // a reset is an end, too
}
