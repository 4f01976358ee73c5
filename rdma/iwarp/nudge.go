package iwarp

import (
	"sync/atomic"
	"time"

	"nfsrdma-fuse/rdma"
)

// nudgeTimer nudges a peer that may have missed a message, see rdma.Nudger, by
// a zero-length RDMA Write. Its methods are called with q.mu held, but for hear
// and stop.
type nudgeTimer struct {
	nudger rdma.Nudger
	heard  atomic.Uint64
	timer  *time.Timer
}

func newNudgeTimer(q *QP) *nudgeTimer {
	t := &nudgeTimer{nudger: rdma.Nudger{First: q.cfg.NudgeAfter}}
	t.timer = time.AfterFunc(time.Hour, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.state != stateOpen {
			return
		}
		t.nudger.Heard = t.heard.Load()
		nudge, again := t.nudger.Fire()
		if again > 0 {
			t.timer.Reset(again)
		}
		if nudge {
			q.nudgeDue = true
			q.wake()
		}
	})
	t.timer.Stop()
	return t
}

func (t *nudgeTimer) sent(k int) {
	t.nudger.Heard = t.heard.Load()
	if d := t.nudger.Sent(k); d > 0 {
		t.timer.Reset(d)
	}
}

func (t *nudgeTimer) received() { t.nudger.Received() }

// hear counts an FPDU of any kind; it needs no lock.
func (t *nudgeTimer) hear() { t.heard.Add(1) }

func (t *nudgeTimer) stop() { t.timer.Stop() }
