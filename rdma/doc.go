// Package rdma is RPC-over-RDMA version 1 (RFC 8166) with calls in both
// directions (RFC 8167): one connection, either end of it, over a queue pair of
// any provider.
//
// A provider implements QueuePair, and Connector or Listener. Dial and Accept
// make a Conn of what those return. A Conn carries calls as package ulb describes
// them and hands the peer's calls to a Handler; it knows nothing of NFS.
//
// # Memory
//
// The peer gets access to memory for one call at a time, under handles made for
// that call, and loses it before Call.Done is called: by an invalidation that the
// peer sends along with its reply, by one of this end, or by the end of the
// connection. What the peer says it has written is believed only within what the
// call has offered.
//
// # Limits
//
// Calls outstanding are bounded by the peer's credits, calls being served by the
// credits granted to it, work requests by the depth of the send queue, payload by
// the pool, and long messages by a pool of their own. Who exceeds what was granted
// loses the connection.
//
// # Faults
//
// A connection is lost as a whole: every call outstanding is told by a
// *ulb.ConnError, and nothing is sent again by this package. Only a call that the
// peer refuses by RDMA_ERROR fails alone (RFC 8267 section 6.6).
package rdma
