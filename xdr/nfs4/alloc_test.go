package nfs4

import (
	"testing"

	"nfsrdma-fuse/xdr"
)

// ioCall is a COMPOUND of SEQUENCE, PUTFH and READ or WRITE as a client keeps
// it for every slot: one piece of memory that is used again and again.
type ioCall struct {
	enc  xdr.Encoder
	dec  xdr.Decoder
	args CompoundArgs
	ops  [3]Args
	ress [3]Res

	seq   SequenceArgs
	putfh PutFHArgs
	read  ReadArgs
	write WriteArgs

	seqRes   SequenceRes
	putfhRes PutFHRes
	readRes  ReadRes
	writeRes WriteRes
}

func newRead() *ioCall {
	c := &ioCall{}
	c.ops = [3]Args{&c.seq, &c.putfh, &c.read}
	c.ress = [3]Res{&c.seqRes, &c.putfhRes, &c.readRes}
	return c
}

func newWrite() *ioCall {
	c := &ioCall{}
	c.ops = [3]Args{&c.seq, &c.putfh, &c.write}
	c.ress = [3]Res{&c.seqRes, &c.putfhRes, &c.writeRes}
	return c
}

var ioFH = FH("0123456789abcdef0123456789abcdef")

func (c *ioCall) encode(data []byte) {
	c.enc.Reset(nil)
	c.seq.SequenceID++
	c.putfh.FH = ioFH
	c.read = ReadArgs{Offset: 1 << 20, Count: uint32(len(data))}
	c.write = WriteArgs{Offset: 1 << 20, Data: data}
	c.args = CompoundArgs{Minor: 1, Ops: c.ops[:]}
	c.args.Encode(&c.enc)
}

func (c *ioCall) decode(t testing.TB, m xdr.Message) {
	c.dec.Reset(m)
	if n, status := DecodeResults(&c.dec, c.ress[:]); n != 3 || status != OK || c.dec.Err() != nil {
		t.Fatalf("%d results, status %v, error %v", n, status, c.dec.Err())
	}
}

// ioReply is a reply whose READ data was placed beside the stream, or whose
// WRITE data was accepted.
func ioReply(t testing.TB, last Res) xdr.Message {
	m := encode(t, &CompoundRes{Ops: []Res{&SequenceRes{}, &PutFHRes{}, last}})
	for i := range m.Bulk {
		m.Bulk[i].Pos = xdr.AnyPos
	}
	return m
}

func TestDataPathDoesNotAllocate(t *testing.T) {
	data := make([]byte, 1<<20)
	for _, c := range []struct {
		name  string
		call  *ioCall
		reply xdr.Message
	}{
		{"READ", newRead(), ioReply(t, &ReadRes{EOF: true, Data: data})},
		{"WRITE", newWrite(), ioReply(t, &WriteRes{Count: 1 << 20})},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.call.encode(data)
			bulk := append([]xdr.Bulk(nil), c.reply.Bulk...)
			if n := testing.AllocsPerRun(100, func() { c.call.encode(data) }); n != 0 {
				t.Errorf("encoding the call allocates %v times", n)
			}
			if n := testing.AllocsPerRun(100, func() {
				c.call.decode(t, xdr.Message{Stream: c.reply.Stream, Bulk: bulk})
			}); n != 0 {
				t.Errorf("decoding the reply allocates %v times", n)
			}
		})
	}
}

// statAttrs are what a client asks for with every LOOKUP and READDIR entry.
var statAttrs = MakeBitmap(AttrType, AttrChange, AttrSize, AttrFSID, AttrRDAttrError, AttrFileHandle,
	AttrFileID, AttrMode, AttrNumLinks, AttrOwner, AttrOwnerGroup, AttrRawDev, AttrSpaceUsed,
	AttrTimeAccess, AttrTimeMetadata, AttrTimeModify, AttrMountedOnFileID)

func statEntry(i int) *Entry {
	return &Entry{
		Cookie: uint64(i) + 3,
		Name:   []byte("some-file-name.txt"),
		Attrs: Attrs{Mask: statAttrs, Type: TypeReg, FileHandle: ioFH, FileID: uint64(i),
			Owner: "1000", OwnerGroup: "staff@example.org"},
	}
}

func listing(t testing.TB, n int) xdr.Message {
	var l EntryList
	l.Reset(&ReadDirArgs{MaxCount: 1 << 20}, nil)
	for i := range n {
		if !l.Add(statEntry(i)) {
			t.Fatalf("no room for entry %d", i)
		}
	}
	return encode(t, &ReadDirRes{Entries: l.Bytes()})
}

func TestAttributesDoNotAllocate(t *testing.T) {
	m := encode(t, &statEntry(0).Attrs)
	var d xdr.Decoder
	var a Attrs
	if n := testing.AllocsPerRun(100, func() {
		d.Reset(m)
		a.Decode(&d)
	}); n != 0 {
		t.Errorf("decoding attributes allocates %v times", n)
	}
	if d.Err() != nil || a.Owner != "1000" {
		t.Errorf("decoded %+v, error %v", a, d.Err())
	}

	dir := listing(t, 100)
	var res ReadDirRes
	var entry Entry
	if n := testing.AllocsPerRun(100, func() {
		d.Reset(dir)
		res.Decode(&d)
		n := 0
		for res.Next(&entry) {
			n++
		}
		if n != 100 || res.Err() != nil {
			t.Fatalf("%d entries, error %v", n, res.Err())
		}
	}); n != 0 {
		t.Errorf("decoding 100 entries allocates %v times", n)
	}

	var l EntryList
	args := &ReadDirArgs{MaxCount: 1 << 20}
	e := statEntry(1)
	l.Reset(args, make([]byte, 0, 4096))
	if n := testing.AllocsPerRun(100, func() {
		l.Reset(args, nil)
		l.Add(e)
	}); n != 0 {
		t.Errorf("encoding an entry allocates %v times", n)
	}
}

func BenchmarkReadCompound(b *testing.B) {
	benchmark(b, newRead(), &ReadRes{Data: make([]byte, 1<<20)})
}
func BenchmarkWriteCompound(b *testing.B) { benchmark(b, newWrite(), &WriteRes{Count: 1 << 20}) }

func benchmark(b *testing.B, c *ioCall, last Res) {
	data := make([]byte, 1<<20)
	reply := ioReply(b, last)
	b.Run("encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.encode(data)
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c.decode(b, reply)
		}
	})
}

func BenchmarkGetAttr(b *testing.B) {
	m := encode(b, &GetAttrRes{Attrs: statEntry(0).Attrs})
	var d xdr.Decoder
	var res GetAttrRes
	b.ReportAllocs()
	for b.Loop() {
		d.Reset(m)
		res.Decode(&d)
	}
}

func BenchmarkReadDir(b *testing.B) {
	dir := listing(b, 1000)
	var d xdr.Decoder
	var res ReadDirRes
	var entry Entry
	b.ReportAllocs()
	for b.Loop() {
		d.Reset(dir)
		res.Decode(&d)
		for res.Next(&entry) {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
}
