package nfstest

import (
	"slices"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// exclusiveTag is the key under which a file keeps the verifier that an
// exclusive create has made it with.
const exclusiveTag = "exclusive"

// open carries out OPEN (RFC 8881 section 18.16).
//
// The way of it: the claim tells which file is meant, and whether it may be
// made; then permissions, delegations and share reservations are looked at; then
// the open is entered, and a delegation may be granted.
func (c *compound) open(a *nfs4.OpenArgs) nfs4.Res {
	res := &nfs4.OpenRes{}
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if res.Status = c.checkOpen(a); res.Status != nfs4.OK {
		return res
	}
	o, made, status := c.openTarget(a, res)
	if status != nfs4.OK {
		res.Status = status
		return res
	}
	if res.Status = c.openFile(a, o, made, res); res.Status != nfs4.OK {
		*res = nfs4.OpenRes{Status: res.Status}
		return res
	}
	c.cur = o
	c.curState, c.hasState = res.StateID, true
	return res
}

// checkOpen checks what can be said without looking at the file.
func (c *compound) checkOpen(a *nfs4.OpenArgs) nfs4.Status {
	access := a.ShareAccess &^ (nfs4.WantDelegMask | nfs4.WantSignalDelegWhenAvail | nfs4.WantPushDelegWhenUncontended)
	switch {
	case access == 0 || access > nfs4.ShareAccessBoth || a.ShareDeny > nfs4.ShareDenyBoth:
		return nfs4.ErrInval
	case a.ShareAccess&nfs4.WantDelegMask > nfs4.WantCancel:
		return nfs4.ErrInval
	case a.Create && a.Claim != nfs4.ClaimNull:
		return nfs4.ErrInval
	case a.Claim == nfs4.ClaimDelegatePrev || a.Claim == nfs4.ClaimDelegPrevFH:
		return nfs4.ErrNotSupp
	case !c.cur.valid():
		return nfs4.ErrNoFileHandle
	case c.gone():
		return nfs4.ErrExpired
	}
	if a.Claim == nfs4.ClaimPrevious {
		switch {
		case !c.s.inGrace() || c.cl.reclaimed:
			return nfs4.ErrNoGrace
		case !c.cl.mayReclaim:
			return nfs4.ErrReclaimBad
		}
		return nfs4.OK
	}
	if c.s.inGrace() || !c.cl.reclaimed {
		return nfs4.ErrGrace
	}
	return nfs4.OK
}

// openTarget finds or makes the file that an OPEN is about.
func (c *compound) openTarget(a *nfs4.OpenArgs, res *nfs4.OpenRes) (o object, made bool, status nfs4.Status) {
	switch a.Claim {
	case nfs4.ClaimFH, nfs4.ClaimPrevious, nfs4.ClaimDelegCurFH:
		return c.cur, false, nfs4.OK
	}
	dir := c.cur
	if dir.n.Kind() != memfs.Directory {
		if dir.n.Kind() == memfs.Symlink {
			return o, false, nfs4.ErrSymlink
		}
		return o, false, nfs4.ErrNotDir
	}
	if status := checkName(a.Name); status != nfs4.OK {
		return o, false, status
	}
	cred := c.credFor(dir)
	change := dir.n.Attr().Change
	res.Change = nfs4.ChangeInfo{Atomic: true, Before: change, After: change}
	o, err := c.s.exports.lookup(cred, dir, a.Name)
	if err == nil && a.Create {
		switch a.How {
		case nfs4.CreateGuarded:
			return o, false, nfs4.ErrExist
		case nfs4.CreateExclusive, nfs4.CreateExclusive41:
			if v, ok := o.n.Tag(exclusiveTag).(nfs4.Verifier); !ok || v != a.CreateVerf {
				return o, false, nfs4.ErrExist
			}
			res.AttrsSet = a.CreateAttrs.Mask // by the first try
			return o, true, nfs4.OK
		}
		return o, false, nfs4.OK
	}
	if err == nil || statusOf(err) != nfs4.ErrNoEnt || !a.Create {
		return o, false, statusOf(err)
	}
	if dir.exp.ReadOnly {
		return o, false, nfs4.ErrROFS
	}
	return c.createFile(a, dir, cred, res)
}

func (c *compound) createFile(a *nfs4.OpenArgs, dir object, cred memfs.Cred, res *nfs4.OpenRes) (o object, made bool, status nfs4.Status) {
	var attrs newAttrs
	if a.How != nfs4.CreateExclusive {
		if a.How == nfs4.CreateExclusive41 && !suppAttrExclCreat.Contains(a.CreateAttrs.Mask) {
			return o, false, nfs4.ErrInval
		}
		if attrs, status = c.decodeAttrs(dir, &a.CreateAttrs, true); status != nfs4.OK {
			return o, false, status
		}
	}
	n, change, err := dir.exp.fs.Make(cred, dir.n, a.Name, memfs.Object{Kind: memfs.Regular, Mode: attrs.createMode(0o644)})
	if err != nil {
		return o, false, statusOf(err)
	}
	o = object{dir.exp, n}
	res.Change = changeInfo(change)
	set, status := c.applyNew(o, cred, &attrs)
	if status != nfs4.OK {
		_, _ = dir.exp.fs.Remove(memfs.Cred{}, dir.n, a.Name) // it was never seen
		return o, false, status
	}
	res.AttrsSet = set
	if a.How == nfs4.CreateExclusive || a.How == nfs4.CreateExclusive41 {
		n.SetTag(exclusiveTag, a.CreateVerf)
	}
	return o, true, nfs4.OK
}

// openFile opens o, which was just made if made is set.
func (c *compound) openFile(a *nfs4.OpenArgs, o object, made bool, res *nfs4.OpenRes) nfs4.Status {
	s := c.s
	access := a.ShareAccess & nfs4.ShareAccessBoth
	write := access&nfs4.ShareAccessWrite != 0
	switch o.n.Kind() {
	case memfs.Regular:
	case memfs.Directory:
		return nfs4.ErrIsDir
	case memfs.Symlink:
		return nfs4.ErrSymlink
	default:
		return nfs4.ErrWrongType
	}
	if write && o.exp.ReadOnly {
		return nfs4.ErrROFS
	}
	cred := c.credFor(o)
	truncate := a.Create && !made && a.How == nfs4.CreateUnchecked &&
		a.CreateAttrs.Has(nfs4.AttrSize) && a.CreateAttrs.Size == 0
	if truncate && !write {
		return nfs4.ErrInval
	}
	if !made && a.Claim != nfs4.ClaimPrevious {
		mine := a.Claim == nfs4.ClaimDelegateCur || a.Claim == nfs4.ClaimDelegCurFH
		if status := c.mayIO(o, cred, access, mine); status != nfs4.OK {
			return status
		}
	}
	f, err := s.fileOf(o)
	if err != nil {
		return statusOf(err)
	}
	f.pins++
	defer func() {
		f.pins--
		s.tidy(f)
	}()
	if a.Claim == nfs4.ClaimDelegateCur || a.Claim == nfs4.ClaimDelegCurFH {
		cur := c.cur
		c.cur = o // the stateid belongs to the file, wherever the name was looked up
		d, status := c.find(a.DelegateStateID, delegState)
		c.cur = cur
		if status != nfs4.OK {
			return status
		}
		if write && !d.write {
			return nfs4.ErrBadStateID
		}
	}
	if status := s.breakDelegations(c, f, write || truncate || a.ShareDeny&nfs4.ShareDenyRead != 0); status != nfs4.OK {
		return status
	}
	owner := string(a.Owner.Owner)
	var mine *state
	for _, other := range slices.Clone(f.opens) {
		if other.client == c.cl && other.owner == owner {
			mine = other
		} else if (other.deny&access != 0 || a.ShareDeny&other.access != 0) && !s.evictExpired(other) {
			if a.Claim == nfs4.ClaimPrevious {
				return nfs4.ErrReclaimConflict
			}
			return nfs4.ErrShareDenied
		}
	}
	if truncate {
		size := int64(0)
		if err := o.exp.fs.SetAttr(cred, o.n, memfs.SetAttr{Size: &size, Opened: true}); err != nil {
			return statusOf(err)
		}
		res.AttrsSet.Set(nfs4.AttrSize)
	}
	if mine == nil {
		if len(s.states) >= maxStates {
			return nfs4.ErrDelay
		}
		mine = s.newState(openState, c.cl, f)
		mine.owner = owner
	} else {
		mine.bump()
	}
	mine.access |= access
	mine.deny |= a.ShareDeny
	mine.opens |= openBit(access, a.ShareDeny)

	res.StateID = mine.id()
	res.RFlags = nfs4.OpenResultLockTypePOSIX
	if !s.opt.NoNotifyLock {
		res.RFlags |= nfs4.OpenResultMayNotifyLock
	}
	if s.opt.PreserveUnlinked {
		res.RFlags |= nfs4.OpenResultPreserveUnlinked
	}
	if a.Claim == nfs4.ClaimPrevious {
		res.Delegation = c.reclaimDelegation(a, mine)
	} else {
		res.Delegation = c.grant(mine, a.ShareAccess)
	}
	return nfs4.OK
}

// reclaimDelegation gives a delegation back that a client had before the server
// restarted (RFC 8881 section 10.2.1). s.mu is held.
func (c *compound) reclaimDelegation(a *nfs4.OpenArgs, st *state) nfs4.Delegation {
	write := a.DelegateType == nfs4.DelegateWrite
	if !write && a.DelegateType != nfs4.DelegateRead {
		return nfs4.Delegation{}
	}
	f := st.file
	for _, d := range f.delegs {
		if write || d.write || d.client == c.cl {
			return nfs4.Delegation{}
		}
	}
	d := c.s.newState(delegState, c.cl, f)
	d.write = write
	attr := f.o.n.Attr()
	d.change, d.size = attr.Change, attr.Size
	del := d.delegation(attr)
	if c.s.opt.Delegations == DelegateNever || write && c.s.opt.Delegations == DelegateReads {
		// It cannot be refused, but it can be recalled at once.
		del.Recall = true
		c.s.recall(d)
	}
	return del
}

// openBit returns the bit of state.opens for one combination of access and deny.
func openBit(access, deny uint32) uint16 { return 1 << (access<<2 | deny) }

// downgrade restricts an open to a union of OPENs that were made. It returns
// false if access and deny are no such union (RFC 8881 section 18.18.3).
func (st *state) downgrade(access, deny uint32) bool {
	var gotAccess, gotDeny uint32
	var kept uint16
	for a := uint32(1); a <= nfs4.ShareAccessBoth; a++ {
		for d := uint32(0); d <= nfs4.ShareDenyBoth; d++ {
			if st.opens&openBit(a, d) != 0 && a&^access == 0 && d&^deny == 0 {
				gotAccess |= a
				gotDeny |= d
				kept |= openBit(a, d)
			}
		}
	}
	if gotAccess != access || gotDeny != deny {
		return false
	}
	st.access, st.deny, st.opens = access, deny, kept
	return true
}

// openDowngrade carries out OPEN_DOWNGRADE (RFC 8881 section 18.18).
func (c *compound) openDowngrade(a *nfs4.OpenDowngradeArgs) nfs4.Res {
	id, status := c.current(a.StateID, false)
	if status != nfs4.OK {
		return fail(nfs4.OpOpenDowngrade, status)
	}
	access := a.ShareAccess &^ nfs4.WantDelegMask
	if access == 0 || access > nfs4.ShareAccessBoth || a.ShareDeny > nfs4.ShareDenyBoth {
		return fail(nfs4.OpOpenDowngrade, nfs4.ErrInval)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	st, status := c.find(id, openState)
	if status != nfs4.OK {
		return fail(nfs4.OpOpenDowngrade, status)
	}
	if !st.downgrade(access, a.ShareDeny) {
		return fail(nfs4.OpOpenDowngrade, nfs4.ErrInval)
	}
	res := &nfs4.OpenDowngradeRes{StateID: st.bump()}
	c.curState, c.hasState = res.StateID, true
	return res
}

// closeFile carries out CLOSE (RFC 8881 section 18.2). Locks made with the open
// are released.
func (c *compound) closeFile(a *nfs4.CloseArgs) nfs4.Res {
	id, status := c.current(a.StateID, false)
	if status != nfs4.OK {
		return fail(nfs4.OpClose, status)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	st, status := c.find(id, openState)
	if status != nfs4.OK {
		return fail(nfs4.OpClose, status)
	}
	c.s.dropState(st)
	res := &nfs4.CloseRes{StateID: nfs4.InvalidStateID}
	c.curState, c.hasState = res.StateID, true
	return res
}
