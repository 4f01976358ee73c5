package nfstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// The life of a client that does a little of everything, and leaves nothing behind.
func TestBasics(t *testing.T) {
	for _, road := range []string{"local", "tcp", "rdma"} {
		t.Run(road, func(t *testing.T) {
			s := newServer(t, Options{})
			via := dialers(t, s)[road]
			basics(t, s, newTesterVia(t, s, "one", via))
		})
	}
}

func basics(t *testing.T, s *Server, c *tester) {
	root := c.lookup()

	fh, open := c.opened(createArgs("o", "file", nfs4.ShareAccessBoth))
	if open.StateID.Seq != 1 || open.Change.Before == open.Change.After || !open.Change.Atomic {
		t.Errorf("OPEN: %+v", open)
	}
	if w := c.write(fh, open.StateID, 0, "hello world", nfs4.Unstable); w.Count != 11 || w.Committed != nfs4.Unstable {
		t.Errorf("WRITE: %+v", w)
	}
	if data, eof := c.read(fh, open.StateID, 6, 100); data != "world" || !eof {
		t.Errorf("READ: %q, %v", data, eof)
	}
	if data, eof := c.read(fh, open.StateID, 0, 5); data != "hello" || eof {
		t.Errorf("READ: %q, %v", data, eof)
	}
	c.ok(putFH(fh), &nfs4.CommitArgs{})
	a := c.attrs(fh, nfs4.AttrSize, nfs4.AttrMode, nfs4.AttrType, nfs4.AttrOwner, nfs4.AttrNumLinks, nfs4.AttrSpaceUsed)
	if a.Size != 11 || a.Mode != 0o644 || a.Type != nfs4.TypeReg || a.Owner != "0" || a.NumLinks != 1 || a.SpaceUsed != 4096 {
		t.Errorf("GETATTR: %+v", a)
	}
	c.ok(putFH(fh), &nfs4.CloseArgs{StateID: open.StateID})

	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "dir", Attrs: mode(0o700)})
	c.ok(putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeLnk, Name: "link", LinkText: []byte("dir/file")})
	c.ok(putRoot(), &nfs4.SaveFHArgs{}, &nfs4.LookupArgs{Name: "dir"}, &nfs4.RenameArgs{OldName: "file", NewName: "file2"})
	if got := c.lookup("dir", "file2"); string(got) != string(fh) {
		t.Errorf("handle changed by RENAME: %x, was %x", got, fh)
	}
	if res := c.ok(putRoot(), &nfs4.LookupArgs{Name: "link"}, &nfs4.ReadLinkArgs{}).(*nfs4.ReadLinkRes); string(res.Text) != "dir/file" {
		t.Errorf("READLINK: %q", res.Text)
	}
	c.ok(putFH(fh), &nfs4.SaveFHArgs{}, putRoot(), &nfs4.LinkArgs{Name: "hard"})
	if a := c.attrs(fh, nfs4.AttrNumLinks); a.NumLinks != 2 {
		t.Errorf("%d links", a.NumLinks)
	}
	if names := c.list(root); strings.Join(names, " ") != "dir link hard" {
		t.Errorf("READDIR: %v", names)
	}
	c.fails(nfs4.ErrNotEmpty, putRoot(), &nfs4.RemoveArgs{Name: "dir"})
	c.ok(putFH(c.lookup("dir")), &nfs4.RemoveArgs{Name: "file2"})
	c.ok(putRoot(), &nfs4.RemoveArgs{Name: "dir"}, &nfs4.RemoveArgs{Name: "link"}, &nfs4.RemoveArgs{Name: "hard"})
	c.returnDelegations()
	c.fails(nfs4.ErrStale, putFH(fh))
	c.fails(nfs4.ErrNoEnt, putRoot(), &nfs4.LookupArgs{Name: "dir"})
	if got := string(root); got != string(c.lookup()) {
		t.Error("root handle changed")
	}
	c.leave()
	if left := s.Leaks(); left != "" {
		t.Errorf("left behind: %s", left)
	}
}

// leave ends the client in good order.
func (c *tester) leave() {
	c.t.Helper()
	c.returnDelegations()
	c.bare(&nfs4.DestroySessionArgs{SessionID: c.session})
	c.bare(&nfs4.DestroyClientIDArgs{ClientID: c.id})
	c.conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.s.WaitClean(ctx); err != nil {
		c.t.Error(err)
	}
}

// returnDelegations returns all delegations that the server says the client has.
func (c *tester) returnDelegations() {
	c.t.Helper()
	type held struct {
		id nfs4.StateID
		fh nfs4.FH
	}
	var all []held
	c.s.mu.Lock()
	for _, st := range c.s.states {
		if st.kind == delegState && st.client.id == c.id && st.revoked == nfs4.OK {
			all = append(all, held{st.id(), st.file.o.handle()})
		}
	}
	c.s.mu.Unlock()
	for _, h := range all {
		c.ok(putFH(h.fh), &nfs4.DelegReturnArgs{StateID: h.id})
	}
}

// list returns all names of a directory.
func (c *tester) list(fh nfs4.FH) (names []string) {
	c.t.Helper()
	args := &nfs4.ReadDirArgs{MaxCount: 4096, DirCount: 4096, AttrRequest: nfs4.MakeBitmap(nfs4.AttrFileID)}
	for {
		res := c.ok(putFH(fh), args).(*nfs4.ReadDirRes)
		var e nfs4.Entry
		for res.Next(&e) {
			names = append(names, string(e.Name))
			args.Cookie = e.Cookie
		}
		if res.Err() != nil {
			c.t.Fatal(res.Err())
		}
		if res.EOF {
			return names
		}
		args.CookieVerf = res.CookieVerf
	}
}

func TestRPC(t *testing.T) {
	s := newServer(t, Options{})
	c := connect(t, s, "rpc")
	call := func(h rpc.CallHeader, rest ...byte) error {
		var e xdr.Encoder
		h.XID = 77
		h.Encode(&e)
		e.Fixed(rest)
		reply, err := c.raw(e.Message())
		if err != nil {
			t.Fatal(err)
		}
		var d xdr.Decoder
		d.Reset(reply)
		var rh rpc.ReplyHeader
		rh.Decode(&d)
		if d.Err() != nil || rh.XID != 77 {
			t.Fatalf("%v, XID %d", d.Err(), rh.XID)
		}
		return rh.Err()
	}
	for _, tt := range []struct {
		h    rpc.CallHeader
		rest []byte
		want error
	}{
		{rpc.CallHeader{Prog: nfs4.Program, Vers: 4}, nil, nil},
		{rpc.CallHeader{Prog: 100005, Vers: 3}, nil, rpc.ProgUnavail},
		{rpc.CallHeader{Prog: nfs4.Program, Vers: 3}, nil, rpc.ProgMismatch},
		{rpc.CallHeader{Prog: nfs4.Program, Vers: 4, Proc: 2}, nil, rpc.ProcUnavail},
		{rpc.CallHeader{Prog: nfs4.Program, Vers: 4, Proc: 1}, []byte{0, 0, 1}, rpc.GarbageArgs},
		{rpc.CallHeader{Prog: nfs4.Program, Vers: 4, Proc: 1, Cred: rpc.OpaqueAuth{Flavor: 6, Body: make([]byte, 8)}}, nil, rpc.AuthTooWeak},
		{rpc.CallHeader{Prog: nfs4.Program, Vers: 4, Proc: 1, Cred: rpc.OpaqueAuth{Flavor: 1, Body: make([]byte, 8)}}, nil, rpc.AuthBadCred},
	} {
		if err := call(tt.h, tt.rest...); !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.h, err, tt.want)
		}
	}
}

func TestCompoundRules(t *testing.T) {
	s := newServer(t, Options{MaxMinor: 2})
	c := newTester(t, s, "rules")
	c.minor = 0
	if res := c.compound(putRoot()); res.Status != nfs4.ErrMinorVersMismatch || len(res.Ops) != 0 {
		t.Errorf("minor version 0: %v", res)
	}
	c.minor = 3
	if res := c.compound(putRoot()); res.Status != nfs4.ErrMinorVersMismatch {
		t.Errorf("minor version 3: %v", res)
	}
	c.minor = 2
	for _, tt := range []struct {
		name string
		ops  []nfs4.Args
		want nfs4.Status
	}{
		{"nothing", nil, nfs4.OK},
		{"no session", []nfs4.Args{putRoot()}, nfs4.ErrOpNotInSession},
		{"not the only operation", []nfs4.Args{&nfs4.ExchangeIDArgs{OwnerID: []byte("x")}, putRoot()}, nfs4.ErrNotOnlyOp},
		{"unknown session", []nfs4.Args{&nfs4.SequenceArgs{SequenceID: 1}}, nfs4.ErrBadSession},
	} {
		if res := c.compound(tt.ops...); res.Status != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, res.Status, tt.want)
		}
	}
	c.fails(nfs4.ErrSequencePos, putRoot(), &nfs4.SequenceArgs{})
	c.fails(nfs4.ErrNoFileHandle, getFH())
	c.fails(nfs4.ErrNoFileHandle, &nfs4.SetAttrArgs{})
	c.fails(nfs4.ErrNoFileHandle, &nfs4.RestoreFHArgs{})
	c.fails(nfs4.ErrBadHandle, putFH(nfs4.FH("nonsense")))
	c.fails(nfs4.ErrOpIllegal, putRoot(), &nfs4.IllegalArgs{Number: 200, Status: nfs4.ErrOpIllegal})
	many := make([]nfs4.Args, 40)
	for i := range many {
		many[i] = putRoot()
	}
	c.fails(nfs4.ErrTooManyOps, many...)
	c.ok(many[:39]...)

	// Operations of minor version 2 do not exist in minor version 1.
	d := connect(t, s, "v41")
	d.minor = 1
	d.establish()
	d.ok(&nfs4.ReclaimCompleteArgs{})
	d.fails(nfs4.ErrOpIllegal, putRoot(), &nfs4.SeekArgs{})
	if a := d.attrs(d.lookup(), nfs4.AttrSupportedAttrs); a.SupportedAttrs.Has(nfs4.AttrXattrSupport) {
		t.Error("xattr_support in minor version 1")
	}
}

func TestExportsAndCrossing(t *testing.T) {
	s := newServer(t, Options{Exports: []Export{{Path: "/a"}, {Path: "/b/c", ReadOnly: true}, {Path: "/a/inner"}}})
	c := newTester(t, s, "x")
	root, a, b, inner := c.lookup(), c.lookup("a"), c.lookup("b", "c"), c.lookup("a", "inner")
	seen := map[nfs4.FSID]string{}
	for name, fh := range map[string]nfs4.FH{"root": root, "a": a, "b": b, "inner": inner} {
		attr := c.attrs(fh, nfs4.AttrFSID, nfs4.AttrFileID, nfs4.AttrMountedOnFileID)
		if other, dup := seen[attr.FSID]; dup {
			t.Errorf("%s and %s have the same fsid", name, other)
		}
		seen[attr.FSID] = name
		if crossed := attr.FileID != attr.MountedOnFileID; crossed && name == "root" {
			t.Errorf("%s: fileid %d, mounted on %d", name, attr.FileID, attr.MountedOnFileID)
		}
	}
	for _, tt := range []struct {
		from []string
		to   nfs4.FH
	}{{[]string{"a", "inner"}, a}, {[]string{"a"}, root}, {[]string{"b"}, root}} {
		ops := []nfs4.Args{putRoot()}
		for _, n := range tt.from {
			ops = append(ops, &nfs4.LookupArgs{Name: n})
		}
		if fh := c.ok(append(ops, &nfs4.LookupPArgs{}, getFH())...).(*nfs4.GetFHRes).FH; string(fh) != string(tt.to) {
			t.Errorf("parent of %v: %x", tt.from, fh)
		}
	}
	c.fails(nfs4.ErrNoEnt, putRoot(), &nfs4.LookupPArgs{})
	c.fails(nfs4.ErrROFS, putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d"})
	c.fails(nfs4.ErrROFS, putFH(b), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d"})
	c.ok(putFH(a), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d"})
	c.fails(nfs4.ErrXDev, putFH(a), &nfs4.SaveFHArgs{}, putFH(inner), &nfs4.RenameArgs{OldName: "d", NewName: "d"})
	c.fails(nfs4.ErrFileOpen, putFH(a), &nfs4.RemoveArgs{Name: "inner"})
	// The entry of a covered directory has the attributes of what covers it.
	res := c.ok(putFH(a), &nfs4.ReadDirArgs{MaxCount: 4096, AttrRequest: nfs4.MakeBitmap(nfs4.AttrFSID)}).(*nfs4.ReadDirRes)
	var e nfs4.Entry
	for res.Next(&e) {
		if got := seen[e.Attrs.FSID]; string(e.Name) == "inner" && got != "inner" || string(e.Name) == "d" && got != "a" {
			t.Errorf("%s lies in the file system of %s", e.Name, got)
		}
	}
}

func TestReadDirLimits(t *testing.T) {
	s := newServer(t, Options{})
	for i := range 500 {
		if err := s.WriteFile(fmt.Sprintf("/file-%03d", i), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := newTester(t, s, "dir")
	root := c.lookup()
	if n := len(c.list(root)); n != 500 {
		t.Errorf("%d names", n)
	}
	c.fails(nfs4.ErrTooSmall, putRoot(), &nfs4.ReadDirArgs{MaxCount: 40})
	c.fails(nfs4.ErrBadCookie, putRoot(), &nfs4.ReadDirArgs{MaxCount: 4096, Cookie: 1})
	c.fails(nfs4.ErrNotSame, putRoot(), &nfs4.ReadDirArgs{MaxCount: 4096, Cookie: 3})
	c.fails(nfs4.ErrInval, putRoot(), &nfs4.ReadDirArgs{MaxCount: 4096, AttrRequest: nfs4.MakeBitmap(nfs4.AttrTimeModifySet)})
	for _, max := range []uint32{100, 1000, 3000} {
		raw, err := c.raw(c.encode(c.sequence(0), putRoot(), &nfs4.ReadDirArgs{MaxCount: max}))
		if err != nil {
			t.Fatal(err)
		}
		// Everything but the READDIR result: RPC and COMPOUND headers, two results.
		if n := len(raw.Stream) - 24 - 20 - (4 + 4 + 36) - 8 - 8; n > int(max) || n < int(max)-40 {
			t.Errorf("result of %d bytes for a maxcount of %d", n, max)
		}
	}
}

// A COMPOUND that is cut off is answered as far as it goes.
func TestCutOffCompound(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "cut")
	whole := c.encode(c.sequence(0), putRoot(), getFH()).Stream
	for cut := 4; cut < 120; cut += 4 {
		msg := xdr.Message{Stream: whole[:len(whole)-cut]}
		var d xdr.Decoder
		d.Reset(msg)
		var h rpc.CallHeader
		h.Decode(&d)
		if d.Err() != nil {
			break // nobody to answer to
		}
		res, err := c.roundTrip(msg)
		switch {
		case errors.Is(err, rpc.GarbageArgs):
		case err != nil:
			t.Fatalf("%d bytes less: %v", cut, err)
		case res.Status == nfs4.OK || len(res.Ops) == 0:
			t.Fatalf("%d bytes less: %v with %d results", cut, res.Status, len(res.Ops))
		case res.Ops[0].Result() == nfs4.OK:
			whole = c.encode(c.sequence(0), putRoot(), getFH()).Stream
		}
	}
}
