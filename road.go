package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"

	"github.com/sirupsen/logrus"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/rdma/verbs"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// poolBytes is the payload memory of one mount, bytes.
const poolBytes = 128 << 20

// road is the way to the server: it connects, again and again if need be, and
// remembers the present connection so that it can be shown.
type road struct {
	addrs []string // of the server, tried in order
	s     settings
	pool  *ulb.Pool
	log   logrus.FieldLogger
	// took is told of every choice that differs from the one before.
	took func(choice)
	// probe returns the RDMA device that reaches an address.
	probe func(ctx context.Context, addr string) (device string, err error)

	mu   sync.Mutex
	last choice
	rdma *rdma.Conn // present connection, if it is one over RDMA
}

// choice is what a connection goes over.
type choice struct {
	Provider string `json:"provider"` // providerVerbs, providerIWARP or protoTCP
	Device   string `json:"device,omitempty"`
	Addr     string `json:"addr"`
	Reason   string `json:"reason,omitempty"`
}

// String names the transport for people.
func (c choice) String() string {
	switch c.Provider {
	case providerVerbs:
		return "RDMA device " + c.Device + " to " + c.Addr
	case providerIWARP:
		return "software iWARP to " + c.Addr
	}
	return "TCP to " + c.Addr
}

func newRoad(addrs []string, s settings, log logrus.FieldLogger) *road {
	r := &road{addrs: addrs, s: s, log: log, probe: new(verbs.Connector).Probe}
	// Buffers outlive connections, and the next one may be over a device: so
	// where there may be devices, they are such as devices can use.
	var mem ulb.Memory = ulb.HeapMemory{}
	if s.Proto == protoRDMA && s.Provider != providerIWARP && verbs.Available() == nil {
		mem = verbs.SharedMemory()
	}
	r.pool = ulb.NewPool(mem, poolBytes)
	return r
}

func (r *road) close() { r.pool.Close() }

// dial implements nfsclient.Dialer.
func (r *road) dial(ctx context.Context, back ulb.Handler) (nfsclient.Transport, error) {
	var errs []error
	for _, addr := range r.addrs {
		t, err := r.dialOne(ctx, addr, back)
		if err == nil {
			return t, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, joinInLine(errs)
}

func (r *road) dialOne(ctx context.Context, addr string, back ulb.Handler) (nfsclient.Transport, error) {
	c, err := r.choose(ctx, addr)
	if err != nil {
		return nil, err
	}
	var connector rdma.Connector
	switch c.Provider {
	case protoTCP:
		t, err := tcp.Dial(ctx, addr, tcp.Config{Handler: back, Pool: r.pool})
		if err != nil {
			return nil, err
		}
		r.note(c, nil)
		return t, nil
	case providerVerbs:
		connector = new(verbs.Connector)
	default:
		connector = &iwarp.Connector{Config: iwarp.Config{CRC: r.s.CRC}}
	}
	conn, err := rdma.Dial(ctx, connector, addr, rdma.Config{Handler: back, Pool: r.pool})
	if err != nil {
		return nil, err
	}
	r.note(c, conn)
	return conn, nil
}

// choose decides what the next connection to addr goes over. It is asked each
// time: devices come and go.
func (r *road) choose(ctx context.Context, addr string) (choice, error) {
	switch {
	case r.s.Proto == protoTCP:
		return choice{Provider: protoTCP, Addr: addr, Reason: "the option proto asks for it"}, nil
	case r.s.Provider == providerIWARP:
		return choice{Provider: providerIWARP, Addr: addr, Reason: "the option provider asks for it"}, nil
	}
	device, err := r.probe(ctx, addr)
	switch {
	case err == nil && r.s.Provider == providerVerbs:
		return choice{Provider: providerVerbs, Device: device, Addr: addr, Reason: "the option provider asks for it"}, nil
	case err == nil:
		return choice{Provider: providerVerbs, Device: device, Addr: addr, Reason: "the device reaches the server"}, nil
	case ctx.Err() != nil:
		return choice{}, err
	case r.s.Provider == providerVerbs:
		return choice{}, fmt.Errorf("%w; provider=iwarp goes without a device", err)
	}
	return choice{Provider: providerIWARP, Addr: addr, Reason: err.Error()}, nil
}

// note remembers a connection that has been made.
func (r *road) note(c choice, conn *rdma.Conn) {
	r.mu.Lock()
	before := r.last
	r.last, r.rdma = c, conn
	r.mu.Unlock()
	if c == before {
		return
	}
	if before == (choice{}) {
		r.log.Infof("connected over %v: %s", c, c.Reason)
	} else {
		r.log.Warnf("connected over %v: %s; before it was %v", c, c.Reason, before)
	}
	if r.took != nil {
		r.took(c)
	}
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
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last.String()
}

// joinInLine joins errors into one line, as what a command fails with is.
func joinInLine(errs []error) error {
	if len(errs) < 2 {
		return errors.Join(errs...)
	}
	err := errs[0]
	for _, e := range errs[1:] {
		err = fmt.Errorf("%w; %w", err, e)
	}
	return err
}

// explain turns an error of mounting into one line that names the cause and,
// where there is one, the remedy.
func explain(err error, source spec, addrs []string, s settings) error {
	var errno syscall.Errno
	addr := strings.Join(addrs, ", ")
	var status verbs.Status
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
	case errors.As(err, &status):
		return fmt.Errorf("%s: the RDMA device failed: %w; provider=iwarp goes without it", source, err)
	}
	return fmt.Errorf("%s: %w", source, err)
}
