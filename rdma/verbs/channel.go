//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// past is a deadline that wakes whoever waits.
var past = time.Unix(1, 0)

// watch is a descriptor of one of the libraries, watched by the network poller.
// It is a duplicate, so that closing it does not touch the library's own.
type watch struct {
	file *os.File
	raw  syscall.RawConn
}

func newWatch(fd C.int, name string) (watch, error) {
	dup, err := syscall.Dup(int(fd))
	if err != nil {
		return watch{}, fmt.Errorf("verbs: %s: %w", name, err)
	}
	syscall.CloseOnExec(dup)
	f := os.NewFile(uintptr(dup), name) // non-blocking already
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{}) // fails if it cannot be polled
	}
	if err != nil {
		_ = f.Close() // the first error tells more
		return watch{}, fmt.Errorf("verbs: %s: %w", name, err)
	}
	return watch{f, raw}, nil
}

// await calls try now and whenever the descriptor is readable, until try
// returns another result than EAGAIN, the deadline has passed or the watch is
// closed.
func (w watch) await(try func() C.int) error {
	var r C.int
	err := w.raw.Read(func(uintptr) bool {
		r = try()
		return r != C.int(syscall.EAGAIN)
	})
	if err != nil {
		return err
	}
	return errno(r)
}

// wake makes await return os.ErrDeadlineExceeded until the deadline is changed.
func (w watch) wake() { _ = w.file.SetReadDeadline(past) } // of a closed watch nobody waits

func (w watch) deadline(t time.Time) { _ = w.file.SetReadDeadline(t) } // likewise

func (w watch) close() { _ = w.file.Close() } // it was opened by us and is read only

// channel is a channel of connection-management events.
type channel struct {
	c *C.struct_vb_cm_channel
	w watch
}

// cmNode is where the kernel offers the management of RDMA connections.
const cmNode = "/dev/infiniband/rdma_cm"

func newChannel() (*channel, error) {
	var ch channel
	if err := errno(C.vb_cm_open(&ch.c)); err != nil {
		if _, missing := os.Stat(cmNode); missing != nil {
			return nil, fmt.Errorf("verbs: the kernel offers no RDMA connections to user space (%s; try: modprobe rdma_ucm): %w", cmNode, err)
		}
		if errors.Is(err, syscall.ENODEV) {
			return nil, fmt.Errorf("verbs: there is no RDMA device (rdma link lists them): %w", err)
		}
		return nil, fmt.Errorf("verbs: opening the RDMA connection manager: %w", err)
	}
	w, err := newWatch(ch.c.fd, "rdma_cm")
	if err != nil {
		C.vb_cm_close(ch.c)
		return nil, err
	}
	ch.w = w
	return &ch, nil
}

// close must not be called while next runs or an id uses the channel.
func (ch *channel) close() {
	ch.w.close()
	C.vb_cm_close(ch.c)
}

// next waits for an event until ctx is done or the watch is closed.
func (ch *channel) next(ctx context.Context) (*C.struct_vb_event, error) {
	stop := context.AfterFunc(ctx, ch.w.wake)
	ev := new(C.struct_vb_event)
	err := ch.w.await(func() C.int {
		idle.mu.Lock() // librdmacm may close a device that it finds gone
		defer idle.mu.Unlock()
		return C.vb_cm_next(ch.c, ev)
	})
	if !stop() || ctx.Err() != nil {
		ch.w.deadline(time.Time{})
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	return ev, nil
}

func private(ev *C.struct_vb_event) []byte {
	n := int(ev.private_len)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(ev.private_data[i])
	}
	return b
}
