package nfstest

import (
	"context"
	"testing"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// The server's share of a READ or WRITE of 1 MiB, and of a GETATTR, without a
// transport.
func BenchmarkHandler(b *testing.B) {
	s := NewServer(Options{Delegations: DelegateNever})
	defer s.Close()
	if err := s.WriteFile("/f", make([]byte, 1<<20), 0o644); err != nil {
		b.Fatal(err)
	}
	fh, err := s.Handle("/f")
	if err != nil {
		b.Fatal(err)
	}
	handle := s.Handler()
	c := &tester{t: b, minor: 1, cred: sysCred(0, 0)}
	var last nfs4.Res
	send := func(msg xdr.Message) {
		handle(context.Background(), &ulb.Request{Msg: msg, ReplyMax: 1 << 20, BulkMax: 2 << 20}, func(m xdr.Message) error {
			if last != nil {
				return nil
			}
			var d xdr.Decoder
			d.Reset(xdr.Message{Stream: m.AppendTo(nil)[24:]})
			var res nfs4.CompoundRes
			res.Decode(&d)
			if d.Err() != nil || res.Status != nfs4.OK {
				b.Fatal(d.Err(), res.Status)
			}
			last = res.Ops[len(res.Ops)-1]
			return nil
		})
	}
	one := func(ops ...nfs4.Args) nfs4.Res {
		last = nil
		send(c.encode(ops...))
		return last
	}
	ex := one(&nfs4.ExchangeIDArgs{OwnerID: []byte("bench")}).(*nfs4.ExchangeIDRes)
	session := one(&nfs4.CreateSessionArgs{ClientID: ex.ClientID, SequenceID: 1, ForeChan: channel(), BackChan: channel()}).(*nfs4.CreateSessionRes).SessionID
	seq := &nfs4.SequenceArgs{SessionID: session}
	for name, op := range map[string]nfs4.Args{
		"READ": &nfs4.ReadArgs{Count: 1 << 20}, "WRITE": &nfs4.WriteArgs{Data: make([]byte, 1<<20)},
		"GETATTR": &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrMode)},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			if name != "GETATTR" {
				b.SetBytes(1 << 20)
			}
			var e xdr.Encoder
			h := rpc.CallHeader{XID: 1, Prog: nfs4.Program, Vers: nfs4.Version, Proc: nfs4.ProcCompound, Cred: c.cred}
			args := nfs4.CompoundArgs{Minor: 1, Ops: []nfs4.Args{seq, putFH(fh), op}}
			for b.Loop() {
				seq.SequenceID++
				e.Reset(nil)
				h.Encode(&e)
				args.Encode(&e)
				send(e.Message())
			}
		})
	}
}
