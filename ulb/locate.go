package ulb

import (
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// LocateHead is the number of bytes at the start of a reply with which
// LocateResult finds the result of an ordinary READ: verifier and tag of
// moderate length included.
const LocateHead = 512

// LocateResult finds the eligible result (RFC 8267 section 6.1) in a reply
// that came in one piece, from its first bytes: pos is where in the message the
// result begins, n its length in bytes without padding. A transport that reads
// a stream can then place the result as if the peer had done it.
//
// It knows the results that come before the data of a READ in what a client
// sends: SEQUENCE and PUTFH. With anything else before it, and if head is too
// short, it reports false, and the result stays in the stream. n is the peer's
// word and is to be checked against the room there is.
func LocateResult(head []byte) (pos, n int, ok bool) {
	d := xdr.NewDecoder(head)
	var rh rpc.ReplyHeader
	rh.Decode(d)
	if d.Err() != nil || rh.Status.Stat != rpc.Success {
		return 0, 0, false
	}
	d.Uint32() // status of the COMPOUND: that of its last operation
	d.Opaque(nfs4.MaxTag)
	for range d.Count(nfs4.MaxOps) {
		switch op := nfs4.OpNum(d.Uint32()); {
		case d.Err() != nil:
			return 0, 0, false
		case op == nfs4.OpSequence:
			var r nfs4.SequenceRes
			r.Decode(d)
		case op == nfs4.OpPutFH:
			var r nfs4.PutFHRes
			r.Decode(d)
		case op == nfs4.OpRead:
			if nfs4.Status(d.Uint32()) != nfs4.OK {
				return 0, 0, false
			}
			d.Bool()
			n = d.Count(nfs4.MaxData)
			return d.Pos(), n, d.Err() == nil
		default:
			return 0, 0, false
		}
	}
	return 0, 0, false
}
