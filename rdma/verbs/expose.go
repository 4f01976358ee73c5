//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"fmt"
	"sync"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// exposure is memory that the peer may touch: through a window, by a
// registration of its own, or both.
type exposure struct {
	win *window
	mr  *C.struct_vb_mr
}

// Expose implements rdma.QueuePair.
func (q *QP) Expose(buf *ulb.Buffer, off, n int, access rdma.Access) (rdma.Remote, error) {
	if n < 1 || n > q.info.MaxSegment {
		return rdma.Remote{}, fmt.Errorf("verbs: cannot expose %d bytes", n)
	}
	if access != rdma.RemoteRead && access != rdma.RemoteWrite {
		return rdma.Remote{}, fmt.Errorf("verbs: unknown kind of access %d", access)
	}
	if q.dev.lim.windows == 0 {
		return q.register(buf, off, n, access)
	}
	var own *C.struct_vb_mr
	if q.dev.lim.rxe {
		// rxe checks the bounds of the registration that a window is bound to,
		// not those of the window: so it gets one with the same bounds.
		var err error
		if own, err = q.registerOwn(buf, off, n, C.VB_ACCESS_LOCAL_WRITE|C.VB_ACCESS_MW_BIND); err != nil {
			return rdma.Remote{}, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	r, err := q.bind(buf, off, n, access, own)
	if err != nil && own != nil {
		q.drop(drop{mr: own})
	}
	return r, err
}

// bind binds a window, to a registration of its own if there is one. The caller
// holds q.mu.
func (q *QP) bind(buf *ulb.Buffer, off, n int, access rdma.Access, own *C.struct_vb_mr) (rdma.Remote, error) {
	if q.state != stateOpen {
		return rdma.Remote{}, q.refusal()
	}
	at, reg, err := q.dev.mem.locate(q.dev, buf, off, n)
	if err != nil {
		return rdma.Remote{}, err
	}
	mr := own
	if mr == nil {
		mr = reg.mr.(*C.struct_vb_mr)
	}
	w, err := q.win.take(q.dev)
	if err != nil {
		return rdma.Remote{}, err
	}
	r := rdma.Remote{Handle: rdma.Handle(w.next()), Offset: uint64(at)}
	q.handles[r.Handle] = exposure{win: w, mr: own}
	q.binds = append(q.binds, work{
		kind: binding, remote: r, win: w, mr: mr, access: access, local: []piece{{addr: at, n: n}},
	})
	return r, nil
}

// registerOwn registers a piece of a buffer by itself.
func (q *QP) registerOwn(buf *ulb.Buffer, off, n int, flags C.int) (*C.struct_vb_mr, error) {
	q.life.RLock()
	defer q.life.RUnlock()
	q.mu.Lock()
	open, refusal := q.state == stateOpen, q.refusal()
	q.mu.Unlock()
	if !open {
		return nil, refusal
	}
	at, _, err := q.dev.mem.locate(q.dev, buf, off, n)
	if err != nil {
		return nil, err
	}
	return q.dev.reg(at, n, flags)
}

// register is Expose for devices without memory windows.
func (q *QP) register(buf *ulb.Buffer, off, n int, access rdma.Access) (rdma.Remote, error) {
	flags := accessFlags(access)
	if access == rdma.RemoteWrite {
		flags |= C.VB_ACCESS_LOCAL_WRITE // remote write needs it
	}
	mr, err := q.registerOwn(buf, off, n, flags)
	if err != nil {
		return rdma.Remote{}, err
	}
	at := uint64(uintptr(mr.addr))
	r := rdma.Remote{Handle: rdma.Handle(mr.rkey), Offset: at}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != stateOpen {
		q.drop(drop{mr: mr})
		return rdma.Remote{}, q.refusal()
	}
	q.handles[r.Handle] = exposure{mr: mr}
	return r, nil
}

// leave takes a handle that is being invalidated out of the table. The caller
// holds q.mu.
func (q *QP) leave(w *rdma.WorkRequest) {
	e := q.handles[w.Remote.Handle]
	delete(q.handles, w.Remote.Handle)
	if e.win == nil {
		q.drop(drop{mr: e.mr, cookie: w.Cookie, user: true})
	}
}

// withdrawn notes that the peer has invalidated a handle. The caller holds
// q.mu.
func (q *QP) withdrawn(h rdma.Handle) {
	e, ok := q.handles[h]
	if !ok {
		return
	}
	delete(q.handles, h)
	if e.win != nil {
		q.win.give(e.win)
	}
	if e.mr != nil {
		q.drop(drop{mr: e.mr})
	}
}

// dropper takes back registrations, which takes too long for whoever polls.
type dropper struct {
	queue, spare []drop
	busy         bool // the goroutine runs
	idle         sync.Cond
}

// drop is a registration to be taken back.
type drop struct {
	mr     *C.struct_vb_mr
	cookie any
	user   bool // somebody waits for the completion
}

// drop hands a registration to the goroutine. The caller holds q.mu.
func (q *QP) drop(d drop) {
	q.drops.queue = append(q.drops.queue, d)
	if !q.drops.busy {
		q.drops.busy = true
		go q.runDrops()
	}
}

func (q *QP) runDrops() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.drops.queue) > 0 {
		batch := q.drops.queue
		q.drops.queue = q.drops.spare[:0]
		q.mu.Unlock()
		errs := make([]error, len(batch))
		for i := range batch {
			errs[i] = errno(C.vb_mr_free(batch[i].mr))
		}
		q.mu.Lock()
		for i := range batch {
			if batch[i].user {
				q.done = append(q.done, rdma.Completion{Op: rdma.OpInvalidate, Cookie: batch[i].cookie, Err: errs[i]})
			} else if errs[i] != nil {
				q.signs.note(fmt.Errorf("verbs: withdrawing memory from the peer: %w", errs[i]))
			}
		}
		clear(batch)
		q.drops.spare = batch[:0]
		q.wake()
	}
	q.drops.busy = false
	q.drops.idle.Broadcast()
}
