package iwarptest

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTalk has two scripts talk to each other through every method.
func TestTalk(t *testing.T) {
	for _, crc := range []bool{false, true} {
		big := bytes.Repeat([]byte("0123456789"), 20_000) // four segments
		srv, err := Serve(func(p *Peer) error {
			req, err := p.Accept([]byte("from server"))
			if err != nil {
				return err
			}
			if string(req.Private) != "from client" || req.CRC != crc || req.IRD != 16 {
				return fmt.Errorf("request %+v", req)
			}
			msg, err := p.Receive()
			if err != nil || !bytes.Equal(msg, big) {
				return fmt.Errorf("message of %d octets, %w", len(msg), err)
			}
			s, err := p.Read()
			if err != nil {
				return err
			}
			r, err := s.Read()
			if err != nil || r.Size != uint32(len(big)) || r.STag != 7 || r.Offset != 9 {
				return fmt.Errorf("request %+v, %w", r, err)
			}
			if err := p.RespondRead(r, big); err != nil {
				return err
			}
			if s, err = p.Read(); err != nil || s.Opcode != SendInv || s.STag != 5 || s.MSN != 2 || string(s.Payload) != "inv" {
				return fmt.Errorf("Send with Invalidate %+v, %w", s, err)
			}
			return p.Terminate(0x1203)
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := Dial(srv.Addr())
		if err != nil {
			t.Fatal(err)
		}
		p.CRC = crc
		rep, err := p.Connect([]byte("from client"))
		if err != nil || string(rep.Private) != "from server" || p.CRC != crc {
			t.Fatalf("reply %+v, %v", rep, err)
		}
		if err := errors.Join(p.RDMAWrite(0, 0, nil), p.Send(big)); err != nil {
			t.Fatal(err)
		}
		if got, err := p.RDMARead(7, 9, len(big)); err != nil || !bytes.Equal(got, big) {
			t.Errorf("read %d octets, %v", len(got), err)
		}
		if err := p.SendInvalidate(5, []byte("inv")); err != nil {
			t.Fatal(err)
		}
		if code, err := p.AwaitTerminate(); err != nil || code != 0x1203 {
			t.Errorf("Terminate %#x, %v", code, err)
		}
		if err := p.AwaitClose(); err != nil {
			t.Error(err)
		}
		p.Close()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestNotices checks that what is wrong on the wire is noticed, not repaired.
func TestNotices(t *testing.T) {
	good := FPDU(Segment{Last: true, Opcode: Send, MSN: 1, Payload: []byte("abc")}.ULPDU(), true)
	if want := "\x00\x15\x41\x43\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00abc\x00"; string(good[:24]) != want || len(good) != 28 {
		t.Errorf("FPDU % x", good)
	}
	for _, tc := range []struct {
		name string
		raw  []byte
		crc  bool
		do   func(p *Peer) error
		ok   bool
	}{
		{"good", good, true, func(p *Peer) error { _, err := p.Receive(); return err }, true},
		{"bad CRC", append(append([]byte(nil), good[:27]...), good[27]^1), true, func(p *Peer) error { _, err := p.Receive(); return err }, false},
		{"bad CRC without CRC", append(append([]byte(nil), good[:27]...), good[27]^1), false, func(p *Peer) error { _, err := p.Receive(); return err }, true},
		{"short ULPDU", FPDU(make([]byte, 13), true), true, func(p *Peer) error { _, err := p.Read(); return err }, false},
		{"cut off", good[:20], true, func(p *Peer) error { _, err := p.Read(); return err }, false},
		{"no Read Response", good, true, func(p *Peer) error { _, err := p.RDMARead(1, 0, 3); return err }, false},
		{"frame cut off", good[:19], true, func(p *Peer) error { _, err := p.ReadFrame(); return err }, false},
		{"no request", Frame{Key: ReplyKey, Revision: 2}.Bytes(), true, func(p *Peer) error { _, err := p.Accept(nil); return err }, false},
	} {
		near, far := net.Pipe()
		go func() {
			buf := make([]byte, 1000)
			for {
				if _, err := far.Read(buf); err != nil {
					return
				}
			}
		}()
		go func() { far.Write(tc.raw); far.Close() }()
		p := NewPeer(near)
		p.CRC = tc.crc
		if err := tc.do(p); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
		p.Close()
	}
}

// TestServerClose checks that Close ends scripts that would not end by
// themselves, and reports only the errors of the others.
func TestServerClose(t *testing.T) {
	failed := make(chan struct{}, 1)
	srv, err := Serve(func(p *Peer) error {
		b, err := p.ReadRaw(1)
		if err != nil || b[0] == 'w' {
			p.Timeout = time.Hour
			return p.AwaitClose()
		}
		failed <- struct{}{}
		return os.ErrInvalid
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"w", "f"} {
		p, err := Dial(srv.Addr())
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.WriteRaw([]byte(what)); err != nil {
			t.Fatal(err)
		}
		if what == "f" {
			<-failed
			if err := p.AwaitClose(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := srv.Close(); !errors.Is(err, os.ErrInvalid) {
		t.Error(err)
	}
}
