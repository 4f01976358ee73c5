package nfstest

import (
	"testing"

	"nfsrdma-fuse/xdr/nfs4"

	"pgregory.net/rapid"
)

func closeArgs(id nfs4.StateID) *nfs4.CloseArgs { return &nfs4.CloseArgs{StateID: id} }

func TestOpenModes(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "open")
	guarded := createArgs("o", "g", nfs4.ShareAccessBoth)
	guarded.How = nfs4.CreateGuarded
	fh, open := c.opened(guarded)
	c.fails(nfs4.ErrExist, putRoot(), guarded)
	c.write(fh, open.StateID, 0, "0123456789", nfs4.FileSync)

	// Unchecked opens what is there, and sets nothing but a size of zero.
	unchecked := createArgs("o", "g", nfs4.ShareAccessBoth)
	unchecked.CreateAttrs = mode(0o777)
	_, again := c.opened(unchecked)
	if again.StateID.Other != open.StateID.Other || again.StateID.Seq != 2 || again.Change.Before != again.Change.After {
		t.Errorf("%+v", again)
	}
	if a := c.attrs(fh, nfs4.AttrMode, nfs4.AttrSize); a.Mode != 0o644 || a.Size != 10 {
		t.Errorf("%+v", a)
	}
	unchecked.CreateAttrs = nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSize)}
	if _, res := c.opened(unchecked); !res.AttrsSet.Has(nfs4.AttrSize) {
		t.Errorf("set %v", res.AttrsSet)
	}
	if a := c.attrs(fh, nfs4.AttrSize); a.Size != 0 {
		t.Errorf("size %d", a.Size)
	}

	// Exclusive: the verifier tells a retry from somebody else.
	excl := openArgs("o", "x", nfs4.ShareAccessBoth)
	excl.Create, excl.How, excl.CreateVerf, excl.CreateAttrs = true, nfs4.CreateExclusive41, nfs4.Verifier{1}, mode(0o640)
	xfh, res := c.opened(excl)
	if !res.AttrsSet.Has(nfs4.AttrMode) {
		t.Errorf("set %v", res.AttrsSet)
	}
	if a := c.attrs(xfh, nfs4.AttrMode); a.Mode != 0o640 {
		t.Errorf("mode %o", a.Mode)
	}
	c.opened(excl)
	excl.CreateVerf = nfs4.Verifier{2}
	c.fails(nfs4.ErrExist, putRoot(), excl)
	old := openArgs("o", "y", nfs4.ShareAccessBoth)
	old.Create, old.How, old.CreateVerf = true, nfs4.CreateExclusive, nfs4.Verifier{1}
	c.opened(old)

	// With a umask, and with times and an owner.
	masked := createArgs("o", "m", nfs4.ShareAccessBoth)
	masked.CreateAttrs = nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrModeUmask, nfs4.AttrOwner, nfs4.AttrTimeModifySet),
		ModeUmask: nfs4.ModeUmask{Mode: 0o666, Umask: 0o027}, Owner: "77",
		TimeModifySet: nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 5, Nsec: 6}}}
	mfh, _ := c.opened(masked)
	if a := c.attrs(mfh, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrTimeModify); a.Mode != 0o640 || a.Owner != "77" || a.TimeModify != (nfs4.Time{Sec: 5, Nsec: 6}) {
		t.Errorf("%o %s %v", a.Mode, a.Owner, a.TimeModify)
	}

	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d"})
	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeLnk, Name: "l", LinkText: []byte("g")})
	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeFifo, Name: "p"})
	for name, want := range map[string]nfs4.Status{"d": nfs4.ErrIsDir, "l": nfs4.ErrSymlink, "p": nfs4.ErrWrongType, "none": nfs4.ErrNoEnt,
		"": nfs4.ErrInval, "..": nfs4.ErrBadName} {
		if _, status := c.try(putRoot(), openArgs("o", name, nfs4.ShareAccessRead)); status != want {
			t.Errorf("%q: %v, want %v", name, status, want)
		}
	}
	for _, a := range []*nfs4.OpenArgs{openArgs("o", "g", 0), openArgs("o", "g", 4), {ShareAccess: 1, ShareDeny: 4, Name: "g"},
		{ShareAccess: 1 | 0x600, Name: "g"}, {ShareAccess: 1, Create: true, Claim: nfs4.ClaimFH}} {
		if _, status := c.try(putRoot(), a); status != nfs4.ErrInval {
			t.Errorf("%+v: %v", a, status)
		}
	}
	byFH := openArgs("o2", "", nfs4.ShareAccessRead)
	byFH.Claim = nfs4.ClaimFH
	c.ok(putFH(fh), byFH)
	c.fails(nfs4.ErrNotDir, putFH(fh), openArgs("o", "x", nfs4.ShareAccessRead))
	c.fails(nfs4.ErrNoGrace, putFH(fh), &nfs4.OpenArgs{ShareAccess: 1, Claim: nfs4.ClaimPrevious})
}

func TestStateIDRules(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "ids")
	other := newTester(t, s, "others")
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessRead))
	fh2, _ := c.opened(createArgs("o", "f2", nfs4.ShareAccessRead))
	_, up := c.opened(openArgs("o", "f", nfs4.ShareAccessWrite))
	id := up.StateID
	if id.Other != open.StateID.Other || id.Seq != 2 {
		t.Fatalf("%+v", id)
	}
	newer, zero := id, id
	newer.Seq++
	zero.Seq = 0
	bad := id
	bad.Other[0]++
	for _, tt := range []struct {
		what string
		c    *tester
		fh   nfs4.FH
		id   nfs4.StateID
		want nfs4.Status
	}{
		{"newest", c, fh, id, nfs4.OK}, {"zero", c, fh, zero, nfs4.OK},
		{"old", c, fh, open.StateID, nfs4.ErrOldStateID}, {"newer", c, fh, newer, nfs4.ErrBadStateID},
		{"unknown", c, fh, bad, nfs4.ErrBadStateID}, {"another file", c, fh2, id, nfs4.ErrBadStateID},
		{"another client", other, fh, id, nfs4.ErrBadStateID}, {"anonymous", c, fh, nfs4.AnonymousStateID, nfs4.OK},
		{"bypass", c, fh, nfs4.BypassStateID, nfs4.OK}, {"invalid", c, fh, nfs4.InvalidStateID, nfs4.ErrBadStateID},
		{"current without one", c, fh, nfs4.CurrentStateID, nfs4.ErrBadStateID},
	} {
		_, status := tt.c.try(putFH(tt.fh), &nfs4.ReadArgs{StateID: tt.id, Count: 1})
		if status != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, status, tt.want)
		}
	}
	// The current stateid is that of the last operation that returned one.
	c.ok(putRoot(), createArgs("cur", "cur", nfs4.ShareAccessBoth), &nfs4.WriteArgs{StateID: nfs4.CurrentStateID, Data: []byte("x")},
		&nfs4.ReadArgs{StateID: nfs4.CurrentStateID, Count: 1}, closeArgs(nfs4.CurrentStateID))
	c.fails(nfs4.ErrBadStateID, putRoot(), openArgs("cur", "cur", nfs4.ShareAccessBoth), putRoot(), &nfs4.LookupArgs{Name: "cur"},
		&nfs4.ReadArgs{StateID: nfs4.CurrentStateID, Count: 1})
	// SAVEFH and RESTOREFH carry it along.
	c.ok(putRoot(), openArgs("cur", "cur", nfs4.ShareAccessBoth), &nfs4.SaveFHArgs{}, putRoot(), &nfs4.RestoreFHArgs{},
		&nfs4.ReadArgs{StateID: nfs4.CurrentStateID, Count: 1})

	test := c.ok(&nfs4.TestStateIDArgs{StateIDs: []nfs4.StateID{id, open.StateID, newer, bad}}).(*nfs4.TestStateIDRes)
	for i, want := range []nfs4.Status{nfs4.OK, nfs4.ErrOldStateID, nfs4.ErrBadStateID, nfs4.ErrBadStateID} {
		if test.Statuses[i] != want {
			t.Errorf("TEST_STATEID %d: %v, want %v", i, test.Statuses[i], want)
		}
	}
	c.fails(nfs4.ErrLocksHeld, &nfs4.FreeStateIDArgs{StateID: id})
	c.fails(nfs4.ErrBadStateID, &nfs4.FreeStateIDArgs{StateID: bad})

	// Downgrades are to what was opened, and cannot add anything.
	down := &nfs4.OpenDowngradeArgs{StateID: id, ShareAccess: nfs4.ShareAccessRead}
	res := c.ok(putFH(fh), down).(*nfs4.OpenDowngradeRes)
	if res.StateID.Seq != 3 {
		t.Errorf("%+v", res)
	}
	c.fails(nfs4.ErrOldStateID, putFH(fh), down)
	c.fails(nfs4.ErrOpenMode, putFH(fh), &nfs4.WriteArgs{StateID: res.StateID, Data: []byte("x")})
	c.fails(nfs4.ErrInval, putFH(fh), &nfs4.OpenDowngradeArgs{StateID: res.StateID, ShareAccess: nfs4.ShareAccessBoth})
	c.fails(nfs4.ErrOldStateID, putFH(fh), closeArgs(id))
	c.ok(putFH(fh), closeArgs(res.StateID))
	c.fails(nfs4.ErrBadStateID, putFH(fh), closeArgs(res.StateID))
}

func TestShareReservations(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	const r, w = nfs4.ShareAccessRead, nfs4.ShareAccessWrite
	deny := createArgs("o", "f", r)
	deny.ShareDeny = nfs4.ShareDenyWrite
	fh, open := a.opened(deny)
	b.fails(nfs4.ErrShareDenied, putRoot(), openArgs("o", "f", w))
	b.fails(nfs4.ErrLocked, putFH(fh), &nfs4.WriteArgs{Data: []byte("x")})
	b.ok(putFH(fh), &nfs4.ReadArgs{Count: 1})
	_, mine := b.opened(openArgs("o", "f", r))
	denyRead := openArgs("o2", "f", r)
	denyRead.ShareDeny = nfs4.ShareDenyRead
	b.fails(nfs4.ErrShareDenied, putRoot(), denyRead)
	// The same owner may open what he denies others; another one of the same
	// client may not.
	_, up := a.opened(openArgs("o", "f", w))
	a.fails(nfs4.ErrShareDenied, putRoot(), openArgs("o2", "f", w))
	a.ok(putFH(fh), closeArgs(up.StateID))
	b.ok(putRoot(), openArgs("o", "f", w))
	_ = open
	_ = mine
	if u := s.Usage(); u.Opens != 1 {
		t.Errorf("%v", u)
	}
}

// Any union of opens can be downgraded to, and nothing else.
func TestDowngradeModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type mode struct{ access, deny uint32 }
		st := &state{}
		var opens []mode
		for range rapid.IntRange(1, 5).Draw(t, "opens") {
			m := mode{rapid.Uint32Range(1, 3).Draw(t, "access"), rapid.Uint32Range(0, 3).Draw(t, "deny")}
			opens = append(opens, m)
			st.access |= m.access
			st.deny |= m.deny
			st.opens |= openBit(m.access, m.deny)
		}
		to := mode{rapid.Uint32Range(1, 3).Draw(t, "to access"), rapid.Uint32Range(0, 3).Draw(t, "to deny")}
		want := false
		for set := 1; set < 1<<len(opens); set++ {
			var u mode
			for i, m := range opens {
				if set>>i&1 != 0 {
					u.access |= m.access
					u.deny |= m.deny
				}
			}
			want = want || u == to
		}
		if got := st.downgrade(to.access, to.deny); got != want {
			t.Fatalf("%v to %v: %v, want %v", opens, to, got, want)
		}
	})
}

// Ranges agree with an array of bytes, each with its owner and kind of lock.
func TestRangesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size = 24
		cl := &client{}
		owners := []*state{{client: cl, owner: "a"}, {client: cl, owner: "b"}, {client: &client{}, owner: "a"}}
		var l ranges
		var locks [3][size]byte // 0 none, 1 read, 2 write
		t.Repeat(map[string]func(*rapid.T){
			"lock": func(t *rapid.T) {
				o, lo, hi, write := draw(t, size)
				busy := false
				for i := range locks {
					for b := lo; b <= hi; b++ {
						busy = busy || i != o && (locks[i][b] == 2 || write && locks[i][b] == 1)
					}
				}
				st := owners[o]
				if r := l.conflict(st.client, st.owner, uint64(lo), uint64(hi), write); (r != nil) != busy {
					t.Fatalf("conflict %v, want %v", r, busy)
				}
				if busy {
					return
				}
				l.set(st, uint64(lo), uint64(hi), write)
				for b := lo; b <= hi; b++ {
					locks[o][b] = 1
					if write {
						locks[o][b] = 2
					}
				}
			},
			"unlock": func(t *rapid.T) {
				o, lo, hi, _ := draw(t, size)
				l.clear(owners[o], uint64(lo), uint64(hi))
				for b := lo; b <= hi; b++ {
					locks[o][b] = 0
				}
			},
			"": func(t *rapid.T) {
				var got [3][size]byte
				for i, r := range l.list {
					if i > 0 && r.start < l.list[i-1].start {
						t.Fatal("not in order")
					}
					for o := range owners {
						if owners[o] == r.st {
							for b := r.start; b <= r.last; b++ {
								if got[o][b] != 0 {
									t.Fatalf("two ranges of one owner overlap: %+v", l.list)
								}
								got[o][b] = 1
								if r.write {
									got[o][b] = 2
								}
							}
						}
					}
					for _, q := range l.list {
						if q.st == r.st && q.write == r.write && q.start == r.last+1 {
							t.Fatalf("neighbours not joined: %+v", l.list)
						}
					}
				}
				if got != locks {
					t.Fatalf("%v, want %v", got, locks)
				}
			},
		})
	})
}

func draw(t *rapid.T, size int) (owner, lo, hi int, write bool) {
	lo = rapid.IntRange(0, size-1).Draw(t, "lo")
	return rapid.IntRange(0, 2).Draw(t, "owner"), lo, rapid.IntRange(lo, size-1).Draw(t, "hi"), rapid.Bool().Draw(t, "write")
}

func lockArgs(open nfs4.StateID, owner string, typ nfs4.LockType, off, n uint64) *nfs4.LockArgs {
	return &nfs4.LockArgs{Type: typ, Offset: off, Length: n, NewOwner: true, OpenStateID: open, Owner: nfs4.LockOwner{Owner: []byte(owner)}}
}

func TestLocks(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	fh, ao := a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	_, bo := b.opened(openArgs("o", "f", nfs4.ShareAccessBoth))

	l := a.ok(putFH(fh), lockArgs(ao.StateID, "p", nfs4.WriteLock, 10, 10)).(*nfs4.LockRes)
	if l.StateID.Seq != 1 {
		t.Errorf("%+v", l)
	}
	res, status := b.try(putFH(fh), lockArgs(bo.StateID, "q", nfs4.ReadLock, 15, 100))
	if d := res[1].(*nfs4.LockRes).Denied; status != nfs4.ErrDenied || d.Offset != 10 || d.Length != 10 || d.Type != nfs4.WriteLock || string(d.Owner.Owner) != "p" {
		t.Errorf("%v %+v", status, d)
	}
	res, status = b.try(putFH(fh), &nfs4.LockTArgs{Type: nfs4.WriteLock, Offset: 0, Length: nfs4.MaxLength, Owner: nfs4.LockOwner{Owner: []byte("q")}})
	if d := res[1].(*nfs4.LockTRes).Denied; status != nfs4.ErrDenied || d.Offset != 10 {
		t.Errorf("%v %+v", status, d)
	}
	a.ok(putFH(fh), &nfs4.LockTArgs{Type: nfs4.WriteLock, Offset: 0, Length: nfs4.MaxLength, Owner: nfs4.LockOwner{Owner: []byte("p")}})
	a.fails(nfs4.ErrDenied, putFH(fh), &nfs4.LockTArgs{Type: nfs4.WriteLock, Offset: 0, Length: nfs4.MaxLength, Owner: nfs4.LockOwner{Owner: []byte("p2")}})

	// Downgrade the middle, unlock a part: what is left is split.
	more := &nfs4.LockArgs{Type: nfs4.ReadLock, Offset: 12, Length: 2, LockStateID: l.StateID}
	l2 := a.ok(putFH(fh), more).(*nfs4.LockRes)
	if l2.StateID.Seq != 2 || l2.StateID.Other != l.StateID.Other {
		t.Errorf("%+v", l2)
	}
	if u := s.Usage(); u.Locks != 3 || u.LockStates != 1 {
		t.Errorf("%v", u)
	}
	b.ok(putFH(fh), lockArgs(bo.StateID, "q", nfs4.ReadLock, 12, 2))
	u := a.ok(putFH(fh), &nfs4.LockUArgs{Type: nfs4.WriteLock, StateID: l2.StateID, Offset: 0, Length: nfs4.MaxLength}).(*nfs4.LockURes)
	if u.StateID.Seq != 3 {
		t.Errorf("%+v", u)
	}
	b.ok(putFH(fh), lockArgs(bo.StateID, "q", nfs4.WriteLock, 0, nfs4.MaxLength))
	a.ok(&nfs4.FreeStateIDArgs{StateID: u.StateID})
	a.fails(nfs4.ErrBadStateID, &nfs4.FreeStateIDArgs{StateID: u.StateID})

	for _, tt := range []struct {
		what string
		args *nfs4.LockArgs
		want nfs4.Status
	}{
		{"nothing", lockArgs(ao.StateID, "p", nfs4.ReadLock, 0, 0), nfs4.ErrInval},
		{"beyond the end", lockArgs(ao.StateID, "p", nfs4.ReadLock, 10, nfs4.MaxLength-5), nfs4.ErrInval},
		{"reclaim", &nfs4.LockArgs{Type: nfs4.ReadLock, Length: 1, Reclaim: true, NewOwner: true, OpenStateID: ao.StateID}, nfs4.ErrNoGrace},
		{"without an open", lockArgs(nfs4.AnonymousStateID, "p", nfs4.ReadLock, 0, 1), nfs4.ErrBadStateID},
		{"an open for a lock stateid", &nfs4.LockArgs{Type: nfs4.ReadLock, Length: 1, LockStateID: ao.StateID}, nfs4.ErrBadStateID},
	} {
		if _, status := a.try(putFH(fh), tt.args); status != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, status, tt.want)
		}
	}
	_, ro := a.opened(openArgs("ro", "f", nfs4.ShareAccessRead))
	a.fails(nfs4.ErrOpenMode, putFH(fh), lockArgs(ro.StateID, "p", nfs4.WriteLock, 0, 1))
	// CLOSE releases the locks.
	b.ok(putFH(fh), closeArgs(bo.StateID))
	if u := s.Usage(); u.Locks != 0 || u.LockStates != 0 {
		t.Errorf("%v", u)
	}
}

func TestNotifyLock(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	fh, ao := a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	_, bo := b.opened(openArgs("o", "f", nfs4.ShareAccessBoth))
	if bo.RFlags&nfs4.OpenResultMayNotifyLock == 0 {
		t.Error("OPEN does not promise CB_NOTIFY_LOCK")
	}
	l := a.ok(putFH(fh), lockArgs(ao.StateID, "p", nfs4.WriteLock, 0, 10)).(*nfs4.LockRes)
	b.fails(nfs4.ErrDenied, putFH(fh), lockArgs(bo.StateID, "q", nfs4.WriteWaitLock, 5, 1))
	l2 := a.ok(putFH(fh), &nfs4.LockUArgs{Type: nfs4.WriteLock, StateID: l.StateID, Offset: 0, Length: 5}).(*nfs4.LockURes)
	if u := s.Usage(); u.Waiters != 1 {
		t.Errorf("%v", u)
	}
	a.ok(putFH(fh), &nfs4.LockUArgs{Type: nfs4.WriteLock, StateID: l2.StateID, Offset: 5, Length: 5})
	cb := b.waitCB(1)
	if n, ok := cb[0].(*nfs4.CBNotifyLockArgs); !ok || string(n.Owner.Owner) != "q" || string(n.FH) != string(fh) {
		t.Errorf("%+v", cb[0])
	}
	b.ok(putFH(fh), lockArgs(bo.StateID, "q", nfs4.WriteWaitLock, 5, 1))
}
