package nfstest

import (
	"sync/atomic"
	"testing"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

func TestDelegationGrants(t *testing.T) {
	clk := newClock()
	for _, tt := range []struct {
		what   string
		policy DelegationPolicy
		access uint32
		want   nfs4.DelegationType
		why    nfs4.WhyNoDelegation
	}{
		{"read", DelegateAny, nfs4.ShareAccessRead, nfs4.DelegateRead, 0},
		{"write", DelegateAny, nfs4.ShareAccessBoth, nfs4.DelegateWrite, 0},
		{"write only", DelegateAny, nfs4.ShareAccessWrite, nfs4.DelegateWrite, 0},
		{"reads only", DelegateReads, nfs4.ShareAccessBoth, nfs4.DelegateNone, 0},
		{"reads only", DelegateReads, nfs4.ShareAccessRead, nfs4.DelegateRead, 0},
		{"never", DelegateNever, nfs4.ShareAccessRead, nfs4.DelegateNone, 0},
		{"not wanted", DelegateAny, nfs4.ShareAccessRead | nfs4.WantNoDeleg, nfs4.DelegateNoneExt, nfs4.WhyNotWanted},
		{"never, with a reason", DelegateNever, nfs4.ShareAccessRead | nfs4.WantAnyDeleg, nfs4.DelegateNoneExt, nfs4.WhyResource},
		{"only read wanted", DelegateAny, nfs4.ShareAccessRead | nfs4.WantReadDeleg, nfs4.DelegateRead, 0},
	} {
		s := newServer(t, Options{Delegations: tt.policy, Now: clk.Now})
		c := newTester(t, s, "c")
		_, open := c.opened(createArgs("o", "f", tt.access))
		if d := open.Delegation; d.Type != tt.want || d.Why != tt.why {
			t.Errorf("%s: type %d, why %d", tt.what, d.Type, d.Why)
		}
	}
	// Without a back channel there is none.
	s := newServer(t, Options{})
	c := connect(t, s, "deaf")
	c.exchangeID()
	res := c.bare(&nfs4.CreateSessionArgs{ClientID: c.id, SequenceID: c.csSeq, ForeChan: channel(), BackChan: channel()}).(*nfs4.CreateSessionRes)
	c.session = res.SessionID
	c.ok(&nfs4.ReclaimCompleteArgs{})
	if _, open := c.opened(createArgs("o", "f", nfs4.ShareAccessRead)); open.Delegation.Type != nfs4.DelegateNone {
		t.Errorf("without a back channel: %+v", open.Delegation)
	}
}

// What one client does takes delegations of another away, after they were
// recalled; what it does itself does not.
func TestRecall(t *testing.T) {
	for _, tt := range []struct {
		what   string
		access uint32 // of the holder
		do     func(fh nfs4.FH) []nfs4.Args
		breaks bool
	}{
		{"open for reading, reader", nfs4.ShareAccessRead, func(nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putRoot(), openArgs("x", "f", nfs4.ShareAccessRead)}
		}, false},
		{"open for writing, reader", nfs4.ShareAccessRead, func(nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putRoot(), openArgs("x", "f", nfs4.ShareAccessWrite)}
		}, true},
		{"open for reading, writer", nfs4.ShareAccessBoth, func(nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putRoot(), openArgs("x", "f", nfs4.ShareAccessRead)}
		}, true},
		{"anonymous read, reader", nfs4.ShareAccessRead, func(fh nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putFH(fh), &nfs4.ReadArgs{Count: 1}}
		}, false},
		{"anonymous read, writer", nfs4.ShareAccessBoth, func(fh nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putFH(fh), &nfs4.ReadArgs{Count: 1}}
		}, true},
		{"anonymous write, reader", nfs4.ShareAccessRead, func(fh nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putFH(fh), &nfs4.WriteArgs{Data: []byte("x")}}
		}, true},
		{"chmod, reader", nfs4.ShareAccessRead, func(fh nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putFH(fh), &nfs4.SetAttrArgs{Attrs: mode(0o600)}}
		}, true},
		{"remove, reader", nfs4.ShareAccessRead, func(nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putRoot(), &nfs4.RemoveArgs{Name: "f"}}
		}, true},
		{"rename, reader", nfs4.ShareAccessRead, func(nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putRoot(), &nfs4.SaveFHArgs{}, &nfs4.RenameArgs{OldName: "f", NewName: "g"}}
		}, true},
		{"link, reader", nfs4.ShareAccessRead, func(fh nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putFH(fh), &nfs4.SaveFHArgs{}, putRoot(), &nfs4.LinkArgs{Name: "g"}}
		}, true},
		{"xattr, reader", nfs4.ShareAccessRead, func(fh nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putFH(fh), &nfs4.SetXattrArgs{Name: "x"}}
		}, true},
		{"mode asked for, writer", nfs4.ShareAccessBoth, func(fh nfs4.FH) []nfs4.Args {
			return []nfs4.Args{putFH(fh), &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(nfs4.AttrMode)}}
		}, false},
	} {
		t.Run(tt.what, func(t *testing.T) {
			s := newServer(t, Options{})
			a, b := newTester(t, s, "a"), newTester(t, s, "b")
			fh, open := a.opened(createArgs("o", "f", tt.access))
			d := open.Delegation
			if d.Type == nfs4.DelegateNone {
				t.Fatal("no delegation")
			}
			a.ok(putFH(fh), closeArgs(open.StateID))
			a.ok(tt.do(fh)...) // its own: no conflict
			if s.Usage().Delegations == 0 {
				t.Fatal("a client's own operation took its delegation")
			}
			if t.Name() == "TestRecall/remove,_reader" || t.Name() == "TestRecall/rename,_reader" || t.Name() == "TestRecall/link,_reader" {
				// Put back what the holder has just changed.
				a.try(putFH(fh), &nfs4.SaveFHArgs{}, putRoot(), &nfs4.LinkArgs{Name: "f"})
				a.try(putRoot(), &nfs4.RemoveArgs{Name: "g"})
			}
			if t.Name() == "TestRecall/remove,_reader" {
				return // the file is gone for good
			}
			if !tt.breaks {
				b.ok(tt.do(fh)...)
				return
			}
			_, status := b.try(tt.do(fh)...)
			if status != nfs4.ErrDelay {
				t.Fatalf("%v, want NFS4ERR_DELAY", status)
			}
			cb := a.waitCB(1)
			recall, ok := cb[0].(*nfs4.CBRecallArgs)
			if !ok || recall.StateID.Other != d.StateID.Other || recall.StateID.Seq != 0 || string(recall.FH) != string(fh) {
				t.Fatalf("%+v", cb[0])
			}
			if _, status := b.try(tt.do(fh)...); status != nfs4.ErrDelay {
				t.Errorf("before it was returned: %v", status)
			}
			a.ok(putFH(fh), &nfs4.DelegReturnArgs{StateID: d.StateID})
			b.ok(tt.do(fh)...)
			// For a while there is no other.
			if _, open := a.opened(createArgs("o", "new", nfs4.ShareAccessRead)); open.Delegation.Type != nfs4.DelegateRead {
				t.Errorf("of another file: %+v", open.Delegation)
			}
		})
	}
}

// A delegation that is not returned is revoked, and the client gets to know.
func TestRevocation(t *testing.T) {
	clk := newClock()
	s := newServer(t, Options{Now: clk.Now, Lease: 90 * time.Second, RecallTimeout: 30 * time.Second})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessRead))
	id := open.Delegation.StateID
	write := openArgs("o", "f", nfs4.ShareAccessWrite)
	b.fails(nfs4.ErrDelay, putRoot(), write)
	a.waitCB(1)
	clk.advance(29 * time.Second)
	b.fails(nfs4.ErrDelay, putRoot(), write)
	clk.advance(2 * time.Second)
	b.ok(putRoot(), write)
	if f := a.flags(); f != nfs4.SeqStatusRecallableStateRevoked {
		t.Errorf("flags %#x", f)
	}
	a.fails(nfs4.ErrDelegRevoked, putFH(fh), &nfs4.ReadArgs{StateID: id, Count: 1})
	test := a.ok(&nfs4.TestStateIDArgs{StateIDs: []nfs4.StateID{id}}).(*nfs4.TestStateIDRes)
	if test.Statuses[0] != nfs4.ErrDelegRevoked {
		t.Errorf("%v", test.Statuses)
	}
	a.ok(&nfs4.FreeStateIDArgs{StateID: id})
	if f := a.flags(); f != 0 {
		t.Errorf("flags %#x", f)
	}
	if n := s.RevokeAll(); n != 2 {
		t.Errorf("%d revoked", n)
	}
	if f := a.flags(); f != nfs4.SeqStatusAdminStateRevoked {
		t.Errorf("flags %#x", f)
	}
	a.fails(nfs4.ErrAdminRevoked, putFH(fh), &nfs4.ReadArgs{StateID: open.StateID, Count: 1})
	a.ok(&nfs4.FreeStateIDArgs{StateID: open.StateID})
}

// A client that is not ready for a recall is asked again; one that loses its
// connection over it gets it again, under the same sequence id, when it is back.
func TestRecallIsRepeated(t *testing.T) {
	s := newServer(t, Options{})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessRead))
	var n atomic.Int32
	a.mu.Lock()
	a.onCB = func(nfs4.CBArgs) nfs4.CBRes {
		switch n.Add(1) {
		case 1:
			return &nfs4.CBRecallRes{Status: nfs4.ErrDelay}
		case 2:
			return &nfs4.CBRecallRes{Status: nfs4.ErrBadStateID}
		case 3:
			return nil // no answer
		}
		return &nfs4.CBRecallRes{}
	}
	a.mu.Unlock()
	b.fails(nfs4.ErrDelay, putRoot(), openArgs("o", "f", nfs4.ShareAccessWrite))
	waitFor(t, func() bool { return n.Load() == 3 })
	a.conn.Close()
	waitFor(t, func() bool { return s.Usage().Connections == 1 })
	a.dial()
	if f := a.flags(); f&nfs4.SeqStatusCBPathDown == 0 {
		t.Errorf("flags %#x", f)
	}
	a.bare(&nfs4.BindConnToSessionArgs{SessionID: a.session, Dir: nfs4.ConnBoth})
	a.waitCB(3)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.cbSeq) != 4 || a.cbSeq[3].SequenceID != a.cbSeq[2].SequenceID || a.cbSeq[3].SlotID != a.cbSeq[2].SlotID ||
		a.cbSeq[1].SequenceID != a.cbSeq[0].SequenceID+1 {
		t.Errorf("%+v", a.cbSeq)
	}
	a.mu.Unlock()
	a.ok(putFH(fh), &nfs4.DelegReturnArgs{StateID: open.Delegation.StateID})
	a.mu.Lock()
}

// While the client may not have seen the reply that granted a delegation, its
// recall names that request.
func TestReferringCall(t *testing.T) {
	s := newServer(t, Options{})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	a.opened(createArgs("o", "f", nfs4.ShareAccessRead))
	seq := a.seqs[0]
	b.fails(nfs4.ErrDelay, putRoot(), openArgs("o", "f", nfs4.ShareAccessWrite))
	a.waitCB(1)
	a.mu.Lock()
	refs := a.cbSeq[0].Referring
	a.mu.Unlock()
	if len(refs) != 1 || refs[0].SessionID != a.session || refs[0].Calls[0].SequenceID != seq || refs[0].Calls[0].SlotID != 0 {
		t.Errorf("%+v", refs)
	}
	a.opened(createArgs("o", "g", nfs4.ShareAccessRead))
	a.ok()
	b.fails(nfs4.ErrDelay, putRoot(), openArgs("o", "g", nfs4.ShareAccessWrite))
	a.waitCB(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if refs := a.cbSeq[1].Referring; len(refs) != 0 {
		t.Errorf("the client has used the slot since: %+v", refs)
	}
}

// Others see the size that the holder of a write delegation knows of.
func TestHolderIsAsked(t *testing.T) {
	s := newServer(t, Options{})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	if open.Delegation.Type != nfs4.DelegateWrite {
		t.Fatal("no write delegation")
	}
	known := a.attrs(fh, nfs4.AttrChange)
	answer := nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrChange, nfs4.AttrSize), Change: known.Change}
	set := func(change, size uint64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		answer.Change, answer.Size = change, size
		now := answer
		a.onCB = func(op nfs4.CBArgs) nfs4.CBRes {
			if op.Op() == nfs4.CBOpGetAttr {
				return &nfs4.CBGetAttrRes{Attrs: now}
			}
			return &nfs4.CBRecallRes{}
		}
	}
	set(known.Change, 0)
	first := b.attrs(fh, nfs4.AttrChange, nfs4.AttrSize)
	if first.Size != 0 || first.Change != known.Change {
		t.Errorf("%+v", first)
	}
	// One that writes through has nothing to tell, whatever it says of the size.
	a.ok(putFH(fh), &nfs4.WriteArgs{StateID: open.Delegation.StateID, Data: []byte("through")})
	through := b.attrs(fh, nfs4.AttrChange, nfs4.AttrSize)
	if through.Size != 7 || through.Change <= first.Change {
		t.Errorf("after a WRITE of the holder: %+v", through)
	}
	first = through
	set(known.Change+1, 1000)
	second := b.attrs(fh, nfs4.AttrChange, nfs4.AttrSize)
	if second.Size != 1000 || second.Change <= first.Change {
		t.Errorf("size %d, change %d", second.Size, second.Change)
	}
	third := b.attrs(fh, nfs4.AttrChange, nfs4.AttrSize)
	if third.Change != second.Change {
		t.Errorf("change %d without a change, was %d", third.Change, second.Change)
	}
	// A holder that does not know how to answer has to give it back.
	a.mu.Lock()
	a.onCB = func(op nfs4.CBArgs) nfs4.CBRes {
		if op.Op() == nfs4.CBOpGetAttr {
			return &nfs4.CBGetAttrRes{Status: nfs4.ErrNotSupp}
		}
		return &nfs4.CBRecallRes{}
	}
	a.mu.Unlock()
	b.fails(nfs4.ErrDelay, putFH(fh), &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(nfs4.AttrSize)})
	a.ok(putFH(fh), &nfs4.DelegReturnArgs{StateID: open.Delegation.StateID})
	b.attrs(fh, nfs4.AttrSize)
}

// The server's own changes recall delegations, too.
func TestLocalChangeRecalls(t *testing.T) {
	s := newServer(t, Options{})
	a := newTester(t, s, "a")
	fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessRead))
	done := make(chan error, 1)
	go func() { done <- s.WriteFile("/f", []byte("new"), 0) }()
	a.waitCB(1)
	select {
	case err := <-done:
		t.Fatalf("did not wait: %v", err)
	default:
	}
	a.ok(putFH(fh), &nfs4.DelegReturnArgs{StateID: open.Delegation.StateID})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if data, _ := a.read(fh, open.StateID, 0, 10); data != "new" {
		t.Errorf("%q", data)
	}
}

// With a delegation, opens are entered later.
func TestClaimDelegateCur(t *testing.T) {
	s := newServer(t, Options{})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	d := open.Delegation
	a.ok(putFH(fh), closeArgs(open.StateID))
	a.ok(putFH(fh), &nfs4.WriteArgs{StateID: d.StateID, Data: []byte("by delegation")})
	b.fails(nfs4.ErrDelay, putRoot(), openArgs("o", "f", nfs4.ShareAccessRead))
	a.waitCB(1)
	late := openArgs("late", "f", nfs4.ShareAccessBoth)
	late.Claim, late.DelegateStateID = nfs4.ClaimDelegateCur, d.StateID
	_, res := a.opened(late)
	byFH := openArgs("late2", "", nfs4.ShareAccessBoth)
	byFH.Claim, byFH.DelegateStateID = nfs4.ClaimDelegCurFH, d.StateID
	a.ok(putFH(fh), byFH)
	a.ok(putFH(fh), &nfs4.DelegReturnArgs{StateID: d.StateID})
	a.fails(nfs4.ErrBadStateID, putFH(fh), byFH)
	b.ok(putRoot(), openArgs("o", "f", nfs4.ShareAccessRead))
	a.write(fh, res.StateID, 0, "x", nfs4.FileSync)
}

func TestRecallAny(t *testing.T) {
	s := newServer(t, Options{})
	a := newTester(t, s, "a")
	a.opened(createArgs("o", "f", nfs4.ShareAccessRead))
	if n := s.RecallAny(0); n != 1 {
		t.Errorf("%d asked", n)
	}
	if cb := a.waitCB(1); cb[0].Op() != nfs4.CBOpRecallAny {
		t.Errorf("%+v", cb[0])
	}
	if n := s.RecallSlots(2); n != 1 {
		t.Errorf("%d sessions asked", n)
	}
	if cb := a.waitCB(1); cb[1].Op() != nfs4.CBOpRecallSlot || cb[1].(*nfs4.CBRecallSlotArgs).TargetHighestSlotID != 2 {
		t.Errorf("%+v", cb[1])
	}
	if n := s.RecallAll(); n != 1 {
		t.Errorf("%d recalled", n)
	}
	if cb := a.waitCB(1); cb[2].Op() != nfs4.CBOpRecall {
		t.Errorf("%+v", cb[2])
	}
}

// Callbacks reach the client over every transport, with calls in both directions
// on one connection.
func TestRecallOverEveryRoad(t *testing.T) {
	for _, road := range []string{"local", "tcp", "rdma"} {
		t.Run(road, func(t *testing.T) {
			s := newServer(t, Options{})
			via := dialers(t, s)[road]
			a, b := newTesterVia(t, s, "a", via), newTesterVia(t, s, "b", via)
			fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessRead))
			b.fails(nfs4.ErrDelay, putRoot(), openArgs("o", "f", nfs4.ShareAccessWrite))
			a.waitCB(1)
			a.ok(putFH(fh), &nfs4.DelegReturnArgs{StateID: open.Delegation.StateID})
			b.ok(putRoot(), openArgs("o", "f", nfs4.ShareAccessWrite))
		})
	}
}
