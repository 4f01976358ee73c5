package rpcrdma

import (
	"encoding/hex"
	"testing"
)

func TestPrivateData(t *testing.T) {
	tests := []struct {
		p    PrivateData
		wire string
	}{
		{PrivateData{true, 4096, 4096}, "f6ab0e1801010303"},
		{PrivateData{false, 1024, 262144}, "f6ab0e18010000ff"},
		{PrivateData{false, 65536, 32768}, "f6ab0e1801003f1f"},
	}
	for _, tt := range tests {
		wire := tt.p.AppendTo(nil)
		if got := hex.EncodeToString(wire); got != tt.wire {
			t.Errorf("%+v: encoded %s, want %s", tt.p, got, tt.wire)
		}
		if got, ok := FindPrivateData(wire); !ok || got != tt.p {
			t.Errorf("%s: found %+v, %v", tt.wire, got, ok)
		}
	}
}

func TestPrivateDataSizesAreLowered(t *testing.T) {
	tests := []struct{ size, want int }{
		{-1, 1024}, {0, 1024}, {1023, 1024}, {1024, 1024}, {2047, 1024}, {5000, 4096}, {262144, 262144}, {1 << 30, 262144},
	}
	for _, tt := range tests {
		got, _ := FindPrivateData(PrivateData{SendSize: tt.size, RecvSize: tt.size}.AppendTo(nil))
		if got.SendSize != tt.want || got.RecvSize != tt.want {
			t.Errorf("%d became %+v, want %d", tt.size, got, tt.want)
		}
	}
}

func TestFindPrivateData(t *testing.T) {
	const data = "\xf6\xab\x0e\x18\x01\xff\x03\x07" // reserved bits set: to be ignored
	want := PrivateData{true, 4096, 8192}
	tests := []struct {
		name  string
		bytes string
		found bool
	}{
		{"alone", data, true},
		{"behind four bytes of IRD and ORD", "\x00\x10\x00\x10" + data, true},
		{"unaligned", "abc" + data, true},
		{"padded behind", "x" + data + "\x00\x00\x00", true},
		{"behind half an identifier", "\xf6\xab" + data, true},
		{"behind an identifier of another version", "\xf6\xab\x0e\x18\x02\x00\x00\x00" + data, true},
		{"none", "\x00\x10\x00\x10", false},
		{"empty", "", false},
		{"cut", data[:7], false},
		{"identifier only", "abc\xf6\xab\x0e\x18", false},
		{"version not known", "\xf6\xab\x0e\x18\x02\x00\x03\x03", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, found := FindPrivateData([]byte(tt.bytes))
			if found != tt.found {
				t.Fatalf("found = %v", found)
			}
			if found && got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if !found && got != (PrivateData{false, 1024, 1024}) {
				t.Errorf("got %+v, want the defaults", got)
			}
		})
	}
}

func TestInlineThresholds(t *testing.T) {
	own := PrivateData{SendSize: 65536, RecvSize: 4096}
	peer := PrivateData{SendSize: 8192, RecvSize: 16384}
	if send, receive := InlineThresholds(own, peer); send != 16384 || receive != 4096 {
		t.Errorf("send %d, receive %d", send, receive)
	}
	if send, receive := InlineThresholds(own, DefaultPrivateData()); send != 1024 || receive != 1024 {
		t.Errorf("silent peer: send %d, receive %d", send, receive)
	}
}

func FuzzFindPrivateData(f *testing.F) {
	f.Add([]byte("\xf6\xab\x0e\x18\x01\x01\x03\x07"))
	f.Add([]byte("\x00\x10\x00\x10\xf6\xab\x0e\x18\x01\x00\x03\x03"))
	f.Add([]byte("\xf6\xab\x0e\x18\x02\xf6\xab\x0e\x18\x01\x00\x03\x03"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, ok := FindPrivateData(b)
		if !ok {
			if p != DefaultPrivateData() {
				t.Fatalf("not found, but %+v", p)
			}
			return
		}
		if again, ok := FindPrivateData(p.AppendTo(nil)); !ok || again != p {
			t.Fatalf("%+v became %+v", p, again)
		}
	})
}
