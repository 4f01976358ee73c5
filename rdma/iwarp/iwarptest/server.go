package iwarptest

import (
	"errors"
	"net"
	"sync"
)

// Server runs a script for every connection it takes.
type Server struct {
	l      net.Listener
	script func(*Peer) error
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   map[*Peer]bool
	errs   []error
}

// Serve listens on a free port of the loopback interface and runs script, on a
// goroutine of its own, for every connection. The connection is closed when the
// script returns.
func Serve(script func(*Peer) error) (*Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{l: l, script: script, open: make(map[*Peer]bool)}
	s.wg.Add(1)
	go s.run()
	return s, nil
}

// Addr returns the address ("host:port") to connect to.
func (s *Server) Addr() string { return s.l.Addr().String() }

func (s *Server) run() {
	defer s.wg.Done()
	for {
		conn, err := s.l.Accept()
		if err != nil {
			return
		}
		p := NewPeer(conn)
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = conn.Close() // nobody asked for it any more
			return
		}
		s.open[p] = true
		s.wg.Add(1)
		s.mu.Unlock()
		go s.serve(p)
	}
}

func (s *Server) serve(p *Peer) {
	defer s.wg.Done()
	err := s.script(p)
	_ = p.Close() // the script's error is what counts
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, p)
	if err != nil && !s.closed {
		s.errs = append(s.errs, err)
	}
}

// Close stops listening, cuts connections whose script is still running, waits
// for the scripts, and returns the errors of those that had ended before.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	_ = s.l.Close() // only listened on loopback
	for p := range s.open {
		_ = p.Close() // its script ends with an error that does not count
	}
	s.mu.Unlock()
	s.wg.Wait()
	return errors.Join(s.errs...)
}
