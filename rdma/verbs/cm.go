//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"unsafe"
)

func localAddr(id *C.struct_vb_cm_id) netip.AddrPort {
	return getSockaddr(C.GoBytes(unsafe.Pointer(&id.src), sockaddrLen))
}

func remoteAddr(id *C.struct_vb_cm_id) netip.AddrPort {
	return getSockaddr(C.GoBytes(unsafe.Pointer(&id.dst), sockaddrLen))
}

// Reasons of the InfiniBand connection manager for turning a connection down.
const (
	rejectNobody   = 8  // there is no such service
	rejectConsumer = 28 // whoever listens does not want it
)

var errRejected = errors.New("the peer turned the connection down")

// step waits for an event of one kind, and makes an error of any other that
// ends the attempt.
func (ch *channel) step(ctx context.Context, want C.int, iwarp bool) (*C.struct_vb_event, error) {
	for {
		ev, err := ch.next(ctx)
		if err != nil {
			return nil, err
		}
		switch ev._type {
		case want:
			return ev, nil
		case C.VB_CM_ADDR_ERROR:
			return nil, fmt.Errorf("no RDMA device reaches it: %w", cmStatus(int(ev.status)))
		case C.VB_CM_ROUTE_ERROR:
			return nil, fmt.Errorf("no RDMA route: %w", cmStatus(int(ev.status)))
		case C.VB_CM_UNREACHABLE:
			if ev.status == 0 || int(ev.status) == -int(syscall.ETIMEDOUT) {
				return nil, fmt.Errorf("no answer to the RDMA connection request: %w", syscall.ETIMEDOUT)
			}
			return nil, fmt.Errorf("unreachable: %w", cmStatus(int(ev.status)))
		case C.VB_CM_CONNECT_ERROR:
			return nil, fmt.Errorf("connection could not be set up: %w", cmStatus(int(ev.status)))
		case C.VB_CM_REJECTED:
			switch {
			case iwarp && ev.status < 0:
				return nil, fmt.Errorf("%w: %w", errRejected, cmStatus(int(ev.status)))
			case !iwarp && ev.status == rejectNobody:
				return nil, fmt.Errorf("nobody listens there for RDMA connections: %w", syscall.ECONNREFUSED)
			case !iwarp && ev.status == rejectConsumer:
				return nil, fmt.Errorf("%w: %w", errRejected, syscall.ECONNREFUSED)
			}
			return nil, fmt.Errorf("%w (reason %d)", errRejected, int(ev.status))
		case C.VB_CM_DEVICE_REMOVAL:
			return nil, ErrDeviceRemoved
		case C.VB_CM_DISCONNECTED:
			return nil, fmt.Errorf("the peer went away during the connection setup: %w", syscall.ECONNRESET)
		}
	}
}
