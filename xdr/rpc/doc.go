// Package rpc encodes and decodes the headers of ONC RPC version 2 messages
// (RFC 5531): calls, replies with every way of being accepted or rejected, and
// credentials. What stands behind a header, arguments or results, is for the
// protocol above.
//
// Headers are decoded without copying: the bodies of credentials and verifiers
// alias the stream.
package rpc
