package iwarp

import (
	"testing"

	"nfsrdma-fuse/rdma"
)

// TestSTagSource checks that STags differ, are never 0, and do not give away
// the next one.
func TestSTagSource(t *testing.T) {
	s, other := newStagSource(), newStagSource()
	seen := make(map[uint32]bool)
	ones := [32]int{}
	const n = 200_000
	same := 0
	for range n {
		v := s.next()
		if v == 0 || seen[v] {
			t.Fatalf("STag %#x came twice", v)
		}
		seen[v] = true
		if v == other.next() {
			same++
		}
		for bit := range ones {
			ones[bit] += int(v >> bit & 1)
		}
	}
	if same > 2 {
		t.Errorf("two sources agree in %d STags", same)
	}
	for bit, k := range ones {
		if k < n/2-n/50 || k > n/2+n/50 {
			t.Errorf("bit %d is set in %d of %d STags", bit, k, n)
		}
	}
	for range 1000 {
		if b := s.base(); b&4095 != 0 || b < 1<<32 || b >= 1<<47 {
			t.Fatalf("base %#x", b)
		}
	}
}

// TestSTagZero checks that the one STag that means nothing is left out.
func TestSTagZero(t *testing.T) {
	s := newStagSource()
	// The cipher is a permutation: exactly one counter value gives 0. Walk the
	// Feistel network backwards to find it.
	l, r := uint16(0), uint16(0)
	for round := byte(3); ; round-- {
		l, r = r^s.round(round, l), l
		if round == 0 {
			break
		}
	}
	s.counter = uint32(l)<<16 | uint32(r)
	if v := s.encrypt(s.counter); v != 0 {
		t.Fatalf("inverted to %#x", v)
	}
	s.counter--
	if v := s.next(); v == 0 {
		t.Error("STag 0")
	}
}

func TestRegionSlice(t *testing.T) {
	r := &region{stag: 7, access: rdma.RemoteWrite, base: 1000, mem: make([]byte, 10)}
	top := &region{stag: 7, access: rdma.RemoteWrite, base: 1<<64 - 10, mem: make([]byte, 10)}
	for _, tc := range []struct {
		r    *region
		stag uint32
		to   uint64
		n    int
		a    rdma.Access
		want accessFault
	}{
		{r, 7, 1000, 10, rdma.RemoteWrite, faultNone},
		{r, 7, 1009, 1, rdma.RemoteWrite, faultNone},
		{r, 7, 1010, 0, rdma.RemoteWrite, faultNone},
		{r, 7, 1011, 0, rdma.RemoteWrite, faultBounds},
		{r, 7, 1010, 1, rdma.RemoteWrite, faultBounds},
		{r, 7, 999, 1, rdma.RemoteWrite, faultBounds},
		{r, 7, 0, 1 << 40, rdma.RemoteWrite, faultBounds},
		{r, 7, 1<<64 - 1, 1, rdma.RemoteWrite, faultWrap},
		{r, 7, 1<<64 - 1, 2, rdma.RemoteWrite, faultWrap},
		{r, 7, 1000, 10, rdma.RemoteRead, faultAccess},
		{r, 8, 1000, 10, rdma.RemoteWrite, faultSTag},
		{r, 0, 1000, 10, rdma.RemoteWrite, faultSTag},
		{top, 7, 1<<64 - 10, 9, rdma.RemoteWrite, faultNone},
		{&region{}, 0, 0, 0, 0, faultSTag},
	} {
		p, got := tc.r.slice(tc.stag, tc.to, tc.n, tc.a)
		if got != tc.want || got == faultNone && len(p) != tc.n {
			t.Errorf("STag %d, %#x+%d: %v", tc.stag, tc.to, tc.n, got)
		}
	}
}

func TestSTagTable(t *testing.T) {
	table := newStagTable()
	mem := make([]byte, 8)
	a, _, _ := table.expose(mem, rdma.RemoteRead)
	b, _, _ := table.expose(mem, rdma.RemoteWrite)
	ra := table.find(a)
	if a == b || ra == nil || table.find(b) == nil || table.len() != 2 {
		t.Fatal("exposed memory is not found")
	}
	if !table.withdraw(a) || table.withdraw(a) || table.find(a) != nil {
		t.Error("withdrawn memory is found")
	}
	// The region object is used again; its old STag must not open it.
	c, base, _ := table.expose(mem, rdma.RemoteRead)
	if table.find(c) != ra {
		t.Error("region was not used again")
	}
	if _, f := ra.slice(a, base, 1, rdma.RemoteRead); f != faultSTag {
		t.Errorf("access with the old STag: %v", f)
	}
	rb := table.find(b)
	table.close()
	if rb.mem != nil || table.len() != 0 {
		t.Error("memory left behind")
	}
	if _, _, ok := table.expose(mem, rdma.RemoteRead); ok {
		t.Error("closed table takes memory")
	}
	if table.find(b) != nil || table.withdraw(b) {
		t.Error("closed table gives memory")
	}
}
