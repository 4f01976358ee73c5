//go:build lab

package lab

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"time"
)

// The lab's own probes speak just enough of the protocols to tell that a
// server is there: a NULL call over iWARP, and calls over TCP. They are
// written apart from the client on purpose, so that what they show is about
// the server alone.

const (
	progNFS = 100003
	nfsV4   = 4
)

// words makes big-endian octets of 32-bit words.
func words(w ...uint32) (b []byte) {
	for _, v := range w {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// callHeader is the RPC header of a call with no credentials.
func callHeader(xid, proc uint32) []byte {
	return words(xid, 0, 2, progNFS, nfsV4, proc, 0, 0, 0, 0)
}

// checkReply checks that msg begins with an accepted, successful reply and
// returns the results.
func checkReply(msg []byte, xid uint32) ([]byte, error) {
	want := words(xid, 1, 0, 0, 0, 0) // a reply, accepted, no verifier, success
	if len(msg) < len(want) || string(msg[:len(want)]) != string(want) {
		return nil, fmt.Errorf("not a successful reply to %#x: % x", xid, msg[:min(len(msg), 64)])
	}
	return msg[len(want):], nil
}

// iwarpProbe is a connection with an NFS/RDMA server over iWARP.
type iwarpProbe struct {
	net.Conn
	r   *bufio.Reader
	msn uint32
	crc bool // checksums are used

	split int // this many octets of each Send go ahead of the others
}

// dialIWARP connects with MPA revision 2 (RFC 6581): no markers, no CRC, an
// IRD and ORD of 16, and the private data of RFC 8797 behind them.
func dialIWARP(addr string) (*iwarpProbe, error) { return dialMPA(addr, false) }

// dialMPA is dialIWARP with a choice about the CRC.
func dialMPA(addr string, crc bool) (*iwarpProbe, error) {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return nil, err
	}
	p := &iwarpProbe{Conn: conn, r: bufio.NewReader(conn)}
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	const enhanced, reject, checksums = 0x10, 0x20, 0x40
	p.crc = crc
	flags := byte(enhanced)
	if crc {
		flags |= checksums
	}
	private := append(words(16<<16|16, 0xf6ab0e18), 1, 0, 3, 3)
	request := append([]byte("MPA ID Req Frame"), flags, 2, 0, byte(len(private)))
	if _, err := conn.Write(append(request, private...)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	reply := make([]byte, 20)
	_, err = io.ReadFull(p.r, reply)
	if err == nil {
		if string(reply[:16]) != "MPA ID Rep Frame" || reply[16]&reject != 0 || crc != (reply[16]&checksums != 0) || reply[17] != 2 {
			err = fmt.Errorf("MPA reply % x", reply)
		} else {
			_, err = p.r.Discard(int(binary.BigEndian.Uint16(reply[18:])))
		}
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return p, nil
}

// fpdu wraps a ULPDU for the stream: length, padding, and a checksum, which is
// zero where none is used.
func (p *iwarpProbe) fpdu(ulpdu []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(ulpdu)))
	b = append(b, ulpdu...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	var sum uint32
	if p.crc {
		sum = crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	}
	return binary.LittleEndian.AppendUint32(b, sum)
}

// send sends msg with one RDMAP Send.
func (p *iwarpProbe) send(msg []byte) error {
	p.msn++
	// Untagged and last, DDP 1; RDMAP 1, Send; queue 0, offset 0.
	head := append([]byte{0x41, 0x43}, words(0, 0, p.msn, 0)...)
	frame := p.fpdu(append(head, msg...))
	if p.split > 0 {
		if _, err := p.Write(frame[:p.split]); err != nil {
			return err
		}
	}
	_, err := p.Write(frame[p.split:])
	return err
}

// nudge sends an RDMA Write of no octets, which wakes a siw that has missed
// the arrival of the first Send.
func (p *iwarpProbe) nudge() error {
	_, err := p.Write(p.fpdu(append([]byte{0xc1, 0x40}, words(0, 0, 0)...)))
	return err
}

// receive returns the payload of the next Send, which has to fit one FPDU.
func (p *iwarpProbe) receive() ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(p.r, length[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length[:]))
	rest := make([]byte, (2+n+3)/4*4-2+4)
	if _, err := io.ReadFull(p.r, rest); err != nil {
		return nil, err
	}
	if n < 18 || rest[0] != 0x41 || rest[1] != 0x43 {
		return nil, fmt.Errorf("not a Send: % x", rest[:min(n, 32)])
	}
	return rest[18:n], nil
}

// null makes a NULL call in one RDMA_MSG.
func (p *iwarpProbe) null(xid uint32) error {
	msg := append(words(xid, 1, 32, 0, 0, 0, 0), callHeader(xid, 0)...)
	if err := p.send(msg); err != nil {
		return err
	}
	p.SetReadDeadline(time.Now().Add(time.Second))
	_, err := p.r.Peek(1)
	p.SetReadDeadline(time.Now().Add(30 * time.Second))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		if err := p.nudge(); err != nil {
			return err
		}
	}
	reply, err := p.receive()
	if err != nil {
		return err
	}
	if len(reply) < 28 || string(reply[:8]) != string(words(xid, 1)) || string(reply[12:28]) != string(words(0, 0, 0, 0)) {
		return fmt.Errorf("not an RDMA_MSG without chunks: % x", reply[:min(len(reply), 64)])
	}
	_, err = checkReply(reply[28:], xid)
	return err
}

// nullIWARP connects, makes one NULL call and disconnects.
func nullIWARP(addr string) error {
	p, err := dialIWARP(addr)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.null(0x1abe1)
}

// tcpCall makes one RPC over TCP and returns the results.
func tcpCall(conn net.Conn, xid, proc uint32, args []byte) ([]byte, error) {
	conn.SetDeadline(time.Now().Add(30 * time.Second))
	msg := append(callHeader(xid, proc), args...)
	if _, err := conn.Write(append(words(1<<31|uint32(len(msg))), msg...)); err != nil {
		return nil, err
	}
	var mark [4]byte
	if _, err := io.ReadFull(conn, mark[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(mark[:])
	if n>>31 == 0 || n&^(1<<31) > 1<<16 {
		return nil, fmt.Errorf("record mark %#x", n)
	}
	reply := make([]byte, n&^(1<<31))
	if _, err := io.ReadFull(conn, reply); err != nil {
		return nil, err
	}
	return checkReply(reply, xid)
}

// probeTCP connects, makes a NULL call and an EXCHANGE_ID of the given minor
// version, and disconnects. The client record that the server made expires.
func probeTCP(addr string, minor uint32) error {
	conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := tcpCall(conn, 1, 0, nil); err != nil {
		return fmt.Errorf("NULL: %w", err)
	}
	const exchangeID = 42
	owner := "lab probe"
	// No tag, one operation; verifier, owner padded to 12, no flags, no state protection, no implementation id.
	args := words(0, minor, 1, exchangeID, 0x1ab, 0x1ab, uint32(len(owner)))
	args = append(append(args, owner...), 0, 0, 0)
	args = append(args, words(0, 0, 0)...)
	res, err := tcpCall(conn, 2, 1, args)
	if err != nil {
		return fmt.Errorf("EXCHANGE_ID: %w", err)
	}
	// Status of the compound, empty tag, one result, its number and status.
	if want := words(0, 0, 1, exchangeID, 0); len(res) < len(want) || string(res[:len(want)]) != string(want) {
		return fmt.Errorf("EXCHANGE_ID: % x", res[:min(len(res), 64)])
	}
	return nil
}
