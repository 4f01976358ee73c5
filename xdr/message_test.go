package xdr

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// item is one element of a random message.
type item struct {
	bulk  bool
	word  uint32 // if not bulk
	bytes []byte // if bulk
}

func genItems() *rapid.Generator[[]item] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
		if rapid.Bool().Draw(t, "bulk") {
			return item{bulk: true, bytes: rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(t, "bytes")}
		}
		return item{word: rapid.Uint32().Draw(t, "word")}
	}), 0, 12)
}

func encodeItems(e *Encoder, items []item) Message {
	e.Reset(nil)
	for _, it := range items {
		if it.bulk {
			e.Bulk(it.bytes)
		} else {
			e.Uint32(it.word)
		}
	}
	return e.Message()
}

// naive writes the items byte by byte and notes where the data of bulk items
// begins: it is what a Message has to agree with.
func naive(items []item) (whole []byte, positions []int) {
	for _, it := range items {
		if !it.bulk {
			whole = binary.BigEndian.AppendUint32(whole, it.word)
			continue
		}
		whole = binary.BigEndian.AppendUint32(whole, uint32(len(it.bytes)))
		positions = append(positions, len(whole))
		whole = append(whole, it.bytes...)
		for len(whole)%4 != 0 {
			whole = append(whole, 0)
		}
	}
	return whole, positions
}

func decodeItems(t *rapid.T, m Message, items []item, beside func(i int) bool) {
	var d Decoder
	d.Reset(m)
	for i, it := range items {
		if !it.bulk {
			if got := d.Uint32(); got != it.word {
				t.Fatalf("item %d is %d, want %d", i, got, it.word)
			}
			continue
		}
		got, moved := d.Bulk(9)
		if !bytes.Equal(got, it.bytes) || moved != beside(i) {
			t.Fatalf("item %d is %x (%v), want %x", i, got, moved, it.bytes)
		}
	}
	if d.End(); d.Err() != nil {
		t.Fatal(d.Err())
	}
}

func TestMessageAgainstModel(t *testing.T) {
	var e Encoder
	rapid.Check(t, func(t *rapid.T) {
		items := genItems().Draw(t, "items")
		m := encodeItems(&e, items)
		whole, positions := naive(items)

		if got := m.AppendTo([]byte("before")); string(got) != "before"+string(whole) {
			t.Fatalf("AppendTo: %x, want %x", got, whole)
		}
		if got := bytes.Join(m.AppendSegments(nil), nil); !bytes.Equal(got, whole) {
			t.Fatalf("AppendSegments: %x, want %x", got, whole)
		}
		for i, s := range m.AppendSegments(nil) {
			if len(s) == 0 {
				t.Fatalf("segment %d is empty", i)
			}
		}
		if m.Len() != len(whole) {
			t.Fatalf("Len() = %d, want %d", m.Len(), len(whole))
		}
		if len(m.Bulk) != len(positions) {
			t.Fatalf("%d bulk items, want %d", len(m.Bulk), len(positions))
		}
		for i, want := range positions {
			if got := m.Position(i); got != want {
				t.Fatalf("Position(%d) = %d, want %d", i, got, want)
			}
		}
		decodeItems(t, m, items, func(int) bool { return true })
		decodeItems(t, Message{Stream: whole}, items, func(int) bool { return false })
	})
}

// A peer moves some items and leaves others in the stream; of what it moved
// the receiver knows the positions (arguments) or only the order (results).
func TestMessagePartlyMoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := genItems().Draw(t, "items")
		moved := make(map[int]bool)
		var m Message
		prefix := true // only a prefix of the bulk items can be found by order
		anyPos := rapid.Bool().Draw(t, "by order")
		for i, it := range items {
			if !it.bulk {
				m.Stream = binary.BigEndian.AppendUint32(m.Stream, it.word)
				continue
			}
			m.Stream = binary.BigEndian.AppendUint32(m.Stream, uint32(len(it.bytes)))
			moved[i] = rapid.Bool().Draw(t, "moved") && (!anyPos || prefix)
			prefix = prefix && moved[i]
			if !moved[i] {
				m.Stream = append(m.Stream, it.bytes...)
				m.Stream = append(m.Stream, zeros[:PadLen(len(it.bytes))-len(it.bytes)]...)
				continue
			}
			b := Bulk{Pos: len(m.Stream), Data: it.bytes}
			if anyPos {
				b.Pos = AnyPos
			}
			m.Bulk = append(m.Bulk, b)
		}
		decodeItems(t, m, items, func(i int) bool { return moved[i] })
	})
}

func TestPadLen(t *testing.T) {
	for n, want := range []int{0, 4, 4, 4, 4, 8} {
		if got := PadLen(n); got != want {
			t.Errorf("PadLen(%d) = %d, want %d", n, got, want)
		}
	}
}
