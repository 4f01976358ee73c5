package verbs

import "time"

// Config are settings of this package, for both ends.
type Config struct {
	// Timeout limits the making of a connection with one peer. 0 means 10
	// seconds.
	Timeout time.Duration
}
