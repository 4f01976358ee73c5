package nfsclient

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"

	"nfsrdma-fuse/xdr/nfs4"
)

// Byte-range locks (RFC 8881 sections 9 and 18.10 to 18.12). They always go to
// the server, also under a delegation, so that there is nothing to send when
// one is recalled. The flow:
//
//	Lock     attempt -> refused: wait (lockwait.go) -> attempt ...
//	         attempt: the owner's turn -> LOCK, GETATTR -> ranges
//	Unlock   the owner's turn -> GETATTR, LOCKU, FREE_STATEID after the last
//
// What has been begun at the server is always ended, also if the caller gives
// up: by a goroutine of the client's own, which undoes a lock that nobody waits
// for any more before anything else is done in the name of its owner.

// LockRequest says what to lock.
type LockRequest struct {
	Owner       LockOwner
	Start, Last uint64 // bytes, Last included and at most MaxOffset
	Write       bool   // exclusively; the file must be open for writing
	// Tag is what others of this client are told who find the lock in their
	// way, for example a process id.
	Tag uint32
	// Wait makes Lock wait for whoever is in the way.
	Wait bool
	// Stop ends the waiting, with context.Canceled. Unlike the end of the
	// context it does not cut short a request that is on its way.
	Stop <-chan struct{}
}

// LockConflict is a lock that is in the way of another.
type LockConflict struct {
	Start, Last uint64 // bytes, Last included
	Write       bool
	Mine        bool      // it is one of this client
	Owner       LockOwner // if it is
	Tag         uint32    // if it is
}

// Lock locks bytes of the file, in place of what the owner has locked there. It
// returns the attributes of the file when it was locked, or nil if the server
// did not say. An error that matches nfs4.ErrDenied means that somebody else has
// locked some of them.
func (f *File) Lock(ctx context.Context, q LockRequest) (*nfs4.Attrs, error) {
	need := nfs4.ShareAccessRead
	if q.Write {
		need = nfs4.ShareAccessWrite
	}
	switch {
	case f.closed.Load():
		return nil, opError(nfs4.OpLock, io.ErrClosedPipe)
	case f.access&need == 0:
		return nil, opError(nfs4.OpLock, syscall.EBADF)
	case q.Start > q.Last || q.Last > MaxOffset:
		return nil, opError(nfs4.OpLock, nfs4.ErrInval)
	}
	c := f.c
	l := c.useLocker(f, q.Owner, true)
	defer c.unuse(l)
	var w *lockWaiter
	if q.Wait {
		// Before the first attempt, so that no notification is missed.
		w = c.addWaiter(l.node, q.Owner)
		defer c.removeWaiter(l.node, w)
	}
	for n := 0; ; n++ {
		attrs, conflict, err := c.lockAttempt(ctx, f, l, q)
		switch {
		case conflict == nil:
			return attrs, err
		case q.Wait:
			if err := c.awaitLock(ctx, f, w, q.Stop, n); err != nil {
				return nil, opError(nfs4.OpLock, err)
			}
		case !conflict.Mine || !c.ownReleased(ctx, l.node, conflict, n):
			return nil, err
		}
	}
}

// lockAttempt asks the server once. conflict is not nil if it has refused.
func (c *Client) lockAttempt(ctx context.Context, f *File, l *locker, q LockRequest) (attrs *nfs4.Attrs, conflict *LockConflict, err error) {
	err = c.detached(ctx, ctx, l, func(ctx context.Context, wanted func() bool) error {
		c.state.mu.Lock()
		before := l.ranges.within(q.Start, q.Last)
		c.state.mu.Unlock()
		a, bar, err := c.sendLock(ctx, f, l, &q)
		if wanted() {
			attrs, conflict = a, bar
		} else if err == nil {
			c.undoLock(ctx, l, &q, before)
		}
		return err
	})
	return attrs, conflict, err
}

// detached does something in turn for an owner, and returns when it is done or
// when ctx is. In the latter case it goes on by itself, or does not begin if
// queue is done as well; wanted tells it, once it has asked, whether somebody
// still waits for the result.
func (c *Client) detached(ctx, queue context.Context, l *locker, do func(ctx context.Context, wanted func() bool) error) error {
	c.use(l)
	var settled atomic.Bool
	done := make(chan error, 1)
	c.wg.Go(func() {
		defer c.unuse(l)
		if err := l.take(queue); err != nil {
			done <- opError(nfs4.OpLock, err)
			return
		}
		asked, claimed := false, false
		err := do(c.ctx, func() bool {
			asked, claimed = true, settled.CompareAndSwap(false, true)
			return claimed
		})
		if !asked {
			claimed = settled.CompareAndSwap(false, true)
		}
		l.leave()
		if claimed {
			done <- err
		}
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	if settled.CompareAndSwap(false, true) {
		return opError(nfs4.OpLock, ctx.Err())
	}
	return <-done
}

func lockType(write, wait bool) nfs4.LockType {
	switch {
	case write && wait:
		return nfs4.WriteWaitLock
	case write:
		return nfs4.WriteLock
	case wait:
		return nfs4.ReadWaitLock
	}
	return nfs4.ReadLock
}

// lockLength returns the length of a range on the wire.
func lockLength(start, last uint64) uint64 {
	if last == MaxOffset {
		return nfs4.MaxLength
	}
	return last - start + 1
}

// lockArgs fills in a LOCK in the name of an owner, with its lock stateid or, if
// there is none, with that of the open. Called with state.mu held.
func (c *Client) lockArgs(l *locker, st *lockState, start, last uint64) (nfs4.LockArgs, error) {
	a := nfs4.LockArgs{Offset: start, Length: lockLength(start, last)}
	if l.lost != nil {
		return a, l.lost
	}
	if st.held {
		a.LockStateID = nfs4.StateID{Other: st.sid.Other}
		return a, nil
	}
	var err error
	a.NewOwner = true
	a.Owner.Owner = l.owner.wire()
	a.OpenStateID, err = st.share.stateID()
	return a, err
}

// sendLock carries out LOCK and notes what it has brought.
func (c *Client) sendLock(ctx context.Context, f *File, l *locker, q *LockRequest) (*nfs4.Attrs, *LockConflict, error) {
	s := &c.state
	for try := 0; ; try++ {
		s.mu.Lock()
		st := l.state(f.open)
		args, err := c.lockArgs(l, st, q.Start, q.Last)
		s.mu.Unlock()
		if err != nil {
			return nil, nil, opError(nfs4.OpLock, err)
		}
		args.Type = lockType(q.Write, q.Wait)
		var res nfs4.LockRes
		r := c.newRequest(f.open.cred)
		r.addPutFH(l.node.fh)
		r.change(&args, &res)
		r.addGetAttr(ObjectAttrs)
		r.orphaned = func(r *request) { c.strayLock(l, st, q, r, &res) }
		done, status, err := c.exec(ctx, r)
		if err != nil {
			return nil, nil, opError(nfs4.OpLock, err)
		}
		if done > r.modify {
			var attrs *nfs4.Attrs
			if status == nfs4.OK {
				attrs = keepAttrs(&r.getAttrRes.Attrs)
			}
			r.free()
			s.mu.Lock()
			st.sid, st.held = res.StateID, true
			l.ranges.set(heldRange{q.Start, q.Last, q.Write, q.Tag, st})
			l.files[f] = true
			if !q.Write {
				l.node.wakeLocks(nil) // it may have been locked for writing
			}
			s.mu.Unlock()
			return attrs, nil, nil
		}
		if status == nfs4.ErrDenied && done == r.modify {
			by := c.conflict(l.node, &res.Denied) // it refers to the reply
			r.free()
			return nil, by, opError(nfs4.OpLock, status)
		}
		r.free()
		if !stateTrouble(status) || try == maxStateTries {
			return nil, nil, opError(nfs4.OpLock, status)
		}
		if err := c.relock(ctx, f, l, st, &args, status); err != nil {
			return nil, nil, opError(nfs4.OpLock, err)
		}
	}
}

// relock is called when the server has refused the stateid of a LOCK. When it
// returns nil, it is worth trying again.
func (c *Client) relock(ctx context.Context, f *File, l *locker, st *lockState, used *nfs4.LockArgs, status nfs4.Status) error {
	s := &c.state
	s.mu.Lock()
	if used.NewOwner {
		now, err := f.open.stateID()
		s.mu.Unlock()
		if err != nil || now.Other != used.OpenStateID.Other {
			return err
		}
		return c.reopen(ctx, f.open, now, status)
	}
	if !st.held || st.sid.Other != used.LockStateID.Other {
		defer s.mu.Unlock()
		return l.lost // it was replaced meanwhile, or not
	}
	st.held = false
	lost, err := l.lose(st), l.lost
	s.mu.Unlock()
	if lost {
		c.logLost(1)
	}
	c.freeStateID(ctx, used.LockStateID, status)
	return err
}

// conflict translates what the server says is in the way.
func (c *Client) conflict(n *node, d *nfs4.LockDenied) *LockConflict {
	b := &LockConflict{Start: min(d.Offset, MaxOffset), Last: MaxOffset,
		Write: d.Type == nfs4.WriteLock || d.Type == nfs4.WriteWaitLock}
	if d.Length != 0 && d.Length-1 <= MaxOffset-b.Start {
		b.Last = b.Start + d.Length - 1
	}
	c.mu.Lock()
	b.Mine = d.Owner.ClientID == c.clientID
	c.mu.Unlock()
	if !b.Mine {
		return b
	}
	b.Owner = lockOwnerOf(d.Owner.Owner)
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := n.lockers[b.Owner]; l != nil {
		for _, r := range l.ranges.within(b.Start, b.Last) {
			b.Tag = r.tag
		}
	}
	return b
}

// undoLock takes back a lock that nobody waits for any more: what was not locked
// before is unlocked, and what was locked for reading is that again.
func (c *Client) undoLock(ctx context.Context, l *locker, q *LockRequest, before heldRanges) {
	before.gaps(q.Start, q.Last, func(start, last uint64) {
		if _, _, err := c.sendUnlock(ctx, l, start, last, false); err != nil {
			c.log.WithError(err).Warn("lock that nobody waits for not released")
		}
	})
	for _, r := range before {
		if r.write || !q.Write {
			continue
		}
		c.state.mu.Lock()
		var via *File
		for f := range l.files {
			if f.open == r.via.share {
				via = f
			}
		}
		c.state.mu.Unlock()
		if via == nil {
			continue
		}
		if _, _, err := c.sendLock(ctx, via, l, &LockRequest{Start: r.start, Last: r.last, Tag: r.tag}); err != nil {
			c.log.WithError(err).Warn("lock that nobody waits for not made what it was")
		}
	}
}

// strayLock undoes a LOCK that was answered after the time of a soft mount had
// run out.
func (c *Client) strayLock(l *locker, st *lockState, q *LockRequest, r *request, res *nfs4.LockRes) {
	if done, _, err := r.results(); err != nil || done <= r.modify {
		return
	}
	s := &c.state
	s.mu.Lock()
	if now := l.node.lockers[l.owner]; now != nil && now != l {
		l, st = now, now.state(st.share)
	}
	l.users++
	s.mu.Unlock()
	defer c.unuse(l)
	if l.take(c.ctx) != nil {
		return
	}
	defer l.leave()
	s.mu.Lock()
	before := l.ranges.within(q.Start, q.Last)
	st.sid, st.held = res.StateID, true
	l.ranges.set(heldRange{q.Start, q.Last, q.Write, q.Tag, st})
	s.mu.Unlock()
	c.undoLock(c.ctx, l, q, before)
}

// TestLock tells what is in the way of a lock, or nil if it could be had.
func (f *File) TestLock(ctx context.Context, q LockRequest) (*LockConflict, error) {
	if q.Start > q.Last || q.Last > MaxOffset {
		return nil, opError(nfs4.OpLockT, nfs4.ErrInval)
	}
	c := f.c
	r := c.newRequest(f.open.cred)
	r.addPutFH(f.open.node.fh)
	c.mu.Lock()
	id := c.clientID
	c.mu.Unlock()
	var res nfs4.LockTRes
	r.add(&nfs4.LockTArgs{Type: lockType(q.Write, false), Offset: q.Start, Length: lockLength(q.Start, q.Last),
		Owner: nfs4.LockOwner{ClientID: id, Owner: q.Owner.wire()}}, &res)
	done, status, err := c.exec(ctx, r)
	if err != nil {
		return nil, opError(nfs4.OpLockT, err)
	}
	defer r.free() // what is in the way refers to the reply
	switch {
	case status == nfs4.OK:
		return nil, nil
	case status == nfs4.ErrDenied && done == 1:
		return c.conflict(f.open.node, &res.Denied), nil
	}
	return nil, opError(nfs4.OpLockT, status)
}

// Unlock releases what an owner has locked of the bytes from start to last,
// through whatever file of this client. What is not locked is no error. With
// want set it returns the attributes that the file had before it was unlocked,
// or nil if nothing was locked or the server did not say; exact says that the
// owner had all of the file locked for writing until then.
func (f *File) Unlock(ctx context.Context, owner LockOwner, start, last uint64, want bool) (attrs *nfs4.Attrs, exact bool, err error) {
	l := f.c.useLocker(f, owner, false)
	if l == nil {
		return nil, false, nil
	}
	defer f.c.unuse(l)
	return f.c.unlock(ctx, l, start, last, want)
}

func (c *Client) unlock(ctx context.Context, l *locker, start, last uint64, want bool) (attrs *nfs4.Attrs, exact bool, err error) {
	// Begun in any case: a caller that has been killed has no second try.
	err = c.detached(ctx, c.ctx, l, func(ctx context.Context, wanted func() bool) error {
		a, e, err := c.sendUnlock(ctx, l, start, last, want)
		if wanted() {
			attrs, exact = a, e
		}
		return err
	})
	return attrs, exact, err
}

// sendUnlock releases what is held of a range.
func (c *Client) sendUnlock(ctx context.Context, l *locker, start, last uint64, want bool) (attrs *nfs4.Attrs, exact bool, err error) {
	s := &c.state
	s.mu.Lock()
	exact = l.ranges.all(0, MaxOffset)
	rest := append(heldRanges(nil), l.ranges...)
	rest.clear(start, last)
	states := make(map[*lockState]bool) // whether anything stays locked with it
	for _, r := range l.ranges.within(start, last) {
		states[r.via] = rest.via(r.via)
	}
	s.mu.Unlock()
	for st, stays := range states {
		a, err := c.sendLockU(ctx, l, st, start, last, want, !stays)
		if err != nil {
			return nil, false, opError(nfs4.OpLockU, err)
		}
		attrs = a
	}
	s.mu.Lock()
	l.forget(start, last)
	s.mu.Unlock()
	return attrs, exact, nil
}

// sendLockU carries out LOCKU, and FREE_STATEID behind it if the stateid is of no
// more use. A lock that the server does not have any more counts as released.
func (c *Client) sendLockU(ctx context.Context, l *locker, st *lockState, start, last uint64, want, free bool) (*nfs4.Attrs, error) {
	s := &c.state
	for {
		s.mu.Lock()
		held, used := st.held, nfs4.StateID{Other: st.sid.Other}
		s.mu.Unlock()
		if !held {
			return nil, nil
		}
		var res nfs4.LockURes
		var freed nfs4.FreeStateIDRes
		r := c.newRequest(st.share.cred)
		r.addPutFH(l.node.fh)
		if want {
			r.addGetAttr(ObjectAttrs)
		}
		r.change(&nfs4.LockUArgs{Type: nfs4.WriteLock, StateID: used, Offset: start, Length: lockLength(start, last)}, &res)
		if free {
			r.add(&nfs4.FreeStateIDArgs{StateID: used}, &freed)
		}
		done, status, err := c.exec(ctx, r)
		if err != nil {
			return nil, err
		}
		var attrs *nfs4.Attrs
		if want && done > 1 {
			attrs = keepAttrs(&r.getAttrRes.Attrs)
		}
		ok := done > r.modify
		r.free()
		s.mu.Lock()
		same := st.held && st.sid.Other == used.Other
		switch {
		case ok:
			if same {
				st.sid = res.StateID
				st.held = !free || status != nfs4.OK
			}
			s.mu.Unlock()
			return attrs, nil
		case want && done == 1: // GETATTR has failed
			want = false
			s.mu.Unlock()
		case !stateTrouble(status):
			s.mu.Unlock()
			return nil, status
		case same:
			st.held = false
			lost := l.lose(st)
			s.mu.Unlock()
			if lost {
				c.logLost(1)
			}
			c.freeStateID(ctx, used, status)
			return nil, nil
		default: // replaced meanwhile
			s.mu.Unlock()
		}
	}
}

// through ends the part of a file in what an owner has locked, and the use of
// that.
func (c *Client) through(f *File, l *locker) {
	c.state.mu.Lock()
	delete(l.files, f)
	delete(f.lockers, l)
	c.state.mu.Unlock()
	c.unuse(l)
}

// unlockAll releases the locks that were made through a file that is being
// closed.
func (f *File) unlockAll(ctx context.Context) {
	c := f.c
	s := &c.state
	s.mu.Lock()
	all := make(map[*locker]bool)
	for l := range f.lockers {
		l.users++
		all[l] = l.files[f]
	}
	s.mu.Unlock()
	for l, locked := range all {
		if !locked {
			// An attempt that was given up may still be on its way.
			if l.take(ctx) == nil {
				l.leave()
			}
			c.through(f, l)
			continue
		}
		_, _, err := c.unlock(ctx, l, 0, MaxOffset, false)
		if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
			c.log.WithError(err).Warn("server refuses to release a lock")
		}
		if err != nil {
			s.mu.Lock()
			l.forget(0, MaxOffset) // they go with the open
			s.mu.Unlock()
		}
		c.through(f, l)
	}
}
