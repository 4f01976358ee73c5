// Package xdr encodes and decodes External Data Representation streams
// (RFC 4506) for protocols that move bulk data beside the stream.
//
// Every XDR item occupies a multiple of four bytes; integers are big-endian.
//
// # Bulk items
//
// The payload of an NFS READ or WRITE never passes through an Encoder or a
// Decoder. The encoder writes the length word of such an item and records
// where in the stream its bytes belong; the transport then either splices the
// bytes in (plain TCP, or a message small enough to go inline) or leaves them
// out and lets the peer move them by RDMA (RFC 8166 section 3.4). The decoder
// is told which items were moved beside the stream and hands those out in
// their turn.
//
// # Errors
//
// Both ends have a sticky error: after the first failure every further call
// does nothing (a decoder returns zero values), and Err tells what happened.
// Code that encodes or decodes a message is therefore straight-line, and checks
// once.
package xdr
