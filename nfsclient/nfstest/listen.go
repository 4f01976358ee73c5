package nfstest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/ulb"
)

// acceptor takes connections of one kind.
type acceptor interface {
	// accept waits for a peer. The handler of the connection is that of p.
	accept(ctx context.Context, p *peer) (Conn, error)
	addr() net.Addr
	close()
}

// listener is an address that the server listens on.
type listener struct {
	kind string // "tcp" or "rdma"
	at   string // address:port, the port chosen
	a    acceptor
}

// listeners are all of them. While the server is stopped they keep their
// addresses and do not listen.
type listeners struct {
	mu     sync.Mutex
	closed bool
	list   []*listener
	s      *Server
	conns  sync.WaitGroup // accepting and serving goroutines
	count  atomic.Uint64
}

// ListenTCP makes the server listen for RPC over TCP, on a loopback address with
// the port 0 as a rule, and returns the address.
func (s *Server) ListenTCP(addr string) (net.Addr, error) { return s.net.listen(s, "tcp", addr) }

// ListenRDMA makes the server listen for RPC over RDMA by software iWARP, and
// returns the address (of a TCP port).
func (s *Server) ListenRDMA(addr string) (net.Addr, error) { return s.net.listen(s, "rdma", addr) }

func (l *listeners) listen(s *Server, kind, addr string) (net.Addr, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, net.ErrClosed
	}
	li := &listener{kind: kind, at: addr}
	if err := l.open(s, li); err != nil {
		return nil, err
	}
	l.s = s
	l.list = append(l.list, li)
	return li.a.addr(), nil
}

// open listens and starts to take connections. l.mu is held.
func (l *listeners) open(s *Server, li *listener) (err error) {
	switch li.kind {
	case "tcp":
		var tl net.Listener
		if tl, err = net.Listen("tcp", li.at); err == nil {
			li.a = &tcpAcceptor{tl, s.opt.MaxPayload}
		}
	case "rdma":
		var rl *iwarp.Listener
		if rl, err = iwarp.Listen(li.at, iwarp.Config{}); err == nil {
			li.a = &rdmaAcceptor{rl}
		}
	}
	if err != nil {
		return fmt.Errorf("nfstest: listening for %s: %w", li.kind, err)
	}
	li.at = li.a.addr().String()
	l.conns.Add(1)
	go l.serve(s, li.kind, li.a)
	return nil
}

// serve takes connections until the acceptor is closed.
func (l *listeners) serve(s *Server, kind string, a acceptor) {
	defer l.conns.Done()
	for {
		p := s.makePeer(fmt.Sprintf("%s-%d", kind, l.count.Add(1)))
		c, err := a.accept(s.ctx, p)
		if err != nil {
			p.cancel()
			var one *rdma.PeerError
			if errors.As(err, &one) {
				continue
			}
			return
		}
		if p.register() != nil {
			p.cancel()
			c.Close()
			continue
		}
		l.conns.Add(1)
		go func() {
			defer l.conns.Done()
			p.attach(c)
		}()
	}
}

func (l *listeners) pause() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, li := range l.list {
		if li.a != nil {
			li.a.close()
			li.a = nil
		}
	}
}

func (l *listeners) resume() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return net.ErrClosed
	}
	var errs []error
	for _, li := range l.list {
		if li.a == nil {
			errs = append(errs, l.open(l.s, li))
		}
	}
	return errors.Join(errs...)
}

func (l *listeners) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.pause()
}

func (l *listeners) wait() { l.conns.Wait() }

// StopAccepting closes the listeners: connections stay, new ones are refused.
func (s *Server) StopAccepting() { s.net.pause() }

// StartAccepting opens the listeners again, at the same addresses.
func (s *Server) StartAccepting() error { return s.net.resume() }

type tcpAcceptor struct {
	l       net.Listener
	payload int
}

func (a *tcpAcceptor) accept(_ context.Context, p *peer) (Conn, error) {
	nc, err := a.l.Accept()
	if err != nil {
		return nil, err
	}
	c, err := tcp.NewConn(nc, tcp.Config{Handler: p.handle, MaxPayload: min(max(a.payload, 64<<10), 4<<20), MaxServe: maxServe})
	if err != nil {
		return nil, &rdma.PeerError{Addr: nc.RemoteAddr().String(), Err: err}
	}
	return c, nil
}

func (a *tcpAcceptor) addr() net.Addr { return a.l.Addr() }
func (a *tcpAcceptor) close()         { a.l.Close() }

// maxServe is the number of calls that one connection has carried out at once.
const maxServe = 128

type rdmaAcceptor struct{ l *iwarp.Listener }

func (a *rdmaAcceptor) accept(ctx context.Context, p *peer) (Conn, error) {
	c, err := rdma.Accept(ctx, a.l, rdma.Config{Handler: p.handle, Credits: maxServe})
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (a *rdmaAcceptor) addr() net.Addr { return a.l.Addr() }
func (a *rdmaAcceptor) close()         { a.l.Close() }

var (
	_ Conn = (*tcp.Conn)(nil)
	_ Conn = (*rdma.Conn)(nil)
	_ Conn = (*LocalConn)(nil)

	_ ulb.Handler = (&peer{}).handle
)
