// Package verbs provides RDMA queue pairs on real devices: InfiniBand, RoCE and
// iWARP cards, and the kernel's software devices rxe and siw, through librdmacm
// and libibverbs.
//
// # The libraries
//
// They are opened when they are first needed, so a program with this package
// in it runs where they are not installed; Available tells. Their headers are
// not needed to build it: abi.h declares the little that is used, and a test
// compares it with the headers where there are some. A build without cgo, or
// for another system than Linux, has no verbs: Available then says so, and
// nothing else works.
//
// One call into C posts or polls a whole batch. The descriptors of completions
// and events are non-blocking and watched by Go's network poller, so no thread
// sits in C waiting. C keeps no Go pointer: work requests are named by sequence
// numbers, and all memory that a device may touch is mapped outside the Go heap
// (Memory).
//
// # Memory
//
// Buffers are cut from arenas, which are registered as a whole for local use
// when a device first meets them, and stay registered while that device is in
// use. What the peer may touch is exposed call by call:
//
//   - Where the device has memory windows of type 2B, a window is bound to the
//     bytes by a work request that goes out in front of the next Send, and
//     unbound by a local invalidation or by the peer's Send with Invalidate. A
//     window belongs to one queue pair, and its key changes with each use.
//   - Otherwise the bytes are registered for remote access when they are
//     exposed; a goroutine of the queue pair takes the registration back.
//     Such a registration is not bound to a queue pair: as far as it can guess
//     the handle, a peer on another queue pair of this process and device could
//     reach the bytes while they are exposed.
//
// There is no handle that outlives a call, not even as an option.
//
// # The end of a connection
//
// Devices report the end in several places: completions with an error, events
// of the connection manager, asynchronous events, or nothing but flushed work
// requests. Poll puts them together (verdict.go), moves the queue pair to the
// error state and returns everything that comes back from it. What does not come
// back in time is reported after the queue pair has been destroyed: no buffer is
// given back while the device could touch it.
//
// # Goroutines and locks
//
// A queue pair has a goroutine for the events of its connection, and one to
// withdraw registrations if the device has no memory windows; a device has one
// for asynchronous events. The lock order is:
//
//	device.asyncMu  (asynchronous events, queue pairs of the device)
//	└── QP.mu       (queues, state, calls into C for this queue pair)
//	    └── Memory.mu  (arenas and their registrations)
//	devices.mu  (devices in use)
//	├── Memory.mu
//	└── idle.mu  (devices that are open and not in use; see idle.go)
//
// No lock is held while waiting.
package verbs
