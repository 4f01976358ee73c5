package nfstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"nfsrdma-fuse/xdr/nfs4"
)

func TestSpaceOps(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever, Exports: []Export{{Path: "/", Bytes: 1 << 20}}})
	c := newTester(t, s, "c")
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	id := open.StateID
	c.ok(putFH(fh), &nfs4.AllocateArgs{StateID: id, Offset: 8192, Length: 100})
	if a := c.attrs(fh, nfs4.AttrSize, nfs4.AttrSpaceUsed); a.Size != 8292 || a.SpaceUsed != 4096 {
		t.Errorf("size %d, %d used", a.Size, a.SpaceUsed)
	}
	c.fails(nfs4.ErrNoSpc, putFH(fh), &nfs4.AllocateArgs{StateID: id, Length: 2 << 20})
	c.fails(nfs4.ErrInval, putFH(fh), &nfs4.AllocateArgs{StateID: id})
	c.write(fh, id, 0, strings.Repeat("x", 12000), nfs4.FileSync)
	c.ok(putFH(fh), &nfs4.DeallocateArgs{StateID: id, Offset: 4096, Length: 4096})
	c.ok(putFH(fh), &nfs4.DeallocateArgs{StateID: id, Offset: 11000, Length: nfs4.MaxLength - 11000})
	data, _ := c.read(fh, id, 0, 20000)
	if want := strings.Repeat("x", 4096) + strings.Repeat("\x00", 4096) + strings.Repeat("x", 11000-8192) + strings.Repeat("\x00", 1000); data != want {
		t.Error("wrong data")
	}
	seek := func(off uint64, what uint32) (uint64, bool) {
		t.Helper()
		r := c.ok(putFH(fh), &nfs4.SeekArgs{StateID: id, Offset: off, What: what}).(*nfs4.SeekRes)
		return r.Offset, r.EOF
	}
	for _, tt := range []struct {
		off  uint64
		what uint32
		want uint64
		eof  bool
	}{{0, nfs4.ContentHole, 4096, false}, {0, nfs4.ContentData, 0, false}, {5000, nfs4.ContentData, 8192, false},
		{5000, nfs4.ContentHole, 5000, false}, {9000, nfs4.ContentHole, 12000, true}} {
		if at, eof := seek(tt.off, tt.what); at != tt.want || eof != tt.eof {
			t.Errorf("seek %d from %d: %d %v, want %d %v", tt.what, tt.off, at, eof, tt.want, tt.eof)
		}
	}
	c.fails(nfs4.ErrNXIO, putFH(fh), &nfs4.SeekArgs{StateID: id, Offset: 12000, What: nfs4.ContentHole})
	c.fails(nfs4.ErrUnionNotSupp, putFH(fh), &nfs4.SeekArgs{StateID: id, What: 9})
	if r := c.ok(putFH(fh), &nfs4.IOAdviseArgs{StateID: id}).(*nfs4.IOAdviseRes); !r.Hints.IsZero() {
		t.Errorf("%+v", r)
	}
}

func TestCopyAndClone(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever, Exports: []Export{{Path: "/"}, {Path: "/other"}}})
	c := newTester(t, s, "c")
	src, so := c.opened(createArgs("o", "src", nfs4.ShareAccessBoth))
	dst, do := c.opened(createArgs("o", "dst", nfs4.ShareAccessBoth))
	c.write(src, so.StateID, 0, "0123456789", nfs4.FileSync)
	ops := func(op nfs4.Args) []nfs4.Args { return []nfs4.Args{putFH(src), &nfs4.SaveFHArgs{}, putFH(dst), op} }
	cp := &nfs4.CopyArgs{SrcStateID: so.StateID, DstStateID: do.StateID, SrcOffset: 2, DstOffset: 1, Count: 4, Synchronous: true}
	res := c.ok(ops(cp)...).(*nfs4.CopyRes)
	if res.Response.Count != 4 || res.Response.Committed != nfs4.FileSync || !res.Synchronous {
		t.Errorf("%+v", res)
	}
	if data, _ := c.read(dst, do.StateID, 0, 100); data != "\x002345" {
		t.Errorf("%q", data)
	}
	cp.Count, cp.SrcOffset = 100, 8 // as much as there is
	if res := c.ok(ops(cp)...).(*nfs4.CopyRes); res.Response.Count != 2 {
		t.Errorf("%+v", res)
	}
	c.ok(ops(&nfs4.CloneArgs{SrcStateID: so.StateID, DstStateID: do.StateID})...)
	if data, _ := c.read(dst, do.StateID, 0, 100); data != "0123456789" {
		t.Errorf("%q", data)
	}
	c.fails(nfs4.ErrInval, ops(&nfs4.CloneArgs{SrcStateID: so.StateID, DstStateID: do.StateID, Count: 11})...)
	c.fails(nfs4.ErrBadStateID, ops(&nfs4.CloneArgs{SrcStateID: do.StateID, DstStateID: do.StateID})...)
	if err := s.WriteFile("/other/f", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	dst = c.lookup("other", "f")
	c.fails(nfs4.ErrXDev, ops(&nfs4.CopyArgs{SrcStateID: so.StateID})...)
	c.fails(nfs4.ErrNotSupp, ops(&nfs4.CopyArgs{SourceServers: []nfs4.NetLoc{{Type: nfs4.NetLocName, Name: "elsewhere"}}})...)
}

func TestXattrOps(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "c")
	fh, _ := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	set := func(o nfs4.SetXattrOption, name, v string) *nfs4.SetXattrArgs {
		return &nfs4.SetXattrArgs{Option: o, Name: name, Value: []byte(v)}
	}
	c.fails(nfs4.ErrNoXattr, putFH(fh), &nfs4.GetXattrArgs{Name: "a"})
	c.fails(nfs4.ErrNoXattr, putFH(fh), set(nfs4.SetXattrReplace, "a", "1"))
	r := c.ok(putFH(fh), set(nfs4.SetXattrCreate, "a", "1")).(*nfs4.SetXattrRes)
	if !r.Change.Atomic || r.Change.Before == r.Change.After {
		t.Errorf("%+v", r)
	}
	c.fails(nfs4.ErrExist, putFH(fh), set(nfs4.SetXattrCreate, "a", "2"))
	c.ok(putFH(fh), set(nfs4.SetXattrEither, "a", "3"))
	if v := c.ok(putFH(fh), &nfs4.GetXattrArgs{Name: "a"}).(*nfs4.GetXattrRes); string(v.Value) != "3" {
		t.Errorf("%q", v.Value)
	}
	want := []string{"a"}
	for i := range 50 {
		name := fmt.Sprintf("name-%02d", i)
		want = append(want, name)
		c.ok(putFH(fh), set(nfs4.SetXattrEither, name, ""))
	}
	var got []string
	for args := (&nfs4.ListXattrsArgs{MaxCount: 100}); ; {
		l := c.ok(putFH(fh), args).(*nfs4.ListXattrsRes)
		for _, n := range l.Names {
			got = append(got, string(n))
		}
		if args.Cookie = l.Cookie; l.EOF {
			break
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	c.fails(nfs4.ErrTooSmall, putFH(fh), &nfs4.ListXattrsArgs{MaxCount: 10})
	c.fails(nfs4.ErrBadCookie, putFH(fh), &nfs4.ListXattrsArgs{MaxCount: 1000, Cookie: 1000})
	c.ok(putFH(fh), &nfs4.RemoveXattrArgs{Name: "a"})
	c.fails(nfs4.ErrNoXattr, putFH(fh), &nfs4.RemoveXattrArgs{Name: "a"})
	off := newTester(t, newServer(t, Options{NoXattrs: true, Unsupported: []nfs4.OpNum{nfs4.OpSeek}}), "off")
	off.fails(nfs4.ErrNotSupp, putRoot(), &nfs4.ListXattrsArgs{MaxCount: 1000})
	off.fails(nfs4.ErrNotSupp, putRoot(), &nfs4.SeekArgs{})
}

func TestSecLabel(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "c")
	label := nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSecLabel), SecLabel: nfs4.SecLabel{LFS: 1, PI: 2, Data: []byte("user:role:type")}}
	c.ok(putRoot(), &nfs4.SetAttrArgs{Attrs: label})
	if got := c.attrs(c.lookup(), nfs4.AttrSecLabel).SecLabel; string(got.Data) != "user:role:type" || got.PI != 2 {
		t.Errorf("%+v", got)
	}
}

func TestSecInfo(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "c")
	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d"})
	res := c.ok(putRoot(), &nfs4.SecInfoArgs{Name: "d"}).(*nfs4.SecInfoRes)
	if len(res.Flavors) != 2 || res.Flavors[0].Flavor != nfs4.FlavorSys {
		t.Errorf("%+v", res)
	}
	c.fails(nfs4.ErrNoFileHandle, putRoot(), &nfs4.SecInfoArgs{Name: "d"}, getFH())
	c.fails(nfs4.ErrNoEnt, putRoot(), &nfs4.SecInfoArgs{Name: "none"})
	c.ok(putRoot(), &nfs4.SecInfoNoNameArgs{})
	c.fails(nfs4.ErrNoEnt, putRoot(), &nfs4.SecInfoNoNameArgs{Style: nfs4.SecInfoParent})
	c.ok(putFH(c.lookup("d")), &nfs4.SecInfoNoNameArgs{Style: nfs4.SecInfoParent})
}
