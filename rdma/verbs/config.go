package verbs

import "time"

// Config are settings of this package, for both ends.
type Config struct {
	// Timeout limits the making of a connection with one peer. 0 means 10
	// seconds.
	Timeout time.Duration
}

const defaultTimeout = 10 * time.Second

func (c Config) timeout() time.Duration {
	if c.Timeout <= 0 {
		return defaultTimeout
	}
	return c.Timeout
}
