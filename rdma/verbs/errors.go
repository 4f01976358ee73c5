package verbs

import (
	"errors"
	"fmt"

	"nfsrdma-fuse/rdma"
)

// Status is the status of a work completion, by the numbers of the verbs. It is
// an error, so that errors.Is finds it in what a completion reports.
type Status int

// Statuses that a caller may want to tell apart.
const (
	LocalLength        Status = 1  // a message was longer than its receive buffer
	RemoteAccess       Status = 10 // the peer has no such memory, or does not allow this
	RetryExceeded      Status = 12 // the peer does not answer
	ReceiverNotReady   Status = 13 // the peer has no receive buffer posted
	flushed            Status = 5
	remoteInvalid      Status = 9
	localProtection    Status = 4
	localAccess        Status = 8
	remoteOperation    Status = 11
	badResponse        Status = 7
	remoteReadRequest  Status = 15
	windowBinding      Status = 6
	localOperation     Status = 2
	remoteAborted      Status = 16
	fatal              Status = 19
	responseTimeout    Status = 20
	generalDeviceError Status = 21
)

var statusText = map[Status]string{
	LocalLength:        "local length error",
	localOperation:     "local queue pair operation error",
	localProtection:    "local protection error",
	flushed:            "flushed",
	windowBinding:      "memory window binding error",
	badResponse:        "bad response",
	localAccess:        "local access error",
	remoteInvalid:      "remote invalid request error",
	RemoteAccess:       "remote access error",
	remoteOperation:    "remote operation error",
	RetryExceeded:      "transport retry count exceeded",
	ReceiverNotReady:   "receiver-not-ready retry count exceeded",
	remoteReadRequest:  "remote invalid RDMA Read request",
	remoteAborted:      "operation aborted by the peer",
	fatal:              "fatal error of the device",
	responseTimeout:    "response timeout",
	generalDeviceError: "general error of the device",
}

func (s Status) Error() string {
	if text, ok := statusText[s]; ok {
		return text
	}
	return fmt.Sprintf("completion status %d", int(s))
}

// WorkError says which work request failed, and how. It unwraps to its Status.
type WorkError struct {
	Op     rdma.Op
	Name   string // of the work request; "memory window binding" is none of the caller's
	Status Status
	Vendor uint32 // the device's own code
}

func (e *WorkError) Error() string {
	s := fmt.Sprintf("verbs: %s failed: %v", e.Name, e.Status)
	if e.Vendor != 0 {
		s += fmt.Sprintf(" (vendor code %#x)", e.Vendor)
	}
	return s
}

// Unwrap returns the Status.
func (e *WorkError) Unwrap() error { return e.Status }

// ErrQueueFull says that a batch of work or receive buffers exceeds what the
// queue pair was made for. Nothing of it was taken.
var ErrQueueFull = errors.New("verbs: more work requests or receive buffers than the queue pair was made for")

// ErrDeviceRemoved ends the connections of a device that is taken away.
var ErrDeviceRemoved = errors.New("verbs: the RDMA device was removed")
