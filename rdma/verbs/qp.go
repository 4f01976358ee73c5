//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

const (
	// maxGather is the most pieces of memory of a work request, where the
	// device allows it.
	maxGather = 16
	// maxSegment is the most bytes of a work request or a handle.
	maxSegment = 1 << 30
	// tellTime is how long the end of a connection may wait for the peer to
	// be told of its fault, drainTime how long it waits for the device to
	// give back what was posted before the queue pair is destroyed under it,
	// and doubtTime how long it looks for the reason why a device has flushed
	// its queues.
	tellTime  = 500 * time.Millisecond
	drainTime = 3 * time.Second
	doubtTime = time.Second
)

// QP is a queue pair on an RDMA device. It implements rdma.QueuePair.
//
//	preparing ── opened ──> open ──> telling ──> draining ── all is back ──> ended
//	    │                     └───────────────────^                            ^
//	    └── Close ─────────────────────────────────────────────────────────────┘
//
// preparing: receive buffers can be posted. open: everything. telling: the peer
// is being told of its fault. draining: the queue pair is in the error state, or
// destroyed, and what was posted comes back. enter is the only method that
// changes the state.
type QP struct {
	dev  *device
	info rdma.Info
	ch   *channel
	id   *C.struct_vb_cm_id
	cq   watch          // the completion channel
	key  unsafe.Pointer // the library's queue pair, as a name

	maxRecvs, depth int // of the queues; depth is the device's send queue

	life   sync.RWMutex  // held for reading while registering, for writing to let the device go
	events chan struct{} // closed when the goroutine for events has ended; nil: none
	closed sync.Once
	err2   error // of Close

	mu    sync.Mutex
	state state
	err   error // why the connection ended
	c     *C.struct_vb_conn
	until time.Time // when to look again although nothing happened; zero: never

	sq      sendQueue
	rq      recvQueue
	binds   []work // to go out before the next work request
	users   int    // work requests posted and not polled, own ones not counted
	reads   int    // of them RDMA Reads
	handles map[rdma.Handle]exposure
	win     windows
	nudge   *nudge // nil: none
	drops   dropper
	done    []rdma.Completion // to be polled
	scratch ulb.Buffer        // for telling the peer

	ended sync.Cond // broadcast when the state is ended
	woken bool
	armed time.Time // the deadline that cq has
	signs signs
}

type state uint8

const (
	statePreparing state = iota
	stateOpen
	stateTelling
	stateDraining
	stateEnded
)

func (s state) String() string {
	return [...]string{"preparing", "open", "telling", "draining", "ended"}[s]
}

// enter changes the state. The caller holds q.mu.
func (q *QP) enter(s state) {
	if s <= q.state {
		panic(fmt.Sprintf("verbs: state %v after %v", s, q.state))
	}
	q.state = s
}

// newQP makes the queue pair for an id whose device is known. The queue pair
// owns id and ch from then on, also if it fails.
func newQP(id *C.struct_vb_cm_id, ch *channel, o rdma.Options) (_ *QP, err error) {
	q := &QP{id: id, ch: ch, handles: make(map[rdma.Handle]exposure), maxRecvs: o.MaxReceives}
	q.ended.L, q.drops.idle.L = &q.mu, &q.mu
	defer func() {
		if err != nil {
			err = errors.Join(err, q.free())
		}
	}()
	if q.dev, err = openDevice(id.verbs); err != nil {
		return nil, err
	}
	l := &q.dev.lim
	q.depth = o.MaxSends + 1 // one for telling the peer
	if l.iwarp {
		q.depth++ // one for nudging it
	}
	if l.windows > 0 {
		q.depth += min(o.MaxSends, 64) // bindings
	}
	q.depth = min(q.depth, l.queue)
	if q.maxRecvs > l.queue || q.depth+q.maxRecvs > l.cqe {
		return nil, fmt.Errorf("verbs: %s has no queues for %d messages to send and %d to receive (it allows %d in a queue, %d completions)",
			l.name, o.MaxSends, o.MaxReceives, l.queue, l.cqe)
	}
	q.info = rdma.Info{
		Provider: "verbs", Device: l.name,
		// Which registrations a peer may withdraw differs from device to device.
		NoInvalidate: l.windows == 0,
		MaxSegment:   int(min(l.mrSize, maxSegment)), MaxGather: min(l.gather, maxGather), MaxSends: o.MaxSends,
	}
	q.rq.ring = make([]*ulb.Buffer, max(1, q.maxRecvs))
	if q.scratch.Data, q.scratch.Region, err = shared.Alloc(ulb.PageSize); err != nil {
		return nil, err
	}
	r := C.vb_conn_make(id, q.dev.pd, C.int(q.depth), C.int(max(1, q.maxRecvs)), C.int(q.info.MaxGather), C.int(q.depth+q.maxRecvs+1), &q.c)
	if err := errno(r); err != nil {
		return nil, fmt.Errorf("verbs: %s: making a queue pair: %w", l.name, err)
	}
	if q.cq, err = newWatch(q.c.channel.fd, "completions of "+l.name); err != nil {
		return nil, err
	}
	q.key = unsafe.Pointer(q.c.qp)
	q.dev.add(q.key, q)
	return q, nil
}

// agreed fills in what is known when the connection has been made.
func (q *QP) agreed(private []byte, ord int) {
	q.info.PrivateData = private
	q.info.ReadDepth = ord
	q.info.LocalAddr = localAddr(q.id).String()
	q.info.RemoteAddr = remoteAddr(q.id).String()
}

// opened begins the life of the queue pair after the connection has been made.
func (q *QP) opened() {
	q.mu.Lock()
	q.enter(stateOpen)
	q.mu.Unlock()
	q.events = make(chan struct{})
	go q.watchEvents()
}

// Info implements rdma.QueuePair.
func (q *QP) Info() rdma.Info { return q.info }

// Memory implements rdma.QueuePair.
func (q *QP) Memory() ulb.Memory { return q.dev.mem }

// refusal returns the error for what is refused because of the state. The
// caller holds q.mu.
func (q *QP) refusal() error {
	if q.err != nil {
		return q.err
	}
	return errors.New("verbs: the connection is not up")
}

// Disconnect implements rdma.QueuePair.
func (q *QP) Disconnect(cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state >= stateTelling {
		return
	}
	var fault *rdma.ProtocolError
	tell := errors.As(cause, &fault)
	if cause == nil {
		cause = fmt.Errorf("verbs: connection to %s: %w", q.info.RemoteAddr, rdma.ErrClosed)
	}
	if tell && q.state == stateOpen && q.tell() {
		q.err = cause
		return
	}
	q.teardown(cause)
}

// tell makes the peer notice a fault of its own, for which InfiniBand has no
// message: an RDMA Write to a handle that cannot exist ends the connection at
// the peer with an access error. On iWARP the peer gets a Terminate of its own
// device that way. It reports false if there is no room for it. The caller holds
// q.mu.
func (q *QP) tell() bool {
	if q.sq.posted < q.sq.tail || int(q.sq.tail-q.sq.head) >= q.depth {
		return false
	}
	at, reg, err := q.dev.mem.locate(q.dev, &q.scratch, 0, 1)
	if err != nil {
		return false
	}
	w := q.sq.push()
	w.kind, w.op = telling, rdma.OpWrite
	w.local = append(w.local, piece{at, 1, reg.key})
	q.pump()
	q.enter(stateTelling)
	q.lookAgain(tellTime)
	return true
}

// teardown ends the connection because of err; only the first reason counts.
// The caller holds q.mu.
func (q *QP) teardown(err error) {
	if q.state >= stateDraining {
		return
	}
	if q.err == nil {
		q.err = err
	}
	was := q.state
	q.enter(stateDraining)
	if q.c != nil {
		// Either may fail because the peer or the device was faster; what
		// counts is that everything comes back, and Poll sees to that.
		if was != statePreparing {
			_ = errno(C.vb_id_disconnect(q.id))
		}
		_ = errno(C.vb_qp_to_error(q.c))
	}
	q.lookAgain(drainTime)
}

// lookAgain has Poll look at the state now, and again after d. The caller
// holds q.mu.
func (q *QP) lookAgain(d time.Duration) {
	q.until = time.Now().Add(d)
	q.wake()
}

// late reports whether the time to look again has come. The caller holds q.mu.
func (q *QP) late() bool { return !q.until.IsZero() && !time.Now().Before(q.until) }

// wake has Poll look at the state. The caller holds q.mu.
func (q *QP) wake() {
	if !q.woken && q.cq.file != nil {
		q.woken, q.armed = true, past
		q.cq.wake()
	}
}

// Close implements rdma.QueuePair.
func (q *QP) Close() error {
	q.closed.Do(func() {
		q.Disconnect(nil)
		q.err2 = q.free()
	})
	return q.err2
}

// free frees the queue pair and everything that belongs to it.
func (q *QP) free() error {
	if q.nudge != nil {
		q.nudge.timer.Stop()
	}
	// Closing a watch waits until nobody is in a call for it any more.
	q.ch.w.close()
	if q.events != nil {
		<-q.events
	}
	if q.cq.file != nil {
		q.cq.close()
	}
	var errs []error
	if q.key != nil {
		q.dev.remove(q.key, q)
	}
	q.life.Lock() // waits until nobody registers memory any more
	defer q.life.Unlock()
	q.mu.Lock()
	if q.c != nil {
		for !q.reap() {
			continue
		}
	}
	errs = append(errs, q.destroy())
	q.finish()
	q.mu.Unlock()
	if q.scratch.Data != nil {
		shared.Free(q.scratch.Data, q.scratch.Region)
	}
	errs = append(errs, destroyID(q.id))
	C.vb_cm_close(q.ch.c)
	if q.dev != nil {
		errs = append(errs, q.dev.release())
	}
	return errors.Join(errs...)
}
