package main

import (
	"bytes"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/rdma/iwarp/iwarptest"
)

// listen accepts connections on loopback until the test ends, serves each
// with f, and waits for all of them at the end.
func listen(t *testing.T, f func(c net.Conn)) (port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		conns []net.Conn
		ended bool
	)
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			if conns = append(conns, c); ended {
				c.Close()
			}
			mu.Unlock()
			wg.Go(func() {
				defer c.Close()
				f(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		ended = true
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// TestHostileServerAtMount: whatever answers on the port, mounting ends in
// time with one line that tells what is wrong.
func TestHostileServerAtMount(t *testing.T) {
	needFUSE(t)
	accept := func(p *iwarptest.Peer) bool {
		_, err := p.Accept(nil)
		return err == nil
	}
	for _, c := range []struct {
		name    string
		options string
		serve   func(p *iwarptest.Peer)
		words   []string
	}{
		{"silent", "timeo=10", func(p *iwarptest.Peer) { p.AwaitClose() }, []string{"did not answer", "1s"}},
		{"silent over TCP", "timeo=10,proto=tcp", func(p *iwarptest.Peer) { p.AwaitClose() }, []string{"did not answer", "1s"}},
		{"silent after the MPA reply", "timeo=10", func(p *iwarptest.Peer) {
			if accept(p) {
				p.AwaitClose()
			}
		}, []string{"did not answer", "1s"}},
		{"closes at once", "", func(*iwarptest.Peer) {}, []string{"closed the connection"}},
		{"speaks something else", "", func(p *iwarptest.Peer) {
			p.WriteRaw([]byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + strings.Repeat("x", 100)))
			p.AwaitClose()
		}, []string{"MPA"}},
		{"rejects", "", func(p *iwarptest.Peer) {
			if f, err := p.ReadFrame(); err == nil {
				f.Key, f.Reject = iwarptest.ReplyKey, true
				p.WriteFrame(f)
				p.AwaitClose()
			}
		}, []string{"reject"}},
		{"garbage after the MPA reply", "", func(p *iwarptest.Peer) {
			if accept(p) {
				p.WriteRaw(bytes.Repeat([]byte{0xff}, 4096))
				p.AwaitClose()
			}
		}, []string{"protocol error"}},
		{"garbage as the first reply", "timeo=10", func(p *iwarptest.Peer) {
			if !accept(p) {
				return
			}
			if _, err := p.Receive(); err == nil {
				p.Send(bytes.Repeat([]byte{0xff}, 40))
				p.AwaitClose()
			}
		}, nil},
		{"Terminate as the first reply", "", func(p *iwarptest.Peer) {
			if !accept(p) {
				return
			}
			if _, err := p.Receive(); err == nil {
				p.Terminate(0x1203)
				p.AwaitClose()
			}
		}, []string{"terminated by the peer"}},
		{"reply of 60,000 octets", "", func(p *iwarptest.Peer) {
			if !accept(p) {
				return
			}
			if m, err := p.Receive(); err == nil {
				p.Send(append(m[:28:28], make([]byte, 60_000)...))
				p.AwaitClose()
			}
		}, []string{"Send"}},
		{"garbage over TCP", "proto=tcp", func(p *iwarptest.Peer) {
			p.WriteRaw(bytes.Repeat([]byte{0xff}, 4096))
			p.AwaitClose()
		}, []string{"tcp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			port := listen(t, func(conn net.Conn) {
				p := iwarptest.NewPeer(conn)
				p.Timeout = time.Minute
				c.serve(p)
			})
			oneLine(t, runProgram(t, "mount.nfsrdma-fuse", "127.0.0.1:/", dir, "-o", "port="+port+","+c.options), exitMount, c.words...)
			if ours, _ := isOurMount(dir); ours {
				t.Error("it is mounted nevertheless")
			}
		})
	}
}

// meddler stands between the client and an honest server, passes segments on
// in both directions, and lets attack see each one that the server sends. What
// attack returns goes to the client in its place.
type meddler struct {
	target string
	attack func(client *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment

	armed      atomic.Bool
	conns      atomic.Int32 // connections made
	terminates atomic.Int32 // Terminates that the client has sent
}

func (m *meddler) serve(conn net.Conn) {
	m.conns.Add(1)
	client := iwarptest.NewPeer(conn)
	server, err := iwarptest.Dial(m.target)
	if err != nil {
		return
	}
	defer server.Close()
	client.Timeout, server.Timeout = time.Minute, time.Minute
	req, err := client.ReadFrame()
	if err != nil || server.WriteFrame(req) != nil {
		return
	}
	rep, err := server.ReadFrame()
	if err != nil || client.WriteFrame(rep) != nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer client.Close()
		for {
			s, err := server.Read()
			if err != nil {
				return
			}
			out := []iwarptest.Segment{s}
			if m.armed.Load() {
				out = m.attack(client, s)
			}
			if client.Write(out...) != nil {
				return
			}
		}
	}()
	for {
		s, err := client.Read()
		if err != nil {
			break
		}
		if s.Opcode == iwarptest.Terminate {
			m.terminates.Add(1)
		}
		if server.Write(s) != nil {
			break
		}
	}
	server.Close()
	<-done
}

// stale remembers the handle that the server last wrote to.
type stale struct {
	mu      sync.Mutex
	segment iwarptest.Segment
	known   bool
}

// attacks are what a hostile server does to a mounted client.
var attacks = []struct {
	name string
	// terminate says that the client answers with a Terminate before it
	// closes.
	terminate bool
	make      func() func(client *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment
}{
	{"Terminate", false, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		return func(client *iwarptest.Peer, _ iwarptest.Segment) []iwarptest.Segment {
			client.Terminate(0x1203)
			return nil
		}
	}},
	{"garbage octets", true, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		return func(client *iwarptest.Peer, _ iwarptest.Segment) []iwarptest.Segment {
			client.WriteRaw(bytes.Repeat([]byte{0xff}, 500))
			return nil
		}
	}},
	{"too long reply", true, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		return func(_ *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment {
			if !s.Tagged && s.Queue == 0 {
				s.Payload = append(s.Payload, make([]byte, 50_000)...)
			}
			return []iwarptest.Segment{s}
		}
	}},
	{"RDMA Write outside what was offered", true, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		return func(_ *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment {
			if s.Tagged && s.Opcode == iwarptest.Write {
				s.Offset += 1 << 21
			}
			return []iwarptest.Segment{s}
		}
	}},
	{"RDMA Write to memory that was not offered", true, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		return func(_ *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment {
			return []iwarptest.Segment{{Tagged: true, Last: true, Opcode: iwarptest.Write, STag: 0x4711, Payload: []byte("here I am")}, s}
		}
	}},
	{"RDMA Write after its call has ended", true, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		var old stale
		return func(_ *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment {
			old.mu.Lock()
			defer old.mu.Unlock()
			if s.Tagged && s.Opcode == iwarptest.Write && len(s.Payload) > 0 {
				old.segment, old.known = s, true
			}
			if !s.Tagged && s.Queue == 0 && old.known {
				return []iwarptest.Segment{s, old.segment}
			}
			return []iwarptest.Segment{s}
		}
	}},
	{"RDMA Read of write-only memory", true, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		return func(_ *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment {
			if !s.Tagged || s.Opcode != iwarptest.Write {
				return []iwarptest.Segment{s}
			}
			read := iwarptest.Read{SinkSTag: 1, Size: 16, STag: s.STag, Offset: s.Offset}
			return []iwarptest.Segment{s, {Last: true, Opcode: iwarptest.ReadRequest, Queue: 1, MSN: 1, Payload: read.Bytes()}}
		}
	}},
	{"silence", false, func() func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment {
		return func(*iwarptest.Peer, iwarptest.Segment) []iwarptest.Segment { return nil }
	}},
}

// TestHostileServerLater: a server that turns hostile costs the connection. A
// hard mount connects again and loses nothing; a soft one returns an errno in
// time while the hostility lasts. Neither crashes or hands out wrong bytes.
func TestHostileServerLater(t *testing.T) {
	needFUSE(t)
	want := bytes.Repeat([]byte("0123456789abcdef"), 64<<10) // 1 MiB
	for _, a := range attacks {
		setup := func(t *testing.T, options string) (*meddler, *os.File) {
			server, port := startServer(t, nfstest.Options{})
			if err := server.WriteFile("/file", want, 0o644); err != nil {
				t.Fatal(err)
			}
			m := &meddler{target: "127.0.0.1:" + port, attack: a.make()}
			dir := mountProgram(t, options+",port="+listen(t, m.serve))
			t.Cleanup(func() { m.armed.Store(false) }) // so that unmounting is quick
			f, err := os.Open(filepath.Join(dir, "file"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return m, f
		}
		read := func(f *os.File) ([]byte, error) {
			// From the server, not from the kernel's cache.
			if err := dropCached(f); err != nil {
				return nil, err
			}
			got := make([]byte, len(want))
			_, err := f.ReadAt(got, 0)
			return got, err
		}
		t.Run(a.name+"/once", func(t *testing.T) {
			t.Parallel()
			m, f := setup(t, "hard,timeo=20")
			before := m.conns.Load()
			attack := m.attack
			m.attack = func(client *iwarptest.Peer, s iwarptest.Segment) []iwarptest.Segment {
				if m.conns.Load() > before { // the attack was on the connection before
					return []iwarptest.Segment{s}
				}
				return attack(client, s)
			}
			m.armed.Store(true)
			got, err := read(f)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("reading through the attack: %v, equal: %v", err, bytes.Equal(got, want))
			}
			// The attack that comes behind the last reply is met by the next call.
			if got, err := read(f); err != nil || !bytes.Equal(got, want) {
				t.Errorf("reading after the attack: %v, equal: %v", err, bytes.Equal(got, want))
			}
			if m.conns.Load() == before {
				t.Error("the attack did not cost the connection")
			}
			if a.terminate && m.terminates.Load() == 0 {
				t.Error("the client did not say why it closed the connection")
			}
		})
		t.Run(a.name+"/lasting", func(t *testing.T) {
			t.Parallel()
			m, f := setup(t, "soft,timeo=5,retrans=1")
			m.armed.Store(true)
			result := make(chan error, 1)
			go func() {
				for { // an attack may come too late for the first read
					got, err := read(f)
					if err == nil && !bytes.Equal(got, want) {
						err = errors.New("wrong bytes")
					}
					if err != nil {
						result <- err
						return
					}
				}
			}()
			select {
			case err := <-result:
				var errno syscall.Errno
				if !errors.As(err, &errno) || errno != unix.EIO && errno != unix.ETIMEDOUT {
					t.Errorf("error %v, want EIO or ETIMEDOUT", err)
				}
			case <-time.After(30 * time.Second):
				t.Error("no error within 30 s")
			}
		})
	}
}
