package nfstest

import (
	"slices"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// stateKind is the kind of a stateid.
type stateKind uint8

const (
	openState stateKind = 1 + iota
	lockState
	delegState
)

// state is what a stateid stands for (RFC 8881 section 8.2).
//
//	       revoke                 FREE_STATEID
//	valid ───────▶ revoked ──────────────────────▶ gone
//	  │   CLOSE, DELEGRETURN, FREE_STATEID           ▲
//	  └──────────────────────────────────────────────┘
type state struct {
	kind    stateKind
	other   [12]byte
	seq     uint32
	client  *client
	file    *file
	revoked nfs4.Status // why, or OK

	// Of an open: its owner, what it may do and denies others, and the
	// OPENs that made it up.
	owner        string
	access, deny uint32
	opens        uint16
	lockers      []*state // locks made with it

	// Of locks: the open that they were made with. owner is the lock owner.
	open *state

	// Of a delegation.
	write      bool
	recalled   bool
	recalledAt time.Time
	origin     *referral
	change     uint64 // of the file when it was granted
	size       int64
	heldChange uint64 // what the holder said last
	heldSize   uint64
}

// file is the state of one file.
type file struct {
	o      object
	opens  []*state
	locks  []*state
	delegs []*state
	ranges ranges
	pins   int // calls that look at it
}

// fileOf returns the state of a file; it makes it if needed. s.mu is held.
func (s *Server) fileOf(o object) (*file, error) {
	if f := s.files[o.n]; f != nil {
		return f, nil
	}
	if err := o.exp.fs.Hold(o.n); err != nil {
		return nil, err
	}
	f := &file{o: o}
	s.files[o.n] = f
	return f, nil
}

// tidy forgets a file that nobody has state of. s.mu is held.
func (s *Server) tidy(f *file) {
	if f.pins > 0 || len(f.opens) > 0 || len(f.locks) > 0 || len(f.delegs) > 0 {
		return
	}
	if s.files[f.o.n] == f {
		delete(s.files, f.o.n)
		f.release()
	}
}

// release lets go of the inode.
func (f *file) release() { f.o.exp.fs.Release(f.o.n) }

// list returns the list of the file that states of this kind are in.
func (f *file) list(k stateKind) *[]*state {
	switch k {
	case openState:
		return &f.opens
	case lockState:
		return &f.locks
	}
	return &f.delegs
}

// newState makes a state with sequence number 1. s.mu is held.
func (s *Server) newState(k stateKind, cl *client, f *file) *state {
	st := &state{kind: k, other: s.newOther(), seq: 1, client: cl, file: f}
	s.states[st.other] = st
	cl.states[st] = struct{}{}
	l := f.list(k)
	*l = append(*l, st)
	return st
}

// detach takes a state off its file: it locks nothing any more. s.mu is held.
func (s *Server) detach(st *state) {
	f := st.file
	l := f.list(st.kind)
	i := slices.Index(*l, st)
	if i < 0 {
		return
	}
	*l = slices.Delete(*l, i, i+1)
	if st.recalled {
		st.recalled = false
		st.client.recalls--
	}
	switch st.kind {
	case openState:
		for _, lock := range st.lockers {
			s.detach(lock)
		}
	case lockState:
		if f.ranges.drop(st) {
			s.notifyWaiters(f)
		}
	}
	s.tidy(f)
}

// dropState ends a state: its stateid is not known any more. s.mu is held.
func (s *Server) dropState(st *state) {
	for _, lock := range slices.Clone(st.lockers) {
		s.dropState(lock)
	}
	if st.open != nil {
		st.open.lockers = slices.DeleteFunc(st.open.lockers, func(l *state) bool { return l == st })
	}
	s.detach(st)
	delete(s.states, st.other)
	delete(st.client.states, st)
	switch st.revoked {
	case nfs4.ErrExpired:
		st.client.allRevoked--
	case nfs4.ErrAdminRevoked:
		st.client.adminRevoked--
	case nfs4.ErrDelegRevoked:
		st.client.delegRevoked--
	}
	st.revoked = nfs4.OK
}

// revoke takes a state from its client, which still gets to know why when it
// uses the stateid. Locks go with the open that they were made with. s.mu is held.
func (s *Server) revoke(st *state, why nfs4.Status) {
	if st.revoked != nfs4.OK {
		return
	}
	st.revoked = why
	switch why {
	case nfs4.ErrExpired:
		st.client.allRevoked++
	case nfs4.ErrAdminRevoked:
		st.client.adminRevoked++
	case nfs4.ErrDelegRevoked:
		st.client.delegRevoked++
	}
	s.detach(st)
	for _, lock := range st.lockers {
		s.revoke(lock, why)
	}
}

// gone tells whether the client was forgotten while it was being served: it must
// not get new state. s.mu is held.
func (c *compound) gone() bool { return c.s.clients[c.cl.id] != c.cl }

// bump notes a change of a state and returns its new stateid.
func (st *state) bump() nfs4.StateID {
	if st.seq++; st.seq == 0 {
		st.seq = 1
	}
	return st.id()
}

func (st *state) id() nfs4.StateID { return nfs4.StateID{Seq: st.seq, Other: st.other} }

// current replaces the stateid that stands for the current one (RFC 8881 section
// 16.2.3.1.2). With latest set its sequence number is not checked later.
func (c *compound) current(id nfs4.StateID, latest bool) (nfs4.StateID, nfs4.Status) {
	if id != nfs4.CurrentStateID {
		return id, nfs4.OK
	}
	if !c.hasState || c.curState.IsSpecial() {
		return id, nfs4.ErrBadStateID
	}
	id = c.curState
	if latest {
		id.Seq = 0
	}
	return id, nfs4.OK
}

// find looks a stateid up (RFC 8881 section 8.2.4). With kinds given it must be
// of one of them. Special stateids are not found. s.mu is held.
func (c *compound) find(id nfs4.StateID, kinds ...stateKind) (*state, nfs4.Status) {
	st := c.s.states[id.Other]
	if st == nil || st.client != c.cl || c.cur.valid() && st.file.o.n != c.cur.n {
		return nil, nfs4.ErrBadStateID
	}
	if st.revoked != nfs4.OK {
		return nil, st.revoked
	}
	if !slices.Contains(kinds, st.kind) {
		return nil, nfs4.ErrBadStateID
	}
	return st, st.checkSeq(id.Seq)
}

// checkSeq compares a sequence number with the newest one; numbers wrap around
// and leave out 0.
func (st *state) checkSeq(seq uint32) nfs4.Status {
	switch {
	case seq == 0 || seq == st.seq:
		return nfs4.OK
	case int32(seq-st.seq) < 0:
		return nfs4.ErrOldStateID
	}
	return nfs4.ErrBadStateID
}

// forIO checks a stateid that comes with an operation on the data of the current
// file, and tells whether the file is open for it, so that permissions were
// checked already. s.mu is not held.
func (c *compound) forIO(id nfs4.StateID, write bool) (opened bool, status nfs4.Status) {
	id, status = c.current(id, true)
	if status != nfs4.OK {
		return false, status
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[c.cur.n]
	need := nfs4.ShareAccessRead
	if write {
		need = nfs4.ShareAccessWrite
	}
	if id == nfs4.AnonymousStateID || id == nfs4.BypassStateID {
		if s.inGrace() {
			return false, nfs4.ErrGrace
		}
		if f == nil {
			return false, nfs4.OK
		}
		if id == nfs4.AnonymousStateID || write {
			for _, o := range slices.Clone(f.opens) {
				if o.deny&need != 0 && !s.evictExpired(o) {
					return false, nfs4.ErrLocked
				}
			}
		}
		return false, s.breakDelegations(c, f, write)
	}
	st, status := c.find(id, openState, lockState, delegState)
	if status != nfs4.OK {
		return false, status
	}
	switch st.kind {
	case delegState:
		if write && !st.write {
			return false, nfs4.ErrOpenMode
		}
		return true, nfs4.OK
	case lockState:
		st = st.open
	}
	if st.access&need == 0 {
		if write {
			return false, nfs4.ErrOpenMode
		}
		// Whoever writes parts of a page may have to read it first, so reads
		// through an open for writing are let pass if permissions allow.
		return false, nfs4.OK
	}
	return true, s.breakDelegations(c, f, write)
}

// evictExpired forgets the client of a state that is in the way, if its lease has
// run out. s.mu is held.
func (s *Server) evictExpired(st *state) bool {
	if !s.expired(st.client) {
		return false
	}
	s.forget(st.client)
	return true
}

// testStateID carries out TEST_STATEID (RFC 8881 section 18.48).
func (c *compound) testStateID(a *nfs4.TestStateIDArgs) nfs4.Res {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &nfs4.TestStateIDRes{Statuses: make([]nfs4.Status, len(a.StateIDs))}
	for i, id := range a.StateIDs {
		st := s.states[id.Other]
		switch {
		case st == nil || st.client != c.cl:
			res.Statuses[i] = nfs4.ErrBadStateID
		case st.revoked != nfs4.OK:
			res.Statuses[i] = st.revoked
		default:
			res.Statuses[i] = st.checkSeq(id.Seq)
		}
	}
	return res
}

// freeStateID carries out FREE_STATEID (RFC 8881 section 18.38).
func (c *compound) freeStateID(a *nfs4.FreeStateIDArgs) nfs4.Res {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.states[a.StateID.Other]
	switch {
	case st == nil || st.client != c.cl:
		return fail(nfs4.OpFreeStateID, nfs4.ErrBadStateID)
	case st.revoked != nfs4.OK:
		s.dropState(st)
	case st.kind == lockState && !st.file.ranges.has(st):
		if status := st.checkSeq(a.StateID.Seq); status != nfs4.OK {
			return fail(nfs4.OpFreeStateID, status)
		}
		s.dropState(st)
	default:
		return fail(nfs4.OpFreeStateID, nfs4.ErrLocksHeld)
	}
	return &nfs4.FreeStateIDRes{}
}

// RevokeAll revokes all opens, locks and delegations, as an administrator might.
// It returns how many there were.
func (s *Server) RevokeAll() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, st := range s.states {
		if st.revoked == nfs4.OK {
			s.revoke(st, nfs4.ErrAdminRevoked)
			n++
		}
	}
	return n
}
