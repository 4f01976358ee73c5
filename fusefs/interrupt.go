package fusefs

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Interrupts. The kernel tells of any signal that reaches the waiting thread,
// once, and then waits for the answer. Most signals (timers, children, the
// runtime's own) must not fail the request, or programs see EINTR where they
// never see it on a disk. So a request is cut short only when its thread has
// SIGKILL pending, into which the kernel also turns every other signal that ends
// a process without a core dump; that can come after the one signal that is
// told, so it is looked for again and again.
//
//	patience over        kernel interrupts      thread is being killed,
//	                                            or the connection has ended
//	running ---> watched ---------------> interrupted ------------> cancelled
//	   |            |                          |                        |
//	   +------------+--------------------------+------------------------+---> ended

const (
	// patience is how long a request runs before anyone watches for its
	// interruption: nearly all are answered earlier and cost no goroutine.
	patience = 20 * time.Millisecond
	// recheck is how often an interrupted request looks whether its thread is
	// being killed.
	recheck = 50 * time.Millisecond
)

// opContext is the context of one kernel request.
type opContext struct {
	interrupt <-chan struct{} // closed by the kernel's interrupt or the end of the connection
	fatal     func() bool     // whether an interrupted request shall be cut short

	mu      sync.Mutex
	done    chan struct{} // made by the first Done
	timer   *time.Timer   // runs watch when patience is over
	ended   chan struct{} // made by watch, closed by end
	err     error
	isEnded bool
}

var _ context.Context = (*opContext)(nil)

// Deadline implements context.Context: there is none.
func (c *opContext) Deadline() (time.Time, bool) { return time.Time{}, false }

// Value implements context.Context: there are none.
func (c *opContext) Value(any) any { return nil }

// Done implements context.Context.
func (c *opContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.interrupt != nil && !c.isEnded {
			c.timer = time.AfterFunc(patience, c.watch)
		}
	}
	return c.done
}

// Err implements context.Context.
func (c *opContext) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end says that the request has its answer.
func (c *opContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isEnded = true
	if c.timer != nil {
		c.timer.Stop()
	}
	if c.ended != nil {
		close(c.ended)
	}
}

func (c *opContext) watch() {
	c.mu.Lock()
	if c.isEnded {
		c.mu.Unlock()
		return
	}
	c.ended = make(chan struct{})
	c.mu.Unlock()
	select {
	case <-c.ended:
		return
	case <-c.interrupt:
	}
	tick := time.NewTicker(recheck)
	defer tick.Stop()
	for !c.fatal() {
		select {
		case <-c.ended:
			return
		case <-tick.C:
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = context.Canceled
	close(c.done)
}

// sigkillBit is SIGKILL in the signal masks of /proc/PID/status.
const sigkillBit = 1 << (9 - 1)

// beingKilled tells whether the thread has to end. One that cannot be seen, as
// it is in another PID namespace (0) or gone, counts as ending: its request
// could otherwise never be cut short.
func beingKilled(pid uint32) bool {
	if pid == 0 {
		return true
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigPnd:"); ok {
			pending, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err != nil || pending&sigkillBit != 0
		}
	}
	return true
}
