package fusefs

import (
	"testing"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

func TestValidity(t *testing.T) {
	start := time.Now()
	const shortest, longest = 3 * time.Second, 20 * time.Second
	var v validity
	if v.left(start) != 0 {
		t.Error("what was never seen may be used")
	}
	for i, s := range []struct {
		at     time.Duration // when the server was asked
		change uint64
		want   time.Duration // for how long the answer may be used
	}{
		{0, 1, 3 * time.Second},
		{time.Second, 1, 3 * time.Second}, // not run out
		{5 * time.Second, 1, 6 * time.Second},
		{12 * time.Second, 1, 12 * time.Second},
		{30 * time.Second, 1, longest},
		{60 * time.Second, 1, longest},
		{90 * time.Second, 2, shortest},
		{95 * time.Second, 2, 2 * shortest},
	} {
		at := start.Add(s.at)
		v.observe(&nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrChange), Change: s.change}, at, shortest, longest)
		if got := v.left(at); got != s.want {
			t.Errorf("step %d: valid for %v, expected %v", i, got, s.want)
		}
	}
	// An answer that was asked for earlier says nothing new.
	v.observe(&nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrChange), Change: 1}, start.Add(94*time.Second), shortest, longest)
	if got := v.left(start.Add(95 * time.Second)); got != 2*shortest {
		t.Errorf("after an older answer: valid for %v", got)
	}
	// Own changes that are accounted for neither shorten nor end it.
	v.advance(7, start.Add(96*time.Second))
	v.observe(&nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrChange), Change: 7}, start.Add(103*time.Second), shortest, longest)
	if got := v.left(start.Add(103 * time.Second)); got != 4*shortest {
		t.Errorf("after an own change: valid for %v", got)
	}
	// A server without change attributes, and a mount without a cache.
	v.observe(&nfs4.Attrs{}, start.Add(200*time.Second), shortest, longest)
	v.observe(&nfs4.Attrs{}, start.Add(300*time.Second), shortest, longest)
	if got := v.left(start.Add(300 * time.Second)); got != shortest {
		t.Errorf("without change attributes: valid for %v", got)
	}
	v.observe(&nfs4.Attrs{}, start.Add(400*time.Second), 0, 0)
	if got := v.left(start.Add(400 * time.Second)); got != 0 {
		t.Errorf("without a cache: valid for %v", got)
	}
}
