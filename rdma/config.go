package rdma

import (
	"fmt"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// Port is the port on which NFS servers listen for RPC-over-RDMA (RFC 8267
// section 9).
const Port = 20049

// Config is what a connection is made with. Its zero value is good for a
// client without callbacks.
type Config struct {
	// Handler answers the calls of the peer: callbacks at the connecting end,
	// all requests at the accepting end. With nil they stay unanswered.
	Handler ulb.Handler
	// InlineSize is the length in bytes of the longest message that this end
	// sends and receives inline, transport header included: a multiple of 1024
	// from 1024 to 65536. Zero means 4096.
	InlineSize int
	// Credits is the number of forward calls at once: what the connecting end
	// asks for, and what the accepting end grants; 1 to 1024. Zero means 64.
	Credits int
	// BackCredits is the same in the backward direction, where the accepting
	// end asks and the connecting end grants; 1 to 1024. Zero means 16.
	BackCredits int
	// Pool is where payload buffers come from. Its memory must be usable for
	// the queue pair. With nil the connection has a pool of its own, of
	// PoolBytes bytes.
	Pool *ulb.Pool
	// PoolBytes is the limit of the connection's own pool. Zero means 32 MiB.
	PoolBytes int
	// LongBytes is the limit in bytes of the memory in which calls and replies
	// lie that are too long for an inline message. Zero means 16 MiB.
	LongBytes int
}

const (
	maxInline  = 64 << 10
	maxCredits = 1024
	// slack is the number of receive buffers posted beyond what credits call
	// for: a peer may count a little differently.
	slack = 8
	// clientReads is the number of RDMA Reads that a connecting end lets the
	// peer have outstanding. Servers refuse a client that allows none.
	clientReads = 16
	// maxBatch bounds the work requests that a responder posts at once.
	maxBatch = 32
)

func (c Config) withDefaults() (Config, error) {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&c.InlineSize, 4096)
	set(&c.Credits, 64)
	set(&c.BackCredits, 16)
	set(&c.PoolBytes, 32<<20)
	set(&c.LongBytes, 16<<20)
	switch {
	case c.InlineSize < rpcrdma.DefaultInline || c.InlineSize > maxInline || c.InlineSize%1024 != 0:
		return c, fmt.Errorf("rdma: inline size of %d bytes, want a multiple of 1024 up to %d", c.InlineSize, maxInline)
	case c.Credits < 1 || c.Credits > maxCredits || c.BackCredits < 1 || c.BackCredits > maxCredits:
		return c, fmt.Errorf("rdma: %d credits and %d backward, want 1 to %d", c.Credits, c.BackCredits, maxCredits)
	case c.PoolBytes < ulb.MinBuffer || c.LongBytes < ulb.MinBuffer:
		return c, fmt.Errorf("rdma: less than %d bytes of buffers", ulb.MinBuffer)
	}
	return c, nil
}

// receives is the number of receive buffers kept posted: one for every call of
// the peer and for every reply, in both directions (RFC 8167 section 4.3).
func (c *Config) receives() int { return c.Credits + c.BackCredits + slack }

// sends is the depth of the send queue: for every call or reply the message,
// and the RDMA operations that usually go with it.
func (c *Config) sends() int { return 3*(c.Credits+c.BackCredits) + 2*maxBatch }

// plainPrivateData is for a device that cannot take remote invalidation.
func (c *Config) plainPrivateData() []byte {
	p := c.privateData()
	p.Invalidate = false
	return p.AppendTo(nil)
}

func (c *Config) privateData() rpcrdma.PrivateData {
	return rpcrdma.PrivateData{Invalidate: true, SendSize: c.InlineSize, RecvSize: c.InlineSize}
}
