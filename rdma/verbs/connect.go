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
	"time"
	"unsafe"

	"nfsrdma-fuse/rdma"
)

// Connector connects queue pairs on the RDMA device that reaches the peer's
// address. The zero value is ready for use. It implements rdma.Connector.
type Connector struct {
	Config Config
}

// Connect implements rdma.Connector. It tries the addresses that a name has one
// after the other, of both IP versions. Options.Prepare is called before the
// request is sent.
func (c *Connector) Connect(ctx context.Context, addr string, o rdma.Options) (rdma.QueuePair, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Config.timeout())
	defer cancel()
	var q *QP
	err := eachAddress(ctx, addr, func(ap netip.AddrPort) (err error) {
		q, err = connect(ctx, ap, o)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("verbs: connecting to %s: %w", addr, err)
	}
	return q, nil
}

// Probe returns the name of the RDMA device that reaches addr ("host:port").
// Nothing is sent to the peer but what the resolution of its address needs.
func (c *Connector) Probe(ctx context.Context, addr string) (device string, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Config.timeout())
	defer cancel()
	err = eachAddress(ctx, addr, func(ap netip.AddrPort) error {
		ch, id, err := resolve(ctx, ap)
		if err != nil {
			return err
		}
		defer ch.close()
		defer destroyID(id)
		var l C.struct_vb_limits
		err = errno(C.vb_limits_get(id.verbs, &l))
		device = C.GoString(&l.name[0])
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s: %w", addr, err)
	}
	return device, nil
}

// eachAddress calls f for the addresses of a host until it succeeds.
func eachAddress(ctx context.Context, addr string, f func(netip.AddrPort) error) error {
	if err := Available(); err != nil {
		return err
	}
	host, service, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", service)
	if err != nil {
		return err
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range addrs {
		if err = f(netip.AddrPortFrom(a.Unmap(), uint16(port))); err == nil || ctx.Err() != nil {
			return err
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// resolve returns an id with the device and the route to ap. The caller
// destroys it, and then closes the channel.
func resolve(ctx context.Context, ap netip.AddrPort) (_ *channel, _ *C.struct_vb_cm_id, err error) {
	ch, err := newChannel()
	if err != nil {
		return nil, nil, err
	}
	var id *C.struct_vb_cm_id
	if err := errno(C.vb_id_create(ch.c, &id)); err != nil {
		ch.close()
		return nil, nil, fmt.Errorf("creating an RDMA connection: %w", err)
	}
	defer func() {
		if err != nil {
			_ = destroyID(id) // the first error tells more
			ch.close()
		}
	}()
	sa := putSockaddr(ap)
	if err := errno(C.vb_id_resolve_addr(id, unsafe.Pointer(&sa[0]), millis(ctx))); err != nil {
		return nil, nil, fmt.Errorf("no RDMA device reaches it: %w", err)
	}
	if _, err := ch.step(ctx, C.VB_CM_ADDR_RESOLVED, false); err != nil {
		return nil, nil, err
	}
	probed(id.verbs)
	if err := errno(C.vb_id_resolve_route(id, millis(ctx))); err != nil {
		return nil, nil, fmt.Errorf("no RDMA route: %w", err)
	}
	if _, err := ch.step(ctx, C.VB_CM_ROUTE_RESOLVED, false); err != nil {
		return nil, nil, err
	}
	return ch, id, nil
}

// millis is the time that is left, for the kernel.
func millis(ctx context.Context) C.int {
	d := defaultTimeout
	if t, ok := ctx.Deadline(); ok {
		d = time.Until(t)
	}
	return C.int(max(1, min(d, time.Minute)/time.Millisecond))
}

func connect(ctx context.Context, ap netip.AddrPort, o rdma.Options) (_ *QP, err error) {
	ch, id, err := resolve(ctx, ap)
	if err != nil {
		return nil, err
	}
	q, err := newQP(id, ch, o)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, q.Close())
		}
	}()
	q.agreed(nil, 0)
	if q.dev.lim.iwarp {
		q.nudge = newNudge(q)
	}
	if o.Prepare != nil {
		if err := o.Prepare(q); err != nil {
			return nil, err
		}
	}
	l := &q.dev.lim
	data, n, err := q.privateData(&o)
	if err != nil {
		return nil, err
	}
	r := C.vb_id_connect(id, data, n, C.uint8_t(depth(o.IRD, l.ird)), C.uint8_t(depth(o.ORD, l.ord)))
	if err := errno(r); err != nil {
		return nil, fmt.Errorf("asking for a connection: %w", err)
	}
	ev, err := ch.step(ctx, C.VB_CM_ESTABLISHED, l.iwarp)
	if err != nil {
		return nil, err
	}
	q.agreed(private(ev), min(depth(o.ORD, l.ord), int(ev.initiator_depth)))
	q.opened()
	return q, nil
}

// depth is a number of RDMA Reads that device and connection manager can do.
func depth(want, device int) int { return max(0, min(want, device, 255)) }

// privateData returns what the peer is to be sent, and its length.
func (q *QP) privateData(o *rdma.Options) (unsafe.Pointer, C.uint8_t, error) {
	data := o.PrivateData
	if q.info.NoInvalidate && o.PlainPrivateData != nil {
		data = o.PlainPrivateData
	}
	if len(data) > 255 {
		return nil, 0, fmt.Errorf("%d bytes of private data", len(data))
	}
	return unsafe.Pointer(unsafe.SliceData(data)), C.uint8_t(len(data)), nil
}
