//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"context"
	"fmt"
	"io"
	"syscall"

	"nfsrdma-fuse/rdma"
)

// signs are what has been seen of the end of a connection; guarded by QP.mu.
type signs struct {
	work    error  // the first work request that failed, or what else failed here
	fault   string // what the device holds against the peer
	removed bool   // the device goes away
	gone    bool   // the connection manager says that the peer has disconnected
	status  int    // and how
	flushed bool   // a work request was flushed
	doubted bool   // flushed, and the reason is being waited for
	told    bool   // the peer has been told of its fault
}

func (s *signs) note(err error) {
	if s.work == nil {
		s.work = err
	}
}

func (s *signs) noteIf(err error) {
	if err != nil {
		s.note(err)
	}
}

func (s *signs) ending() bool { return s.removed || s.gone || s.flushed || s.work != nil }

// watchEvents takes the events of the connection.
func (q *QP) watchEvents() {
	defer close(q.events)
	for {
		ev, err := q.ch.next(context.Background())
		if err != nil {
			return // closed; or lost with its device, which the queue pair notices too
		}
		switch ev._type {
		case C.VB_CM_DISCONNECTED, C.VB_CM_CONNECT_ERROR, C.VB_CM_UNREACHABLE, C.VB_CM_REJECTED:
			q.dev.takeEvents() // what the device has to say to it is there already
			q.mu.Lock()
			q.signs.gone, q.signs.status = true, int(ev.status)
			q.wake()
			q.mu.Unlock()
		case C.VB_CM_DEVICE_REMOVAL:
			q.noteRemoved()
		}
	}
}

func (q *QP) noteRemoved() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.signs.removed = true
	q.wake()
}

func (q *QP) noteFault(text string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.signs.fault == "" {
		q.signs.fault = text
	}
	q.wake()
}

// verdict says why the connection has ended, or nil if it has not, or the
// reason is not known yet. The caller holds q.mu.
func (q *QP) verdict() error {
	s := &q.signs
	if (s.gone || s.flushed) && !q.dev.lim.iwarp {
		// Nothing but a fault makes an InfiniBand queue pair enter the error
		// state. If a work request of our own was the reason, it is among the
		// completions by then.
		inError := C.vb_qp_in_error(q.c) != 0
		for !q.reap() {
			continue
		}
		if inError && s.fault == "" {
			s.fault = "the device has put the queue pair into the error state"
		}
	}
	switch {
	case s.removed:
		return ErrDeviceRemoved
	case s.work != nil:
		return s.work
	case s.fault != "":
		return &rdma.ProtocolError{Layer: "RDMA", Reason: s.fault}
	case s.gone && s.status == 0:
		return fmt.Errorf("verbs: %s closed the connection: %w", q.info.RemoteAddr, io.EOF)
	case s.gone:
		return fmt.Errorf("verbs: connection to %s lost: %w", q.info.RemoteAddr, cmStatus(s.status))
	case s.flushed && s.doubted && q.late():
		return &rdma.ProtocolError{Layer: "RDMA", Reason: "the device has flushed the queue pair for no reason that it tells"}
	case s.flushed && !s.doubted:
		s.doubted = true
		q.lookAgain(doubtTime)
	}
	return nil
}

// cmStatus makes an error of the status of an event.
func cmStatus(status int) error {
	if status < 0 {
		return syscall.Errno(-status)
	}
	return fmt.Errorf("status %d", status)
}
