//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"
)

// device is an RDMA device in use, with the protection domain that all its
// queue pairs and registrations belong to. It goes with its last queue pair.
type device struct {
	ctx *C.struct_vb_context
	pd  *C.struct_vb_pd
	lim limits
	mem *Memory

	refs int // guarded by devices.mu

	events watch
	gone   chan struct{} // closed when the goroutine has ended

	asyncMu sync.Mutex
	qps     map[unsafe.Pointer]*QP // by the library's queue pair
}

// limits of a device.
type limits struct {
	name    string
	iwarp   bool
	rxe     bool
	windows int // memory windows of type 2B; 0: there are none
	queue   int
	cqe     int
	gather  int
	ird     int
	ord     int
	mrSize  uint64
}

var devices struct {
	mu    sync.Mutex
	byCtx map[*C.struct_vb_context]*device
}

// openDevice returns the device behind a context, which stays open until
// release has been called as often as openDevice.
func openDevice(ctx *C.struct_vb_context) (*device, error) {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	if d := devices.byCtx[ctx]; d != nil {
		d.refs++
		return d, nil
	}
	d := &device{ctx: ctx, mem: &shared, refs: 1, gone: make(chan struct{}), qps: make(map[unsafe.Pointer]*QP)}
	var l C.struct_vb_limits
	if err := errno(C.vb_limits_get(ctx, &l)); err != nil {
		return nil, fmt.Errorf("verbs: asking for the limits of the device: %w", err)
	}
	d.lim = limits{
		name: C.GoString(&l.name[0]), iwarp: l.iwarp != 0, rxe: l.rxe != 0, windows: int(l.windows), queue: int(l.queue),
		cqe: int(l.cqe), gather: int(l.gather), ird: int(l.ird), ord: int(l.ord), mrSize: uint64(l.mr_size),
	}
	if err := errno(C.vb_pd_alloc(ctx, &d.pd)); err != nil {
		return nil, fmt.Errorf("verbs: %s: protection domain: %w", d.lim.name, err)
	}
	var err error
	if d.events, err = newWatch(ctx.async_fd, "async events of "+d.lim.name); err != nil {
		C.vb_pd_free(d.pd)
		return nil, err
	}
	if devices.byCtx == nil {
		devices.byCtx = make(map[*C.struct_vb_context]*device)
	}
	devices.byCtx[ctx] = d
	unwatchIdle(ctx)
	go d.watch()
	return d, nil
}

// probed notes that librdmacm has opened a device, which may be all that comes
// of it.
func probed(ctx *C.struct_vb_context) {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	if devices.byCtx[ctx] == nil {
		watchIdle(ctx)
	}
}

func (d *device) release() error {
	devices.mu.Lock()
	defer devices.mu.Unlock()
	if d.refs--; d.refs > 0 {
		return nil
	}
	delete(devices.byCtx, d.ctx)
	d.events.close()
	<-d.gone
	err := errors.Join(d.mem.unregister(d), errno(C.vb_pd_free(d.pd)))
	watchIdle(d.ctx)
	return err
}

// register implements registrar.
func (d *device) register(addr uintptr, n int) (registration, error) {
	access := C.int(C.VB_ACCESS_LOCAL_WRITE)
	if d.lim.windows > 0 {
		access |= C.VB_ACCESS_MW_BIND
	}
	mr, err := d.reg(addr, n, access)
	if err != nil {
		return registration{}, err
	}
	return registration{dev: d, key: uint32(mr.lkey), mr: mr, drop: func() error { return errno(C.vb_mr_free(mr)) }}, nil
}

func (d *device) reg(addr uintptr, n int, access C.int) (*C.struct_vb_mr, error) {
	var mr *C.struct_vb_mr
	err := errno(C.vb_mr_register(d.pd, C.uint64_t(addr), C.uint64_t(n), access, &mr))
	if err == nil {
		return mr, nil
	}
	if errors.Is(err, syscall.ENOMEM) {
		return nil, fmt.Errorf("verbs: %s: registering %d bytes: %w; the limit of locked memory (ulimit -l) may be too low", d.lim.name, n, err)
	}
	return nil, fmt.Errorf("verbs: %s: registering %d bytes: %w", d.lim.name, n, err)
}

// watch hands asynchronous events to their queue pairs.
func (d *device) watch() {
	defer close(d.gone)
	_ = d.events.await(func() C.int { // until the watch is closed, or the device has gone
		return d.takeEvents()
	})
}

// takeEvents hands out the asynchronous events that are there. It returns
// EAGAIN if more can come.
func (d *device) takeEvents() C.int {
	d.asyncMu.Lock()
	defer d.asyncMu.Unlock()
	for {
		var kind C.int
		var element unsafe.Pointer
		if r := C.vb_async_next(d.ctx, &kind, &element); r != 0 {
			if r == C.int(syscall.EINTR) {
				continue
			}
			return r
		}
		switch kind {
		case C.VB_EVENT_QP_FATAL, C.VB_EVENT_QP_REQ_ERR, C.VB_EVENT_QP_ACCESS_ERR:
			if q := d.qps[element]; q != nil {
				q.noteFault(asyncText(kind))
			}
		case C.VB_EVENT_DEVICE_FATAL:
			for _, q := range d.qps {
				q.noteRemoved()
			}
		}
	}
}

func asyncText(kind C.int) string {
	switch kind {
	case C.VB_EVENT_QP_REQ_ERR:
		return "a request of the peer was invalid"
	case C.VB_EVENT_QP_ACCESS_ERR:
		return "a request of the peer reached for memory that it may not use"
	}
	return "the device gave the queue pair up"
}

// add and remove say which queue pair asynchronous events go to.
func (d *device) add(p unsafe.Pointer, q *QP) {
	d.asyncMu.Lock()
	defer d.asyncMu.Unlock()
	d.qps[p] = q
}

func (d *device) remove(p unsafe.Pointer, q *QP) {
	d.asyncMu.Lock()
	defer d.asyncMu.Unlock()
	if d.qps[p] == q { // the library may have used the memory again
		delete(d.qps, p)
	}
}
