package nfsclient

import (
	"context"
	"time"

	"github.com/sirupsen/logrus"

	"nfsrdma-fuse/ulb"
)

// Transport is one connection that carries calls: package rdma's and package
// tcp's connections implement it.
type Transport interface {
	// Send gives a call to the connection. It waits for a credit until ctx is
	// done. An error means that nothing was sent and that c.Done will not be
	// called.
	Send(ctx context.Context, c *ulb.Call) error
	// Limits are what the connection can carry.
	Limits() ulb.Limits
	// Pool is where payload buffers for this connection come from. Buffers of
	// one transport must be usable with every later transport of the same
	// Dialer, and stay valid after Close.
	Pool() *ulb.Pool
	// Done is closed when the connection has ended and every outstanding
	// call has got its Done.
	Done() <-chan struct{}
	// Err tells why the connection ended, or nil as long as it has not.
	Err() error
	// Close ends the connection and returns when Done is closed.
	Close() error
}

// Dialer connects to the server. Callbacks that arrive on the connection go
// to back. It is called again whenever the connection was lost.
type Dialer func(ctx context.Context, back ulb.Handler) (Transport, error)

// Options say how to be a client of a server. Only Dial is required.
type Options struct {
	// Dial makes connections to the server.
	Dial Dialer

	// Server is the server's name for logs, errors and the client owner. Empty
	// means "server".
	Server string
	// HostName is this machine's name, for AUTH_SYS and the client owner. Empty
	// means what the system says.
	HostName string
	// Unique is added to the client owner, by which the server tells clients
	// apart (RFC 8881 section 2.4): two clients that run at the same time must
	// not have the same host name and Unique. Empty means a random one, so
	// that no state of an earlier run can be taken over.
	Unique string

	// MinorVersion is the NFSv4 minor version to use, 1 or 2. Zero means 2,
	// or 1 if the server does not have 2.
	MinorVersion uint32

	// RSize and WSize are the largest READ and WRITE in bytes. Zero means as
	// much as server and transport allow. The outcome is in Client.Limits.
	RSize, WSize int
	// Slots is the number of requests that may be outstanding in the session.
	// Zero means 64. The server may grant fewer.
	Slots int

	// Timeout is how long the connection may stay silent, with calls
	// outstanding, before it is given up and made anew; half-way a health check
	// is sent. Zero means one minute.
	Timeout time.Duration
	// Soft makes operations fail with ETIMEDOUT when the server has not
	// answered for (Retrans+1) * Timeout. Otherwise they wait as long as
	// their context allows.
	Soft bool
	// Retrans is for Soft; zero means 2.
	Retrans int

	// MaxUncommitted is the number of bytes of payload memory that may be
	// held for written data which the server has not yet committed to stable
	// storage. Beyond it writers wait for a COMMIT. Zero means 16 MiB.
	MaxUncommitted int
	// MaxDelegations is the number of delegations kept; beyond it the one
	// longest unused is returned. Zero means 512.
	MaxDelegations int
	// NoDelegations asks the server for none.
	NoDelegations bool

	// Log takes what an administrator may want to know. Nil discards it.
	Log logrus.FieldLogger
}

// Defaults of Options.
const (
	defaultTimeout        = time.Minute
	defaultRetrans        = 2
	defaultSlots          = 64
	defaultMaxUncommitted = 16 << 20
	defaultMaxDelegations = 512
)
