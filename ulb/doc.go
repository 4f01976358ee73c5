// Package ulb is the Upper-Layer Binding of NFS version 4 to RPC-over-RDMA
// (RFC 8267, RFC 8166): it knows which data items may leave the XDR stream and
// travel by RDMA, how large a reply can get, and in which chunks a call and its
// reply are carried.
//
// It is also where a client and a transport meet: a Call describes a call so
// that any transport can carry it, and Buffer is the payload memory that both
// hand to each other.
//
// The package does no I/O and starts no goroutine. Planning is done by pure
// functions: PlanCall and CheckReply for a requester, CheckCall and ReplyPlan for
// a responder.
package ulb
