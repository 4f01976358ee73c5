package nfsclient

import (
	"context"
	"errors"
	"time"
)

// Pauses between attempts at something that the server cannot do now. A server
// that recalls a delegation or moves a file to disk answers NFS4ERR_DELAY for as
// long as that takes, and NFS4ERR_GRACE for its grace period.
const (
	minPause = 50 * time.Millisecond
	maxPause = 5 * time.Second
	// maxPatience bounds all pauses of one operation together.
	maxPatience = time.Hour
)

var errPatience = errors.New("nfsclient: server was not able to do it for too long")

// pauseFor returns the pause before attempt n+1, the first being n = 0.
func pauseFor(n int) time.Duration {
	if n >= 7 {
		return maxPause
	}
	return min(minPause<<n, maxPause)
}

// backoff counts the pauses of one operation. Its zero value is ready to use.
type backoff struct {
	n     int
	spent time.Duration
}

// next returns the length of the next pause, or false if patience has run out.
func (b *backoff) next() (time.Duration, bool) {
	if b.spent >= maxPatience {
		return 0, false
	}
	d := pauseFor(b.n)
	b.n++
	b.spent += d
	return d, true
}

// wait makes the next pause. The error is that of the context, or errPatience.
func (b *backoff) wait(ctx context.Context) error {
	d, ok := b.next()
	if !ok {
		return errPatience
	}
	return sleep(ctx, d)
}

// sleep waits for d or until ctx is done.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
