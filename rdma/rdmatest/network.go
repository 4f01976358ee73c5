package rdmatest

import (
	"context"
	"errors"
	"net"
	"sync"

	"nfsrdma-fuse/rdma"
)

// Network connects in-memory queue pairs: it is a Connector, and a Listener
// for all that connect through it, whatever the address.
type Network struct {
	Params Params

	once    sync.Once
	waiting chan *dial
	closed  chan struct{}
	close   sync.Once
}

type dial struct {
	o      rdma.Options
	result chan dialed
}

type dialed struct {
	qp  rdma.QueuePair
	err error
}

var errRefused = errors.New("rdmatest: connection refused")

func (n *Network) init() {
	n.once.Do(func() {
		n.waiting = make(chan *dial)
		n.closed = make(chan struct{})
	})
}

// Connect implements rdma.Connector. It waits for an Accept.
func (n *Network) Connect(ctx context.Context, _ string, o rdma.Options) (rdma.QueuePair, error) {
	n.init()
	d := &dial{o: o, result: make(chan dialed, 1)}
	select {
	case n.waiting <- d:
	case <-n.closed:
		return nil, errRefused
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	r := <-d.result
	return r.qp, r.err
}

// Accept implements rdma.Listener.
func (n *Network) Accept(ctx context.Context, o rdma.Options) (rdma.QueuePair, error) {
	n.init()
	select {
	case d := <-n.waiting:
		client, server, err := NewPair(d.o, o, n.Params)
		if err != nil {
			d.result <- dialed{err: err}
			return nil, &rdma.PeerError{Addr: "memory:client", Err: err}
		}
		d.result <- dialed{qp: client}
		return server, nil
	case <-n.closed:
		return nil, rdma.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Addr implements rdma.Listener.
func (n *Network) Addr() net.Addr { return addr{} }

// Close implements rdma.Listener.
func (n *Network) Close() error {
	n.init()
	n.close.Do(func() { close(n.closed) })
	return nil
}

type addr struct{}

func (addr) Network() string { return "memory" }
func (addr) String() string  { return "memory:server" }
