package fusefs

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// newTestContext returns a context whose thread is being killed when the
// returned flag is set.
func newTestContext(interrupt chan struct{}) (*opContext, *atomic.Bool) {
	var killed atomic.Bool
	return &opContext{interrupt: interrupt, fatal: killed.Load}, &killed
}

func TestInterruptOfLivingThreadDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupt := make(chan struct{})
		c, _ := newTestContext(interrupt)
		done := c.Done()
		close(interrupt)
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case <-done:
			t.Error("cancelled, though nothing kills the thread")
		default:
		}
		if err := c.Err(); err != nil {
			t.Errorf("Err: %v", err)
		}
		c.end()
		synctest.Wait() // the watcher ends, or the bubble complains
	})
}

func TestInterruptThenKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupt := make(chan struct{})
		c, killed := newTestContext(interrupt)
		start := time.Now()
		time.AfterFunc(time.Second, func() { close(interrupt) })
		time.AfterFunc(10*time.Second, func() { killed.Store(true) })
		<-c.Done()
		if took := time.Since(start); took < 10*time.Second || took > 10*time.Second+2*recheck {
			t.Errorf("cancelled after %v, the thread was killed after 10 s", took)
		}
		if !errors.Is(c.Err(), context.Canceled) {
			t.Errorf("Err: %v", c.Err())
		}
		c.end()
	})
}

func TestKillWithoutInterruptIsNotLookedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &opContext{interrupt: make(chan struct{}), fatal: func() bool {
			t.Error("the thread was looked at without an interrupt")
			return true
		}}
		c.Done()
		time.Sleep(time.Hour)
		c.end()
	})
}

func TestShortRequestStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		interrupt := make(chan struct{})
		c, killed := newTestContext(interrupt)
		killed.Store(true)
		done := c.Done()
		if c.Done() != done {
			t.Error("Done returns different channels")
		}
		c.end()
		close(interrupt) // go-fuse may do so late
		time.Sleep(time.Hour)
		if c.Err() != nil {
			t.Error("cancelled after its end")
		}
		late, _ := newTestContext(interrupt)
		late.end()
		<-time.After(time.Hour)
		select {
		case <-late.Done():
			t.Error("Done after the end is closed")
		default:
		}
	})
}

func TestBeingKilled(t *testing.T) {
	for _, c := range []struct {
		what string
		tid  uint32
		want bool
	}{
		{"a thread that lives", uint32(os.Getpid()), false},
		{"one of another namespace", 0, true},
		{"one that is gone", 1<<31 - 1, true},
	} {
		if got := beingKilled(c.tid); got != c.want {
			t.Errorf("%s: being killed is %v, expected %v", c.what, got, c.want)
		}
	}
}
