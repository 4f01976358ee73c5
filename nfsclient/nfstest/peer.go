package nfstest

import (
	"context"
	"errors"
	"fmt"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// Conn is a connection as the server needs it: *tcp.Conn, *rdma.Conn and
// *LocalConn are such. Its Send is used for callbacks.
type Conn interface {
	Send(ctx context.Context, c *ulb.Call) error
	Done() <-chan struct{}
	Close() error
}

// peer is the other end of a connection.
type peer struct {
	s    *Server
	name string // for events
	deaf bool   // it has no connection to call back on

	ctx    context.Context // done when the connection is cut or has ended
	cancel context.CancelFunc
	ready  chan struct{} // closed when conn is set
	conn   Conn
}

// errDown is what a connection attempt meets while the server is stopped.
var errDown = errors.New("nfstest: server is down")

// makePeer makes a peer that is not counted as a connection yet.
func (s *Server) makePeer(name string) *peer {
	p := &peer{s: s, name: name, ready: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(s.ctx)
	return p
}

// register counts the peer as a connection.
func (p *peer) register() error {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.serving {
		return errDown
	}
	if len(s.peers) >= maxConns {
		return fmt.Errorf("nfstest: more than %d connections", maxConns)
	}
	s.peers[p] = struct{}{}
	return nil
}

func (s *Server) newPeer(name string) (*peer, error) {
	p := s.makePeer(name)
	if err := p.register(); err != nil {
		p.cancel()
		return nil, err
	}
	return p, nil
}

// attach gives the peer its connection, and waits for the end of it.
func (p *peer) attach(c Conn) {
	p.conn = c
	close(p.ready)
	select {
	case <-c.Done():
	case <-p.ctx.Done():
	}
	p.cancel() // handlers end, or Close would wait for them
	c.Close()
	<-c.Done()
	p.drop()
}

// drop forgets the peer and what it was bound to.
func (p *peer) drop() {
	p.cancel()
	s := p.s
	s.mu.Lock()
	delete(s.peers, p)
	for _, sess := range s.sessions {
		sess.unbind(p)
	}
	s.mu.Unlock()
}

// ServeConn serves a connection until it ends. The function accept makes it,
// with the handler that it is given, and must not block for long; its error is
// returned.
func (s *Server) ServeConn(name string, accept func(ctx context.Context, h ulb.Handler) (Conn, error)) error {
	p, err := s.newPeer(name)
	if err != nil {
		return err
	}
	c, err := accept(p.ctx, p.handle)
	if err != nil {
		p.drop()
		return err
	}
	p.attach(c)
	return nil
}

// Handler returns the server without a connection: calls can be given to it, and
// it cannot call back. A client that uses it has no back channel.
func (s *Server) Handler() ulb.Handler {
	p := s.makePeer("handler")
	p.deaf = true
	if p.register() != nil {
		p.cancel()
		return func(context.Context, *ulb.Request, func(xdr.Message) error) {}
	}
	return p.handle
}

// Disconnect cuts all connections. Clients may connect again at once.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.peers {
		p.cancel()
	}
}
