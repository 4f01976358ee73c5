package nfstest

import (
	"encoding/binary"
	"hash/maphash"

	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
)

// slot is an entry of a session's reply cache (RFC 8881 section 2.10.6.1).
//
//	        begin: seq+1              complete
//	idle ─────────────────────▶ busy ──────────▶ idle
//	 │  begin: same seq           │ begin: same seq
//	 ▼                            ▼
//	replay                      NFS4ERR_DELAY
type slot struct {
	seq    uint32 // of the last request
	busy   bool   // it is being carried out
	used   bool   // there was a request
	sum    uint64 // checksum of it
	who    string // principal of it
	cached bool   // reply is the whole of the reply
	reply  xdr.Message
	res    nfs4.SequenceRes
}

// begin takes the slot for a request. It returns OK for a new request, and also
// for one whose reply is to be repeated, with replay set.
func (sl *slot) begin(seq uint32, sum uint64, who string) (status nfs4.Status, replay bool) {
	switch {
	case sl.used && seq == sl.seq && sl.busy:
		return nfs4.ErrDelay, false
	case sl.used && seq == sl.seq && (sum != sl.sum || who != sl.who):
		return nfs4.ErrSeqFalseRetry, false
	case sl.used && seq == sl.seq:
		return nfs4.OK, true
	case seq != sl.seq+1 || sl.busy:
		return nfs4.ErrSeqMisordered, false
	}
	sl.seq, sl.busy, sl.used, sl.sum, sl.who = seq, true, true, sum, who
	return nfs4.OK, false
}

// complete ends a request, and keeps its reply if keep is set.
func (sl *slot) complete(reply xdr.Message, keep bool) {
	sl.busy, sl.cached = false, keep
	sl.reply.Bulk = nil
	if !keep {
		sl.reply.Stream = nil
		return
	}
	sl.reply.Stream = append(sl.reply.Stream[:0], reply.Stream...)
	for _, b := range reply.Bulk {
		sl.reply.Bulk = append(sl.reply.Bulk, xdr.Bulk{Pos: b.Pos, Data: append([]byte(nil), b.Data...)})
	}
}

// repeat encodes the reply that was kept, for a call with this XID.
func (sl *slot) repeat(e *xdr.Encoder, xid uint32) {
	e.Reset(nil)
	at := 0
	for _, b := range sl.reply.Bulk {
		// The length word stands in front of the position of the data, and
		// Encoder.Bulk writes it again.
		e.Fixed(sl.reply.Stream[at : b.Pos-4])
		e.Bulk(append([]byte(nil), b.Data...))
		at = b.Pos
	}
	e.Fixed(sl.reply.Stream[at:])
	e.PutUint32(0, xid)
}

// checksumEnds is how much of the beginning and of the end of a long request goes
// into its checksum, bytes: to look at all of the data of every WRITE would cost
// more than it tells.
const checksumEnds = 8 << 10

// checksum tells requests apart: that of the message behind its RPC header,
// wherever the bulk data travelled.
func (s *Server) checksum(m xdr.Message, from int) uint64 {
	var h maphash.Hash
	h.SetSeed(s.hashSeed)
	total := m.Len() - from
	maphash.WriteComparable(&h, total)
	pos := -from // of the next piece, from the end of the header on
	for _, piece := range m.AppendSegments(nil) {
		for _, window := range [2][2]int{{0, checksumEnds}, {max(checksumEnds, total-checksumEnds), total}} {
			lo, hi := max(window[0]-pos, 0), min(window[1]-pos, len(piece))
			if lo < hi {
				h.Write(piece[lo:hi])
			}
		}
		pos += len(piece)
	}
	return h.Sum64()
}

// sessionID returns an id for a session: instance, client, number.
func sessionID(boot uint32, client nfs4.ClientID, n uint64) (id nfs4.SessionID) {
	binary.BigEndian.PutUint32(id[:], boot)
	binary.BigEndian.PutUint32(id[4:], uint32(client))
	binary.BigEndian.PutUint64(id[8:], n)
	return id
}
