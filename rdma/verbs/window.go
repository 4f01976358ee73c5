//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"fmt"
	"math/rand/v2"
)

// Windows of a queue pair: so many are in turn at least, so that a handle does
// not come back soon, and so many there are at most.
const (
	minWindows = 32
	maxWindows = 4096
)

// window is a memory window of type 2B. The low 8 bits of its handle are ours to
// choose, and have to differ from one binding to the next. They go through all
// their values in an order that is drawn at random for each round.
type window struct {
	mw         *C.struct_vb_mw
	handle     uint32
	mul, add   uint8
	sinceDrawn int
}

// next returns the handle of the next binding.
func (w *window) next() uint32 {
	if w.sinceDrawn == 0 {
		// Any such pair steps through all 256 values.
		w.mul, w.add = uint8(rand.Uint32())&^3|1, uint8(rand.Uint32())|1
	}
	w.sinceDrawn = (w.sinceDrawn + 1) % 256
	w.handle = w.handle&^0xff | uint32(uint8(w.handle)*w.mul+w.add)
	return w.handle
}

// windows are the memory windows of a queue pair; guarded by QP.mu.
type windows struct {
	all  []*window
	free []*window // the one that was given back first stands first
}

// take returns a window that is not bound.
func (ws *windows) take(d *device) (*window, error) {
	limit := min(maxWindows, d.lim.windows)
	if len(ws.all) < limit && (len(ws.free) == 0 || len(ws.all) < minWindows) {
		w := new(window)
		if err := errno(C.vb_mw_alloc(d.pd, &w.mw)); err != nil {
			return nil, fmt.Errorf("verbs: %s: allocating a memory window: %w", d.lim.name, err)
		}
		w.handle = uint32(w.mw.rkey)
		ws.all = append(ws.all, w)
		return w, nil
	}
	if len(ws.free) == 0 {
		return nil, fmt.Errorf("verbs: %d memory windows in use, which is the limit", len(ws.all))
	}
	w := ws.free[0]
	ws.free[0] = nil
	ws.free = ws.free[1:]
	return w, nil
}

func (ws *windows) give(w *window) { ws.free = append(ws.free, w) }

// close frees all windows; the queue pair must be in the error state.
func (ws *windows) close() error {
	var first error
	for _, w := range ws.all {
		if err := errno(C.vb_mw_free(w.mw)); err != nil && first == nil {
			first = err
		}
	}
	ws.all, ws.free = nil, nil
	return first
}
