//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"unsafe"

	"nfsrdma-fuse/rdma"
)

// backlog bounds the peers that wait for Accept; more are turned down.
const backlog = 64

// Listener takes connections on RDMA devices. It implements rdma.Listener.
type Listener struct {
	cfg  Config
	ch   *channel
	id   *C.struct_vb_cm_id
	addr net.Addr

	ready  chan request
	ctx    context.Context // done when the listener is closed
	cancel context.CancelFunc
	gone   chan struct{} // closed when the goroutine has ended
	once   sync.Once
	err    error
}

// request is a peer that wants to connect.
type request struct {
	id       *C.struct_vb_cm_id
	private  []byte
	ird, ord int // what this end may allow and use at most
}

// Listen listens on addr ("host:port"): on the device of that address, or on
// all of them if it names none.
func Listen(addr string, cfg Config) (*Listener, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	ta, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("verbs: %w", err)
	}
	ap := ta.AddrPort()
	if !ap.Addr().IsValid() {
		ap = netip.AddrPortFrom(netip.IPv6Unspecified(), ap.Port())
	}
	ch, err := newChannel()
	if err != nil {
		return nil, err
	}
	l := &Listener{cfg: cfg, ch: ch, ready: make(chan request, backlog), gone: make(chan struct{})}
	if err := l.listen(ap); err != nil {
		if l.id != nil {
			_ = destroyID(l.id) // the first error tells more
		}
		ch.close()
		return nil, fmt.Errorf("verbs: listening on %s: %w", addr, err)
	}
	l.addr = net.TCPAddrFromAddrPort(localAddr(l.id))
	l.ctx, l.cancel = context.WithCancel(context.Background())
	go l.loop()
	return l, nil
}

func (l *Listener) listen(ap netip.AddrPort) error {
	if err := errno(C.vb_id_create(l.ch.c, &l.id)); err != nil {
		return err
	}
	sa := putSockaddr(ap)
	if err := errno(C.vb_id_bind(l.id, unsafe.Pointer(&sa[0]))); err != nil {
		return err
	}
	return errno(C.vb_id_listen(l.id, backlog))
}

// Addr implements rdma.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// loop takes the requests of peers.
func (l *Listener) loop() {
	defer close(l.gone)
	for {
		ev, err := l.ch.next(context.Background())
		if err != nil {
			return // closed, or lost with its device: Accept waits for Close then
		}
		if ev._type != C.VB_CM_CONNECT_REQUEST {
			continue // a peer that went away again: that shows when it is accepted
		}
		r := request{id: ev.id, private: private(ev), ird: int(ev.responder_resources), ord: int(ev.initiator_depth)}
		select {
		case l.ready <- r:
		default:
			r.reject()
		}
	}
}

// reject turns a peer down.
func (r *request) reject() {
	C.vb_id_reject(r.id) // if it cannot be told, it notices all the same
	_ = destroyID(r.id)
}

// Accept implements rdma.Listener. Options.Prepare is called before the peer's
// request is answered.
func (l *Listener) Accept(ctx context.Context, o rdma.Options) (rdma.QueuePair, error) {
	var r request
	select {
	case r = <-l.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.ctx.Done():
		return nil, fmt.Errorf("verbs: listener: %w", net.ErrClosed)
	}
	peer := remoteAddr(r.id).String()
	ctx, cancel := context.WithTimeout(ctx, l.cfg.timeout())
	defer cancel()
	q, err := l.respond(ctx, &r, o)
	if err != nil {
		return nil, &rdma.PeerError{Addr: peer, Err: err}
	}
	return q, nil
}

// respond completes the connection with one peer.
func (l *Listener) respond(ctx context.Context, r *request, o rdma.Options) (_ *QP, err error) {
	ch, err := newChannel()
	if err != nil {
		r.reject()
		return nil, err
	}
	if err := errno(C.vb_id_migrate(r.id, ch.c)); err != nil {
		r.reject()
		ch.close()
		return nil, fmt.Errorf("verbs: taking a connection over: %w", err)
	}
	q, err := newQP(r.id, ch, o)
	if err != nil {
		return nil, err // the peer is turned down by the end of the id
	}
	defer func() {
		if err != nil {
			C.vb_id_reject(r.id) // likewise if this fails
			err = errors.Join(err, q.Close())
		}
	}()
	dev := &q.dev.lim
	ird, ord := min(depth(o.IRD, dev.ird), r.ird), min(depth(o.ORD, dev.ord), r.ord)
	q.agreed(r.private, ord)
	if o.Prepare != nil {
		if err := o.Prepare(q); err != nil {
			return nil, err
		}
	}
	data, n, err := q.privateData(&o)
	if err != nil {
		return nil, err
	}
	if err := errno(C.vb_id_accept(r.id, data, n, C.uint8_t(ird), C.uint8_t(ord))); err != nil {
		return nil, fmt.Errorf("verbs: accepting: %w", err)
	}
	if _, err := ch.step(ctx, C.VB_CM_ESTABLISHED, dev.iwarp); err != nil {
		return nil, err
	}
	q.opened()
	return q, nil
}

// Close implements rdma.Listener. Queue pairs that were accepted stay.
func (l *Listener) Close() error {
	l.once.Do(func() {
		l.cancel()
		l.ch.w.close()
		<-l.gone
		for len(l.ready) > 0 {
			r := <-l.ready
			r.reject()
		}
		l.err = destroyID(l.id)
		C.vb_cm_close(l.ch.c)
	})
	return l.err
}
