package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// Two clients append by turns, each with no idea of what the other does.
func TestAppend(t *testing.T) {
	g := newRig(t, nfstest.Options{Delegations: nfstest.DelegateNever})
	a := g.client(func(o *Options) { o.WSize = 8192 })
	b := g.client(func(o *Options) { o.Unique = "b" })
	ctx := t.Context()
	f := create(t, a, "f")
	h, _, _, err := b.Open(ctx, root, OpenRequest{FH: f.FH(), Write: true})
	if err != nil {
		t.Fatal(err)
	}
	var want []byte
	ends := map[*File]int64{} // where each believes the file to end
	for i := range 20 {
		w := f
		if i%3 == 2 {
			w = h
		}
		line := pattern(uint64(i), 1+i*3000)
		at, n, _, err := w.Append(ctx, ends[w], line)
		if err != nil || n != len(line) || at != int64(len(want)) {
			t.Fatalf("append %d: %d bytes at %d, %v; expected %d at %d", i, n, at, err, len(line), len(want))
		}
		want = append(want, line...)
		ends[w] = at + int64(n)
	}
	expect(t, f, 0, want)
	// A file that has become shorter.
	if _, err := a.SetAttr(ctx, root, f.FH(), f, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSize), Size: 10}); err != nil {
		t.Fatal(err)
	}
	if at, n, _, err := h.Append(ctx, ends[h], []byte("more")); at != 10 || n != 4 || err != nil {
		t.Errorf("append to a file that was cut: %d at %d, %v", n, at, err)
	}
	expect(t, f, 0, append(want[:10:10], "more"...))
	if _, _, _, err := f.Append(ctx, 1<<40, []byte("x")); err != nil {
		t.Errorf("from a wrong place far away: %v", err)
	}
	g.srv.FailNext(nfs4.OpWrite, nfs4.ErrNoSpc, 1)
	if _, n, _, err := f.Append(ctx, 0, []byte("x")); n != 0 || !errors.Is(err, nfs4.ErrNoSpc) {
		t.Errorf("%d, %v", n, err)
	}
	closeAll(t, f, h)
}

// However many append, an append ends: in the end without the condition.
func TestAppendGivesUp(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	f := create(t, c, "f")
	g.srv.FailNext(nfs4.OpVerify, nfs4.ErrNotSame, 1000)
	if at, n, _, err := f.Append(t.Context(), 5, []byte("data")); at != 0 || n != 4 || err != nil {
		t.Errorf("%d at %d, %v", n, at, err)
	}
	if n := g.sent(nfs4.OpVerify); n != maxAppendTries-1 {
		t.Errorf("%d tries", n)
	}
	closeAll(t, f)
}

// An append that was carried out and whose answer was lost, with the connection
// or with the session, is there once.
func TestAppendOnce(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nfstest.Options{})
			c := g.client()
			f := create(t, c, "f")
			write(t, f, 0, []byte("head "))
			var once sync.Once
			g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				cut := false
				if op.Args.Op() == nfs4.OpWrite {
					once.Do(func() { cut = true })
				}
				return nfstest.Verdict{Cut: cut}
			})
			if restart {
				g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
					if op.Args.Op() == nfs4.OpBindConnToSession {
						return nfstest.Verdict{Status: nfs4.ErrBadSession}
					}
					return nfstest.Verdict{}
				})
			}
			at, n, _, err := f.Append(t.Context(), 5, []byte("tail"))
			if at != 5 || n != 4 || err != nil {
				t.Errorf("%d at %d, %v", n, at, err)
			}
			expect(t, f, 0, []byte("head tail"))
			if a, err := c.GetAttr(t.Context(), root, f.FH()); err != nil || a.Size != 9 {
				t.Errorf("size %d, %v", a.Size, err)
			}
			if s := c.Stats(); (s.SessionsLost > 0) != restart {
				t.Errorf("%+v", s)
			}
			closeAll(t, f)
			g.unclean = restart // sessions that the server was lied to about
		})
	}
}

// Many clients append at once; with the server's check just before each write,
// whole lines are all there are, and none is cut.
func TestAppendRace(t *testing.T) {
	g := newRig(t, nfstest.Options{Delegations: nfstest.DelegateNever})
	f := create(t, g.client(), "f")
	const clients, lines, length = 4, 50, 32
	var wg sync.WaitGroup
	for i := range clients {
		c := g.client(func(o *Options) { o.Unique = fmt.Sprint("c", i) })
		h, _, _, err := c.Open(t.Context(), root, OpenRequest{FH: f.FH(), Write: true})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			end := int64(0)
			for j := range lines {
				line := bytes.Repeat([]byte{byte('a' + i)}, length)
				copy(line, fmt.Sprintf("%d.%02d ", i, j))
				at, n, _, err := h.Append(t.Context(), end, line)
				if err != nil || n != length || at%length != 0 {
					t.Errorf("%d at %d, %v", n, at, err)
				}
				end = at + length
			}
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	a, err := f.c.GetAttr(t.Context(), root, f.FH())
	if err != nil || a.Size%length != 0 || a.Size == 0 || a.Size > clients*lines*length {
		t.Errorf("size %d, %v", a.Size, err)
	}
	t.Logf("%d lines of %d", a.Size/length, clients*lines)
	closeAll(t, f)
}
