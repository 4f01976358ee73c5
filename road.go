package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// poolBytes is the payload memory of one mount, bytes.
const poolBytes = 128 << 20

// road is the way to the server: it connects, again and again if need be, and
// remembers the present connection so that its counters can be shown.
type road struct {
	addr string
	s    settings
	pool *ulb.Pool

	mu   sync.Mutex
	rdma *rdma.Conn // present connection, if it is one over RDMA
}

func newRoad(addr string, s settings) *road {
	return &road{addr: addr, s: s, pool: ulb.NewPool(ulb.HeapMemory{}, poolBytes)}
}

func (r *road) close() { r.pool.Close() }

// dial implements nfsclient.Dialer.
func (r *road) dial(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) {
	if r.s.Proto == "tcp" {
		return tcp.Dial(ctx, r.addr, tcp.Config{Handler: back, Pool: r.pool})
	}
	c, err := rdma.Dial(ctx, &iwarp.Connector{Config: iwarp.Config{CRC: r.s.CRC}}, r.addr, rdma.Config{Handler: back, Pool: r.pool})
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.rdma = c
	r.mu.Unlock()
	return c, nil
}

// stats returns the counters of the present RDMA connection.
func (r *road) stats() (rdma.Stats, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rdma == nil {
		return rdma.Stats{}, false
	}
	return r.rdma.Stats(), true
}

// describe names the transport for the log.
func (r *road) describe() string {
	if r.s.Proto == "tcp" {
		return "TCP to " + r.addr
	}
	return "software iWARP to " + r.addr
}

// explain turns an error of mounting into one line that names the cause and,
// where there is one, the remedy.
func explain(err error, source spec, addr string, s settings) error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, nfs4.ErrNoEnt), errors.Is(err, nfs4.ErrNotDir):
		return fmt.Errorf("%s: the server has no such export: check the path, and what the server exports (%w)", source, err)
	case errors.Is(err, nfs4.ErrMinorVersMismatch):
		return fmt.Errorf("%s does not speak the NFS version asked for: leave out vers and minorversion to take what it has (%w)", source.Host, err)
	case errors.Is(err, nfs4.ErrAccess), errors.Is(err, nfs4.ErrPerm):
		return fmt.Errorf("%s: the server denies access: check its export's client list (%w)", source, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nfsclient.ErrSilent):
		return fmt.Errorf("%s (%s) did not answer within %v: %w", source.Host, addr, s.Timeout, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s refuses connections: is the NFS server running with %s enabled on this port? (%w)", addr, s.Proto, err)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("%s closed the connection: is this the server's port for %s? (%w)", addr, s.Proto, err)
	case errors.As(err, &errno) && (errno == syscall.EHOSTUNREACH || errno == syscall.ENETUNREACH):
		return fmt.Errorf("%s cannot be reached: %w", addr, err)
	}
	return fmt.Errorf("%s: %w", source, err)
}
