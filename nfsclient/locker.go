package nfsclient

import (
	"context"
	"encoding/binary"
	"math"

	"nfsrdma-fuse/xdr/nfs4"
)

// MaxOffset is the last byte that a file can have. A lock up to it reaches to
// the end of the file, however long that becomes.
const MaxOffset = math.MaxInt64

// LockOwner says in whose name bytes of a file are locked: locks of one owner
// replace each other, those of different owners conflict. The numbers are the
// caller's.
type LockOwner struct {
	ID uint64
	// Flock tells owners of flock(2) locks from those of byte ranges with the
	// same number.
	Flock bool
}

// wire is the owner as the server knows it.
func (o LockOwner) wire() []byte {
	kind := byte('p')
	if o.Flock {
		kind = 'f'
	}
	return binary.BigEndian.AppendUint64([]byte{kind}, o.ID)
}

// lockOwnerOf undoes wire.
func lockOwnerOf(b []byte) LockOwner {
	if len(b) != 9 {
		return LockOwner{}
	}
	return LockOwner{ID: binary.BigEndian.Uint64(b[1:]), Flock: b[0] == 'f'}
}

// locker is what one owner has locked of one file.
//
//	         LOCK                 the server has dropped a lock
//	empty ----------> holding ----------------------------------> lost
//	  ^                  |                                          |
//	  +------------------+------------------------------------------+
//	              everything unlocked, or a file closed
//
// While it is lost, everything that is done through the files it was locked
// through fails, so that nobody goes on as if nobody else had had the lock.
type locker struct {
	node  *node
	owner LockOwner
	// turn is held while the server is told to lock or unlock: one thing at a
	// time, and nothing before an attempt that was given up has been undone.
	turn

	// The following are guarded by state.mu.

	users  int // operations in progress
	ranges heldRanges
	states map[*openShare]*lockState
	files  map[*File]bool // through which it was asked for, and whether it was locked
	lost   error
}

// lockState is the stateid under which an owner has locks that were made with
// one open (RFC 8881 section 8.2.1). It is guarded by state.mu.
type lockState struct {
	share *openShare
	sid   nfs4.StateID
	held  bool // the server has the state sid
}

// useLocker returns what an owner has locked of the file, for an operation
// through f. With create set it is never nil.
func (c *Client) useLocker(f *File, owner LockOwner, create bool) *locker {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	n := f.open.node
	l := n.lockers[owner]
	if l == nil {
		if !create {
			return nil
		}
		l = &locker{node: n, owner: owner, turn: newTurn(),
			states: make(map[*openShare]*lockState), files: make(map[*File]bool)}
		if n.lockers == nil {
			n.lockers = make(map[LockOwner]*locker)
		}
		n.lockers[owner] = l
	}
	l.users++
	if create {
		if f.lockers == nil {
			f.lockers = make(map[*locker]struct{})
		}
		f.lockers[l] = struct{}{}
		if !l.files[f] {
			l.files[f] = false
		}
	}
	return l
}

// use notes one more operation.
func (c *Client) use(l *locker) {
	c.state.mu.Lock()
	l.users++
	c.state.mu.Unlock()
}

// unuse ends an operation. A locker that has nothing any more goes.
func (c *Client) unuse(l *locker) {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.users--; l.users > 0 || len(l.ranges) > 0 {
		return
	}
	if l.node.lockers[l.owner] == l {
		delete(l.node.lockers, l.owner)
	}
	for f := range l.files {
		delete(f.lockers, l)
	}
}

// state returns the lock state for locks made with an open. Called with
// state.mu held.
func (l *locker) state(o *openShare) *lockState {
	st := l.states[o]
	if st == nil {
		st = &lockState{share: o}
		l.states[o] = st
	}
	return st
}

// forget says that bytes are not locked any more. Called with state.mu held.
func (l *locker) forget(start, last uint64) {
	l.ranges.clear(start, last)
	if len(l.ranges) == 0 {
		l.lost = nil
	}
	l.node.wakeLocks(nil)
}

// lose says that the server has dropped what was locked under st, or a part of
// it. It tells whether anything was locked. Called with state.mu held.
func (l *locker) lose(st *lockState) bool {
	if l.lost != nil || !l.ranges.via(st) {
		return false
	}
	l.lost = &Error{Op: nfs4.OpLock.String(), Err: ErrLocksLost}
	return true
}

// loseLocks says that an open is not at the server any more, and the locks made
// with it are not either.
func (c *Client) loseLocks(o *openShare) {
	s := &c.state
	s.mu.Lock()
	lost := 0
	for _, l := range o.node.lockers {
		st := l.states[o]
		if st == nil {
			continue
		}
		st.held = false
		if l.lose(st) {
			lost++
		}
	}
	s.mu.Unlock()
	c.logLost(lost)
}

// logLost makes the entry about owners that have lost locks.
func (c *Client) logLost(owners int) {
	if owners > 0 {
		c.log.WithField("owners", owners).Warn("locks of a file lost at the server: its users get errors until they unlock or close it")
	}
}

// pickIO returns the stateid for reading and writing through a file: a
// delegation's, or that of the locks that were made through it, or the open's
// (RFC 8881 section 8.2.5). There is none if such a lock has been lost.
func (c *Client) pickIO(f *File, access uint32) (nfs4.StateID, error) {
	s := &c.state
	s.mu.Lock()
	var lock *lockState
	owners := 0
	for l := range f.lockers {
		if l.lost != nil && l.files[f] {
			defer s.mu.Unlock()
			return nfs4.StateID{}, l.lost
		}
		if st := l.states[f.open]; st != nil && st.held && l.ranges.via(st) {
			lock = st
			owners++
		}
	}
	// Several owners can share an open file; which of them reads or writes is
	// not known here.
	if d := f.open.node.deleg; owners == 1 && (d == nil || !d.covers(access)) {
		defer s.mu.Unlock()
		return nfs4.StateID{Other: lock.sid.Other}, nil
	}
	s.mu.Unlock()
	return c.pick(f.open, access)
}

// restateIO is called when the server has refused a stateid of pickIO. When it
// returns nil, it is worth trying again.
func (c *Client) restateIO(ctx context.Context, f *File, access uint32, used nfs4.StateID, status nfs4.Status) error {
	s := &c.state
	s.mu.Lock()
	for l := range f.lockers {
		if st := l.states[f.open]; st != nil && st.held && st.sid.Other == used.Other {
			st.held = false
			lost, err := l.lose(st), l.lost
			s.mu.Unlock()
			if lost {
				c.logLost(1)
			}
			c.freeStateID(ctx, used, status)
			return err
		}
	}
	s.mu.Unlock()
	now, err := c.pickIO(f, access)
	if err != nil || now.Other != used.Other {
		return err
	}
	return c.restate(ctx, f.open, access, used, status)
}
