package lab

import (
	"strings"
	"testing"
)

// TestStreamLength feeds segments in and out of order, again, and past the
// end of the sequence numbers.
func TestStreamLength(t *testing.T) {
	var s stream
	const step = 60000
	var sent int64
	for sent < 9<<30 {
		s.segment(1+(sent+step)%(1<<32), step) // comes too early
		s.segment(1+sent%(1<<32), step)
		s.segment(1+sent%(1<<32), step) // comes again
		sent += 2 * step
		if s.sent != sent {
			t.Fatalf("%d octets taken for %d", sent, s.sent)
		}
	}
	s.segment(sent%(1<<32), 0) // a keep-alive
	if s.sent != sent {
		t.Errorf("a keep-alive made %d octets %d", sent, s.sent)
	}
}

func TestReadFrames(t *testing.T) {
	fields := []string{"a", "b"}
	var got []frame
	each := func(f frame) error {
		got = append(got, f)
		return nil
	}
	if err := readFrames(strings.NewReader("1\x1fx\x1ey\n\x1f0x10\x1e7\n"), fields, each); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0]["a"] != "1" || strings.Join(got[0].all("b"), "+") != "x+y" || got[1].all("a") != nil {
		t.Errorf("frames = %q", got)
	}
	if ns, err := got[1].ints("b"); err != nil || len(ns) != 2 || ns[0] != 16 || ns[1] != 7 {
		t.Errorf("ints = %v, %v", ns, err)
	}
	if _, err := got[0].ints("b"); err == nil {
		t.Error("x was taken for a number")
	}
	if err := readFrames(strings.NewReader("1\n"), fields, each); err == nil {
		t.Error("a line with a field too few was accepted")
	}
}

func TestDecodingOk(t *testing.T) {
	if err := new(Decoding).Ok(); err != nil {
		t.Error(err)
	}
	for name, d := range map[string]*Decoding{
		"lost packets":     {Dropped: 1},
		"undecoded octets": {Undecoded: 4},
		"a problem":        {Problems: []Problem{{7, "malformed"}}},
	} {
		if d.Ok() == nil {
			t.Errorf("%s: Ok", name)
		}
	}
	cut := &Decoding{Undecoded: 4, Truncated: true}
	if err := cut.Ok(); err != nil {
		t.Errorf("a capture that was cut: %v", err)
	}
}
