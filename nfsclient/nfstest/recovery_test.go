package nfstest

import (
	"testing"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

func TestLeaseExpiry(t *testing.T) {
	for _, policy := range []ExpiryPolicy{ExpireClient, ExpireState, ExpireOnConflict} {
		clk := newClock()
		s := newServer(t, Options{Now: clk.Now, Lease: 60 * time.Second, Expiry: policy, Delegations: DelegateNever})
		a, b := newTester(t, s, "a"), newTester(t, s, "b")
		args := createArgs("o", "f", nfs4.ShareAccessBoth)
		args.ShareDeny = nfs4.ShareDenyBoth
		fh, open := a.opened(args)
		a.ok(putFH(fh), lockArgs(open.StateID, "p", nfs4.WriteLock, 0, 1))
		for range 3 { // any request renews
			clk.advance(59 * time.Second)
			a.ok()
			b.ok()
		}
		clk.advance(40 * time.Second)
		b.ok()
		clk.advance(21 * time.Second)
		switch policy {
		case ExpireClient:
			b.ok(putRoot(), openArgs("o", "f", nfs4.ShareAccessBoth))
			if res := a.compound(a.sequence(0)); res.Status != nfs4.ErrBadSession {
				t.Errorf("%v", res.Status)
			}
		case ExpireState:
			b.ok(putRoot(), openArgs("o", "f", nfs4.ShareAccessBoth))
			if f := a.flags(); f != nfs4.SeqStatusExpiredAllStateRevoked {
				t.Errorf("flags %#x", f)
			}
			a.fails(nfs4.ErrExpired, putFH(fh), &nfs4.ReadArgs{StateID: open.StateID, Count: 1})
			a.ok(&nfs4.FreeStateIDArgs{StateID: open.StateID})
			if f := a.flags(); f != 0 {
				t.Errorf("flags %#x after FREE_STATEID", f)
			}
		case ExpireOnConflict:
			if f := a.flags(); f != 0 {
				t.Errorf("flags %#x", f)
			}
			a.read(fh, open.StateID, 0, 1)
			b.fails(nfs4.ErrShareDenied, putRoot(), openArgs("o", "f", nfs4.ShareAccessBoth))
			clk.advance(40 * time.Second)
			b.ok()
			clk.advance(21 * time.Second)
			b.ok(putRoot(), openArgs("o", "f", nfs4.ShareAccessBoth))
			if res := a.compound(a.sequence(0)); res.Status != nfs4.ErrBadSession {
				t.Errorf("%v", res.Status)
			}
		}
	}
}

// reestablish is what a client does after the server has restarted.
func (c *tester) reestablish() {
	c.t.Helper()
	c.conn.Close()
	c.dial()
	if res := c.compound(c.sequence(0)); res.Status != nfs4.ErrBadSession {
		c.t.Fatalf("the session has survived: %v", res.Status)
	}
	c.establish()
}

func TestRestartAndReclaim(t *testing.T) {
	clk := newClock()
	s := newServer(t, Options{Now: clk.Now, Grace: 30 * time.Second})
	a, b, idle := newTester(t, s, "a"), newTester(t, s, "b"), newTester(t, s, "idle")
	fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	if open.Delegation.Type != nfs4.DelegateWrite {
		t.Fatal("no delegation")
	}
	l := a.ok(putFH(fh), lockArgs(open.StateID, "p", nfs4.WriteLock, 0, 10)).(*nfs4.LockRes)
	w1 := a.write(fh, open.StateID, 0, "committed", nfs4.Unstable)
	c1 := a.ok(putFH(fh), &nfs4.CommitArgs{}).(*nfs4.CommitRes)
	if w1.Verf != c1.Verf {
		t.Error("verifier changed without a reason")
	}
	a.write(fh, open.StateID, 0, "UNSTABLE and longer", nfs4.Unstable)
	_, idleOpen := idle.opened(createArgs("o", "g", nfs4.ShareAccessRead))
	_ = idleOpen

	if err := s.Restart(RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	a.reestablish()
	b.reestablish()
	if data, err := s.ReadFile("/f"); err != nil || string(data) != "committed" {
		t.Errorf("%q, %v", data, err)
	}
	if f := a.flags(); f != nfs4.SeqStatusRestartReclaimNeeded {
		t.Errorf("flags %#x", f)
	}
	b.fails(nfs4.ErrGrace, putRoot(), createArgs("o", "new", nfs4.ShareAccessBoth))
	b.fails(nfs4.ErrGrace, putRoot(), &nfs4.RemoveArgs{Name: "f"})
	b.fails(nfs4.ErrGrace, putFH(fh), &nfs4.ReadArgs{Count: 1})

	claim := openArgs("o", "", nfs4.ShareAccessBoth)
	claim.Claim, claim.DelegateType = nfs4.ClaimPrevious, nfs4.DelegateWrite
	res := a.ok(putFH(fh), claim).(*nfs4.OpenRes)
	if res.Delegation.Type != nfs4.DelegateWrite || res.StateID.Seq != 1 {
		t.Errorf("%+v", res)
	}
	reclaim := lockArgs(res.StateID, "p", nfs4.WriteLock, 0, 10)
	a.fails(nfs4.ErrGrace, putFH(fh), reclaim)
	reclaim.Reclaim = true
	a.ok(putFH(fh), reclaim)
	a.fails(nfs4.ErrBadStateID, putFH(fh), &nfs4.LockUArgs{Type: nfs4.WriteLock, StateID: l.StateID, Length: 1})
	w2 := a.write(fh, res.StateID, 0, "committed", nfs4.Unstable)
	if w2.Verf == w1.Verf {
		t.Error("the verifier is still the same")
	}
	a.ok(&nfs4.ReclaimCompleteArgs{})
	a.fails(nfs4.ErrCompleteAlready, &nfs4.ReclaimCompleteArgs{})
	a.fails(nfs4.ErrNoGrace, putFH(fh), claim)
	b.ok(&nfs4.ReclaimCompleteArgs{})
	// One that may reclaim is still missing: the grace period goes on.
	b.fails(nfs4.ErrGrace, putRoot(), createArgs("o", "new", nfs4.ShareAccessBoth))
	clk.advance(31 * time.Second)
	b.ok(putRoot(), createArgs("o", "new", nfs4.ShareAccessBoth))
	idle.reestablish()
	idle.fails(nfs4.ErrNoGrace, putFH(fh), claim)

	// A second restart; all clients are there, so that grace ends early.
	idle.ok(&nfs4.ReclaimCompleteArgs{})
	if err := s.Restart(RestartOptions{KeepUncommitted: true}); err != nil {
		t.Fatal(err)
	}
	stranger := newTester(t, s, "stranger")
	stranger.fails(nfs4.ErrGrace, putRoot(), createArgs("o", "x", nfs4.ShareAccessBoth))
	for _, c := range []*tester{a, b, idle} {
		c.reestablish()
	}
	bad := *claim
	stranger2 := connect(t, s, "stranger2")
	stranger2.establish()
	stranger2.fails(nfs4.ErrReclaimBad, putFH(fh), &bad)
	for _, c := range []*tester{a, b, idle} {
		c.ok(&nfs4.ReclaimCompleteArgs{})
	}
	stranger.ok(putRoot(), createArgs("o", "x", nfs4.ShareAccessBoth))
}

// What had been written and not committed is there after a restart that loses
// no state, and the verifier is the same.
func TestRestartWithState(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	a := newTester(t, s, "a")
	fh, open := a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	w := a.write(fh, open.StateID, 0, "unstable", nfs4.Unstable)
	if err := s.Restart(RestartOptions{KeepState: true}); err != nil {
		t.Fatal(err)
	}
	a.conn.Close()
	a.dial()
	if data, _ := a.read(fh, open.StateID, 0, 100); data != "unstable" {
		t.Errorf("%q", data)
	}
	if c := a.ok(putFH(fh), &nfs4.CommitArgs{}).(*nfs4.CommitRes); c.Verf != w.Verf {
		t.Error("the verifier has changed")
	}
	if n := s.ChangeWriteVerifier(true); n != 0 {
		t.Errorf("%d files lost data after COMMIT", n)
	}
	a.write(fh, open.StateID, 0, "again", nfs4.Unstable)
	if n := s.ChangeWriteVerifier(true); n != 1 {
		t.Errorf("%d files lost data", n)
	}
	if c := a.ok(putFH(fh), &nfs4.CommitArgs{}).(*nfs4.CommitRes); c.Verf == w.Verf {
		t.Error("the verifier has not changed")
	}
	if data, _ := a.read(fh, open.StateID, 0, 100); data != "unstable" {
		t.Errorf("%q", data)
	}
}

func TestOpenBeforeReclaimComplete(t *testing.T) {
	s := newServer(t, Options{})
	c := connect(t, s, "early")
	c.establish()
	c.fails(nfs4.ErrGrace, putRoot(), createArgs("o", "f", nfs4.ShareAccessBoth))
	c.ok(&nfs4.ReclaimCompleteArgs{})
	c.ok(putRoot(), createArgs("o", "f", nfs4.ShareAccessBoth))
}

// Files stay usable while they are open, whatever becomes of their names.
func TestUnlinkedWhileOpen(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever, PreserveUnlinked: true})
	c := newTester(t, s, "c")
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	if open.RFlags&nfs4.OpenResultPreserveUnlinked == 0 {
		t.Error("OPEN does not promise it")
	}
	c.ok(putRoot(), &nfs4.RemoveArgs{Name: "f"})
	c.write(fh, open.StateID, 0, "still", nfs4.Unstable)
	if a := c.attrs(fh, nfs4.AttrNumLinks, nfs4.AttrSize); a.NumLinks != 0 || a.Size != 5 {
		t.Errorf("%+v", a)
	}
	c.ok(putFH(fh), closeArgs(open.StateID))
	c.fails(nfs4.ErrStale, putFH(fh))
}

// A restart in the middle of the grace period does not cost those their state that
// have not come back yet.
func TestRestartDuringGrace(t *testing.T) {
	clk := newClock()
	s := newServer(t, Options{Now: clk.Now, Delegations: DelegateNever})
	a, b := newTester(t, s, "a"), newTester(t, s, "b")
	fh, _ := a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	claim := openArgs("o", "", nfs4.ShareAccessBoth)
	claim.Claim = nfs4.ClaimPrevious
	for range 2 {
		if err := s.Restart(RestartOptions{}); err != nil {
			t.Fatal(err)
		}
		a.reestablish()
		a.ok(putFH(fh), claim)
	}
	b.reestablish()
	b.fails(nfs4.ErrGrace, putRoot(), createArgs("o", "new", nfs4.ShareAccessBoth))
	a.ok(&nfs4.ReclaimCompleteArgs{})
	b.ok(putFH(fh), claim)
	b.ok(&nfs4.ReclaimCompleteArgs{})
	b.ok(putRoot(), createArgs("o", "new", nfs4.ShareAccessBoth))
	// Without a grace period nothing can be reclaimed.
	if err := s.Restart(RestartOptions{NoGrace: true}); err != nil {
		t.Fatal(err)
	}
	a.reestablish()
	a.fails(nfs4.ErrNoGrace, putFH(fh), claim)
	if f := a.flags(); f != 0 {
		t.Errorf("flags %#x", f)
	}
	// EndGrace is for those who do not want to wait.
	a.ok(&nfs4.ReclaimCompleteArgs{})
	if err := s.Restart(RestartOptions{}); err != nil {
		t.Fatal(err)
	}
	b.reestablish()
	b.ok(&nfs4.ReclaimCompleteArgs{})
	b.fails(nfs4.ErrGrace, putRoot(), createArgs("o", "newer", nfs4.ShareAccessBoth))
	s.EndGrace()
	b.ok(putRoot(), createArgs("o", "newer", nfs4.ShareAccessBoth))
}

// A client that replaces itself from within its own session loses what it had,
// and gets nothing new under the old name.
func TestReplacedWhileServed(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	a := newTester(t, s, "a")
	a.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	a.verf = nfs4.Verifier{1}
	ex := a.bare(&nfs4.ExchangeIDArgs{Verf: a.verf, OwnerID: []byte("a")}).(*nfs4.ExchangeIDRes)
	_, status := a.try(&nfs4.CreateSessionArgs{ClientID: ex.ClientID, SequenceID: ex.SequenceID, ForeChan: channel(), BackChan: channel()},
		putRoot(), createArgs("o", "g", nfs4.ShareAccessBoth))
	if status != nfs4.ErrExpired {
		t.Errorf("%v", status)
	}
	if u := s.Usage(); u.Opens != 0 || u.Clients != 1 || u.Sessions != 1 {
		t.Errorf("%v", u)
	}
}
