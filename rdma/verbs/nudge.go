//go:build cgo && linux

package verbs

import (
	"time"

	"nfsrdma-fuse/rdma"
)

// nudgeAfter is how long the connecting end on iWARP waits for a first answer
// before it nudges the peer.
const nudgeAfter = 50 * time.Millisecond

// nudge nudges a peer that may have missed a message, see rdma.Nudger, by an
// RDMA Write of no bytes; guarded by QP.mu.
type nudge struct {
	nudger rdma.Nudger
	timer  *time.Timer
}

// newNudge is called for the connecting end on iWARP devices.
func newNudge(q *QP) *nudge {
	n := &nudge{nudger: rdma.Nudger{First: nudgeAfter}}
	n.timer = time.AfterFunc(time.Hour, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.state != stateOpen {
			return
		}
		now, again := n.nudger.Fire()
		if again > 0 {
			n.timer.Reset(again)
		}
		if now && int(q.sq.tail-q.sq.head) < q.depth {
			w := q.sq.push()
			w.kind, w.op = nudging, rdma.OpWrite
			q.pump()
		}
	})
	n.timer.Stop()
	return n
}

// sent counts the Sends of a batch.
func (n *nudge) sent(batch []rdma.WorkRequest) {
	k := 0
	for i := range batch {
		if op := batch[i].Op; op == rdma.OpSend || op == rdma.OpSendInvalidate {
			k++
		}
	}
	if d := n.nudger.Sent(k); d > 0 {
		n.timer.Reset(d)
	}
}

// received counts a message of the peer.
func (n *nudge) received() {
	n.nudger.Heard++
	n.nudger.Received()
}
