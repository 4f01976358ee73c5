//go:build !cgo || !linux

package verbs

import (
	"context"
	"errors"
	"net"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

var errNotBuilt = errors.New("verbs: this program was built without RDMA devices (CGO_ENABLED=0, or not for Linux); software iWARP works")

// Available returns why RDMA devices cannot be used, or nil if they can.
func Available() error { return errNotBuilt }

// Memory is payload memory; here it is ordinary, for there is no device to use
// it.
type Memory struct{ ulb.HeapMemory }

var shared Memory

// SharedMemory returns the memory that all queue pairs of this package use.
func SharedMemory() *Memory { return &shared }

// Connector connects queue pairs on RDMA devices; here it only says why it
// cannot.
type Connector struct {
	Config Config
}

// Connect implements rdma.Connector.
func (*Connector) Connect(context.Context, string, rdma.Options) (rdma.QueuePair, error) {
	return nil, errNotBuilt
}

// Probe returns the device that reaches addr.
func (*Connector) Probe(context.Context, string) (string, error) { return "", errNotBuilt }

// Listener accepts queue pairs on RDMA devices; here there is none.
type Listener struct{}

// Listen returns why it cannot.
func Listen(string, Config) (*Listener, error) { return nil, errNotBuilt }

// Accept implements rdma.Listener.
func (*Listener) Accept(context.Context, rdma.Options) (rdma.QueuePair, error) {
	return nil, errNotBuilt
}

// Addr implements rdma.Listener.
func (*Listener) Addr() net.Addr { return nil }

// Close implements rdma.Listener.
func (*Listener) Close() error { return errNotBuilt }
