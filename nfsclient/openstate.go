package nfsclient

import (
	"fmt"
	"slices"

	"nfsrdma-fuse/xdr/nfs4"
)

// share is what one open owner has open of one file: a machine without I/O.
// The server keeps one stateid for it, however often the owner opens the file,
// and counts up its seqid with every OPEN, OPEN_DOWNGRADE and CLOSE (RFC 8881
// section 8.2.2, 18.16.4). It is not safe for concurrent use.
//
//	            opened              closing            closed
//	absent --------------> open --------------> ... -----------> absent
//	                       |  ^                  |
//	                       |  +------------------+  opened meanwhile
//	                       | lose
//	                       +--------> lost         (until opened again or closed)
//
// Replies may arrive in another order than the server worked in. As every step
// has a seqid of its own, a gap among those seen tells that the reply to an
// OPEN is missing which the server has carried out already: to close or
// downgrade then would take away what that OPEN has opened.
type share struct {
	sid     nfs4.StateID
	held    bool   // the server has the state sid
	granted uint32 // access that the server has granted to sid
	proven  uint32 // of it, what it would surely grant again
	counts  [4]int // opens of ours, by access
	lost    error  // why the state cannot be had again

	through uint32   // all seqids up to this one have been seen
	ahead   []uint32 // seqids seen beyond it
}

// newerSeq tells whether seqid a is newer than b: they wrap around, passing
// over zero (RFC 8881 section 8.2.2).
func newerSeq(a, b uint32) bool { return int32(a-b) > 0 }

// nextSeq returns the seqid behind s.
func nextSeq(s uint32) uint32 {
	if s++; s == 0 {
		s = 1
	}
	return s
}

// saw notes the seqid of a reply, and takes it for the present one if it is
// newer.
func (s *share) saw(seq uint32) (newer bool) {
	if seq == nextSeq(s.through) {
		s.through = seq
	} else if newerSeq(seq, s.through) {
		s.ahead = append(s.ahead, seq)
	}
	for i := slices.Index(s.ahead, nextSeq(s.through)); i >= 0; i = slices.Index(s.ahead, nextSeq(s.through)) {
		s.through = s.ahead[i]
		s.ahead = slices.Delete(s.ahead, i, i+1)
	}
	if newer = newerSeq(seq, s.sid.Seq); newer {
		s.sid.Seq = seq
	}
	return newer
}

// gap tells whether the server has taken a step whose reply is missing.
func (s *share) gap() bool { return s.held && s.through != s.sid.Seq }

// opened notes a successful OPEN.
func (s *share) opened(sid nfs4.StateID, access uint32) {
	s.counts[access]++
	s.grant(sid, access)
}

// grant takes over a stateid that an OPEN for access has returned.
func (s *share) grant(sid nfs4.StateID, access uint32) {
	if !s.held || sid.Other != s.sid.Other {
		// New state: the server had closed the old one before this OPEN, even
		// if the reply to the CLOSE is still to come.
		s.held, s.granted, s.proven, s.lost = true, 0, 0, nil
		s.sid = nfs4.StateID{Other: sid.Other}
		s.through, s.ahead = 0, s.ahead[:0]
	}
	s.granted |= access
	s.saw(sid.Seq)
}

// needed returns the access that the remaining opens need together.
func (s *share) needed() uint32 {
	var n uint32
	for access, count := range s.counts {
		if count > 0 {
			n |= uint32(access)
		}
	}
	return n
}

// shareAction says what to tell the server after an open was released.
type shareAction uint8

const (
	shareKeep shareAction = iota
	shareWait             // until the reply to an OPEN has come
	shareDowngrade
	shareClose
)

// release takes back one open.
func (s *share) release(access uint32) {
	if s.counts[access] == 0 {
		panic(fmt.Sprintf("nfsclient: open for access %d released twice", access))
	}
	s.counts[access]--
}

// next returns what the server has to be told, if anything, to bring it from
// what it has granted to what is needed. opening says that OPENs of this owner
// are outstanding.
func (s *share) next(opening bool) (do shareAction, sid nfs4.StateID, access uint32) {
	need := s.needed()
	switch {
	case !s.held || need == s.granted:
		return shareKeep, nfs4.StateID{}, 0
	case opening && s.gap():
		return shareWait, nfs4.StateID{}, 0
	case s.lost != nil && need != 0:
		return shareKeep, nfs4.StateID{}, 0
	case need == 0:
		return shareClose, s.sid, 0
	}
	return shareDowngrade, s.sid, need
}

// closed notes that the server has closed sid, or does not have it any more.
func (s *share) closed(sid nfs4.StateID) {
	if s.held && s.sid.Other == sid.Other {
		s.sid, s.held, s.granted = nfs4.StateID{}, false, 0
	}
}

// downgraded notes a successful OPEN_DOWNGRADE.
func (s *share) downgraded(sid nfs4.StateID, access uint32) {
	if !s.held || s.sid.Other != sid.Other {
		return
	}
	if s.saw(sid.Seq) {
		s.granted = access // unless an OPEN with a newer seqid has granted more since
	}
}

// lose gives up access to the state: the server does not have it, or not all of
// it, and will not give it again. What it may have left is still closed in the
// end.
func (s *share) lose(why error) { s.lost = why }

// stateID returns the stateid for I/O: with seqid zero, so that opens of the
// same file do not make it old on its way (RFC 8881 section 8.2.2).
func (s *share) stateID() (nfs4.StateID, error) {
	if s.lost != nil {
		return nfs4.StateID{}, s.lost
	}
	return nfs4.StateID{Other: s.sid.Other}, nil
}
