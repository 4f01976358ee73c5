// Package tcp carries ONC RPC over TCP with record marking (RFC 5531 section
// 11). It is the road to servers without RDMA, and the yardstick for the road
// with it: a Conn has the methods of one of package rdma and takes the same
// calls.
//
// # The way of a call and of its reply
//
// Send takes a place among the outstanding calls, registers the call under its
// XID and queues it for the writer. The writer gathers what is queued, streams
// and bulk arguments alike, and hands the pieces to the kernel with one writev:
// nothing is copied before that. The reader looks at the type and XID of each
// record and reads a reply into pooled memory; if the call has a sink, a READ's
// data goes from the socket to the sink, but for the few kilobytes that were
// read along with the head of the record.
//
// # Calls of the peer
//
// The same connection serves the peer's calls, each with a goroutine of its own.
// Calls and replies are told apart by their RPC message type, as both ends
// choose XIDs of their own. While as many handlers run as Config allows, the
// connection is not read from.
//
// # What a peer cannot do
//
// The length that a record announces is held against what the connection, and
// for a reply what its call allows before memory is taken for it. A reply to a
// call that is not outstanding is skipped; a record that is none ends the
// connection.
package tcp
