package nfstest

import (
	"slices"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// lockWaiter is a client that was refused a lock and wants to know when it may
// have become free.
type lockWaiter struct {
	client      *client
	file        *file
	owner       string
	start, last uint64
	write       bool
}

// maxWaiters bounds the list of them; those above it have to poll.
const maxWaiters = 4096

// checkLock checks what is common to the lock operations.
func (c *compound) checkLock(offset, length uint64) (last uint64, status nfs4.Status) {
	switch last, ok := lastByte(offset, length); {
	case !c.cur.valid():
		return 0, nfs4.ErrNoFileHandle
	case c.cur.n.Kind() == memfs.Directory:
		return 0, nfs4.ErrIsDir
	case c.cur.n.Kind() == memfs.Symlink:
		return 0, nfs4.ErrSymlink
	case c.cur.n.Kind() != memfs.Regular:
		return 0, nfs4.ErrWrongType
	case !ok:
		return 0, nfs4.ErrInval
	default:
		return last, nfs4.OK
	}
}

func isWrite(t nfs4.LockType) bool { return t == nfs4.WriteLock || t == nfs4.WriteWaitLock }

func denied(r *byteRange) nfs4.LockDenied {
	d := nfs4.LockDenied{Type: nfs4.ReadLock,
		Owner: nfs4.LockOwner{ClientID: r.st.client.id, Owner: []byte(r.st.owner)}}
	if r.write {
		d.Type = nfs4.WriteLock
	}
	d.Offset, d.Length = r.wire()
	return d
}

// conflict returns the lock that is in the way of one, and forgets clients whose
// lease has run out and that are. s.mu is held.
func (s *Server) conflict(f *file, cl *client, owner string, start, last uint64, write bool) *byteRange {
	for {
		r := f.ranges.conflict(cl, owner, start, last, write)
		if r == nil || !s.evictExpired(r.st) {
			return r
		}
	}
}

// lock carries out LOCK (RFC 8881 section 18.10).
func (c *compound) lock(a *nfs4.LockArgs) nfs4.Res {
	res := &nfs4.LockRes{}
	last, status := c.checkLock(a.Offset, a.Length)
	if res.Status = status; status != nfs4.OK {
		return res
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case c.gone():
		res.Status = nfs4.ErrExpired
		return res
	case a.Reclaim && (!s.inGrace() || c.cl.reclaimed):
		res.Status = nfs4.ErrNoGrace
		return res
	case a.Reclaim && !c.cl.mayReclaim:
		res.Status = nfs4.ErrReclaimBad
		return res
	case !a.Reclaim && (s.inGrace() || !c.cl.reclaimed):
		res.Status = nfs4.ErrGrace
		return res
	}
	open, st, owner, status := c.lockOwner(a)
	if res.Status = status; status != nfs4.OK {
		return res
	}
	write := isWrite(a.Type)
	need := nfs4.ShareAccessRead
	if write {
		need = nfs4.ShareAccessWrite
	}
	f := open.file
	if open.access&need == 0 {
		res.Status = nfs4.ErrOpenMode
		return res
	}
	if r := s.conflict(f, c.cl, owner, a.Offset, last, write); r != nil {
		if a.Type >= nfs4.ReadWaitLock && !s.opt.NoNotifyLock {
			s.await(&lockWaiter{c.cl, f, owner, a.Offset, last, write})
		}
		res.Status, res.Denied = nfs4.ErrDenied, denied(r)
		if a.Reclaim {
			*res = nfs4.LockRes{Status: nfs4.ErrReclaimConflict}
		}
		return res
	}
	if len(f.ranges.list) >= maxRanges || st == nil && len(s.states) >= maxStates {
		res.Status = nfs4.ErrDelay
		return res
	}
	if st == nil {
		st = s.newState(lockState, c.cl, f)
		st.owner, st.open = owner, open
		open.lockers = append(open.lockers, st)
		res.StateID = st.id()
	} else {
		res.StateID = st.bump()
	}
	f.ranges.set(st, a.Offset, last, write)
	s.waiters = slices.DeleteFunc(s.waiters, func(w *lockWaiter) bool {
		return w.client == c.cl && w.file == f && w.owner == owner && w.start == a.Offset && w.last == last
	})
	s.notifyWaiters(f) // a write lock may have become a read lock
	c.curState, c.hasState = res.StateID, true
	return res
}

// await enters a waiter, unless it has asked for the same before. s.mu is held.
func (s *Server) await(w *lockWaiter) {
	if len(s.waiters) < maxWaiters && !slices.ContainsFunc(s.waiters, func(o *lockWaiter) bool { return *o == *w }) {
		s.waiters = append(s.waiters, w)
	}
}

// lockOwner finds the open and the lock state that a LOCK refers to; the latter is
// nil if there is none yet. s.mu is held.
func (c *compound) lockOwner(a *nfs4.LockArgs) (open, st *state, owner string, status nfs4.Status) {
	if !a.NewOwner {
		id, status := c.current(a.LockStateID, true)
		if status != nfs4.OK {
			return nil, nil, "", status
		}
		st, status := c.find(id, lockState)
		if status != nfs4.OK {
			return nil, nil, "", status
		}
		return st.open, st, st.owner, nfs4.OK
	}
	id, status := c.current(a.OpenStateID, true)
	if status != nfs4.OK {
		return nil, nil, "", status
	}
	open, status = c.find(id, openState)
	if status != nfs4.OK {
		return nil, nil, "", status
	}
	owner = string(a.Owner.Owner)
	for _, l := range open.file.locks {
		if l.open == open && l.owner == owner {
			st = l // the client has forgotten, or sends two at once
		}
	}
	return open, st, owner, nfs4.OK
}

// lockTest carries out LOCKT (RFC 8881 section 18.11).
func (c *compound) lockTest(a *nfs4.LockTArgs) nfs4.Res {
	res := &nfs4.LockTRes{}
	last, status := c.checkLock(a.Offset, a.Length)
	if res.Status = status; status != nfs4.OK {
		return res
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inGrace() {
		res.Status = nfs4.ErrGrace
		return res
	}
	f := s.files[c.cur.n]
	if f == nil {
		return res
	}
	if r := s.conflict(f, c.cl, string(a.Owner.Owner), a.Offset, last, isWrite(a.Type)); r != nil {
		res.Status, res.Denied = nfs4.ErrDenied, denied(r)
	}
	return res
}

// unlock carries out LOCKU (RFC 8881 section 18.12).
func (c *compound) unlock(a *nfs4.LockUArgs) nfs4.Res {
	last, status := c.checkLock(a.Offset, a.Length)
	if status != nfs4.OK {
		return fail(nfs4.OpLockU, status)
	}
	id, status := c.current(a.StateID, true)
	if status != nfs4.OK {
		return fail(nfs4.OpLockU, status)
	}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	st, status := c.find(id, lockState)
	if status != nfs4.OK {
		return fail(nfs4.OpLockU, status)
	}
	if len(st.file.ranges.list) >= maxRanges+1 { // a split needs one more
		return fail(nfs4.OpLockU, nfs4.ErrDelay)
	}
	if st.file.ranges.clear(st, a.Offset, last) {
		s.notifyWaiters(st.file)
	}
	res := &nfs4.LockURes{StateID: st.bump()}
	c.curState, c.hasState = res.StateID, true
	return res
}

// notifyWaiters tells clients whose lock is not in conflict any more (RFC 8881
// section 20.11). s.mu is held.
func (s *Server) notifyWaiters(f *file) {
	s.waiters = slices.DeleteFunc(s.waiters, func(w *lockWaiter) bool {
		if w.file != f || f.ranges.conflict(w.client, w.owner, w.start, w.last, w.write) != nil {
			return false
		}
		if s.clients[w.client.id] == w.client && s.canCall(w.client) {
			s.call(&callback{client: w.client, op: &nfs4.CBNotifyLockArgs{FH: f.o.handle(),
				Owner: nfs4.LockOwner{ClientID: w.client.id, Owner: []byte(w.owner)}}})
		}
		return true
	})
}
