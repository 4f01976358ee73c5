package nfstest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Unix(1_700_000_000, 0)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func newServer(t *testing.T, o Options) *Server {
	t.Helper()
	s := NewServer(o)
	t.Cleanup(s.Close)
	return s
}

// tester is a client that encodes what it is told to. It keeps no more state than
// a test needs.
type tester struct {
	t     testing.TB
	s     *Server
	conn  sender
	via   func(back ulb.Handler) (sender, error) // nil means Server.Dial
	minor uint32
	cred  rpc.OpaqueAuth
	xid   uint32

	owner   string
	verf    nfs4.Verifier
	id      nfs4.ClientID
	csSeq   uint32
	session nfs4.SessionID
	fore    nfs4.ChannelAttrs
	seqs    map[uint32]uint32 // by slot
	cache   bool
	last    xdr.Message // the last request, for retries

	mu        sync.Mutex
	callbacks []nfs4.CBArgs
	cbSeq     []nfs4.CBSequenceArgs
	onCB      func(nfs4.CBArgs) nfs4.CBRes
	cbCount   chan struct{} // a value for every callback
}

func sysCred(uid, gid uint32, groups ...uint32) rpc.OpaqueAuth {
	cred, err := (&rpc.AuthSys{Machine: "test", UID: uid, GID: gid, GIDs: groups}).Auth()
	if err != nil {
		panic(err)
	}
	return cred
}

// connect makes a tester that is connected and nothing else.
func connect(t *testing.T, s *Server, owner string) *tester {
	t.Helper()
	return connectVia(t, s, owner, nil)
}

func connectVia(t *testing.T, s *Server, owner string, via func(ulb.Handler) (sender, error)) *tester {
	t.Helper()
	c := &tester{t: t, s: s, via: via, minor: 2, cred: sysCred(0, 0), owner: owner, seqs: make(map[uint32]uint32),
		cbCount: make(chan struct{}, 10000)}
	c.dial()
	t.Cleanup(func() { c.conn.Close() })
	return c
}

func (c *tester) dial() {
	c.t.Helper()
	var err error
	if c.via != nil {
		c.conn, err = c.via(c.serve)
	} else {
		c.conn, err = c.s.Dial(context.Background(), c.serve)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// newTester makes a tester with a session, ready to open files.
func newTester(t *testing.T, s *Server, owner string) *tester {
	t.Helper()
	return newTesterVia(t, s, owner, nil)
}

func newTesterVia(t *testing.T, s *Server, owner string, via func(ulb.Handler) (sender, error)) *tester {
	t.Helper()
	c := connectVia(t, s, owner, via)
	c.establish()
	c.ok(&nfs4.ReclaimCompleteArgs{})
	return c
}

func (c *tester) as(uid, gid uint32, groups ...uint32) *tester {
	c.cred = sysCred(uid, gid, groups...)
	return c
}

func (c *tester) exchangeID() *nfs4.ExchangeIDRes {
	c.t.Helper()
	res := c.bare(&nfs4.ExchangeIDArgs{Verf: c.verf, OwnerID: []byte(c.owner)}).(*nfs4.ExchangeIDRes)
	c.id, c.csSeq = res.ClientID, res.SequenceID
	return res
}

func channel() nfs4.ChannelAttrs {
	return nfs4.ChannelAttrs{MaxRequestSize: 2 << 20, MaxResponseSize: 2 << 20, MaxResponseSizeCached: 64 << 10,
		MaxOperations: 40, MaxRequests: 8}
}

func (c *tester) createSession() *nfs4.CreateSessionRes {
	c.t.Helper()
	back := channel()
	back.MaxRequestSize, back.MaxResponseSize, back.MaxOperations = 4096, 4096, 4
	raw := c.bareRes(&nfs4.CreateSessionArgs{ClientID: c.id, SequenceID: c.csSeq,
		Flags: nfs4.CreateSessionConnBackChan, ForeChan: channel(), BackChan: back, CBProgram: rpc.CallbackBase,
		SecParms: []nfs4.CallbackSec{{Flavor: nfs4.FlavorSys, Machine: "server"}}})
	res, ok := raw.(*nfs4.CreateSessionRes)
	if !ok {
		c.t.Fatalf("CREATE_SESSION: %v", raw.Result())
	}
	if res.Status == nfs4.OK {
		c.csSeq++
		c.session, c.fore = res.SessionID, res.ForeChan
		c.seqs = make(map[uint32]uint32)
	}
	return res
}

func (c *tester) establish() {
	c.t.Helper()
	if res := c.exchangeID(); res.Status != nfs4.OK {
		c.t.Fatal(res.Status)
	}
	if res := c.createSession(); res.Status != nfs4.OK {
		c.t.Fatal(res.Status)
	}
}

// encode returns the RPC message of a COMPOUND.
func (c *tester) encode(ops ...nfs4.Args) xdr.Message {
	c.t.Helper()
	var e xdr.Encoder
	c.xid++
	h := rpc.CallHeader{XID: c.xid, Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: c.cred}
	h.Encode(&e)
	args := nfs4.CompoundArgs{Tag: "test", Minor: c.minor, Ops: ops}
	args.Encode(&e)
	if e.Err() != nil {
		c.t.Fatal(e.Err())
	}
	return clone(e.Message())
}

// roundTrip sends a message and returns the reply, or the error that the call
// ended with.
func (c *tester) roundTrip(msg xdr.Message) (*nfs4.CompoundRes, error) {
	reply, err := c.raw(msg)
	if err != nil {
		return nil, err
	}
	var d xdr.Decoder
	d.Reset(reply)
	var h rpc.ReplyHeader
	h.Decode(&d)
	if d.Err() == nil && h.Err() != nil {
		return nil, h.Err()
	}
	res := new(nfs4.CompoundRes)
	res.Decode(&d)
	d.End()
	return res, d.Err()
}

func (c *tester) raw(msg xdr.Message) (xdr.Message, error) {
	type outcome struct {
		msg xdr.Message
		err error
	}
	got := make(chan outcome, 1)
	most := 8 << 20
	if c.via != nil {
		most = 64 << 10
	}
	err := c.conn.Send(context.Background(), &ulb.Call{Msg: msg, ReplyMax: most,
		Done: func(_ *ulb.Call, r ulb.Reply, err error) {
			if err != nil {
				got <- outcome{err: err}
				return
			}
			got <- outcome{msg: clone(r.Msg)}
			r.Release()
		}})
	if err != nil {
		return xdr.Message{}, err
	}
	o := <-got
	return o.msg, o.err
}

// compound sends operations without SEQUENCE.
func (c *tester) compound(ops ...nfs4.Args) *nfs4.CompoundRes {
	c.t.Helper()
	res, err := c.roundTrip(c.encode(ops...))
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

// bareRes sends one operation outside of a session.
func (c *tester) bareRes(op nfs4.Args) nfs4.Res {
	c.t.Helper()
	res := c.compound(op)
	if len(res.Ops) != 1 {
		c.t.Fatalf("%v: %d results", op.Op(), len(res.Ops))
	}
	return res.Ops[0]
}

func (c *tester) bare(op nfs4.Args) nfs4.Res {
	c.t.Helper()
	res := c.bareRes(op)
	if res.Result() != nfs4.OK {
		c.t.Fatalf("%v: %v", op.Op(), res.Result())
	}
	return res
}

func (c *tester) sequence(slot uint32) *nfs4.SequenceArgs {
	c.seqs[slot]++
	return &nfs4.SequenceArgs{SessionID: c.session, SequenceID: c.seqs[slot], SlotID: slot, HighestSlotID: slot, CacheThis: c.cache}
}

// try sends operations in the session and returns the results without that of
// SEQUENCE.
func (c *tester) try(ops ...nfs4.Args) ([]nfs4.Res, nfs4.Status) {
	c.t.Helper()
	c.last = c.encode(append([]nfs4.Args{c.sequence(0)}, ops...)...)
	res, err := c.roundTrip(c.last)
	if err != nil {
		c.t.Fatal(err)
	}
	if len(res.Ops) > 0 && res.Ops[0].Result() != nfs4.OK {
		c.seqs[0]--
	}
	return res.Ops[min(1, len(res.Ops)):], res.Status
}

// ok is try for operations that must succeed; it returns the last result.
func (c *tester) ok(ops ...nfs4.Args) nfs4.Res {
	c.t.Helper()
	res, status := c.try(ops...)
	if status != nfs4.OK {
		n := len(res)
		if n == 0 {
			c.t.Fatalf("SEQUENCE: %v", status)
		}
		c.t.Fatalf("operation %d, %v: %v", n, ops[n-1].Op(), status)
	}
	if len(res) != len(ops) {
		c.t.Fatalf("%d results for %d operations", len(res), len(ops))
	}
	if len(res) == 0 {
		return nil
	}
	return res[len(res)-1]
}

// fails is try for operations of which the last must fail with this status.
func (c *tester) fails(want nfs4.Status, ops ...nfs4.Args) {
	c.t.Helper()
	res, status := c.try(ops...)
	if status != want || len(res) != len(ops) && want != nfs4.OK && len(res) > 0 {
		c.t.Fatalf("%v after %d of %d results, want %v", status, len(res), len(ops), want)
	}
}

func (c *tester) flags() uint32 {
	c.t.Helper()
	res, err := c.roundTrip(c.encode(c.sequence(0)))
	if err != nil || res.Status != nfs4.OK {
		c.t.Fatalf("SEQUENCE: %v, %v", err, res)
	}
	return res.Ops[0].(*nfs4.SequenceRes).StatusFlags
}

func putRoot() nfs4.Args { return &nfs4.PutRootFHArgs{} }

func putFH(fh nfs4.FH) nfs4.Args { return &nfs4.PutFHArgs{FH: fh} }

func getFH() nfs4.Args { return &nfs4.GetFHArgs{} }

func mode(m uint32) nfs4.Attrs {
	return nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: m}
}

// lookup returns the handle of a path from the root.
func (c *tester) lookup(names ...string) nfs4.FH {
	c.t.Helper()
	ops := []nfs4.Args{putRoot()}
	for _, n := range names {
		ops = append(ops, &nfs4.LookupArgs{Name: n})
	}
	return c.ok(append(ops, getFH())...).(*nfs4.GetFHRes).FH.Clone()
}

func (c *tester) attrs(fh nfs4.FH, want ...nfs4.Attr) nfs4.Attrs {
	c.t.Helper()
	return c.ok(putFH(fh), &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(want...)}).(*nfs4.GetAttrRes).Attrs
}

func openArgs(owner, name string, access uint32) *nfs4.OpenArgs {
	return &nfs4.OpenArgs{ShareAccess: access, Owner: nfs4.OpenOwner{Owner: []byte(owner)}, Name: name}
}

func createArgs(owner, name string, access uint32) *nfs4.OpenArgs {
	a := openArgs(owner, name, access)
	a.Create, a.CreateAttrs = true, mode(0o644)
	return a
}

// opened opens in the root directory and returns handle and result.
func (c *tester) opened(a *nfs4.OpenArgs) (nfs4.FH, *nfs4.OpenRes) {
	c.t.Helper()
	res, status := c.try(putRoot(), a, getFH())
	if status != nfs4.OK {
		c.t.Fatalf("OPEN %q: %v", a.Name, status)
	}
	return res[2].(*nfs4.GetFHRes).FH.Clone(), res[1].(*nfs4.OpenRes)
}

func (c *tester) write(fh nfs4.FH, id nfs4.StateID, off uint64, data string, how nfs4.StableHow) *nfs4.WriteRes {
	c.t.Helper()
	return c.ok(putFH(fh), &nfs4.WriteArgs{StateID: id, Offset: off, Stable: how, Data: []byte(data)}).(*nfs4.WriteRes)
}

func (c *tester) read(fh nfs4.FH, id nfs4.StateID, off uint64, n uint32) (string, bool) {
	c.t.Helper()
	res := c.ok(putFH(fh), &nfs4.ReadArgs{StateID: id, Offset: off, Count: n}).(*nfs4.ReadRes)
	return string(res.Data), res.EOF
}

// serve answers callbacks: with OK, or as onCB says.
func (c *tester) serve(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	var d xdr.Decoder
	d.Reset(req.Msg)
	var h rpc.CallHeader
	h.Decode(&d)
	var args nfs4.CBCompoundArgs
	args.Decode(&d)
	if d.Err() != nil || len(args.Ops) < 2 {
		c.t.Errorf("callback: %v", d.Err())
		return
	}
	seq := args.Ops[0].(*nfs4.CBSequenceArgs)
	res := nfs4.CBCompoundRes{Ops: []nfs4.CBRes{&nfs4.CBSequenceRes{SessionID: seq.SessionID,
		SequenceID: seq.SequenceID, SlotID: seq.SlotID, HighestSlotID: 7, TargetHighestSlotID: 7}}}
	c.mu.Lock()
	op := args.Ops[1]
	switch a := op.(type) {
	case *nfs4.CBRecallArgs:
		op = &nfs4.CBRecallArgs{StateID: a.StateID, Truncate: a.Truncate, FH: a.FH.Clone()}
	case *nfs4.CBNotifyLockArgs:
		op = &nfs4.CBNotifyLockArgs{FH: a.FH.Clone(), Owner: nfs4.LockOwner{ClientID: a.Owner.ClientID, Owner: bytes.Clone(a.Owner.Owner)}}
	}
	c.callbacks = append(c.callbacks, op)
	c.cbSeq = append(c.cbSeq, *seq)
	on := c.onCB
	c.mu.Unlock()
	var r nfs4.CBRes
	if on != nil {
		r = on(op)
	} else {
		r = nfs4.NewCBRes(op.Op())
	}
	if r == nil {
		return // never answered
	}
	res.Ops = append(res.Ops, r)
	res.Status = r.Result()
	var e xdr.Encoder
	(&rpc.ReplyHeader{XID: h.XID}).Encode(&e)
	res.Encode(&e)
	_ = respond(e.Message())
	c.cbCount <- struct{}{}
}

func (c *tester) waitCB(n int) []nfs4.CBArgs {
	c.t.Helper()
	for range n {
		select {
		case <-c.cbCount:
		case <-time.After(10 * time.Second):
			c.t.Fatal("no callback")
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]nfs4.CBArgs(nil), c.callbacks...)
}
