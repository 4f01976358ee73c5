package iwarp

import (
	"context"
	"net"
	"time"
)

// Config are settings of this adapter, for both ends.
type Config struct {
	// CRC asks the peer for CRC32c on every FPDU. Without it, checksums are
	// used only if the peer wants them (RFC 5044 section 4.4).
	CRC bool

	// MaxULPDU is the largest ULPDU sent, in bytes, headers included; from
	// 128 to 65535, 0 means the largest. What a peer sends is accepted up to
	// 65535 in any case.
	MaxULPDU int

	// Timeout limits the exchange of the MPA frames with one peer. 0 means 10
	// seconds.
	Timeout time.Duration

	// NudgeAfter is how long the connecting end waits for a first answer
	// before it nudges the peer (see nudge.go); 0 means 50 ms, a negative value
	// switches nudging off.
	NudgeAfter time.Duration

	// DialContext replaces the TCP dialler of the connecting end; nil means
	// net.Dialer. Connections other than *net.TCPConn work, with one more copy.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

const (
	defaultTimeout    = 10 * time.Second
	defaultNudgeAfter = 50 * time.Millisecond

	// largestULPDU leaves tagged segments a payload of 1023 cache lines.
	largestULPDU  = taggedLen + 1023*64
	smallestULPDU = 128 // RFC 5044 section 4.5
)

func (c Config) withDefaults() Config {
	switch {
	case c.MaxULPDU == 0:
		c.MaxULPDU = largestULPDU
	case c.MaxULPDU < smallestULPDU:
		c.MaxULPDU = smallestULPDU
	case c.MaxULPDU > maxULPDU:
		c.MaxULPDU = maxULPDU
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.NudgeAfter == 0 {
		c.NudgeAfter = defaultNudgeAfter
	}
	if c.DialContext == nil {
		c.DialContext = new(net.Dialer).DialContext
	}
	return c
}
