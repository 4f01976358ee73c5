package nfs4

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"nfsrdma-fuse/xdr"
)

// unhex turns lines of hexadecimal words into bytes; what follows a # is a
// comment.
func unhex(t testing.TB, lines string) []byte {
	t.Helper()
	var s strings.Builder
	for line := range strings.Lines(lines) {
		line, _, _ = strings.Cut(line, "#")
		for _, word := range strings.Fields(line) {
			s.WriteString(word)
		}
	}
	b, err := hex.DecodeString(s.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var (
	goldenStateID = StateID{Seq: 7, Other: [12]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}}
	goldenSession = SessionID{0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8, 0xa9, 0xaa, 0xab, 0xac, 0xad, 0xae, 0xaf}
	goldenVerf    = Verifier{0xe0, 0xe1, 0xe2, 0xe3, 0xe4, 0xe5, 0xe6, 0xe7}
)

const (
	goldenStateIDHex = " 00000007 01020304 05060708 090a0b0c "
	goldenSessionHex = " a0a1a2a3 a4a5a6a7 a8a9aaab acadaeaf "
	goldenVerfHex    = " e0e1e2e3 e4e5e6e7 "
)

// TestGolden compares messages with bytes written down by hand from the XDR
// of RFC 5662, RFC 7863 and RFC 8276.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		v    item
		want string
	}{
		{"COMPOUND of SEQUENCE, PUTFH, READ", &CompoundArgs{Minor: 1, Count: 3, Ops: []Args{
			&SequenceArgs{SessionID: goldenSession, SequenceID: 0x11, SlotID: 2, HighestSlotID: 5, CacheThis: true},
			&PutFHArgs{FH: FH{0xf1, 0xf2, 0xf3, 0xf4, 0xf5}},
			&ReadArgs{StateID: goldenStateID, Offset: 0x100000002, Count: 0x1000},
		}}, `
			00000000                              # no tag
			00000001 00000003                     # minor version, operations
			00000035` + goldenSessionHex + `      # SEQUENCE
			00000011 00000002 00000005 00000001
			00000016 00000005 f1f2f3f4 f5000000   # PUTFH
			00000019` + goldenStateIDHex + `      # READ
			00000001 00000002 00001000`},

		{"COMPOUND result of SEQUENCE, PUTFH, READ", &CompoundRes{Tag: "ab", Ops: []Res{
			&SequenceRes{SessionID: goldenSession, SequenceID: 0x11, SlotID: 2, HighestSlotID: 63, TargetHighestSlotID: 31, StatusFlags: SeqStatusCBPathDown},
			&PutFHRes{},
			&ReadRes{EOF: true, Data: []byte("hello")},
		}}, `
			00000000 00000002 61620000 00000003
			00000035 00000000` + goldenSessionHex + `
			00000011 00000002 0000003f 0000001f 00000001
			00000016 00000000
			00000019 00000000 00000001 00000005 68656c6c 6f000000`},

		{"WRITE", &WriteArgs{StateID: goldenStateID, Offset: 0x200, Stable: FileSync, Data: []byte("abc")},
			goldenStateIDHex + `00000000 00000200 00000002 00000003 61626300`},

		{"WRITE result", &WriteRes{Count: 3, Committed: DataSync, Verf: goldenVerf},
			`00000000 00000003 00000001` + goldenVerfHex},

		{"WRITE failure", &WriteRes{Status: ErrNoSpc}, `0000001c`},

		{"OPEN that creates", &OpenArgs{
			ShareAccess: ShareAccessBoth | WantNoDeleg, ShareDeny: ShareDenyNone,
			Owner:  OpenOwner{ClientID: 0x0102030405060708, Owner: []byte("o1")},
			Create: true, How: CreateExclusive41, CreateVerf: goldenVerf,
			CreateAttrs: Attrs{Mask: MakeBitmap(AttrSize, AttrMode), Size: 9, Mode: 0o644},
			Claim:       ClaimNull, Name: "file",
		}, `
			00000000 00000403 00000000
			01020304 05060708 00000002 6f310000
			00000001 00000003` + goldenVerfHex + ` # OPEN4_CREATE, EXCLUSIVE4_1
			00000002 00000010 00000002             # attributes 4 and 33
			0000000c 00000000 00000009 000001a4
			00000000 00000004 66696c65             # CLAIM_NULL`},

		{"OPEN result with a write delegation", &OpenRes{
			StateID: goldenStateID, Change: ChangeInfo{Atomic: true, Before: 1, After: 2},
			RFlags: OpenResultLockTypePOSIX | OpenResultMayNotifyLock, AttrsSet: MakeBitmap(AttrMode),
			Delegation: Delegation{Type: DelegateWrite, StateID: goldenStateID, LimitBy: LimitSize, LimitFileSize: 0x1000,
				Permissions: ACE{Type: ACEAllow, Mask: ACEReadData, Who: "OWNER@"}},
		}, `
			00000000` + goldenStateIDHex + `
			00000001 00000000 00000001 00000000 00000002
			00000024
			00000002 00000000 00000002
			00000002` + goldenStateIDHex + ` 00000000
			00000001 00000000 00001000
			00000000 00000000 00000001 00000006 4f574e45 52400000`},

		{"OPEN result without delegation", &OpenRes{Delegation: Delegation{Type: DelegateNoneExt, Why: WhyContention, WillTell: true}}, `
			00000000 00000000 00000000 00000000 00000000
			00000000 00000000 00000000 00000000 00000000
			00000000 00000000
			00000003 00000001 00000001`},

		{"EXCHANGE_ID", &ExchangeIDArgs{Verf: goldenVerf, OwnerID: []byte("client"), Flags: ExchgIDSuppMovedRefer,
			HasImpl: true, Impl: ImplID{Domain: "d", Name: "n", Date: Time{Sec: -1, Nsec: 5}}},
			goldenVerfHex + `
			00000006 636c6965 6e740000 00000001
			00000000                              # SP4_NONE
			00000001 00000001 64000000 00000001 6e000000
			ffffffff ffffffff 00000005`},

		{"CREATE_SESSION", &CreateSessionArgs{ClientID: 0xc1, SequenceID: 1, Flags: CreateSessionConnBackChan,
			ForeChan:  ChannelAttrs{0, 0x1000, 0x2000, 0x300, 8, 64, false, 0},
			BackChan:  ChannelAttrs{0, 0x400, 0x500, 0x600, 2, 1, true, 9},
			CBProgram: 0x40000000,
			SecParms: []CallbackSec{{Flavor: FlavorNone},
				{Flavor: FlavorSys, Stamp: 1, Machine: "m", UID: 2, GID: 3, GIDs: []uint32{4}}},
		}, `
			00000000 000000c1 00000001 00000002
			00000000 00001000 00002000 00000300 00000008 00000040 00000000
			00000000 00000400 00000500 00000600 00000002 00000001 00000001 00000009
			40000000
			00000002 00000000
			00000001 00000001 00000001 6d000000 00000002 00000003 00000001 00000004`},

		{"GETATTR result", &GetAttrRes{Attrs: Attrs{
			Mask: MakeBitmap(AttrType, AttrChange, AttrSize, AttrFSID, AttrFileID, AttrMode, AttrNumLinks, AttrOwner,
				AttrTimeModify, AttrXattrSupport),
			Type: TypeDir, Change: 0x55, Size: 4096, FSID: FSID{1, 2}, FileID: 3, Mode: 0o755, NumLinks: 2, Owner: "root",
			TimeModify: Time{100, 200}, XattrSupport: true,
		}}, `
			00000000
			00000003 0010011a 0020001a 00040000
			0000004c
			00000002 00000000 00000055 00000000 00001000
			00000000 00000001 00000000 00000002
			00000000 00000003
			000001ed 00000002 00000004 726f6f74
			00000000 00000064 000000c8
			00000001`},

		{"SETATTR of times", &SetAttrArgs{StateID: AnonymousStateID, Attrs: Attrs{
			Mask:          MakeBitmap(AttrTimeAccessSet, AttrTimeModifySet),
			TimeModifySet: SetTime{Client: true, Time: Time{1, 2}},
		}}, `
			00000000 00000000 00000000 00000000
			00000002 00000000 00410000
			00000014 00000000 00000001 00000000 00000001 00000002`},

		{"SETATTR failure", &SetAttrRes{Status: ErrPerm, AttrsSet: MakeBitmap(AttrSize)}, `00000001 00000001 00000010`},

		{"CREATE of a symbolic link", &CreateArgs{Type: TypeLnk, LinkText: []byte("../to"), Name: "ln"}, `
			00000005 00000005 2e2e2f74 6f000000 00000002 6c6e0000 00000000 00000000`},

		{"CREATE of a device", &CreateArgs{Type: TypeChr, RawDev: SpecData{1, 3}, Name: "null"}, `
			00000004 00000001 00000003 00000004 6e756c6c 00000000 00000000`},

		{"READDIR", &ReadDirArgs{Cookie: 9, CookieVerf: goldenVerf, DirCount: 0x100, MaxCount: 0x1000, AttrRequest: MakeBitmap(AttrFileID)},
			`00000000 00000009` + goldenVerfHex + `00000100 00001000 00000001 00100000`},

		{"LOCK by a new owner", &LockArgs{Type: WriteWaitLock, Offset: 1, Length: MaxLength, NewOwner: true, OpenSeqid: 3,
			OpenStateID: goldenStateID, LockSeqid: 4, Owner: LockOwner{ClientID: 5, Owner: []byte("pid1")}}, `
			00000004 00000000 00000000 00000001 ffffffff ffffffff 00000001
			00000003` + goldenStateIDHex + `00000004 00000000 00000005 00000004 70696431`},

		{"LOCK denied", &LockRes{Status: ErrDenied, Denied: LockDenied{Offset: 1, Length: 2, Type: ReadLock, Owner: LockOwner{6, []byte("x")}}}, `
			0000271a 00000000 00000001 00000000 00000002 00000001 00000000 00000006 00000001 78000000`},

		{"CB_COMPOUND of CB_SEQUENCE and CB_RECALL", &CBCompoundArgs{Minor: 1, Count: 2, Ops: []CBArgs{
			&CBSequenceArgs{SessionID: goldenSession, SequenceID: 1, Referring: []ReferringCallList{
				{SessionID: goldenSession, Calls: []ReferringCall{{SequenceID: 8, SlotID: 3}}}}},
			&CBRecallArgs{StateID: goldenStateID, Truncate: true, FH: FH{1, 2, 3, 4}},
		}}, `
			00000000 00000001 00000000 00000002
			0000000b` + goldenSessionHex + `00000001 00000000 00000000 00000000
			00000001` + goldenSessionHex + `00000001 00000008 00000003
			00000004` + goldenStateIDHex + `00000001 00000004 01020304`},

		{"COPY result of a server that goes on", &CopyRes{
			Response:    WriteResponse{Async: true, CallbackID: goldenStateID, Count: 0, Committed: Unstable, Verf: goldenVerf},
			Consecutive: true}, `
			00000000 00000001` + goldenStateIDHex + `00000000 00000000 00000000` + goldenVerfHex + `
			00000001 00000000`},

		{"SEEK", &SeekArgs{StateID: goldenStateID, Offset: 0x10, What: ContentHole},
			goldenStateIDHex + `00000000 00000010 00000001`},

		{"SETXATTR", &SetXattrArgs{Option: SetXattrReplace, Name: "key", Value: []byte("value")},
			`00000002 00000003 6b657900 00000005 76616c75 65000000`},

		{"LISTXATTRS result", &ListXattrsRes{Cookie: 1, Names: []Component{"a", "bc"}, EOF: true},
			`00000000 00000000 00000001 00000002 00000001 61000000 00000002 62630000 00000001`},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := unhex(t, c.want)
			if got := encode(t, c.v).AppendTo(nil); !bytes.Equal(got, want) {
				t.Errorf("encodes to\n%x, want\n%x", got, want)
			}
			got := fresh(c.v)
			decode(t, xdr.Message{Stream: want}, got)
			if !equal(got, c.v) {
				t.Errorf("decodes to\n%+v, want\n%+v", got, c.v)
			}
		})
	}
}

// TestGoldenReadDir has the list of entries, which TestGolden cannot compare.
func TestGoldenReadDir(t *testing.T) {
	want := unhex(t, `00000000`+goldenVerfHex+`
		00000001 00000000 00000003 00000001 61000000 00000001 00100000 00000008 00000000 0000002a
		00000001 00000000 00000004 00000002 62620000 00000001 00000800 00000004 0000000d
		00000000 00000001`)
	entries := []Entry{
		{Cookie: 3, Name: []byte("a"), Attrs: Attrs{Mask: MakeBitmap(AttrFileID), FileID: 42}},
		{Cookie: 4, Name: []byte("bb"), Attrs: Attrs{Mask: MakeBitmap(AttrRDAttrError), RDAttrError: ErrAccess}},
	}
	var l EntryList
	l.Reset(&ReadDirArgs{MaxCount: 4096}, nil)
	for i := range entries {
		if !l.Add(&entries[i]) {
			t.Fatalf("no room for entry %d", i)
		}
	}
	res := &ReadDirRes{CookieVerf: goldenVerf, Entries: l.Bytes(), EOF: true}
	if got := encode(t, res).Stream; !bytes.Equal(got, want) {
		t.Errorf("encodes to\n%x, want\n%x", got, want)
	}
	var got ReadDirRes
	decode(t, xdr.Message{Stream: want}, &got)
	if got.CookieVerf != goldenVerf || !got.EOF {
		t.Errorf("decodes to %+v", got)
	}
	for range 2 {
		var e Entry
		for i := range entries {
			if !got.Next(&e) || !equal(e, entries[i]) {
				t.Errorf("entry %d is %+v, error %v", i, e, got.Err())
			}
		}
		if got.Next(&e) || got.Err() != nil {
			t.Errorf("an entry behind the last, or error %v", got.Err())
		}
		got.Rewind()
	}
}

// TestBulkItems holds the list of what RFC 8267 section 6.1 makes eligible
// against what leaves the stream.
func TestBulkItems(t *testing.T) {
	eligible := map[string]bool{"args WRITE": true, "res READ": true, "args CREATE": true, "res READLINK": true}
	for name, proto := range everyItem() {
		found := false
		for seed := range uint64(300) {
			v := fresh(proto)
			newFiller(seed).fill(v)
			m := encode(t, v)
			found = found || len(m.Bulk) > 0
			if len(m.Bulk) > 0 && !eligible[name] || len(m.Bulk) > 1 {
				t.Errorf("%s has %d items beside the stream", name, len(m.Bulk))
			}
		}
		if eligible[name] && !found {
			t.Errorf("%s never has an item beside the stream", name)
		}
	}
}
