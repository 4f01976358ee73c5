package xdr

import "testing"

// work encodes a message like that of a WRITE and decodes it.
func work(e *Encoder, d *Decoder, handle, payload []byte) error {
	e.Reset(nil)
	e.Uint32(1)
	e.Uint64(1 << 40)
	e.Opaque(handle)
	e.String("name")
	e.Bool(true)
	e.Bulk(payload)
	e.Uint32(2)
	d.Reset(e.Message())
	d.Uint32()
	d.Uint64()
	d.Opaque(128)
	d.Opaque(255)
	d.Bool()
	d.Bulk(1 << 20)
	d.Uint32()
	d.End()
	return d.Err()
}

func TestNoAllocations(t *testing.T) {
	var e Encoder
	var d Decoder
	handle, payload := make([]byte, 64), make([]byte, 1<<20)
	segments := make([][]byte, 0, 8)
	if n := testing.AllocsPerRun(100, func() {
		if err := work(&e, &d, handle, payload); err != nil {
			t.Fatal(err)
		}
		segments = e.Message().AppendSegments(segments[:0])
	}); n != 0 {
		t.Errorf("%v allocations for each message", n)
	}
}

func BenchmarkEncodeDecode(b *testing.B) {
	var e Encoder
	var d Decoder
	handle, payload := make([]byte, 64), make([]byte, 1<<20)
	b.ReportAllocs()
	for b.Loop() {
		if err := work(&e, &d, handle, payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendSegments(b *testing.B) {
	var e Encoder
	var d Decoder
	if err := work(&e, &d, make([]byte, 64), make([]byte, 1<<20)); err != nil {
		b.Fatal(err)
	}
	segments := make([][]byte, 0, 8)
	b.ReportAllocs()
	for b.Loop() {
		segments = e.Message().AppendSegments(segments[:0])
	}
}
