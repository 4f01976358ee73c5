package nfstest

import (
	"slices"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

func TestEveryAttribute(t *testing.T) {
	s := newServer(t, Options{Exports: []Export{{Path: "/", Quota: 1 << 20, Bytes: 1 << 30}}})
	c := newTester(t, s, "c")
	fh, _ := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	sup := c.attrs(fh, nfs4.AttrSupportedAttrs).SupportedAttrs
	for n := range nfs4.Attr(96) {
		want := nfs4.MakeBitmap(n)
		if writeOnly.Has(n) {
			c.fails(nfs4.ErrInval, putFH(fh), &nfs4.GetAttrArgs{AttrRequest: want})
			continue
		}
		got := c.ok(putFH(fh), &nfs4.GetAttrArgs{AttrRequest: want}).(*nfs4.GetAttrRes).Attrs.Mask
		if sup.Has(n) != (got == want) || !sup.Has(n) && !got.IsZero() {
			t.Errorf("%v: supported %v, got %v", n, sup.Has(n), got)
		}
	}
	for _, must := range []nfs4.Attr{nfs4.AttrType, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrFSID, nfs4.AttrLeaseTime,
		nfs4.AttrFileHandle, nfs4.AttrFileID, nfs4.AttrMode, nfs4.AttrQuotaUsed, nfs4.AttrXattrSupport, nfs4.AttrACL,
		nfs4.AttrModeUmask, nfs4.AttrSuppAttrExclCreat, nfs4.AttrChangeAttrType, nfs4.AttrCloneBlkSize} {
		if !sup.Has(must) {
			t.Errorf("%v is not supported", must)
		}
	}
	a := c.attrs(fh, nfs4.AttrLeaseTime, nfs4.AttrMaxRead, nfs4.AttrSpaceTotal, nfs4.AttrSpaceFree, nfs4.AttrFileHandle, nfs4.AttrQuotaAvailHard)
	if a.LeaseTime != 90 || a.MaxRead != 1<<20 || a.SpaceTotal != 1<<30 || a.SpaceFree != 1<<30 || string(a.FileHandle) != string(fh) || a.QuotaAvailHard != 1<<20 {
		t.Errorf("%+v", a)
	}
}

func TestSetAttr(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "c")
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	ro, roOpen := c.opened(openArgs("ro", "f", nfs4.ShareAccessRead))
	_ = ro
	set := func(a nfs4.Attrs) *nfs4.SetAttrArgs { return &nfs4.SetAttrArgs{Attrs: a} }
	one := func(n nfs4.Attr) nfs4.Attrs { return nfs4.Attrs{Mask: nfs4.MakeBitmap(n)} }

	size := one(nfs4.AttrSize)
	size.Size = 5000
	sizeBy := func(id nfs4.StateID) *nfs4.SetAttrArgs { return &nfs4.SetAttrArgs{StateID: id, Attrs: size} }
	res := c.ok(putFH(fh), sizeBy(open.StateID)).(*nfs4.SetAttrRes)
	if !res.AttrsSet.Has(nfs4.AttrSize) {
		t.Errorf("%+v", res)
	}
	c.fails(nfs4.ErrOpenMode, putFH(fh), sizeBy(roOpen.StateID))
	c.fails(nfs4.ErrBadStateID, putFH(fh), sizeBy(nfs4.InvalidStateID))
	c.fails(nfs4.ErrIsDir, putRoot(), sizeBy(nfs4.AnonymousStateID))
	masked := one(nfs4.AttrModeSetMasked)
	masked.ModeSetMasked = nfs4.ModeMasked{Value: 0o100, Mask: 0o700}
	c.ok(putFH(fh), set(masked))
	if a := c.attrs(fh, nfs4.AttrMode, nfs4.AttrSize); a.Mode != 0o144 || a.Size != 5000 {
		t.Errorf("mode %o, size %d", a.Mode, a.Size)
	}
	owner := one(nfs4.AttrOwner)
	for name, want := range map[string]nfs4.Status{"12": nfs4.OK, "somebody": nfs4.ErrBadOwner, "-1": nfs4.ErrBadOwner, "4294967296": nfs4.ErrBadOwner} {
		owner.Owner = name
		if _, status := c.try(putFH(fh), set(owner)); status != want {
			t.Errorf("owner %q: %v, want %v", name, status, want)
		}
	}
	late := one(nfs4.AttrTimeModifySet)
	late.TimeModifySet = nfs4.SetTime{Client: true, Time: nfs4.Time{Sec: 1, Nsec: 1e9}}
	wide := mode(0o10000)
	huge := size
	huge.Size = 1 << 63
	for _, tt := range []struct {
		what string
		a    nfs4.Attrs
		want nfs4.Status
	}{
		{"read-only attribute", one(nfs4.AttrType), nfs4.ErrInval},
		{"unsupported attribute", one(nfs4.AttrHidden), nfs4.ErrAttrNotSupp},
		{"nanoseconds", late, nfs4.ErrInval},
		{"mode", wide, nfs4.ErrInval},
		{"size", huge, nfs4.ErrFBig},
		{"umask outside of creation", one(nfs4.AttrModeUmask), nfs4.ErrInval},
		{"nothing", nfs4.Attrs{}, nfs4.OK},
	} {
		if _, status := c.try(putFH(fh), set(tt.a)); status != tt.want {
			t.Errorf("%s: %v, want %v", tt.what, status, tt.want)
		}
	}
	c.as(99, 99)
	c.fails(nfs4.ErrPerm, putFH(fh), set(mode(0o777)))
	c.fails(nfs4.ErrAccess, putFH(fh), sizeBy(nfs4.AnonymousStateID))
}

func TestVerify(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "c")
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	have := c.attrs(fh, nfs4.AttrChange, nfs4.AttrSize, nfs4.AttrOwner)
	c.ok(putFH(fh), &nfs4.VerifyArgs{Attrs: have})
	c.fails(nfs4.ErrSame, putFH(fh), &nfs4.NVerifyArgs{Attrs: have})
	c.write(fh, open.StateID, 0, "x", nfs4.FileSync)
	c.fails(nfs4.ErrNotSame, putFH(fh), &nfs4.VerifyArgs{Attrs: have})
	c.ok(putFH(fh), &nfs4.NVerifyArgs{Attrs: have})
	c.fails(nfs4.ErrAttrNotSupp, putFH(fh), &nfs4.VerifyArgs{Attrs: nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrHidden)}})
	c.fails(nfs4.ErrInval, putFH(fh), &nfs4.VerifyArgs{Attrs: nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrTimeModifySet)}})
}

// The mode that an ACL made of a mode amounts to is that mode.
func TestACLOfEveryMode(t *testing.T) {
	x, err := newExports(&Options{Exports: []Export{{Path: "/"}}, Now: newClock().Now})
	if err != nil {
		t.Fatal(err)
	}
	for m := range uint32(0o1000) {
		for _, kind := range []memfs.Kind{memfs.Regular, memfs.Directory} {
			if got := aclMode(aclOf(x.root(), memfs.Attr{Mode: m, Kind: kind})); got != m {
				t.Fatalf("%o became %o", m, got)
			}
		}
	}
}

func TestACL(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "c")
	fh, _ := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	acl := nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrACL), ACL: []nfs4.ACE{
		{Type: nfs4.ACEAllow, Mask: nfs4.ACEReadData | nfs4.ACEWriteData | nfs4.ACEAppendData, Who: "OWNER@"},
		{Type: nfs4.ACEAllow, Mask: nfs4.ACEReadData, Who: "77"},
		{Type: nfs4.ACEDeny, Flag: nfs4.ACEIdentifierGroup, Mask: nfs4.ACEReadData, Who: "GROUP@"},
		{Type: nfs4.ACEAllow, Mask: nfs4.ACEReadData | nfs4.ACEExecute, Who: "EVERYONE@"}}}
	c.ok(putFH(fh), &nfs4.SetAttrArgs{Attrs: acl})
	got := c.attrs(fh, nfs4.AttrACL, nfs4.AttrMode)
	if got.Mode != 0o715 || !slices.Equal(got.ACL, acl.ACL) {
		t.Errorf("mode %o, %+v", got.Mode, got.ACL)
	}
	c.ok(putFH(fh), &nfs4.SetAttrArgs{Attrs: mode(0o600)})
	if got := c.attrs(fh, nfs4.AttrACL); slices.Equal(got.ACL, acl.ACL) || aclMode(got.ACL) != 0o600 {
		t.Errorf("after chmod: %+v", got.ACL)
	}
	c.fails(nfs4.ErrInval, putFH(fh), &nfs4.SetAttrArgs{Attrs: nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrACL)}})
	off := newTester(t, newServer(t, Options{NoACLs: true}), "off")
	if off.attrs(off.lookup(), nfs4.AttrSupportedAttrs).SupportedAttrs.Has(nfs4.AttrACL) {
		t.Error("acl is supported though it is off")
	}
}

func TestAccessOp(t *testing.T) {
	s := newServer(t, Options{Exports: []Export{{Path: "/"}, {Path: "/ro", ReadOnly: true}, {Path: "/squash", RootSquash: true, Mode: 0o755}}})
	if err := s.WriteFile("/f", nil, 0o640); err != nil {
		t.Fatal(err)
	}
	c := newTester(t, s, "c")
	const all = nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessDelete | nfs4.AccessExecute |
		nfs4.AccessXARead | nfs4.AccessXAWrite | nfs4.AccessXAList
	const xr = nfs4.AccessXARead | nfs4.AccessXAList
	const write = nfs4.AccessModify | nfs4.AccessExtend | nfs4.AccessXAWrite
	file, dir, ro, squash := c.lookup("f"), c.lookup(), c.lookup("ro"), c.lookup("squash")
	for _, tt := range []struct {
		what     string
		uid, gid uint32
		fh       nfs4.FH
		want     uint32
	}{
		{"root, file", 0, 0, file, nfs4.AccessRead | write | xr},
		{"group, file", 5, 0, file, nfs4.AccessRead | xr},
		{"others, file", 5, 5, file, 0},
		{"others, directory", 5, 5, dir, nfs4.AccessRead | nfs4.AccessLookup | nfs4.AccessDelete | write | xr},
		{"read-only", 0, 0, ro, nfs4.AccessRead | nfs4.AccessLookup | xr},
		{"squashed", 0, 0, squash, nfs4.AccessRead | nfs4.AccessLookup | xr},
	} {
		res := c.as(tt.uid, tt.gid).ok(putFH(tt.fh), &nfs4.AccessArgs{Access: all}).(*nfs4.AccessRes)
		if res.Access != tt.want || res.Supported&res.Access != res.Access {
			t.Errorf("%s: %#x of %#x, want %#x", tt.what, res.Access, res.Supported, tt.want)
		}
	}
	c.as(0, 0).fails(nfs4.ErrAccess, putFH(squash), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "d"})
}

// Permissions are checked where data is read and written, but an owner keeps what
// he has open.
func TestIOPermissions(t *testing.T) {
	s := newServer(t, Options{Delegations: DelegateNever})
	c := newTester(t, s, "c").as(7, 7)
	fh, open := c.opened(createArgs("o", "f", nfs4.ShareAccessBoth))
	c.ok(putFH(fh), &nfs4.SetAttrArgs{Attrs: mode(0)})
	c.write(fh, open.StateID, 0, "mine", nfs4.FileSync)
	c.read(fh, open.StateID, 0, 1)
	c.fails(nfs4.ErrAccess, putRoot(), openArgs("o2", "f", nfs4.ShareAccessRead))
	c.as(8, 8)
	c.fails(nfs4.ErrAccess, putFH(fh), &nfs4.ReadArgs{StateID: open.StateID, Count: 1})
	c.fails(nfs4.ErrAccess, putFH(fh), &nfs4.WriteArgs{StateID: open.StateID, Data: []byte("x")})
	c.fails(nfs4.ErrAccess, putFH(fh), &nfs4.CommitArgs{})
	// What may be executed may be read.
	c.as(7, 7).ok(putFH(fh), &nfs4.SetAttrArgs{Attrs: mode(0o001)})
	c.as(8, 8).ok(putRoot(), openArgs("o3", "f", nfs4.ShareAccessRead))
}
