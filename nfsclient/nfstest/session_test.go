package nfstest

import (
	"bytes"
	"testing"
	"time"

	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
)

// retry sends the last request again, with another XID as after a reconnect.
func (c *tester) retry() *nfs4.CompoundRes {
	c.t.Helper()
	msg := clone(c.last)
	c.xid++
	msg.Stream[3]++
	res, err := c.roundTrip(msg)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// A retry is answered from the reply cache and not carried out again.
func TestReplay(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "replay")
	c.cache = true
	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d", Attrs: mode(0o755)}, getFH())
	first := c.lookup("d")
	c.ok(putRoot(), &nfs4.RemoveArgs{Name: "d"})
	res := c.retry()
	if res.Status != nfs4.OK || len(res.Ops) != 3 {
		t.Errorf("retried REMOVE: %v with %d results", res.Status, len(res.Ops))
	}
	if n := s.Count(nfs4.OpRemove); n != 1 {
		t.Errorf("carried out %d times", n)
	}
	events := s.Events(0)
	if last := events[len(events)-1]; !last.Replay {
		t.Errorf("last event: %v", &last)
	}
	// The next request on the slot makes the server forget it.
	c.fails(nfs4.ErrStale, putFH(first))
	if res := c.retry(); res.Status != nfs4.ErrStale {
		t.Errorf("retried failure: %v", res.Status)
	}
	// Bulk data is repeated as well, whatever was written meanwhile.
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	c.write(fh, open.StateID, 0, "first", nfs4.FileSync)
	if data, _ := c.read(fh, open.StateID, 0, 10); data != "first" {
		t.Fatal(data)
	}
	if err := s.WriteFile("/f", []byte("other"), 0); err != nil {
		t.Fatal(err)
	}
	res = c.retry()
	if r, ok := res.Ops[2].(*nfs4.ReadRes); !ok || string(r.Data) != "first" {
		t.Errorf("retried READ: %+v", res.Ops[2])
	}
}

// The cache gives a retry byte for byte what was sent first, but for the XID.
func TestReplayIsVerbatim(t *testing.T) {
	s := newServer(t, Options{})
	if err := s.WriteFile("/f", []byte("12345"), 0o644); err != nil {
		t.Fatal(err)
	}
	c := newTester(t, s, "verbatim")
	fh := c.lookup("f")
	seq := c.sequence(0)
	seq.CacheThis = true
	msg := c.encode(seq, putFH(fh), &nfs4.ReadArgs{Count: 3}, &nfs4.ReadArgs{Offset: 1, Count: 10}, getFH())
	first, err := c.raw(msg)
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.raw(msg)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Stream, second.Stream) {
		t.Errorf("first  %x\nsecond %x", first.Stream, second.Stream)
	}
}

func TestUncachedReply(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "uncached")
	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d"})
	res := c.retry()
	if res.Status != nfs4.ErrRetryUncachedRep || len(res.Ops) != 2 || res.Ops[0].Result() != nfs4.OK || res.Ops[1].Op() != nfs4.OpPutRootFH {
		t.Errorf("%v, %d results", res.Status, len(res.Ops))
	}
	// SEQUENCE alone is always kept.
	c.ok()
	if res := c.retry(); res.Status != nfs4.OK || len(res.Ops) != 1 {
		t.Errorf("retried SEQUENCE: %v, %d results", res.Status, len(res.Ops))
	}
}

func TestSlotRules(t *testing.T) {
	s := newServer(t, Options{Slots: 4})
	c := newTester(t, s, "slots")
	if c.fore.MaxRequests != 4 {
		t.Fatalf("%d slots", c.fore.MaxRequests)
	}
	seq := func(slot, id, highest uint32) nfs4.Status {
		res := c.compound(&nfs4.SequenceArgs{SessionID: c.session, SequenceID: id, SlotID: slot, HighestSlotID: highest}, putRoot())
		return res.Status
	}
	for _, tt := range []struct {
		what              string
		slot, id, highest uint32
		want              nfs4.Status
	}{
		{"a slot's first request has 1", 1, 0, 1, nfs4.ErrSeqMisordered},
		{"not 2", 1, 2, 1, nfs4.ErrSeqMisordered},
		{"1", 1, 1, 1, nfs4.OK},
		{"one left out", 1, 3, 1, nfs4.ErrSeqMisordered},
		{"next", 1, 2, 1, nfs4.OK},
		{"one back", 1, 1, 1, nfs4.ErrSeqMisordered},
		{"a slot that is not there", 4, 1, 4, nfs4.ErrBadSlot},
		{"a highest slot that is not there", 1, 3, 4, nfs4.ErrBadHighSlot},
		{"an error does not use up the number", 1, 3, 3, nfs4.OK},
	} {
		if got := seq(tt.slot, tt.id, tt.highest); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, got, tt.want)
		}
	}
	// Sequence ids wrap around.
	s.mu.Lock()
	sl := &s.sessions[c.session].slots[2]
	sl.seq, sl.used = ^uint32(0), true
	s.mu.Unlock()
	if got := seq(2, 0, 2); got != nfs4.OK {
		t.Errorf("0 behind the largest number: %v", got)
	}
	// The target is told to the client.
	s.SetSlotTarget(1)
	res := c.compound(c.sequence(0))
	if r := res.Ops[0].(*nfs4.SequenceRes); r.TargetHighestSlotID != 1 || r.HighestSlotID != 3 {
		t.Errorf("%+v", r)
	}
}

// Another request under the same slot and sequence id is not taken for a retry.
func TestFalseRetry(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "false")
	c.cache = true
	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "a"})
	again := *c.sequence(0)
	again.SequenceID--
	c.seqs[0]--
	if res := c.compound(&again, putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "b"}); res.Status != nfs4.ErrSeqFalseRetry {
		t.Errorf("another operation: %v", res.Status)
	}
	if res := c.compound(&again, putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "a"}); res.Status != nfs4.OK {
		t.Errorf("the same: %v", res.Status)
	}
	c.as(5, 5)
	if res := c.compound(&again, putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "a"}); res.Status != nfs4.ErrSeqFalseRetry {
		t.Errorf("another user: %v", res.Status)
	}
	// How the transport carried the data does not matter.
	c.as(0, 0)
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	c.write(fh, open.StateID, 0, "data that is moved beside the stream", nfs4.FileSync)
	c.last = xdr.Message{Stream: c.last.AppendTo(nil)}
	if res := c.retry(); res.Status != nfs4.OK {
		t.Errorf("the same, inline: %v", res.Status)
	}
}

// A retry of what is still being carried out has to wait.
func TestRetryInProgress(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "progress")
	entered, leave := make(chan struct{}), make(chan struct{})
	defer s.Hook(blockOnce(nfs4.OpPutRootFH, entered, leave))()
	msg := c.encode(c.sequence(0), putRoot())
	done := make(chan error, 1)
	go func() {
		_, err := c.roundTrip(msg)
		done <- err
	}()
	<-entered
	res, err := c.roundTrip(msg)
	if err != nil || res.Status != nfs4.ErrDelay || len(res.Ops) != 1 {
		t.Errorf("%v, %v", res, err)
	}
	next := *c.sequence(0)
	if res := c.compound(&next, putRoot()); res.Status != nfs4.ErrSeqMisordered {
		t.Errorf("next request on the slot: %v", res.Status)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestReplyTooBig(t *testing.T) {
	s := newServer(t, Options{MaxPayload: 64 << 10})
	data := bytes.Repeat([]byte("x"), 60<<10)
	if err := s.WriteFile("/f", data, 0o644); err != nil {
		t.Fatal(err)
	}
	c := newTester(t, s, "big")
	fh := c.lookup("f")
	read := &nfs4.ReadArgs{Count: 60 << 10}
	c.ok(putFH(fh), read)
	c.fails(nfs4.ErrRepTooBig, putFH(fh), read, read)
	c.cache = true
	c.fails(nfs4.ErrRepTooBigToCache, putFH(fh), read)
	if res := c.retry(); res.Status != nfs4.ErrRepTooBigToCache || len(res.Ops) != 3 {
		t.Errorf("retried: %v, %d results", res.Status, len(res.Ops))
	}
	// What changes something is not carried out if its result has no room.
	ops := []nfs4.Args{putRoot()}
	for range 35 {
		ops = append(ops, &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(nfs4.AttrSupportedAttrs, nfs4.AttrFileHandle, nfs4.AttrOwner)})
	}
	ops = append(ops, &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "late"})
	if _, status := c.try(ops...); status != nfs4.ErrRepTooBigToCache {
		t.Errorf("%v", status)
	}
	if _, err := s.Stat("/late"); err == nil {
		t.Error("carried out without room for the result")
	}
	// A request that is too long does not use the slot.
	c.cache = false
	huge := &nfs4.WriteArgs{Data: make([]byte, 100<<10)}
	c.fails(nfs4.ErrReqTooBig, putFH(fh), huge)
	c.ok(putFH(fh))
}

func TestCreateSession(t *testing.T) {
	s := newServer(t, Options{})
	c := connect(t, s, "cs")
	ex := c.exchangeID()
	if ex.Flags&nfs4.ExchgIDConfirmedR != 0 || ex.SequenceID == 0 || ex.Flags&nfs4.ExchgIDUseNonPNFS == 0 {
		t.Errorf("EXCHANGE_ID: %+v", ex)
	}
	args := &nfs4.CreateSessionArgs{ClientID: c.id, SequenceID: ex.SequenceID, ForeChan: channel(), BackChan: channel(),
		Flags: nfs4.CreateSessionConnBackChan | nfs4.CreateSessionPersist | nfs4.CreateSessionConnRDMA}
	try := func(change func(*nfs4.CreateSessionArgs)) nfs4.Res {
		a := *args
		change(&a)
		return c.bareRes(&a)
	}
	for _, tt := range []struct {
		what   string
		change func(*nfs4.CreateSessionArgs)
		want   nfs4.Status
	}{
		{"unknown client", func(a *nfs4.CreateSessionArgs) { a.ClientID++ }, nfs4.ErrStaleClientID},
		{"one too many", func(a *nfs4.CreateSessionArgs) { a.SequenceID++ }, nfs4.ErrSeqMisordered},
		{"before the first", func(a *nfs4.CreateSessionArgs) { a.SequenceID-- }, nfs4.ErrSeqMisordered},
	} {
		if res := try(tt.change); res.Result() != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, res.Result(), tt.want)
		}
	}
	first := try(func(*nfs4.CreateSessionArgs) {}).(*nfs4.CreateSessionRes)
	if first.Status != nfs4.OK || first.Flags != nfs4.CreateSessionConnBackChan || first.SequenceID != args.SequenceID {
		t.Fatalf("%+v", first)
	}
	if f := first.ForeChan; f.MaxResponseSize > 1<<20+4096 || f.MaxResponseSizeCached != 2128 || f.MaxOperations != 40 || f.MaxRequests != 8 {
		t.Errorf("%+v", f)
	}
	again := try(func(*nfs4.CreateSessionArgs) {}).(*nfs4.CreateSessionRes)
	if *again != *first {
		t.Errorf("replay: %+v, first %+v", again, first)
	}
	if u := s.Usage(); u.Sessions != 1 {
		t.Errorf("%d sessions", u.Sessions)
	}
	args.SequenceID++
	if res := try(func(a *nfs4.CreateSessionArgs) { a.ForeChan.MaxResponseSize = 100 }); res.Result() != nfs4.ErrTooSmall {
		t.Errorf("no room for a reply: %v", res.Result())
	}
	args.SequenceID++ // the failure was a result like any other
	second := try(func(*nfs4.CreateSessionArgs) {}).(*nfs4.CreateSessionRes)
	if second.Status != nfs4.OK || second.SessionID == first.SessionID {
		t.Errorf("%+v", second)
	}
	c.as(9, 9)
	args.SequenceID++
	if res := try(func(*nfs4.CreateSessionArgs) {}); res.Result() != nfs4.ErrClientIDInUse {
		t.Errorf("another user: %v", res.Result())
	}
	c.as(0, 0)
	if res := c.bareRes(&nfs4.DestroyClientIDArgs{ClientID: c.id}); res.Result() != nfs4.ErrClientIDBusy {
		t.Errorf("DESTROY_CLIENTID with sessions: %v", res.Result())
	}
	c.bare(&nfs4.DestroySessionArgs{SessionID: first.SessionID})
	if res := c.bareRes(&nfs4.DestroySessionArgs{SessionID: first.SessionID}); res.Result() != nfs4.ErrBadSession {
		t.Errorf("destroyed twice: %v", res.Result())
	}
	// A session may destroy itself, as the last operation.
	c.session = second.SessionID
	if _, status := c.try(&nfs4.DestroySessionArgs{SessionID: c.session}, putRoot()); status != nfs4.ErrNotOnlyOp {
		t.Errorf("before other operations: %v", status)
	}
	c.ok(&nfs4.DestroySessionArgs{SessionID: c.session})
	c.bare(&nfs4.DestroyClientIDArgs{ClientID: c.id})
	if res := c.bareRes(&nfs4.DestroyClientIDArgs{ClientID: c.id}); res.Result() != nfs4.ErrStaleClientID {
		t.Errorf("destroyed twice: %v", res.Result())
	}
}

// The numbers are those of the cases in RFC 8881 section 18.35.4.
func TestExchangeID(t *testing.T) {
	clk := newClock()
	s := newServer(t, Options{Now: clk.Now})
	c := connect(t, s, "owner")
	send := func(uid uint32, verf byte, flags uint32) (*nfs4.ExchangeIDRes, nfs4.Status) {
		c.as(uid, 0)
		res := c.bareRes(&nfs4.ExchangeIDArgs{Verf: nfs4.Verifier{verf}, OwnerID: []byte("owner"), Flags: flags})
		r, _ := res.(*nfs4.ExchangeIDRes)
		return r, res.Result()
	}
	const update = nfs4.ExchgIDUpdConfirmedRecA
	if _, st := send(1, 1, 1<<5); st != nfs4.ErrInval {
		t.Errorf("unknown flag: %v", st)
	}
	if _, st := send(1, 1, update); st != nfs4.ErrNoEnt {
		t.Errorf("7: %v", st)
	}
	r1, _ := send(1, 1, 0) // 1
	r4, _ := send(1, 1, 0) // 4
	if r1.ClientID == r4.ClientID {
		t.Error("4: the unconfirmed record was not replaced")
	}
	confirm := func(r *nfs4.ExchangeIDRes) {
		t.Helper()
		c.id, c.csSeq = r.ClientID, r.SequenceID
		if res := c.createSession(); res.Status != nfs4.OK {
			t.Fatal(res.Status)
		}
	}
	confirm(r4)
	r2, _ := send(1, 1, 0)
	if r2.ClientID != r4.ClientID || r2.Flags&nfs4.ExchgIDConfirmedR == 0 {
		t.Errorf("2: %+v", r2)
	}
	r6, st := send(1, 1, update)
	if st != nfs4.OK || r6.ClientID != r4.ClientID || r6.Flags&nfs4.ExchgIDConfirmedR == 0 {
		t.Errorf("6: %v", st)
	}
	if _, st := send(1, 2, update); st != nfs4.ErrNotSame {
		t.Errorf("8: %v", st)
	}
	if _, st := send(2, 1, update); st != nfs4.ErrPerm {
		t.Errorf("9: %v", st)
	}
	// 3: another client with the same name, while there is state and when
	// there is none.
	c.as(1, 0)
	c.ok(&nfs4.ReclaimCompleteArgs{})
	_, open := c.opened(createArgs("o", "f", nfs4.ShareAccessRead))
	if _, st := send(2, 1, 0); st != nfs4.ErrClientIDInUse {
		t.Errorf("3 with state: %v", st)
	}
	// 5: the client has restarted; its state stays until it is confirmed.
	old := c.session
	r5, _ := send(1, 3, 0)
	if r5.ClientID == r4.ClientID || r5.Flags&nfs4.ExchgIDConfirmedR != 0 {
		t.Errorf("5: %+v", r5)
	}
	if u := s.Usage(); u.Opens != 1 || u.Clients != 2 {
		t.Errorf("5: %v", u)
	}
	confirm(r5)
	if u := s.Usage(); u.Opens != 0 || u.Clients != 1 || u.Sessions != 1 || u.Delegations != 0 {
		t.Errorf("5, confirmed: %v", u)
	}
	if res := c.compound(&nfs4.SequenceArgs{SessionID: old, SequenceID: 1}); res.Status != nfs4.ErrBadSession {
		t.Errorf("session of the earlier instance: %v", res.Status)
	}
	_ = open
	r3, st := send(2, 1, 0)
	if st != nfs4.OK || r3.ClientID == r5.ClientID {
		t.Errorf("3 without state: %v", st)
	}
	// An unconfirmed record does not live longer than a lease.
	clk.advance(100 * time.Second)
	if u := s.Usage(); u.Clients != 0 {
		t.Errorf("after the lease: %v", u)
	}
}

func TestBindConnection(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "bind")
	if f := c.flags(); f != 0 {
		t.Errorf("flags %#x", f)
	}
	c.conn.Close()
	waitFor(t, func() bool { return s.Usage().Connections == 0 })
	c.dial()
	if f := c.flags(); f&nfs4.SeqStatusCBPathDown == 0 || f&nfs4.SeqStatusCBPathDownSession == 0 {
		t.Errorf("flags %#x on a connection that is not bound to the back channel", f)
	}
	for dir, want := range map[nfs4.ConnDir]nfs4.ConnDir{nfs4.ConnFore: nfs4.ConnFore, nfs4.ConnBack: nfs4.ConnBack,
		nfs4.ConnBoth: nfs4.ConnBoth, nfs4.ConnBackOrBoth: nfs4.ConnBoth} {
		if res := c.bare(&nfs4.BindConnToSessionArgs{SessionID: c.session, Dir: dir}).(*nfs4.BindConnToSessionRes); res.Dir != want {
			t.Errorf("%d became %d", dir, res.Dir)
		}
	}
	if f := c.flags(); f != 0 {
		t.Errorf("flags %#x", f)
	}
	if res := c.bareRes(&nfs4.BindConnToSessionArgs{SessionID: nfs4.SessionID{1}, Dir: nfs4.ConnBoth}); res.Result() != nfs4.ErrBadSession {
		t.Error(res.Result())
	}
	c.fails(nfs4.ErrNotOnlyOp, &nfs4.BindConnToSessionArgs{SessionID: c.session, Dir: nfs4.ConnBoth})
}

// waitFor waits for something that another goroutine brings about and that
// nothing signals.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen")
		}
	}
}
