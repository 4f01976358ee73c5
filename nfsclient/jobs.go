package nfsclient

import (
	"context"
	"sync"
)

// maxJobs bounds the number of background jobs that run at once: delegations
// being returned, files closed after their owner has gone away.
const maxJobs = 4

// jobs runs functions in the background, a few at a time and in the order in
// which they came. What waits is bounded by what there is to clean up: every
// delegation and every open file causes one job at most.
type jobs struct {
	ctx context.Context
	max int

	mu      sync.Mutex
	queue   []func(context.Context)
	running int
	idle    chan struct{} // closed when nothing runs and nothing waits
	wg      sync.WaitGroup
}

func (j *jobs) init(ctx context.Context, n int) {
	j.ctx, j.max = ctx, n
	j.idle = make(chan struct{})
	close(j.idle)
}

// add runs f soon.
func (j *jobs) add(f func(context.Context)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.running == 0 && len(j.queue) == 0 {
		j.idle = make(chan struct{})
	}
	if j.running == j.max {
		j.queue = append(j.queue, f)
		return
	}
	j.running++
	j.wg.Go(func() { j.work(f) })
}

func (j *jobs) work(f func(context.Context)) {
	for {
		f(j.ctx)
		j.mu.Lock()
		if len(j.queue) == 0 {
			j.running--
			if j.running == 0 {
				close(j.idle)
			}
			j.mu.Unlock()
			return
		}
		f = j.queue[0]
		j.queue[0] = nil
		j.queue = j.queue[1:]
		j.mu.Unlock()
	}
}

// drain waits until nothing runs and nothing waits.
func (j *jobs) drain(ctx context.Context) error {
	j.mu.Lock()
	idle := j.idle
	j.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// wait waits for every job to return; their context is expected to be done.
func (j *jobs) wait() { j.wg.Wait() }

// spawn runs f in the background, under the client's context.
func (c *Client) spawn(f func(context.Context)) { c.jobs.add(f) }
