package nfstest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// everyOp returns arguments of every operation, most of them sensible.
func everyOp(fh nfs4.FH, id nfs4.StateID) []nfs4.Args {
	a := mode(0o644)
	ops := []nfs4.Args{
		&nfs4.AccessArgs{Access: 0x1ff}, closeArgs(id), &nfs4.CommitArgs{}, createArgs("o", "new", 3), openArgs("o", "f", 3),
		&nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d", Attrs: a}, &nfs4.CreateArgs{Type: nfs4.TypeLnk, Name: "l", LinkText: []byte("f")},
		&nfs4.DelegReturnArgs{StateID: id}, &nfs4.GetAttrArgs{AttrRequest: nfs4.KnownAttrs.AndNot(writeOnly)}, getFH(),
		&nfs4.LinkArgs{Name: "hard"}, lockArgs(id, "p", nfs4.WriteLock, 0, nfs4.MaxLength),
		&nfs4.LockTArgs{Type: nfs4.ReadLock, Length: 1}, &nfs4.LockUArgs{Type: nfs4.ReadLock, StateID: id, Length: 1},
		&nfs4.LookupArgs{Name: "f"}, &nfs4.LookupPArgs{}, &nfs4.VerifyArgs{Attrs: a}, &nfs4.NVerifyArgs{Attrs: a},
		&nfs4.OpenDowngradeArgs{StateID: id, ShareAccess: 1}, putFH(fh), putRoot(), &nfs4.PutPubFHArgs{},
		&nfs4.ReadArgs{StateID: id, Count: 100}, &nfs4.ReadDirArgs{MaxCount: 4096, AttrRequest: nfs4.KnownAttrs.AndNot(writeOnly)},
		&nfs4.ReadLinkArgs{}, &nfs4.RemoveArgs{Name: "d"}, &nfs4.RenameArgs{OldName: "f", NewName: "g"}, &nfs4.SaveFHArgs{}, &nfs4.RestoreFHArgs{},
		&nfs4.SecInfoArgs{Name: "f"}, &nfs4.SecInfoNoNameArgs{}, &nfs4.SetAttrArgs{StateID: id, Attrs: a},
		&nfs4.WriteArgs{StateID: id, Offset: 1, Data: []byte("data")}, &nfs4.BackchannelCtlArgs{CBProgram: 1},
		&nfs4.BindConnToSessionArgs{Dir: 3}, &nfs4.ExchangeIDArgs{OwnerID: []byte("x")}, &nfs4.CreateSessionArgs{ForeChan: channel(), BackChan: channel()},
		&nfs4.DestroySessionArgs{}, &nfs4.DestroyClientIDArgs{}, &nfs4.ReclaimCompleteArgs{}, &nfs4.TestStateIDArgs{StateIDs: []nfs4.StateID{id}},
		&nfs4.FreeStateIDArgs{StateID: id}, &nfs4.SeekArgs{StateID: id}, &nfs4.AllocateArgs{StateID: id, Length: 5}, &nfs4.DeallocateArgs{StateID: id, Length: 5},
		&nfs4.CopyArgs{SrcStateID: id, DstStateID: id}, &nfs4.CloneArgs{SrcStateID: id, DstStateID: id}, &nfs4.IOAdviseArgs{StateID: id},
		&nfs4.GetXattrArgs{Name: "x"}, &nfs4.SetXattrArgs{Name: "x", Value: []byte("v")}, &nfs4.ListXattrsArgs{MaxCount: 1000}, &nfs4.RemoveXattrArgs{Name: "x"},
	}
	seen := make(map[nfs4.OpNum]bool)
	for _, op := range ops {
		seen[op.Op()] = true
	}
	for n := range nfs4.OpNum(80) { // and the others as they are
		op := nfs4.NewArgs(n)
		if want, ok := op.(*nfs4.WantDelegationArgs); ok {
			want.Claim = nfs4.ClaimFH
		}
		var e xdr.Encoder
		if op.Encode(&e); !seen[n] && op.Op() == n && e.Err() == nil {
			ops = append(ops, op)
		}
	}
	return ops
}

// Every operation in every state of a COMPOUND gives an answer that decodes, and
// that belongs to it.
func TestEveryOpAnswers(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "c")
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	dir := c.lookup()
	for _, cur := range [][]nfs4.Args{nil, {putFH(fh)}, {putFH(dir)}, {putFH(fh), &nfs4.SaveFHArgs{}, putFH(dir)}, {putFH(dir), &nfs4.SaveFHArgs{}, putFH(fh)}} {
		for _, op := range everyOp(fh, open.StateID) {
			if op.Op() == nfs4.OpDestroySession {
				continue
			}
			res, _ := c.try(append(cur[:len(cur):len(cur)], op)...)
			if len(res) != len(cur)+1 {
				t.Fatalf("%v: %d results", op.Op(), len(res))
			}
			if got := res[len(cur)].Op(); got != op.Op() {
				t.Errorf("%v was answered as %v", op.Op(), got)
			}
		}
		c.bareRes(&nfs4.DestroySessionArgs{})
	}
}

// fuzzServer answers fuzzed messages: without a connection, so that nothing is
// left to wait for.
func fuzzServer(f *testing.F) (*Server, ulb.Handler) {
	s := NewServer(Options{MaxPayload: 64 << 10, Exports: []Export{{Path: "/", Bytes: 16 << 20}}})
	f.Cleanup(s.Close)
	return s, s.Handler()
}

func answer(t *testing.T, h ulb.Handler, msg xdr.Message) *nfs4.CompoundRes {
	var res *nfs4.CompoundRes
	h(context.Background(), &ulb.Request{Msg: msg, ReplyMax: 1 << 20}, func(m xdr.Message) error {
		var d xdr.Decoder
		d.Reset(xdr.Message{Stream: m.AppendTo(nil)})
		var rh rpc.ReplyHeader
		rh.Decode(&d)
		if d.Err() != nil {
			t.Fatalf("reply header: %v", d.Err())
		}
		if rh.Err() != nil {
			return nil
		}
		if d.Remaining() == 0 {
			return nil // NULL
		}
		res = new(nfs4.CompoundRes)
		res.Decode(&d)
		d.End()
		if d.Err() != nil {
			t.Fatalf("reply: %v", d.Err())
		}
		return nil
	})
	return res
}

// Whatever comes as a message, the server lives on and answers in good form.
func FuzzMessage(f *testing.F) {
	_, h := fuzzServer(f)
	c := &tester{t: f, minor: 2, cred: sysCred(0, 0)}
	for _, op := range everyOp(nfs4.FH("none"), nfs4.StateID{}) {
		f.Add(c.encode(op).AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, msg []byte) { answer(t, h, xdr.Message{Stream: msg}) })
}

// The same for operations behind a valid SEQUENCE.
func FuzzOperations(f *testing.F) {
	s, h := fuzzServer(f)
	var id nfs4.ClientID
	var session nfs4.SessionID
	var seq uint32
	send := func(t *testing.T, ops ...nfs4.Args) *nfs4.CompoundRes {
		c := &tester{t: t, minor: 2, cred: sysCred(0, 0)}
		return answer(t, h, c.encode(ops...))
	}
	setup := func(t *testing.T) {
		ex := send(t, &nfs4.ExchangeIDArgs{OwnerID: []byte("fuzz"), Verf: nfs4.Verifier{byte(rand.Int())}}).Ops[0].(*nfs4.ExchangeIDRes)
		id, seq = ex.ClientID, 1
		cs := send(t, &nfs4.CreateSessionArgs{ClientID: id, SequenceID: ex.SequenceID, ForeChan: channel(), BackChan: channel()})
		if cs.Status != nfs4.OK {
			t.Fatal(cs.Status)
		}
		session = cs.Ops[0].(*nfs4.CreateSessionRes).SessionID
		send(t, &nfs4.SequenceArgs{SessionID: session, SequenceID: 1}, &nfs4.ReclaimCompleteArgs{})
	}
	root := s.exports.root().handle()
	for _, op := range everyOp(root, nfs4.CurrentStateID) {
		var e xdr.Encoder
		args := nfs4.CompoundArgs{Minor: 2, Ops: []nfs4.Args{putRoot(), createArgs("o", "f", 3), &nfs4.SaveFHArgs{}, op, op}}
		args.Encode(&e)
		if e.Err() != nil {
			f.Fatal(op.Op(), e.Err())
		}
		f.Add(e.Message().AppendTo(nil)[12:], uint8(6))
	}
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, ops []byte, count uint8) {
		mu.Lock()
		defer mu.Unlock()
		s.mu.Lock()
		alive := s.sessions[session] != nil
		s.mu.Unlock()
		if !alive {
			s.mu.Lock()
			for _, cl := range s.clients {
				s.forget(cl)
			}
			s.mu.Unlock()
			setup(t)
		}
		seq++
		var e xdr.Encoder
		(&rpc.CallHeader{XID: 1, Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: sysCred(0, 0)}).Encode(&e)
		e.String("")
		e.Uint32(2)
		e.Uint32(uint32(count))
		e.Uint32(uint32(nfs4.OpSequence))
		(&nfs4.SequenceArgs{SessionID: session, SequenceID: seq}).Encode(&e)
		stream := append(e.Bytes(), ops...)
		res := answer(t, h, xdr.Message{Stream: stream})
		if count > 0 && (res == nil || len(res.Ops) == 0) {
			t.Fatal("no answer")
		}
		if count == 0 || res.Ops[0].Result() != nfs4.OK {
			seq--
		}
	})
}

// Clients that do everything at once, on connections that are cut and with
// delegations that are recalled, leave a server that agrees with itself.
func TestStress(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := newServer(t, Options{RecallTimeout: 50 * time.Millisecond, DelegationHoldOff: time.Millisecond})
	var clients []*tester
	for _, owner := range []string{"a", "b", "c"} {
		clients = append(clients, newTester(t, s, owner))
	}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Add(1)
		go func() {
			defer wg.Done()
			stress(c, rand.New(rand.NewPCG(seed, uint64(i))))
		}()
	}
	wg.Wait()
	s.RevokeAll()
	s.mu.Lock()
	for _, cl := range s.clients {
		s.forget(cl)
	}
	files := len(s.files)
	s.mu.Unlock()
	if files != 0 {
		t.Errorf("state of %d files is left", files)
	}
	for _, c := range clients {
		c.conn.Close()
	}
	waitFor(t, func() bool { return s.Usage().Connections == 0 })
	for _, e := range s.exports.byID {
		e.fs.CommitAll()
	}
	if left := s.Leaks(); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

func stress(c *tester, r *rand.Rand) {
	names := []string{"f", "g", "h", "d", "l", "new"}
	ids := []nfs4.StateID{nfs4.AnonymousStateID, nfs4.CurrentStateID}
	fhs := []nfs4.FH{c.s.exports.root().handle()}
	name := func() string { return names[r.IntN(len(names))] }
	for range 600 {
		id, fh := ids[r.IntN(len(ids))], fhs[r.IntN(len(fhs))]
		var ops []nfs4.Args
		switch r.IntN(8) {
		case 0, 1:
			open := createArgs([]string{"x", "y"}[r.IntN(2)], name(), uint32(1+r.IntN(3)))
			if r.IntN(6) == 0 {
				open.ShareDeny = uint32(r.IntN(4))
			}
			ops = []nfs4.Args{putRoot(), open, getFH()}
		case 2:
			ops = []nfs4.Args{putRoot(), &nfs4.SaveFHArgs{}, &nfs4.RenameArgs{OldName: name(), NewName: name()}}
		case 3:
			ops = []nfs4.Args{putRoot(), &nfs4.RemoveArgs{Name: name()}}
		case 4:
			ops = []nfs4.Args{putFH(fh), lockArgs(id, []string{"p", "q"}[r.IntN(2)], nfs4.LockType(1+r.IntN(4)), uint64(r.IntN(10)), uint64(1+r.IntN(10)))}
		case 5:
			ops = []nfs4.Args{putFH(fh), closeArgs(id)}
		case 6:
			ops = []nfs4.Args{putFH(fh), &nfs4.DelegReturnArgs{StateID: id}}
		default:
			all := everyOp(fh, id)
			op := all[r.IntN(len(all))]
			switch op.Op() {
			case nfs4.OpDestroySession, nfs4.OpDestroyClientID:
				continue
			}
			ops = []nfs4.Args{putFH(fh), &nfs4.SaveFHArgs{}, op}
		}
		c.cache = r.IntN(2) == 0
		msg := c.encode(append([]nfs4.Args{c.sequence(0)}, ops...)...)
		res, err := c.roundTrip(msg)
		if err != nil {
			c.t.Error(err)
			return
		}
		if res.Ops[0].Result() != nfs4.OK {
			c.t.Errorf("SEQUENCE: %v", res.Ops[0].Result())
			return
		}
		for _, op := range res.Ops {
			switch v := op.(type) {
			case *nfs4.OpenRes:
				if v.Status == nfs4.OK {
					ids = append(ids, v.StateID)
					if v.Delegation.Type == nfs4.DelegateRead || v.Delegation.Type == nfs4.DelegateWrite {
						ids = append(ids, v.Delegation.StateID)
					}
				}
			case *nfs4.LockRes:
				if v.Status == nfs4.OK {
					ids = append(ids, v.StateID)
				}
			case *nfs4.GetFHRes:
				if v.Status == nfs4.OK {
					fhs = append(fhs, v.FH.Clone())
				}
			}
		}
		if len(ids) > 30 {
			ids = append(ids[:2], ids[10:]...)
		}
		if len(fhs) > 30 {
			fhs = append(fhs[:1], fhs[10:]...)
		}
		if r.IntN(100) == 0 {
			c.conn.Close()
			c.dial()
			c.bareRes(&nfs4.BindConnToSessionArgs{SessionID: c.session, Dir: nfs4.ConnBoth})
		}
	}
}
