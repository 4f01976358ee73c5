// Package rpcrdma encodes and decodes what RPC-over-RDMA puts in front of an
// RPC message: the transport header of version 1 (RFC 8166 section 4) and the
// private data exchanged while a connection is made (RFC 8797).
//
// Everything above this package works with Header and takes the functions that
// read and write it from a Codec, which is chosen by version number. The first
// four words of a header are the same in all versions; Peek reads them before
// the version is known.
//
// The package knows the format and its limits only. Which chunks may accompany
// which message is the business of the Upper-Layer Binding.
package rpcrdma
