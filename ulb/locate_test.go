package ulb

import (
	"bytes"
	"testing"

	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// compoundReply encodes a reply with the given results.
func compoundReply(h rpc.ReplyHeader, tag string, results ...nfs4.Res) xdr.Message {
	var e xdr.Encoder
	h.Encode(&e)
	status := nfs4.OK
	for _, r := range results {
		if status == nfs4.OK {
			status = r.Result()
		}
	}
	e.Uint32(uint32(status))
	e.String(tag)
	e.Uint32(uint32(len(results)))
	for _, r := range results {
		e.Uint32(uint32(r.Op()))
		r.Encode(&e)
	}
	return e.Message()
}

func TestLocateResult(t *testing.T) {
	data := bytes.Repeat([]byte("data"), 2001)
	read := &nfs4.ReadRes{EOF: true, Data: data}
	seq, fh := &nfs4.SequenceRes{}, &nfs4.PutFHRes{}
	verf := rpc.ReplyHeader{XID: 7, Verf: rpc.OpaqueAuth{Flavor: rpc.FlavorGSS, Body: make([]byte, 37)}}
	found := map[string]xdr.Message{
		"usual":             compoundReply(rpc.ReplyHeader{XID: 7}, "", seq, fh, read),
		"tag and verifier":  compoundReply(verf, "a tag of some length", seq, fh, read),
		"nothing before":    compoundReply(rpc.ReplyHeader{XID: 7}, "", read),
		"something behind":  compoundReply(rpc.ReplyHeader{XID: 7}, "", seq, fh, read, &nfs4.PutFHRes{Status: nfs4.ErrStale}),
		"two, first of two": compoundReply(rpc.ReplyHeader{XID: 7}, "", seq, fh, read, read),
	}
	for name, m := range found {
		whole := m.AppendTo(nil)
		pos, n, ok := LocateResult(whole[:LocateHead])
		if !ok || pos != m.Position(0) || n != len(data) {
			t.Errorf("%s: at %d, %d bytes, %v; want at %d, %d bytes", name, pos, n, ok, m.Position(0), len(data))
		}
		for i := range m.Position(0) {
			if _, _, ok := LocateResult(whole[:i]); ok {
				t.Errorf("%s: found in %d bytes, before it begins", name, i)
			}
		}
	}
	call := compoundReply(rpc.ReplyHeader{}, "", seq, fh, read)
	notFound := map[string]xdr.Message{
		"call refused":       compoundReply(rpc.ReplyHeader{Status: rpc.Error{Stat: rpc.GarbageArgs}}, "", seq, fh, read),
		"SEQUENCE failed":    compoundReply(rpc.ReplyHeader{}, "", &nfs4.SequenceRes{Status: nfs4.ErrBadSession}),
		"PUTFH failed":       compoundReply(rpc.ReplyHeader{}, "", seq, &nfs4.PutFHRes{Status: nfs4.ErrStale}),
		"READ failed":        compoundReply(rpc.ReplyHeader{}, "", seq, fh, &nfs4.ReadRes{Status: nfs4.ErrIO}),
		"no READ":            compoundReply(rpc.ReplyHeader{}, "", seq, fh),
		"another operation":  compoundReply(rpc.ReplyHeader{}, "", seq, &nfs4.PutRootFHRes{}, read),
		"a link is text":     compoundReply(rpc.ReplyHeader{}, "", seq, fh, &nfs4.ReadLinkRes{Text: data}),
		"not a reply at all": {Stream: append([]byte("\x00\x00\x00\x07\x00\x00\x00\x00"), call.Stream[8:]...)},
	}
	for name, m := range notFound {
		if pos, n, ok := LocateResult(m.AppendTo(nil)); ok {
			t.Errorf("%s: found %d bytes at %d", name, n, pos)
		}
	}
}

func FuzzLocateResult(f *testing.F) {
	m := compoundReply(rpc.ReplyHeader{XID: 7}, "tag", &nfs4.SequenceRes{}, &nfs4.PutFHRes{}, &nfs4.ReadRes{Data: []byte("some data")})
	f.Add(m.AppendTo(nil))
	f.Add(m.Stream)
	f.Add([]byte("\x00\x00\x00\x07\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, head []byte) {
		pos, n, ok := LocateResult(head)
		if ok && (pos < 0 || pos > len(head) || n < 0 || n > nfs4.MaxData) {
			t.Fatalf("%d bytes at %d of %d", n, pos, len(head))
		}
	})
}

func TestLocateResultAllocatesNothing(t *testing.T) {
	m := compoundReply(rpc.ReplyHeader{}, "tag", &nfs4.SequenceRes{}, &nfs4.PutFHRes{}, &nfs4.ReadRes{Data: make([]byte, 4096)})
	head := m.AppendTo(nil)[:LocateHead]
	if n := testing.AllocsPerRun(100, func() { LocateResult(head) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
