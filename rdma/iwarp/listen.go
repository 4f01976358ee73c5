package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"nfsrdma-fuse/rdma"
)

// maxHandshakes bounds the peers whose MPA request is awaited or that wait for
// Accept. While there are more, new connections wait in the kernel's backlog.
const maxHandshakes = 64

// Listener takes connections from iWARP peers. Their MPA requests are read
// concurrently, so a silent peer holds up nobody. It implements rdma.Listener.
type Listener struct {
	cfg Config
	l   net.Listener

	ready  chan handshake
	slots  chan struct{}
	ctx    context.Context // done when the listener is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// handshake is a peer that has sent its request, or failed to.
type handshake struct {
	conn net.Conn
	n    *negotiation
	err  error
}

// Listen listens on addr ("host:port", TCP).
func Listen(addr string, cfg Config) (*Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("iwarp: %w", err)
	}
	return NewListener(l, cfg), nil
}

// NewListener takes connections from l, and closes it in the end.
func NewListener(l net.Listener, cfg Config) *Listener {
	ln := &Listener{cfg: cfg.withDefaults(), l: l, ready: make(chan handshake), slots: make(chan struct{}, maxHandshakes)}
	ln.ctx, ln.cancel = context.WithCancel(context.Background())
	ln.wg.Add(1)
	go ln.acceptLoop()
	return ln
}

// Addr implements rdma.Listener.
func (l *Listener) Addr() net.Addr { return l.l.Addr() }

// Close implements rdma.Listener. Queue pairs that were accepted stay.
func (l *Listener) Close() error {
	l.cancel()
	err := l.l.Close()
	l.wg.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// acceptLoop accepts TCP connections.
func (l *Listener) acceptLoop() {
	defer l.wg.Done()
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.ctx.Done():
			return
		}
		conn, err := l.l.Accept()
		if err != nil {
			<-l.slots
			if l.ctx.Err() != nil || !l.pause(err) {
				return
			}
			continue
		}
		l.wg.Add(1)
		go l.receive(conn)
	}
}

// pause hands an error of the listening socket to Accept, and waits a little:
// it is lack of descriptors or memory, or the peer has gone. It reports false
// when the listener is closed.
func (l *Listener) pause(err error) bool {
	select {
	case l.ready <- handshake{err: fmt.Errorf("iwarp: %w", err)}:
	case <-l.ctx.Done():
		return false
	}
	select {
	case <-time.After(10 * time.Millisecond):
		return true
	case <-l.ctx.Done():
		return false
	}
}

// receive reads one peer's request.
func (l *Listener) receive(conn net.Conn) {
	defer l.wg.Done()
	defer func() { <-l.slots }()
	h := handshake{conn: conn, n: newResponder()}
	ctx, cancel := context.WithTimeout(l.ctx, l.cfg.Timeout)
	err := exchange(ctx, conn, l.cfg.Timeout, func() error { return h.n.read(conn) })
	cancel()
	if err != nil {
		_ = conn.Close() // the first error tells more
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("no complete MPA request within %v: %w", l.cfg.Timeout, context.DeadlineExceeded)
		}
		h = handshake{err: &rdma.PeerError{Addr: conn.RemoteAddr().String(), Err: err}}
	}
	select {
	case l.ready <- h:
	case <-l.ctx.Done():
		_ = conn.Close() // nobody waits for it
	}
}

// Accept implements rdma.Listener. Options.Prepare is called when the peer's
// request has been read, and before the reply is sent.
func (l *Listener) Accept(ctx context.Context, o rdma.Options) (rdma.QueuePair, error) {
	var h handshake
	select {
	case h = <-l.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.ctx.Done():
		return nil, fmt.Errorf("iwarp: listener: %w", net.ErrClosed)
	}
	if h.err != nil {
		return nil, h.err
	}
	q, err := l.respond(h, o)
	if err != nil {
		_ = h.conn.Close() // the first error tells more
		return nil, &rdma.PeerError{Addr: h.conn.RemoteAddr().String(), Err: err}
	}
	return q, nil
}

// respond completes the negotiation with one peer.
func (l *Listener) respond(h handshake, o rdma.Options) (*QP, error) {
	of := offer{crc: l.cfg.CRC, ird: o.IRD, ord: o.ORD, private: o.PrivateData}
	reply, a, err := h.n.answer(of)
	// The reply is short and the socket's buffer empty, so this cannot block.
	_ = h.conn.SetWriteDeadline(time.Now().Add(l.cfg.Timeout)) // if it fails, so will Write
	if err != nil {
		if len(reply) > 0 {
			_, _ = h.conn.Write(reply) // the peer learns of it by the closed connection otherwise
		}
		return nil, err
	}
	q := newQP(h.conn, l.cfg, o, a, true)
	if o.Prepare != nil {
		if err := o.Prepare(q); err != nil {
			_, _ = h.conn.Write(h.n.reject(of)) // likewise
			return nil, errors.Join(err, q.Close())
		}
	}
	if _, err := h.conn.Write(reply); err != nil {
		return nil, errors.Join(err, q.Close())
	}
	_ = h.conn.SetWriteDeadline(time.Time{}) // if it fails, so will the first Write
	q.start()
	return q, nil
}
