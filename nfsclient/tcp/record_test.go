package tcp

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func newReader(stream []byte, limit int) *recordReader {
	return &recordReader{r: bufio.NewReaderSize(bytes.NewReader(stream), 64), limit: limit}
}

// readAll takes the next record: its first bytes as a message's head is taken,
// the rest into a record.
func readAll(rr *recordReader, head, bound int) ([]byte, error) {
	if err := rr.next(); err != nil {
		return nil, err
	}
	rec := newRecord(head)
	defer func() { rec.free() }()
	n, err := rr.read(rec.buf[:head])
	if err != nil {
		return nil, err
	}
	if rec, err = rr.rest(rec, n, bound); err != nil {
		return nil, err
	}
	return bytes.Clone(rec.message()), nil
}

func TestRecordReader(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 1000)
	tests := []struct {
		name   string
		stream []byte
		want   []byte
	}{
		{"one fragment", fragment(true, []byte("hello")), []byte("hello")},
		{"empty", fragment(true, nil), nil},
		{"two fragments", append(fragment(false, []byte("hel")), fragment(true, []byte("lo"))...), []byte("hello")},
		{"empty last fragment", append(fragment(false, []byte("hello")), fragment(true, nil)...), []byte("hello")},
		{"empty first fragments", bytes.Join([][]byte{fragment(false, nil), fragment(false, nil), fragment(true, []byte("hello"))}, nil), []byte("hello")},
		{"large", fragment(true, long), long},
		{"large in two", append(fragment(false, long[:7]), fragment(true, long[7:])...), long},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			rr := newReader(append(tt.stream, fragment(true, []byte("next"))...), 1<<20)
			got, err := readAll(rr, 8, 1<<20)
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Fatalf("%q, %v; want %q", got, err, tt.want)
			}
			if rr.length != len(tt.want) {
				t.Errorf("length %d, want %d", rr.length, len(tt.want))
			}
			if got, err := readAll(rr, 8, 1<<20); err != nil || string(got) != "next" {
				t.Errorf("the record behind: %q, %v", got, err)
			}
			if err := rr.next(); err != io.EOF {
				t.Errorf("the end: %v", err)
			}
			rr = newReader(append(tt.stream, fragment(true, []byte("next"))...), 1<<20)
			if err := errors.Join(rr.next(), rr.skip()); err != nil {
				t.Fatal(err)
			}
			if got, err := readAll(rr, 8, 1<<20); err != nil || string(got) != "next" {
				t.Errorf("the record behind one skipped: %q, %v", got, err)
			}
		})
	}
}

func TestRecordReaderRefuses(t *testing.T) {
	fragments := func(n int) []byte { return bytes.Repeat(fragment(false, nil), n) }
	tests := []struct {
		name   string
		stream []byte
		want   error
	}{
		{"longer than the limit", words(lastFragment | 101), ErrRecord},
		{"as long as can be", words(0xffffffff), ErrRecord},
		{"longer in sum", append(fragment(false, make([]byte, 60)), words(lastFragment|41)...), ErrRecord},
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\n"), ErrRecord},
		{"fragments without end", fragments(maxFragments + 1), ErrRecord},
		{"cut in the marker", []byte{0x80, 0}, io.ErrUnexpectedEOF},
		{"cut in the first fragment", fragment(true, []byte("hello"))[:6], io.ErrUnexpectedEOF},
		{"cut between fragments", fragment(false, []byte("hello")), io.ErrUnexpectedEOF},
		{"empty stream", nil, io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := readAll(newReader(tt.stream, 100), 8, 100); !errors.Is(err, tt.want) {
				t.Errorf("read: %v, want %v", err, tt.want)
			}
			rr := newReader(tt.stream, 100)
			err := rr.next()
			if err == nil {
				err = rr.skip()
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("skip: %v, want %v", err, tt.want)
			}
		})
	}
	if got, err := readAll(newReader(append(fragments(maxFragments-1), fragment(true, []byte("x"))...), 100), 8, 100); err != nil || string(got) != "x" {
		t.Errorf("as many fragments as are allowed: %q, %v", got, err)
	}
}

// A record longer than its receiver wants is noticed before memory is taken
// for it, and the next one can still be read.
func TestRecordLongerThanItsBound(t *testing.T) {
	stream := bytes.Join([][]byte{fragment(false, make([]byte, 20)), fragment(true, make([]byte, 50000)), fragment(true, []byte("next"))}, nil)
	rr := newReader(stream, 1<<20)
	if _, err := readAll(rr, 8, 1000); err != errTooLong {
		t.Fatal(err)
	}
	if err := rr.skip(); err != nil {
		t.Fatal(err)
	}
	if got, err := readAll(rr, 8, 1000); err != nil || string(got) != "next" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRecordSizes(t *testing.T) {
	for i, size := range recordSizes {
		for _, n := range []int{size - 1, size} {
			if r := newRecord(n); len(r.buf) != size || r.class != i {
				t.Errorf("record for %d bytes has %d", n, len(r.buf))
			}
		}
	}
	largest := Config{MaxPayload: maxPayload}
	if last := recordSizes[len(recordSizes)-1]; largest.maxRecord() > last {
		t.Errorf("records of %d bytes, memory of at most %d", largest.maxRecord(), last)
	}
}

func TestRecordsAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		messages := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 3000), 1, 4).Draw(t, "messages")
		var stream []byte
		for _, m := range messages {
			for rapid.Bool().Draw(t, "cut") {
				n := rapid.IntRange(0, len(m)).Draw(t, "at")
				stream = append(stream, fragment(false, m[:n])...)
				m = m[n:]
			}
			stream = append(stream, fragment(true, m)...)
		}
		rr := &recordReader{r: bufio.NewReaderSize(iotest.HalfReader(bytes.NewReader(stream)), 64), limit: 1 << 20}
		head := rapid.IntRange(0, 600).Draw(t, "head")
		for i, want := range messages {
			if got, err := readAll(rr, head, 1<<20); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("message %d: %x, %v; want %x", i, got, err, want)
			}
		}
	})
}

// model takes a stream apart as the standard says, with no regard to limits.
func model(stream []byte) (records [][]byte) {
	var rec []byte
	for len(stream) >= markerLen {
		m := binary.BigEndian.Uint32(stream)
		n := int(m &^ lastFragment)
		if len(stream)-markerLen < n {
			break
		}
		rec = append(rec, stream[markerLen:markerLen+n]...)
		stream = stream[markerLen+n:]
		if m&lastFragment != 0 {
			records = append(records, rec)
			rec = nil
		}
	}
	return records
}

func FuzzRecordReader(f *testing.F) {
	f.Add(fragment(true, []byte("hello, world")), 8, 100)
	f.Add(append(fragment(false, []byte("hello")), fragment(true, []byte("world"))...), 8, 100)
	f.Add(append(fragment(false, nil), fragment(true, make([]byte, 300))...), 8, 200)
	f.Add(words(0xffffffff), 8, 100)
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"), 8, 100)
	f.Add(fragment(true, make([]byte, 2000))[:1500], 512, 4000)
	f.Fuzz(func(t *testing.T, stream []byte, head, bound int) {
		const limit = 4096
		head, bound = max(0, min(head, 600)), max(0, min(bound, limit))
		want := model(stream)
		rr := newReader(stream, limit)
		for i := 0; ; i++ {
			got, err := readAll(rr, head, bound)
			if err == errTooLong {
				if rr.length <= bound {
					t.Fatalf("record %d of %d bytes refused", i, rr.length)
				}
				if rr.skip() != nil {
					return
				}
				continue
			}
			if err != nil {
				return
			}
			if i >= len(want) || !bytes.Equal(got, want[i]) {
				t.Fatalf("record %d is %x, want one of %x", i, got, want)
			}
			if len(got) > limit || len(got) > max(bound, head) {
				t.Fatalf("record %d has %d bytes", i, len(got))
			}
		}
	})
}
