package tcp

import (
	"fmt"
	"time"

	"nfsrdma-fuse/ulb"
)

// Port is the port on which NFS servers listen (RFC 8881 section 2.9.3).
const Port = 2049

// Config is what a connection is made with. Its zero value is good for a
// client without callbacks.
type Config struct {
	// Handler answers the calls of the peer: callbacks at the connecting end,
	// all requests at the accepting end. With nil they stay unanswered.
	Handler ulb.Handler
	// MaxPayload is the largest bulk argument or result of a call in bytes,
	// up to 4 MiB. A record may be Overhead longer. Zero means 1 MiB.
	MaxPayload int
	// MaxCalls is the number of calls that can be outstanding at once; 1 to
	// 1024. One more is possible for a probe. Zero means 64.
	MaxCalls int
	// MaxServe is the number of the peer's calls that are served at once; 1 to
	// 1024. Zero means 128.
	MaxServe int
	// Pool is where payload buffers come from. With nil the connection has a
	// pool of its own, of PoolBytes bytes.
	Pool *ulb.Pool
	// PoolBytes is the limit in bytes of a pool of the connection's own. Zero
	// means 32 MiB.
	PoolBytes int
	// KeepAlive is how long the connection is silent before the kernel probes
	// whether the peer is still there; three probes in as long again without
	// an answer end it. Zero means 30 seconds, less than zero never.
	KeepAlive time.Duration
}

// Overhead is what a record may be longer than the largest payload, bytes.
const Overhead = 64 << 10

const (
	maxPayload    = 4 << 20
	maxConcurrent = 1024
	// replySlack is what a reply may be longer than its call expects, bytes: a
	// verifier, a tag.
	replySlack = 1024
	// maxFragments is the number of fragments that a record may come in.
	maxFragments = 4096
	keepAlives   = 3
)

func (c Config) withDefaults() (Config, error) {
	set := func(v *int, def int) {
		if *v == 0 {
			*v = def
		}
	}
	set(&c.MaxPayload, 1<<20)
	set(&c.MaxCalls, 64)
	set(&c.MaxServe, 128)
	set(&c.PoolBytes, 32<<20)
	if c.KeepAlive == 0 {
		c.KeepAlive = 30 * time.Second
	}
	switch {
	case c.MaxPayload < 1 || c.MaxPayload > maxPayload:
		return c, fmt.Errorf("tcp: payload of %d bytes, want 1 to %d", c.MaxPayload, maxPayload)
	case c.MaxCalls < 1 || c.MaxCalls > maxConcurrent || c.MaxServe < 1 || c.MaxServe > maxConcurrent:
		return c, fmt.Errorf("tcp: %d calls and %d served at once, want 1 to %d", c.MaxCalls, c.MaxServe, maxConcurrent)
	case c.Pool == nil && c.PoolBytes < ulb.MinBuffer:
		return c, fmt.Errorf("tcp: pool of %d bytes, want at least %d", c.PoolBytes, ulb.MinBuffer)
	}
	return c, nil
}

// maxRecord is the longest record in bytes that is sent or taken.
func (c *Config) maxRecord() int { return c.MaxPayload + Overhead }
