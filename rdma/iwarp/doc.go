// Package iwarp provides RDMA queue pairs in pure Go: MPA (RFC 5044, RFC 6581),
// DDP (RFC 5041) and RDMAP (RFC 5040) over a TCP connection. It needs no device
// and no privilege, and works against Linux siw and iWARP cards.
//
// # The way of a message
//
// Outbound: Post puts work requests into the send queue; a pump cuts them into
// FPDUs (batch.go) and hands many of them to the kernel with one gathering
// write (link_linux.go), straight from the memory of the work request. The
// pump runs on the posting goroutine as long as the socket takes the bytes at
// once, and on the sending goroutine of the queue pair otherwise (pump.go).
// RDMA Read Responses take turns with the send queue, message by message.
//
// Inbound: the receiving goroutine (receive.go) reads headers from a small
// staging buffer and payload from the socket directly to where it belongs
// (stream.go): an exposed region, a posted receive buffer or the sink of an
// RDMA Read. Every segment is checked before one of its octets is placed.
//
// # Goroutines and locks
//
// A queue pair has a receiving and a sending goroutine; both have ended when
// Close returns. The lock order is:
//
//	queue pair (QP.mu: queues, state)
//	└── table of handles (stagTable.mu)
//	    └── region (region.mu: memory of one handle)
//
// No lock is held while waiting for the network. A region's lock is held
// during a single read or write call that cannot block, so withdrawing a handle
// waits for no peer: once it is withdrawn, the rest of a segment on its way
// into it is refused.
package iwarp
