package nfsclient

import "context"

// turn lets one goroutine at a time talk to the server about something. It is
// no lock: whoever waits for it can give up, and whoever has it may wait.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take makes it the caller's turn.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) leave() { <-t }

// taken tells whether it is somebody's turn.
func (t turn) taken() bool { return len(t) > 0 }
