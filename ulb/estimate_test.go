package ulb

import (
	"bytes"
	"strings"
	"testing"

	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
)

// Only these are eligible, of all operations in all minor versions (RFC 8267
// section 6.1).
func TestEligible(t *testing.T) {
	for op := nfs4.OpNum(0); op < 100; op++ {
		if got, want := EligibleArgument(op), op == nfs4.OpWrite || op == nfs4.OpCreate; got != want {
			t.Errorf("argument of %v: %t", op, got)
		}
		if got, want := EligibleResult(op), op == nfs4.OpRead || op == nfs4.OpReadLink; got != want {
			t.Errorf("result of %v: %t", op, got)
		}
	}
}

// The codec moves exactly the eligible items beside the stream.
func TestCodecAgreesOnEligibility(t *testing.T) {
	data := []byte("some data")
	for op := nfs4.OpNum(0); op < 100; op++ {
		a := nfs4.NewArgs(op)
		switch a := a.(type) {
		case *nfs4.WriteArgs:
			a.Data = data
		case *nfs4.CreateArgs:
			a.Type, a.LinkText = nfs4.TypeLnk, data
		case *nfs4.WriteSameArgs:
			a.Pattern = data
		case *nfs4.SetXattrArgs:
			a.Value = data
		}
		var e xdr.Encoder
		a.Encode(&e)
		if got := len(e.Message().Bulk) > 0; got != EligibleArgument(op) {
			t.Errorf("%v: argument beside the stream: %t", op, got)
		}
		r := nfs4.NewRes(op)
		switch r := r.(type) {
		case *nfs4.ReadRes:
			r.Data = data
		case *nfs4.ReadLinkRes:
			r.Text = data
		case *nfs4.ReadPlusRes:
			r.Contents = []nfs4.Content{{Data: data}}
		case *nfs4.GetXattrRes:
			r.Value = data
		}
		e.Reset(nil)
		r.Encode(&e)
		if got := len(e.Message().Bulk) > 0; got != EligibleResult(op) {
			t.Errorf("%v: result beside the stream: %t", op, got)
		}
	}
}

func largestAttrs(mask nfs4.Bitmap) nfs4.Attrs {
	who := strings.Repeat("u", principal-4)
	all := nfs4.Bitmap{^uint32(0), ^uint32(0), ^uint32(0)}
	a := nfs4.Attrs{Mask: mask, SupportedAttrs: all, SuppAttrExclCreat: all, Owner: who, OwnerGroup: who,
		MimeType:   strings.Repeat("m", nfs4.MaxOwnerString),
		FileHandle: make(nfs4.FH, nfs4.MaxFH),
		SecLabel:   nfs4.SecLabel{Data: make([]byte, nfs4.MaxLabel)}}
	a.TimeAccessSet.Client, a.TimeModifySet.Client = true, true
	for range 300 {
		a.ACL = append(a.ACL, nfs4.ACE{Who: strings.Repeat("w", 30)})
	}
	a.DACL.ACEs, a.SACL.ACEs = a.ACL, a.ACL
	return a
}

// The table of attribute sizes holds for every attribute that can be asked
// for, with the largest value it can have.
func TestAttrSize(t *testing.T) {
	for n := nfs4.Attr(0); n < 96; n++ {
		if !nfs4.KnownAttrs.Has(n) {
			continue
		}
		mask := nfs4.MakeBitmap(n)
		a := largestAttrs(mask)
		var e xdr.Encoder
		a.Encode(&e)
		if e.Err() != nil {
			t.Fatalf("%v: %v", n, e.Err())
		}
		if got, _ := attrsSize(mask); e.Len() > got {
			t.Errorf("%v: %d bytes, estimated were %d", n, e.Len(), got)
		}
	}
}

// The largest result of every operation fits its estimate.
func TestEstimateCovers(t *testing.T) {
	own := bytes.Repeat([]byte{'o'}, nfs4.MaxOwner)
	bits := nfs4.Bitmap{^uint32(0), ^uint32(0), ^uint32(0)}
	deleg := nfs4.Delegation{Type: nfs4.DelegateWrite, LimitBy: nfs4.LimitBlocks, Permissions: nfs4.ACE{Who: strings.Repeat("p", principal-4)}}
	denied := nfs4.LockDenied{Type: nfs4.WriteLock, Owner: nfs4.LockOwner{Owner: own}}
	channel := nfs4.ChannelAttrs{HasRDMAIRD: true}
	impl := nfs4.ImplID{Domain: strings.Repeat("d", 256), Name: strings.Repeat("n", 256)}
	mask := nfs4.MakeBitmap(nfs4.AttrType, nfs4.AttrSize, nfs4.AttrOwner, nfs4.AttrOwnerGroup, nfs4.AttrTimeModify)
	cases := []struct {
		args nfs4.Args
		res  nfs4.Res
	}{
		{&nfs4.SequenceArgs{}, &nfs4.SequenceRes{}},
		{&nfs4.PutFHArgs{}, &nfs4.PutFHRes{}},
		{&nfs4.AccessArgs{}, &nfs4.AccessRes{}},
		{&nfs4.GetFHArgs{}, &nfs4.GetFHRes{FH: make(nfs4.FH, nfs4.MaxFH)}},
		{&nfs4.GetAttrArgs{AttrRequest: mask}, &nfs4.GetAttrRes{Attrs: largestAttrs(mask)}},
		{&nfs4.SetAttrArgs{}, &nfs4.SetAttrRes{AttrsSet: bits}},
		{&nfs4.SetAttrArgs{}, &nfs4.SetAttrRes{Status: nfs4.ErrPerm, AttrsSet: bits}},
		{&nfs4.ReadArgs{Count: 4097}, &nfs4.ReadRes{Data: make([]byte, 4097)}},
		{&nfs4.ReadLinkArgs{}, &nfs4.ReadLinkRes{Text: make([]byte, nfs4.MaxLinkText)}},
		{&nfs4.WriteArgs{}, &nfs4.WriteRes{}},
		{&nfs4.CommitArgs{}, &nfs4.CommitRes{}},
		{&nfs4.ReadDirArgs{MaxCount: 8192}, &nfs4.ReadDirRes{Entries: make([]byte, 8192-16)}},
		{&nfs4.OpenArgs{}, &nfs4.OpenRes{AttrsSet: bits, Delegation: deleg}},
		{&nfs4.CloseArgs{}, &nfs4.CloseRes{}},
		{&nfs4.OpenDowngradeArgs{}, &nfs4.OpenDowngradeRes{}},
		{&nfs4.CreateArgs{}, &nfs4.CreateRes{AttrsSet: bits}},
		{&nfs4.RemoveArgs{}, &nfs4.RemoveRes{}},
		{&nfs4.RenameArgs{}, &nfs4.RenameRes{}},
		{&nfs4.LinkArgs{}, &nfs4.LinkRes{}},
		{&nfs4.LookupArgs{}, &nfs4.LookupRes{}},
		{&nfs4.LockArgs{}, &nfs4.LockRes{}},
		{&nfs4.LockArgs{}, &nfs4.LockRes{Status: nfs4.ErrDenied, Denied: denied}},
		{&nfs4.LockTArgs{}, &nfs4.LockTRes{Status: nfs4.ErrDenied, Denied: denied}},
		{&nfs4.LockUArgs{}, &nfs4.LockURes{}},
		{&nfs4.DelegReturnArgs{}, &nfs4.DelegReturnRes{}},
		{&nfs4.WantDelegationArgs{}, &nfs4.WantDelegationRes{Delegation: deleg}},
		{&nfs4.GetDirDelegationArgs{}, &nfs4.GetDirDelegationRes{NotifyTypes: bits, ChildAttrs: bits, DirAttrs: bits}},
		{&nfs4.TestStateIDArgs{StateIDs: make([]nfs4.StateID, 7)}, &nfs4.TestStateIDRes{Statuses: make([]nfs4.Status, 7)}},
		{&nfs4.ExchangeIDArgs{}, &nfs4.ExchangeIDRes{Protect: nfs4.ProtectMachCred, MustEnforce: bits, MustAllow: bits,
			ServerMajorID: own, ServerScope: own, HasImpl: true, Impl: impl}},
		{&nfs4.CreateSessionArgs{}, &nfs4.CreateSessionRes{ForeChan: channel, BackChan: channel}},
		{&nfs4.BindConnToSessionArgs{}, &nfs4.BindConnToSessionRes{}},
		{&nfs4.DestroySessionArgs{}, &nfs4.DestroySessionRes{}},
		{&nfs4.ReclaimCompleteArgs{}, &nfs4.ReclaimCompleteRes{}},
		{&nfs4.SecInfoArgs{}, &nfs4.SecInfoRes{Flavors: make([]nfs4.SecInfo, 20)}},
		{&nfs4.GetXattrArgs{}, &nfs4.GetXattrRes{Value: make([]byte, nfs4.MaxXattrValue)}},
		{&nfs4.ListXattrsArgs{MaxCount: 300}, &nfs4.ListXattrsRes{Names: []nfs4.Component{nfs4.Component(make([]byte, 280))}}},
		{&nfs4.SetXattrArgs{}, &nfs4.SetXattrRes{}},
		{&nfs4.RemoveXattrArgs{}, &nfs4.RemoveXattrRes{}},
		{&nfs4.SeekArgs{}, &nfs4.SeekRes{}},
		{&nfs4.IOAdviseArgs{}, &nfs4.IOAdviseRes{Hints: bits}},
		{&nfs4.AllocateArgs{}, &nfs4.AllocateRes{}},
		{&nfs4.CopyArgs{}, &nfs4.CopyRes{}},
		{&nfs4.CloneArgs{}, &nfs4.CloneRes{}},
		{&nfs4.OffloadStatusArgs{}, &nfs4.OffloadStatusRes{}},
		{&nfs4.LayoutGetArgs{MaxCount: 64}, &nfs4.LayoutGetRes{}},
		{&nfs4.LayoutReturnArgs{}, &nfs4.LayoutReturnRes{HasStateID: true}},
		{&nfs4.LayoutCommitArgs{}, &nfs4.LayoutCommitRes{HasSize: true}},
	}
	for _, c := range cases {
		var e xdr.Encoder
		c.res.Encode(&e)
		if e.Err() != nil {
			t.Fatalf("%v: %v", c.args.Op(), e.Err())
		}
		n := e.Message().Len() - 4 // the status belongs to opHeader
		if got, _ := resultSize(c.args); got < n {
			t.Errorf("%v: %d bytes, estimated were %d", c.args.Op(), n, got)
		} else if got > 4*n+2600 {
			t.Errorf("%v: %d bytes at most, estimated were %d", c.args.Op(), n, got)
		}
	}
	// No operation is forgotten: an unknown one counts as unbounded.
	for op := nfs4.OpNum(0); op < 100; op++ {
		a := nfs4.NewArgs(op)
		if _, illegal := a.(*nfs4.IllegalArgs); illegal {
			continue
		}
		if n, _ := resultSize(a); n >= unbounded && op != nfs4.OpCopyNotify && op != nfs4.OpReadPlus {
			t.Errorf("%v has no estimate", op)
		}
	}
}

func TestEstimateReply(t *testing.T) {
	seq, fh := &nfs4.SequenceArgs{}, &nfs4.PutFHArgs{}
	read := func(n uint32) nfs4.Args { return &nfs4.ReadArgs{Count: n} }
	attrs := &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(nfs4.AttrSize, nfs4.AttrOwner)}
	acl := &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(nfs4.AttrACL)}
	const limit = 528_384
	for _, c := range []struct {
		name  string
		ops   []nfs4.Args
		limit int
		soft  bool
		sink  int
		max   [2]int // range of Estimate.Max
	}{
		{"READ: its result may be placed (RFC 8267 section 6.1)",
			[]nfs4.Args{seq, fh, read(262_144)}, limit, false, 262_144, [2]int{90, 200}},
		{"two READs: the one chunk is the first one's (section 6.4.1, 6.4.2)",
			[]nfs4.Args{seq, fh, read(1000), read(70_001)}, limit, false, 1000, [2]int{70_100, 70_300}},
		{"READLINK never has its result placed; a bounded path",
			[]nfs4.Args{seq, fh, &nfs4.ReadLinkArgs{}}, limit, false, 0, [2]int{8192, 8500}},
		{"READLINK would take the chunk of a READ behind it (section 6.4.1)",
			[]nfs4.Args{seq, fh, &nfs4.ReadLinkArgs{}, fh, read(4096)}, limit, false, 0, [2]int{12_000, 13_000}},
		{"READ_PLUS is not eligible, and of unknown size (sections 6.1, 6.2.2)",
			[]nfs4.Args{seq, fh, &nfs4.ReadPlusArgs{Count: 4096}}, limit, false, 0, [2]int{limit, limit}},
		{"attributes of bounded size are no reason to retry (section 3.1)",
			[]nfs4.Args{seq, fh, attrs}, limit, false, 0, [2]int{400, 1100}},
		{"an ACL has no bound; GETATTR may be retried (sections 3.1, 6.2)",
			[]nfs4.Args{seq, fh, acl}, limit, true, 0, [2]int{16_384, 20_000}},
		{"but not together with an operation that must not be repeated (section 6.2.1)",
			[]nfs4.Args{seq, fh, &nfs4.RenameArgs{}, acl}, limit, false, 0, [2]int{limit, limit}},
		{"ca_maxresponsesize bounds every reply (section 6.2.2)",
			[]nfs4.Args{seq, fh, acl}, 4096, false, 0, [2]int{4096, 4096}},
		{"also one that is not soft",
			[]nfs4.Args{seq, fh, &nfs4.ReadDirArgs{MaxCount: 1 << 20}}, limit, false, 0, [2]int{limit, limit}},
		{"no session yet: no bound",
			[]nfs4.Args{&nfs4.ExchangeIDArgs{}}, 0, false, 0, [2]int{2000, 4000}},
		{"READDIR is bounded by its maxcount (section 3)",
			[]nfs4.Args{seq, fh, &nfs4.ReadDirArgs{MaxCount: 65_536}}, limit, false, 0, [2]int{65_600, 66_000}},
	} {
		got := EstimateReply(&nfs4.CompoundArgs{Ops: c.ops}, c.limit)
		if got.Soft != c.soft || got.Sink != c.sink || got.Max < c.max[0] || got.Max > c.max[1] {
			t.Errorf("%s: %+v, want soft %t, sink %d, max %v", c.name, got, c.soft, c.sink, c.max)
		}
	}
	plain := EstimateReply(&nfs4.CompoundArgs{Ops: []nfs4.Args{seq}}, 0).Max
	if tagged := EstimateReply(&nfs4.CompoundArgs{Tag: "five!", Ops: []nfs4.Args{seq}}, 0).Max; tagged != plain+8 {
		t.Errorf("a tag of 5 bytes adds %d", tagged-plain)
	}
	args := &nfs4.CompoundArgs{Ops: []nfs4.Args{seq, fh, read(4096), attrs}}
	if n := testing.AllocsPerRun(100, func() { EstimateReply(args, limit) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
