package nfsclient

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// callBack makes an RPC call to the client as a server would, and returns the
// reply header and what stands behind it.
func callBack(t *testing.T, c *Client, h rpc.CallHeader, args *nfs4.CBCompoundArgs) (rpc.ReplyHeader, []byte) {
	t.Helper()
	var e xdr.Encoder
	h.XID = 77
	h.Encode(&e)
	if args != nil {
		args.Encode(&e)
	}
	var reply []byte
	c.serveCallback(t.Context(), &ulb.Request{Msg: e.Message(), ReplyMax: 4096}, func(m xdr.Message) error {
		reply = m.AppendTo(nil)
		return nil
	})
	d := xdr.NewDecoder(reply)
	var rh rpc.ReplyHeader
	rh.Decode(d)
	if d.Err() != nil || rh.XID != 77 {
		t.Fatalf("reply %x: %v", reply, d.Err())
	}
	return rh, d.Rest()
}

var cbHeader = rpc.CallHeader{Prog: rpc.CallbackBase, Vers: 1, Proc: rpc.ProcCompound}

// compound sends a CB_COMPOUND and returns the decoded result.
func cbCall(t *testing.T, c *Client, args *nfs4.CBCompoundArgs) *nfs4.CBCompoundRes {
	t.Helper()
	rh, body := callBack(t, c, cbHeader, args)
	if rh.Err() != nil {
		t.Fatal(rh.Err())
	}
	var res nfs4.CBCompoundRes
	d := xdr.NewDecoder(body)
	res.Decode(d)
	if d.End(); d.Err() != nil {
		t.Fatalf("%x: %v", body, d.Err())
	}
	return &res
}

func TestCallbackRPC(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	header := func(edit func(*rpc.CallHeader)) rpc.CallHeader {
		h := rpc.CallHeader{Prog: rpc.CallbackBase, Vers: 1}
		edit(&h)
		return h
	}
	for _, k := range []struct {
		name string
		h    rpc.CallHeader
		want rpc.Stat
	}{
		{"null", header(func(h *rpc.CallHeader) {}), rpc.Success},
		{"null, version 4", header(func(h *rpc.CallHeader) { h.Vers = 4 }), rpc.Success},
		{"program", header(func(h *rpc.CallHeader) { h.Prog++ }), rpc.ProgUnavail},
		{"version", header(func(h *rpc.CallHeader) { h.Vers = 3 }), rpc.ProgMismatch},
		{"procedure", header(func(h *rpc.CallHeader) { h.Proc = 2 }), rpc.ProcUnavail},
		{"arguments", header(func(h *rpc.CallHeader) { h.Proc = 1 }), rpc.GarbageArgs},
		{"credential", header(func(h *rpc.CallHeader) { h.Cred.Flavor = rpc.FlavorGSS }), rpc.AuthError},
	} {
		t.Run(k.name, func(t *testing.T) {
			if rh, _ := callBack(t, c, k.h, nil); rh.Status.Stat != k.want {
				t.Errorf("%v, want %v", rh.Status.Stat, k.want)
			}
		})
	}
}

func TestCallbackCompound(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	seqs := map[uint32]uint32{}
	seq := func(slot uint32) *nfs4.CBSequenceArgs {
		seqs[slot]++
		return &nfs4.CBSequenceArgs{SessionID: c.sess.id, SlotID: slot, SequenceID: seqs[slot]}
	}
	// The server may have called already, to try the channel.
	c.cbMu.Lock()
	for i, s := range c.sess.cb.slots {
		seqs[uint32(i)] = s.seq
	}
	c.cbMu.Unlock()
	do := func(ops ...nfs4.CBArgs) *nfs4.CBCompoundRes {
		t.Helper()
		return cbCall(t, c, &nfs4.CBCompoundArgs{Tag: "t", Minor: 2, Ops: ops})
	}
	check := func(res *nfs4.CBCompoundRes, ops int, want nfs4.Status) {
		t.Helper()
		if res.Status != want || len(res.Ops) != ops || res.Tag != "t" {
			t.Errorf("%v with %d results, want %v with %d", res.Status, len(res.Ops), want, ops)
		}
	}
	check(do(), 0, nfs4.OK)
	check(do(seq(7)), 1, nfs4.OK)
	check(do(&nfs4.CBRecallArgs{}), 1, nfs4.ErrOpNotInSession)
	check(do(seq(7), seq(8)), 2, nfs4.ErrSequencePos)
	check(do(seq(7), &nfs4.CBRecallArgs{FH: FH("x")}), 2, nfs4.ErrBadStateID)
	check(do(seq(7), &nfs4.CBGetAttrArgs{FH: FH("x")}), 2, nfs4.ErrBadHandle)
	check(do(seq(7), &nfs4.CBWantsCancelledArgs{}), 2, nfs4.ErrNotSupp)
	check(do(seq(7), &nfs4.CBRecallAnyArgs{}), 2, nfs4.OK)
	check(do(&nfs4.CBSequenceArgs{SlotID: 7}), 1, nfs4.ErrBadSession)
	check(do(&nfs4.CBSequenceArgs{SessionID: c.sess.id, SlotID: 99, SequenceID: 1}), 1, nfs4.ErrBadSlot)
	check(do(&nfs4.CBSequenceArgs{SessionID: c.sess.id, SlotID: 7, SequenceID: 99}), 1, nfs4.ErrSeqMisordered)
	if res := cbCall(t, c, &nfs4.CBCompoundArgs{Minor: 1, Ops: []nfs4.CBArgs{seq(9)}}); res.Status != nfs4.ErrMinorVersMismatch {
		t.Errorf("other minor version: %v", res.Status)
	}

	// A lock that has come free.
	f := create(t, c, "f")
	mine, other := LockOwner{ID: 7}, LockOwner{ID: 7, Flock: true}
	w, no := c.addWaiter(f.open.node, mine), c.addWaiter(f.open.node, other)
	notify := func(fh FH, owner []byte) {
		check(do(seq(7), &nfs4.CBNotifyLockArgs{FH: fh, Owner: nfs4.LockOwner{Owner: owner}}), 2, nfs4.OK)
	}
	notify(FH("x"), mine.wire())
	notify(f.FH(), []byte("x"))
	if len(w.woken) != 0 {
		t.Error("woken for another file or owner")
	}
	notify(f.FH(), mine.wire())
	notify(f.FH(), mine.wire())
	if len(w.woken) != 1 || len(no.woken) != 0 {
		t.Errorf("%d and %d wake-ups", len(w.woken), len(no.woken))
	}
	if err := f.Close(t.Context()); err != nil {
		t.Error(err)
	}

	// A retry is answered from the cache, octet by octet.
	again := &nfs4.CBCompoundArgs{Tag: "t", Minor: 2, Ops: []nfs4.CBArgs{seq(7), &nfs4.CBRecallArgs{FH: FH("x")}}}
	_, one := callBack(t, c, cbHeader, again)
	again.Ops = again.Ops[:1] // what the retry asks does not matter any more
	_, two := callBack(t, c, cbHeader, again)
	if !bytes.Equal(one, two) {
		t.Errorf("%x, and to a retry %x", one, two)
	}

}

// A recalled slot is out of use at once, and the server is told so at once: its
// answer then says what holds.
func TestRecallSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		synctest.Wait() // no SEQUENCE is on its way with the target of before
		limit := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.sess.table.limit
		}
		if limit() <= 4 {
			t.Fatalf("limit %d before the recall", limit())
		}
		told := make(chan struct{})
		release := make(chan struct{})
		remove := g.srv.Hook(func(ctx context.Context, op *nfstest.Op) nfstest.Verdict {
			if op.Args.Op() != nfs4.OpSequence {
				return nfstest.Verdict{}
			}
			told <- struct{}{}
			<-release
			return nfstest.Verdict{Edit: func(res nfs4.Res) { res.(*nfs4.SequenceRes).TargetHighestSlotID = 3 }}
		})
		c.cbMu.Lock()
		seq := c.sess.cb.slots[7].seq + 1
		c.cbMu.Unlock()
		res := cbCall(t, c, &nfs4.CBCompoundArgs{Tag: "t", Minor: 2, Ops: []nfs4.CBArgs{
			&nfs4.CBSequenceArgs{SessionID: c.sess.id, SlotID: 7, SequenceID: seq},
			&nfs4.CBRecallSlotArgs{TargetHighestSlotID: 3}}})
		if res.Status != nfs4.OK || limit() != 4 {
			t.Errorf("%v, limit %d", res.Status, limit())
		}
		<-told
		remove()
		close(release)
		synctest.Wait()
		if limit() != 4 {
			t.Errorf("limit %d after the server was told", limit())
		}
	})
}

// A recall of a delegation whose OPEN has not been answered yet is put off.
func TestRecallRacesOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		dir, _ := c.Root()
		release := make(chan struct{})
		g.srv.Hook(func(ctx context.Context, op *nfstest.Op) nfstest.Verdict {
			if op.Args.Op() == nfs4.OpOpen {
				<-release
			}
			return nfstest.Verdict{}
		})
		done := make(chan *File, 1)
		go func() {
			f, _, _, err := c.Open(t.Context(), root, OpenRequest{Dir: dir, Name: "f", Write: true, Create: true})
			if err != nil {
				t.Error(err)
			}
			done <- f
		}()
		synctest.Wait()
		c.mu.Lock()
		s := c.sess
		var refer nfs4.ReferringCall
		for i, e := range s.table.slots {
			if e.state == slotBusy {
				refer = nfs4.ReferringCall{SlotID: uint32(i), SequenceID: e.seq}
			}
		}
		c.mu.Unlock()
		recall := func(n uint32, refer ...nfs4.ReferringCall) nfs4.Status {
			return cbCall(t, c, &nfs4.CBCompoundArgs{Minor: 2, Ops: []nfs4.CBArgs{
				&nfs4.CBSequenceArgs{SessionID: s.id, SlotID: 15, SequenceID: n,
					Referring: []nfs4.ReferringCallList{{SessionID: s.id, Calls: refer}}},
				&nfs4.CBRecallArgs{StateID: nfs4.StateID{Seq: 1, Other: [12]byte{9}}, FH: FH("f")},
			}}).Status
		}
		if st := recall(1, refer); st != nfs4.ErrDelay {
			t.Errorf("with the OPEN as referring call: %v", st)
		}
		if st := recall(2); st != nfs4.ErrDelay {
			t.Errorf("while an OPEN is outstanding: %v", st)
		}
		close(release)
		f := <-done
		if st := recall(3, refer); st != nfs4.ErrBadStateID {
			t.Errorf("when it was answered: %v", st)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Delegations are recorded, used for I/O, returned when recalled, and the file
// stays usable without.
func TestDelegationRecall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		a, b := g.client(), g.client(func(o *Options) { o.Unique = "b" })
		f := create(t, a, "f")
		write(t, f, 0, []byte("from a"))
		if n := a.Stats().Delegations; n != 1 {
			t.Fatalf("%d delegations", n)
		}
		used := f.open.node.deleg.sid.Other
		if sid, err := a.pick(f.open, nfs4.ShareAccessWrite); err != nil || sid.Other != used || sid.Seq != 0 {
			t.Errorf("stateid %v, %v", sid, err)
		}
		dir, _ := b.Root()
		h, _, _, err := b.Open(t.Context(), root, OpenRequest{Dir: dir, Name: "f", Read: true, Write: true})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, h, 0, []byte("from a"))
		s := a.Stats()
		if s.Delegations != 0 || s.Recalls != 1 || s.Uncommitted != 0 {
			t.Errorf("%+v", s)
		}
		write(t, h, 0, []byte("from b"))
		expect(t, f, 0, []byte("from b"))
		write(t, f, 5, []byte("a"))
		expect(t, h, 0, []byte("from a"))
		for _, f := range []*File{f, h} {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// The server revokes what was recalled and not returned, and everything else.
func TestRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		c := g.client()
		f := create(t, c, "f")
		write(t, f, 0, []byte("data"))
		g.srv.RevokeAll()
		expect(t, f, 0, []byte("data"))
		write(t, f, 0, []byte("more"))
		if err := f.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if u := g.srv.Usage(); u.Revoked != 0 {
			t.Errorf("not freed: %v", u)
		}
		expect(t, f, 0, []byte("more"))
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// No more delegations are kept than the limit says, and none of a file that has
// long been closed.
func TestDelegationLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
		c := g.client(func(o *Options) { o.MaxDelegations = 3 })
		var files []*File
		for i := range 6 {
			files = append(files, create(t, c, string(rune('a'+i))))
		}
		synctest.Wait()
		if n, u := c.Stats().Delegations, g.srv.Usage(); n != 3 || u.Delegations != 3 {
			t.Errorf("%d delegations, the server has %v", n, u)
		}
		time.Sleep(5 * time.Minute)
		if n := c.Stats().Delegations; n != 3 {
			t.Errorf("%d delegations of open files", n)
		}
		for _, f := range files {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if n := c.Stats().Delegations; n != 3 {
			t.Errorf("%d delegations just after the files were closed", n)
		}
		time.Sleep(5 * time.Minute)
		if n := c.Stats().Delegations; n != 0 {
			t.Errorf("%d delegations of files long closed", n)
		}
		f := create(t, c, "g")
		c.ReturnDelegation(f.FH())
		synctest.Wait()
		if u := g.srv.Usage(); u.Delegations != 0 {
			t.Errorf("given back, but the server has %v", u)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
