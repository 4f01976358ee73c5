//go:build cgo && linux

package verbs

// #include "verbs.h"
import "C"

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// librdmacm keeps the devices open that it has used, until it learns of
// another one. A driver that cannot be parted from its users, rxe's and siw's
// among them, waits when its device is removed until everybody has closed it:
// "rdma link delete" would hang for as long as this process lives. Nor does
// anybody tell, for the events of removal go to connections. So devices without
// connections are watched: their node in /dev goes early in a removal, and then
// the descriptors are put on /dev/null. What librdmacm still holds fails from
// then on, and its closing it some day does no harm.

// idleCheck is how often devices without connections are looked at.
const idleCheck = time.Second

// idle are the devices that librdmacm has opened and that no queue pair uses.
var idle struct {
	// mu is held while librdmacm may close a device, so that a descriptor
	// that was looked at is still the same when it is replaced.
	mu      sync.Mutex
	devices map[int]idleDevice // by descriptor
	timer   *time.Timer        // runs while there are any
}

// idleDevice says what to recognise an open device by: descriptors are used
// again.
type idleDevice struct {
	async    int // its descriptor of asynchronous events
	ino, dev uint64
}

// watchIdle begins to watch a device.
func watchIdle(ctx *C.struct_vb_context) {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	var st unix.Stat_t
	fd := int(ctx.cmd_fd)
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFCHR {
		return
	}
	if idle.devices == nil {
		idle.devices = make(map[int]idleDevice)
	}
	idle.devices[fd] = idleDevice{async: int(ctx.async_fd), ino: st.Ino, dev: st.Dev}
	sweepIdle()
}

// unwatchIdle ends that: a queue pair uses the device.
func unwatchIdle(ctx *C.struct_vb_context) {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	delete(idle.devices, int(ctx.cmd_fd))
}

// sweepIdle lets go of devices that are being removed. The caller holds
// idle.mu.
func sweepIdle() {
	for fd, d := range idle.devices {
		var st unix.Stat_t
		switch {
		case unix.Fstat(fd, &st) != nil || st.Ino != d.ino || st.Dev != d.dev:
			delete(idle.devices, fd) // librdmacm has closed it
		case st.Nlink == 0:
			if letGo(d.async) == nil && letGo(fd) == nil {
				delete(idle.devices, fd)
			}
		}
	}
	if len(idle.devices) == 0 {
		return
	}
	if idle.timer == nil {
		idle.timer = time.AfterFunc(idleCheck, func() {
			idle.mu.Lock()
			defer idle.mu.Unlock()
			sweepIdle()
		})
	} else {
		idle.timer.Reset(idleCheck)
	}
}

// letGo puts a descriptor on /dev/null.
func letGo(fd int) error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(null)
	return unix.Dup3(null, fd, unix.O_CLOEXEC)
}

// destroyID destroys an id, and with the last one of a device that is gone
// librdmacm closes that.
func destroyID(id *C.struct_vb_cm_id) error {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	return errno(C.vb_id_destroy(id))
}
