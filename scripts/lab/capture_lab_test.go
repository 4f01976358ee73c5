//go:build lab

package lab

import (
	"bufio"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// answerNULL is a server that accepts one iWARP connection after the other
// and answers each NULL call; a message that is none ends the connection.
func answerNULL(t *testing.T) (addr string) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-ended
	})
	serve := func(conn net.Conn) {
		defer conn.Close()
		p := &iwarpProbe{Conn: conn, r: bufio.NewReader(conn)}
		request := make([]byte, 32)
		if _, err := io.ReadFull(p.r, request); err != nil {
			return
		}
		copy(request, "MPA ID Rep Frame")
		p.crc = request[16]&0x40 != 0
		if _, err := conn.Write(request); err != nil {
			return
		}
		for {
			call, err := p.receive()
			if err != nil || len(call) != 68 {
				return
			}
			reply := append(append([]byte{}, call[:28]...), call[28:32]...)
			if err := p.send(append(reply, words(1, 0, 0, 0, 0)...)); err != nil {
				return
			}
		}
	}
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
		}
	}()
	return l.Addr().String()
}

func startCapture(t *testing.T, o CaptureOptions) *Capture {
	t.Helper()
	o.Dir = t.TempDir()
	c, err := StartCapture(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(o.Dir + "/*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return c
}

func check(t *testing.T, c *Capture) *Decoding {
	t.Helper()
	d, err := c.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d)
	return d
}

func TestCapture(t *testing.T) {
	addr := answerNULL(t)
	c := startCapture(t, CaptureOptions{Addrs: []string{addr}})
	p, err := dialIWARP(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for xid := range uint32(3) {
		if err := p.null(0x100 + xid); err != nil {
			t.Fatal(err)
		}
	}
	// Nothing waits here on purpose: Check must not lose the last packets.
	d := check(t, c)
	if err := d.Ok(); err != nil {
		t.Error(err)
	}
	if d.FPDUs != 6 || d.Segments["Send"] != 6 || d.Messages["MSG"] != 6 || d.Calls != 3 || d.Replies != 3 || d.NFS != 6 {
		t.Errorf("3 NULL calls and their replies were decoded as %v", d)
	}
}

// TestCaptureSplit sends frames whose first few octets come in a segment of
// their own, where tshark by itself would lose its way.
func TestCaptureSplit(t *testing.T) {
	addr := answerNULL(t)
	c := startCapture(t, CaptureOptions{Addrs: []string{addr}})
	p, err := dialIWARP(addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const most = 12
	for n := 1; n <= most; n++ {
		p.split = n
		if err := p.null(uint32(n)); err != nil {
			t.Fatal(err)
		}
	}
	d := check(t, c)
	if err := d.Ok(); err != nil {
		t.Error(err)
	}
	if d.Messages["MSG"] != 2*most || d.NFS != 2*most {
		t.Errorf("%d NULL calls and their replies were decoded as %v", most, d)
	}
}

func TestCaptureCRC(t *testing.T) {
	addr := answerNULL(t)
	for name, spoil := range map[string]bool{"good": false, "bad": true} {
		t.Run(name, func(t *testing.T) {
			c := startCapture(t, CaptureOptions{Addrs: []string{addr}})
			p, err := dialMPA(addr, true)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.null(1); err != nil {
				t.Fatal(err)
			}
			p.crc = !spoil // from here a zero, which the server lets pass
			if err := p.null(2); err != nil {
				t.Fatal(err)
			}
			err = check(t, c).Ok()
			if spoil && (err == nil || !strings.Contains(err.Error(), "CRC")) {
				t.Errorf("a wrong checksum: %v", err)
			}
			if !spoil && err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCaptureFindsFaults sends what must not pass for a good stream.
func TestCaptureFindsFaults(t *testing.T) {
	addr := answerNULL(t)
	for _, test := range []struct {
		name, want string
		send       func(*iwarpProbe) error
	}{
		{"an RPC that breaks off", "alformed", func(p *iwarpProbe) error {
			return p.send(append(words(7, 1, 32, 0, 0, 0, 0), callHeader(7, 0)[:30]...))
		}},
		{"octets outside of any frame", "do not belong to any MPA frame", func(p *iwarpProbe) error {
			_, err := p.Write(words(0, 0, 0, 0, 0))
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := startCapture(t, CaptureOptions{Addrs: []string{addr}})
			p, err := dialIWARP(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if err := p.null(1); err != nil {
				t.Fatal(err)
			}
			if err := test.send(p); err != nil {
				t.Fatal(err)
			}
			if err := check(t, c).Ok(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Ok() = %v, want it to say %q", err, test.want)
			}
		})
	}
}

func TestCaptureTruncated(t *testing.T) {
	addr := answerNULL(t)
	const most = 8 << 10
	c := startCapture(t, CaptureOptions{Addrs: []string{addr}, MaxBytes: most})
	for range 50 {
		if err := nullIWARP(addr); err != nil {
			t.Fatal(err)
		}
	}
	d := check(t, c)
	if !d.Truncated || d.Frames < 10 {
		t.Errorf("Truncated = %v with %d frames", d.Truncated, d.Frames)
	}
	if err := d.Ok(); err != nil {
		t.Error(err)
	}
	// What is written after the packets, statistics, is a few hundred octets.
	if info, err := os.Stat(c.Path()); err != nil || info.Size() > most+1024 {
		t.Errorf("the file: %d octets, %v", info.Size(), err)
	}
}
