package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"testing"

	"nfsrdma-fuse/xdr"
)

// words builds a stream from 32-bit words and byte strings.
func words(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.BigEndian.AppendUint32(b, uint32(p))
		case string:
			b = append(b, p...)
		}
	}
	return b
}

func TestCallHeader(t *testing.T) {
	tests := []struct {
		name   string
		header CallHeader
		wire   []byte
	}{
		{
			"without credential",
			CallHeader{XID: 7, Prog: ProgramNFS, Vers: VersionNFS4, Proc: ProcNull},
			words(7, 0, 2, 100003, 4, 0, 0, 0, 0, 0),
		},
		{
			"with opaque credential and verifier",
			CallHeader{XID: 7, Prog: CallbackBase, Vers: VersionCallback, Proc: ProcCompound,
				Cred: OpaqueAuth{FlavorGSS, []byte("abcde")}, Verf: OpaqueAuth{FlavorGSS, []byte("mic!")}},
			words(7, 0, 2, 0x40000000, 1, 1, 6, 5, "abcde\x00\x00\x00", 6, 4, "mic!"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e xdr.Encoder
			tt.header.Encode(&e)
			if e.Err() != nil || !bytes.Equal(e.Bytes(), tt.wire) {
				t.Fatalf("encoded %x, %v; want %x", e.Bytes(), e.Err(), tt.wire)
			}
			var got CallHeader
			d := xdr.NewDecoder(append(tt.wire, "args"...))
			got.Decode(d)
			if d.Err() != nil || string(d.Rest()) != "args" {
				t.Fatal(d.Err())
			}
			if got.Cred.Flavor != tt.header.Cred.Flavor || !bytes.Equal(got.Cred.Body, tt.header.Cred.Body) ||
				!bytes.Equal(got.Verf.Body, tt.header.Verf.Body) || got.Prog != tt.header.Prog ||
				got.Vers != tt.header.Vers || got.Proc != tt.header.Proc || got.XID != tt.header.XID {
				t.Errorf("decoded %+v, want %+v", got, tt.header)
			}
			if xid, typ, ok := Peek(tt.wire); xid != 7 || typ != Call || !ok {
				t.Errorf("Peek = %d, %v, %v", xid, typ, ok)
			}
		})
	}
	var e xdr.Encoder
	(&CallHeader{}).Encode(&e)
	if e.Len() != CallHeaderLen {
		t.Errorf("CallHeaderLen is %d, encoded %d", CallHeaderLen, e.Len())
	}
}

func TestCallHeaderRefused(t *testing.T) {
	long := string(make([]byte, MaxAuthBody+4))
	tests := []struct {
		name string
		wire []byte
		err  error
	}{
		{"empty", nil, xdr.ErrShort},
		{"a reply", words(7, 1, 2, 3, 4, 0, 0, 0, 0, 0), ErrType},
		{"unknown type", words(7, 2, 2, 3, 4, 0, 0, 0, 0, 0), ErrType},
		{"RPC version 3", words(7, 0, 3), RPCMismatch},
		{"credential too long", words(7, 0, 2, 3, 4, 0, 1, MaxAuthBody+1, long, 0, 0), xdr.ErrRange},
		{"verifier too long", words(7, 0, 2, 3, 4, 0, 0, 0, 1, -1, long), xdr.ErrRange},
		{"credential cut", words(7, 0, 2, 3, 4, 0, 1, 8, "abcd"), xdr.ErrShort},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h CallHeader
			d := xdr.NewDecoder(tt.wire)
			h.Decode(d)
			if !errors.Is(d.Err(), tt.err) {
				t.Errorf("%v, want %v", d.Err(), tt.err)
			}
		})
	}
}

// What a responder needs for its answer survives a version that it does not
// speak.
func TestRPCMismatchCanBeAnswered(t *testing.T) {
	var h CallHeader
	d := xdr.NewDecoder(words(7, 0, 3))
	h.Decode(d)
	var refusal *Error
	if !errors.As(d.Err(), &refusal) {
		t.Fatalf("%v is no *Error", d.Err())
	}
	var e xdr.Encoder
	(&ReplyHeader{XID: h.XID, Status: *refusal}).Encode(&e)
	if want := words(7, 1, 1, 0, 2, 2); !bytes.Equal(e.Bytes(), want) {
		t.Errorf("answer %x, want %x", e.Bytes(), want)
	}
}

var replies = []struct {
	name   string
	header ReplyHeader
	wire   []byte
	is     error // nil for success
}{
	{"success", ReplyHeader{XID: 9}, words(9, 1, 0, 0, 0, 0), nil},
	{"success with verifier", ReplyHeader{XID: 9, Verf: OpaqueAuth{FlavorGSS, []byte("abc")}},
		words(9, 1, 0, 6, 3, "abc\x00", 0), nil},
	{"no such program", ReplyHeader{XID: 9, Status: Error{Stat: ProgUnavail}}, words(9, 1, 0, 0, 0, 1), ProgUnavail},
	{"program version", ReplyHeader{XID: 9, Status: Error{Stat: ProgMismatch, Low: 2, High: 4}},
		words(9, 1, 0, 0, 0, 2, 2, 4), ProgMismatch},
	{"no such procedure", ReplyHeader{XID: 9, Status: Error{Stat: ProcUnavail}}, words(9, 1, 0, 0, 0, 3), ProcUnavail},
	{"garbage arguments", ReplyHeader{XID: 9, Status: Error{Stat: GarbageArgs}}, words(9, 1, 0, 0, 0, 4), GarbageArgs},
	{"system error", ReplyHeader{XID: 9, Status: Error{Stat: SystemErr}}, words(9, 1, 0, 0, 0, 5), SystemErr},
	{"RPC version", ReplyHeader{XID: 9, Status: Error{Stat: RPCMismatch, Low: 2, High: 2}},
		words(9, 1, 1, 0, 2, 2), RPCMismatch},
	{"credential too weak", ReplyHeader{XID: 9, Status: Error{Stat: AuthError, Auth: AuthTooWeak}},
		words(9, 1, 1, 1, 5), AuthTooWeak},
	{"GSS context", ReplyHeader{XID: 9, Status: Error{Stat: AuthError, Auth: GSSCtxProblem}},
		words(9, 1, 1, 1, 14), GSSCtxProblem},
	{"newer authentication status", ReplyHeader{XID: 9, Status: Error{Stat: AuthError, Auth: 99}},
		words(9, 1, 1, 1, 99), AuthError},
}

func TestReplyHeader(t *testing.T) {
	for _, tt := range replies {
		t.Run(tt.name, func(t *testing.T) {
			var e xdr.Encoder
			tt.header.Encode(&e)
			if e.Err() != nil || !bytes.Equal(e.Bytes(), tt.wire) {
				t.Fatalf("encoded %x, %v; want %x", e.Bytes(), e.Err(), tt.wire)
			}
			var got ReplyHeader
			d := xdr.NewDecoder(tt.wire)
			got.Decode(d)
			d.End()
			if d.Err() != nil {
				t.Fatal(d.Err())
			}
			if len(got.Verf.Body) == 0 {
				got.Verf.Body = nil
			}
			if !reflect.DeepEqual(got, tt.header) {
				t.Errorf("decoded %+v, want %+v", got, tt.header)
			}
			if err := got.Err(); !errors.Is(err, tt.is) {
				t.Errorf("Err() = %v, want %v", err, tt.is)
			}
			if xid, typ, ok := Peek(tt.wire); xid != 9 || typ != Reply || !ok {
				t.Errorf("Peek = %d, %v, %v", xid, typ, ok)
			}
			for i := range len(tt.wire) {
				cut := xdr.NewDecoder(tt.wire[:i])
				new(ReplyHeader).Decode(cut)
				if cut.Err() == nil {
					t.Errorf("accepted when cut to %d bytes", i)
				}
			}
		})
	}
	var e xdr.Encoder
	(&ReplyHeader{}).Encode(&e)
	if e.Len() != ReplyHeaderLen {
		t.Errorf("ReplyHeaderLen is %d, encoded %d", ReplyHeaderLen, e.Len())
	}
}

func TestReplyHeaderRefused(t *testing.T) {
	tests := []struct {
		name string
		wire []byte
		err  error
	}{
		{"a call", words(9, 0, 0, 0, 0, 0), ErrType},
		{"neither accepted nor denied", words(9, 1, 2, 0, 0, 0), xdr.ErrRange},
		{"unknown accept status", words(9, 1, 0, 0, 0, 6), xdr.ErrRange},
		{"unknown reject status", words(9, 1, 1, 2, 0, 0), xdr.ErrRange},
		{"verifier too long", words(9, 1, 0, 0, 401, string(make([]byte, 404)), 0), xdr.ErrRange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var h ReplyHeader
			d := xdr.NewDecoder(tt.wire)
			h.Decode(d)
			if !errors.Is(d.Err(), tt.err) {
				t.Errorf("%v, want %v", d.Err(), tt.err)
			}
		})
	}
}

func TestPeek(t *testing.T) {
	for _, b := range [][]byte{nil, words(1), words(1, 0)[:7], words(1, 2), words(1, -1)} {
		if _, _, ok := Peek(b); ok {
			t.Errorf("Peek(%x) succeeded", b)
		}
	}
}

func TestNoAllocations(t *testing.T) {
	cred, err := (&AuthSys{Machine: "host", GIDs: make([]uint32, 16)}).Auth()
	if err != nil {
		t.Fatal(err)
	}
	call := CallHeader{XID: 1, Prog: ProgramNFS, Vers: 4, Proc: 1, Cred: cred}
	var e xdr.Encoder
	var d xdr.Decoder
	var got CallHeader
	var reply ReplyHeader
	var sys AuthSys
	if n := testing.AllocsPerRun(100, func() {
		e.Reset(nil)
		call.Encode(&e)
		d.Reset(e.Message())
		got.Decode(&d)
		if sys.SetAuth(got.Cred) != nil || d.Err() != nil {
			t.Fatal("call not decoded")
		}
		e.Reset(nil)
		(&ReplyHeader{XID: 1}).Encode(&e)
		d.Reset(e.Message())
		reply.Decode(&d)
		if reply.Err() != nil || d.Err() != nil {
			t.Fatal("reply not decoded")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a call and its reply", n)
	}
}

func FuzzCallHeader(f *testing.F) {
	f.Add(words(7, 0, 2, 100003, 4, 1, 1, 32, 0, 4, "host", 1000, 1000, 2, 4, 5, 0, 0))
	f.Add(words(7, 0, 3))
	f.Fuzz(func(t *testing.T, wire []byte) {
		var h CallHeader
		d := xdr.NewDecoder(wire)
		h.Decode(d)
		if d.Err() != nil {
			return
		}
		var sys AuthSys
		_ = sys.SetAuth(h.Cred)
		var e xdr.Encoder
		h.Encode(&e)
		if e.Err() != nil || e.Len() != d.Pos() {
			t.Fatalf("encoded again: %d bytes, %v; were %d", e.Len(), e.Err(), d.Pos())
		}
		var again CallHeader
		again.Decode(xdr.NewDecoder(e.Bytes()))
		if !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v became %+v", h, again)
		}
	})
}

func FuzzReplyHeader(f *testing.F) {
	for _, r := range replies {
		f.Add(r.wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var h ReplyHeader
		d := xdr.NewDecoder(wire)
		h.Decode(d)
		if d.Err() != nil {
			return
		}
		_ = h.Err()
		var e xdr.Encoder
		h.Encode(&e)
		var again ReplyHeader
		again.Decode(xdr.NewDecoder(e.Bytes()))
		if e.Err() != nil || e.Len() != d.Pos() || !reflect.DeepEqual(again, h) {
			t.Fatalf("%+v became %+v (%v)", h, again, e.Err())
		}
	})
}
