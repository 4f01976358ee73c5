package nfsclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// object is the Object of an open file.
func (f *File) object() Object { return Object{FH: f.FH(), FSID: f.fsid} }

func sizeOf(t *testing.T, f *File) uint64 {
	t.Helper()
	a, err := f.c.GetAttr(t.Context(), root, f.FH())
	if err != nil {
		t.Fatal(err)
	}
	return a.Size
}

func closeAll(t *testing.T, files ...*File) {
	t.Helper()
	for _, f := range files {
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// sent counts the operations of a kind that the server has seen.
func (g *rig) sent(op nfs4.OpNum) (n int) {
	for _, e := range g.srv.Events(0) {
		for _, o := range e.Ops {
			if o.Op == op {
				n++
			}
		}
	}
	return n
}

func TestSpace(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	ctx := t.Context()
	f := create(t, c, "f")
	defer closeAll(t, f)
	data := pattern(1, 100_000)
	write(t, f, 0, data)
	if err := f.Allocate(ctx, 50_000, 150_000); err != nil || sizeOf(t, f) != 200_000 {
		t.Fatalf("allocate: %v, size %d", err, sizeOf(t, f))
	}
	expect(t, f, 0, append(bytes.Clone(data), make([]byte, 100_000)...))
	if err := f.Deallocate(ctx, 10_001, 20_000); err != nil {
		t.Fatalf("deallocate: %v", err)
	}
	clear(data[10_001:30_001])
	expect(t, f, 0, data)
	if err := f.ZeroRange(ctx, 90_000, 200_000); err != nil || sizeOf(t, f) != 290_000 {
		t.Fatalf("zero range: %v, size %d", err, sizeOf(t, f))
	}
	clear(data[90_000:])
	expect(t, f, 0, data)

	for _, k := range []struct {
		off, n int64
		want   nfs4.Status
	}{{-1, 5, nfs4.ErrInval}, {0, 0, nfs4.ErrInval}, {0, -5, nfs4.ErrInval}, {1<<63 - 5, 10, nfs4.ErrFBig}} {
		for name, do := range map[string]func(context.Context, int64, int64) error{"allocate": f.Allocate, "deallocate": f.Deallocate, "zero": f.ZeroRange} {
			if err := do(ctx, k.off, k.n); !errors.Is(err, k.want) {
				t.Errorf("%s of %d at %d: %v, want %v", name, k.n, k.off, err, k.want)
			}
		}
	}
	ro, _, _, err := c.Open(ctx, root, OpenRequest{FH: f.FH(), Read: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, ro)
	if err := ro.Deallocate(ctx, 0, 10); Errno(err) != 9 {
		t.Errorf("through a file open for reading: %v", err)
	}
}

// What was punched or copied over stays so when the server loses what had been
// written there before and it is written again.
func TestSpaceAndRestart(t *testing.T) {
	for _, unsynced := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nfstest.Options{Unsupported: []nfs4.OpNum{nfs4.OpClone}})
			c := g.client()
			ctx := t.Context()
			f, src := create(t, c, "f"), create(t, c, "src")
			data, other := pattern(1, 300_000), pattern(2, 50_000)
			write(t, src, 0, other)
			if !unsynced {
				if err := src.Sync(ctx); err != nil {
					t.Fatal(err)
				}
			}
			write(t, f, 0, data)
			if err := f.Deallocate(ctx, 10_000, 20_000); err != nil {
				t.Fatal(err)
			}
			clear(data[10_000:30_000])
			if n, err := f.CopyFrom(ctx, 100_000, src, 0, 50_000); err != nil || n != 50_000 {
				t.Fatalf("copy: %d, %v", n, err)
			}
			copy(data[100_000:], other)
			write(t, f, 100_010, []byte("later"))
			copy(data[100_010:], "later")
			if err := g.srv.Restart(nfstest.RestartOptions{NoGrace: true}); err != nil {
				t.Fatal(err)
			}
			if err := f.Sync(ctx); err != nil {
				t.Fatal(err)
			}
			expect(t, f, 0, data)
			expect(t, src, 0, other)
			if c.Stats().Rewritten == 0 {
				t.Error("nothing was written again: the test shows nothing")
			}
			closeAll(t, f, src)
		})
	}
}

func TestSeek(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	ctx := t.Context()
	f := create(t, c, "f")
	wo, _, _, err := c.Open(ctx, root, OpenRequest{FH: f.FH(), Write: true})
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, f, wo)
	write(t, f, 1<<20, make([]byte, 64<<10))
	write(t, f, 4<<20, []byte("x"))
	const end = 4<<20 + 1
	for _, k := range []struct {
		off  int64
		hole bool
		want int64 // -1: there is none
	}{
		{0, false, 1 << 20}, {0, true, 0}, {1 << 20, false, 1 << 20}, {1<<20 + 5, false, 1<<20 + 5},
		{1 << 20, true, 1<<20 + 64<<10}, {2 << 20, false, 4 << 20}, {4 << 20, true, end}, {end, false, -1},
		{end, true, -1}, {1 << 40, true, -1}, {-1, true, -1},
	} {
		for _, f := range []*File{f, wo} {
			at, err := f.Seek(ctx, k.off, k.hole)
			if k.want < 0 && !errors.Is(err, nfs4.ErrNXIO) || k.want >= 0 && (err != nil || at != k.want) {
				t.Errorf("hole %v from %d: %d, %v; want %d", k.hole, k.off, at, err, k.want)
			}
		}
	}
	// The other way in which a server may say that there is no more data.
	remove := g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
		return nfstest.Verdict{Edit: func(res nfs4.Res) {
			if r, ok := res.(*nfs4.SeekRes); ok {
				r.EOF, r.Offset = true, 0
			}
		}}
	})
	if at, err := f.Seek(ctx, 0, false); !errors.Is(err, nfs4.ErrNXIO) {
		t.Errorf("end of file instead of data: %d, %v", at, err)
	}
	if at, err := f.Seek(ctx, 5, true); !errors.Is(err, ErrProtocol) {
		t.Errorf("an offset before the one asked for: %d, %v", at, err)
	}
	remove()
}

func TestCopyFrom(t *testing.T) {
	for name, without := range map[string][]nfs4.OpNum{"clone": nil, "copy": {nfs4.OpClone}} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nfstest.Options{Unsupported: without})
			c := g.client()
			ctx := t.Context()
			src, f := create(t, c, "src"), create(t, c, "f")
			defer closeAll(t, src, f)
			data := pattern(1, 200_000)
			write(t, src, 0, data)
			want := make([]byte, 0)
			for _, k := range []struct{ off, srcOff, n, copied int64 }{
				{0, 0, 200_000, 200_000}, {4096, 8192, 4096, 4096}, {3, 5, 1000, 1000},
				{300_000, 199_990, 1000, 10}, {500_000, 200_000, 1000, 0}, {0, 300_000, 1, 0}, {0, 0, 0, 0},
			} {
				n, err := f.CopyFrom(ctx, k.off, src, k.srcOff, k.n)
				if err != nil || n != k.copied {
					t.Fatalf("%+v: %d, %v", k, n, err)
				}
				if n > 0 {
					want = append(want, make([]byte, max(0, int(k.off+n)-len(want)))...)
					copy(want[k.off:], data[k.srcOff:k.srcOff+n])
				}
			}
			expect(t, f, 0, want)
			if clones := g.sent(nfs4.OpClone); (clones > 1) != (name == "clone") || name == "copy" && clones != 1 {
				t.Errorf("%d CLONEs", clones)
			}
			if g.sent(nfs4.OpCopy) == 0 {
				t.Error("no COPY, although CLONE cannot do it all")
			}
			wo, _, _, err := c.Open(ctx, root, OpenRequest{FH: src.FH(), Write: true})
			if err != nil {
				t.Fatal(err)
			}
			defer closeAll(t, wo)
			for what, k := range map[string]struct {
				dst, src       *File
				off, srcOff, n int64
				want           error
			}{
				"overlap":           {f, f, 10, 0, 11, nfs4.ErrInval},
				"one file":          {f, f, 10, 0, 10, nfs4.ErrNotSupp},
				"not readable":      {f, wo, 0, 0, 1, nil},
				"negative":          {f, src, -1, 0, 1, nfs4.ErrInval},
				"too far":           {f, src, 1<<63 - 2, 0, 10, nfs4.ErrFBig},
				"far in the source": {f, src, 0, 1<<63 - 2, 10, nfs4.ErrFBig},
			} {
				n, err := k.dst.CopyFrom(ctx, k.off, k.src, k.srcOff, k.n)
				if n != 0 || err == nil || k.want != nil && !errors.Is(err, k.want) {
					t.Errorf("%s: %d, %v", what, n, err)
				}
			}
			if _, err := f.CopyFrom(ctx, 0, wo, 0, 1); Errno(err) != 9 {
				t.Errorf("from a file that is not open for reading: %v", err)
			}
		})
	}
}

// edit installs a hook that changes results of one kind; n of them.
func edit[R nfs4.Res](g *rig, n int, change func(R)) {
	g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
		var r R
		if op.Args.Op() != r.Op() || n == 0 {
			return nfstest.Verdict{}
		}
		n--
		return nfstest.Verdict{Edit: func(res nfs4.Res) { change(res.(R)) }}
	})
}

// Copies that the server makes in small steps, and whose data is not stable
// until a COMMIT says so.
func TestCopyUnstable(t *testing.T) {
	g := newRig(t, nfstest.Options{Unsupported: []nfs4.OpNum{nfs4.OpClone}})
	c := g.client()
	src, f := create(t, c, "src"), create(t, c, "f")
	defer closeAll(t, src, f)
	data := pattern(1, 100_000)
	write(t, src, 0, data)
	g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
		if a, ok := op.Args.(*nfs4.CopyArgs); ok {
			if !a.Synchronous {
				t.Error("asynchronous COPY")
			}
			a.Count = min(a.Count, 30_000)
			return nfstest.Verdict{Edit: func(res nfs4.Res) { res.(*nfs4.CopyRes).Response.Committed = nfs4.Unstable }}
		}
		return nfstest.Verdict{}
	})
	copyAll := func(copies, commits int) {
		t.Helper()
		copies += g.sent(nfs4.OpCopy)
		commits += g.sent(nfs4.OpCommit)
		if n, err := f.CopyFrom(t.Context(), 7, src, 0, int64(len(data))); err != nil || n != int64(len(data)) {
			t.Fatalf("%d, %v", n, err)
		}
		expect(t, f, 7, data)
		if n := g.sent(nfs4.OpCopy); n != copies {
			t.Errorf("%d COPYs, want %d", n, copies)
		}
		if n := g.sent(nfs4.OpCommit); n != commits {
			t.Errorf("%d COMMITs, want %d", n, commits)
		}
	}
	copyAll(4, 1)
	edit(g, 1, func(r *nfs4.CommitRes) { r.Verf[0]++ })
	copyAll(8, 2)
	edit(g, maxCopyTries, func(r *nfs4.CommitRes) { r.Verf[0]++ })
	if n, err := f.CopyFrom(t.Context(), 7, src, 0, 10); !errors.Is(err, nfs4.ErrIO) {
		t.Errorf("a server whose verifier never stays: %d, %v", n, err)
	}
	g.srv.FailNext(nfs4.OpCommit, nfs4.ErrNoSpc, 1)
	if n, err := f.CopyFrom(t.Context(), 7, src, 0, 10); !errors.Is(err, nfs4.ErrNoSpc) {
		t.Errorf("a COMMIT that fails: %d, %v", n, err)
	}
}

// The verifier changes in the middle of a copy of several steps.
func TestCopyRestartBetween(t *testing.T) {
	g := newRig(t, nfstest.Options{Unsupported: []nfs4.OpNum{nfs4.OpClone}})
	c := g.client()
	src, f := create(t, c, "src"), create(t, c, "f")
	defer closeAll(t, src, f)
	data := pattern(1, 50_000)
	write(t, src, 0, data)
	step := 0
	removeFirst := g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
		a, ok := op.Args.(*nfs4.CopyArgs)
		if !ok {
			return nfstest.Verdict{}
		}
		step++
		first := step == 1
		a.Count = min(a.Count, 20_000)
		return nfstest.Verdict{Edit: func(res nfs4.Res) {
			r := &res.(*nfs4.CopyRes).Response
			r.Committed = nfs4.Unstable
			if first {
				r.Verf[0]++ // the server was another one then
			}
		}}
	})
	if n, err := f.CopyFrom(t.Context(), 0, src, 0, 50_000); err != nil || n != 50_000 {
		t.Fatalf("%d, %v", n, err)
	}
	expect(t, f, 0, data)
	if step != 5 {
		t.Errorf("%d steps, want 1 lost, 1 that showed it, 3", step)
	}
	// One that is another at every step cannot be relied on.
	removeFirst()
	g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
		a, ok := op.Args.(*nfs4.CopyArgs)
		if !ok {
			return nfstest.Verdict{}
		}
		a.Count = min(a.Count, 20_000)
		step++
		return nfstest.Verdict{Edit: func(res nfs4.Res) {
			r := &res.(*nfs4.CopyRes).Response
			r.Committed, r.Verf[1] = nfs4.Unstable, byte(step)
		}}
	})
	commits := g.sent(nfs4.OpCommit)
	if n, err := f.CopyFrom(t.Context(), 0, src, 0, 50_000); !errors.Is(err, nfs4.ErrIO) {
		t.Errorf("a verifier that is never the same: %d, %v", n, err)
	}
	if step != 5+2*maxCopyTries || g.sent(nfs4.OpCommit) != commits {
		t.Errorf("%d steps, %d COMMITs", step, g.sent(nfs4.OpCommit)-commits)
	}
}

// A server that cannot copy while we wait is not asked again; one that refuses a
// copy for now is.
func TestCopyRefused(t *testing.T) {
	for name, k := range map[string]struct {
		set  func(g *rig)
		asks int // COPYs for two attempts
	}{
		"no synchronous copies": {func(g *rig) { g.srv.FailNext(nfs4.OpCopy, nfs4.ErrOffloadNoReqs, 1) }, 1},
		"not now":               {func(g *rig) { g.srv.FailNext(nfs4.OpCopy, nfs4.ErrOffloadDenied, 2) }, 2},
		"not supported":         {func(g *rig) { g.srv.FailNext(nfs4.OpCopy, nfs4.ErrNotSupp, 1) }, 1},
		"illegal":               {func(g *rig) { g.srv.FailNext(nfs4.OpCopy, nfs4.ErrOpIllegal, 1) }, 1},
		"in the background": {func(g *rig) {
			edit(g, 1, func(r *nfs4.CopyRes) { r.Response.Async = true })
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nfstest.Options{Unsupported: []nfs4.OpNum{nfs4.OpClone}})
			c := g.client()
			src, f := create(t, c, "src"), create(t, c, "f")
			defer closeAll(t, src, f)
			write(t, src, 0, pattern(1, 1000))
			k.set(g)
			for range 2 {
				if n, err := f.CopyFrom(t.Context(), 0, src, 0, 1000); Errno(err) != 95 || n != 0 {
					t.Errorf("%d, %v", n, err)
				}
			}
			if n := g.sent(nfs4.OpCopy); n != k.asks {
				t.Errorf("%d COPYs, want %d", n, k.asks)
			}
			if n := g.sent(nfs4.OpOffloadCancel); (n == 1) != (name == "in the background") {
				t.Errorf("%d OFFLOAD_CANCELs", n)
			}
			if got := c.Never(FeatureCopy); got != (name == "illegal") {
				t.Errorf("never: %v", got)
			}
		})
	}
}

func TestCopyAcrossFileSystems(t *testing.T) {
	g := newRig(t, nfstest.Options{Exports: []nfstest.Export{{Path: "/"}, {Path: "/other"}}})
	c := g.client()
	if err := g.srv.WriteFile("/other/f", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	fh, _, err := c.Walk(t.Context(), root, "/other/f")
	if err != nil {
		t.Fatal(err)
	}
	f, _, _, err := c.Open(t.Context(), root, OpenRequest{FH: fh, Read: true, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	src := create(t, c, "src")
	defer closeAll(t, src, f)
	write(t, src, 0, []byte("x"))
	if n, err := f.CopyFrom(t.Context(), 0, src, 0, 1); Errno(err) != 18 || n != 0 {
		t.Errorf("%d, %v", n, err)
	}
}

// A stateid that the server does not take is replaced, and of two the right one.
func TestStatefulRetry(t *testing.T) {
	for _, op := range []nfs4.OpNum{nfs4.OpAllocate, nfs4.OpDeallocate, nfs4.OpSeek, nfs4.OpCopy, nfs4.OpClone} {
		t.Run(op.String(), func(t *testing.T) {
			g := newRig(t, nfstest.Options{Delegations: nfstest.DelegateNever})
			c := g.client()
			src, f := create(t, c, "src"), create(t, c, "f")
			defer closeAll(t, src, f)
			write(t, src, 0, pattern(1, 10_000))
			write(t, f, 0, pattern(2, 100))
			for _, status := range []nfs4.Status{nfs4.ErrBadStateID, nfs4.ErrExpired, nfs4.ErrOldStateID} {
				g.srv.FailNext(op, status, 1)
				if op == nfs4.OpCopy {
					g.srv.FailNext(nfs4.OpClone, nfs4.ErrInval, 1)
				}
				var err error
				switch op {
				case nfs4.OpAllocate:
					err = f.Allocate(t.Context(), 0, 10)
				case nfs4.OpDeallocate:
					err = f.Deallocate(t.Context(), 0, 10)
				case nfs4.OpSeek:
					_, err = f.Seek(t.Context(), 0, false)
				default:
					_, err = f.CopyFrom(t.Context(), 0, src, 0, 10_000)
				}
				if err != nil {
					t.Errorf("%v: %v", status, err)
				}
			}
		})
	}
}

// A connection that is lost behind one of these operations changes nothing.
func TestFeaturesConnectionCut(t *testing.T) {
	for _, op := range []nfs4.OpNum{nfs4.OpAllocate, nfs4.OpDeallocate, nfs4.OpSeek, nfs4.OpCopy, nfs4.OpClone,
		nfs4.OpSetXattr, nfs4.OpGetXattr, nfs4.OpListXattrs, nfs4.OpRemoveXattr} {
		t.Run(op.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nfstest.Options{})
				c := g.client()
				ctx := t.Context()
				src, f := create(t, c, "src"), create(t, c, "f")
				data := pattern(1, 10_000)
				write(t, src, 0, data)
				g.srv.CutNext(op, 1)
				check := func(err error) {
					t.Helper()
					if err != nil {
						t.Error(err)
					}
				}
				check(f.Allocate(ctx, 0, 10_000))
				_, err := f.CopyFrom(ctx, 0, src, 0, 10_000)
				check(err)
				_, err = f.CopyFrom(ctx, 1, src, 1, 5000)
				check(err)
				check(f.Deallocate(ctx, 1000, 1000))
				_, err = f.Seek(ctx, 0, true)
				check(err)
				o := f.object()
				check(c.SetXattr(ctx, root, o, "a", []byte("1"), nfs4.SetXattrCreate))
				if v, err := c.GetXattr(ctx, root, o, "a"); err != nil || string(v) != "1" {
					t.Errorf("%q, %v", v, err)
				}
				_, err = c.ListXattrs(ctx, root, o)
				check(err)
				check(c.RemoveXattr(ctx, root, o, "a"))
				clear(data[1000:2000])
				expect(t, f, 0, data)
				closeAll(t, src, f)
				if c.Stats().Resends == 0 {
					t.Error("nothing was sent again")
				}
			})
		})
	}
}

// What the server does not offer it is asked for once, or, of minor version 1,
// not at all.
func TestFeaturesAskedOnce(t *testing.T) {
	ops := []nfs4.OpNum{nfs4.OpAllocate, nfs4.OpDeallocate, nfs4.OpSeek, nfs4.OpCopy, nfs4.OpClone}
	xattrOps := []nfs4.OpNum{nfs4.OpGetXattr, nfs4.OpSetXattr, nfs4.OpListXattrs, nfs4.OpRemoveXattr}
	for _, minor := range []uint32{1, 2} {
		t.Run(fmt.Sprint(minor), func(t *testing.T) {
			g := newRig(t, nfstest.Options{Unsupported: ops, NoXattrs: true, NoACLs: true})
			c := g.client(func(o *Options) { o.MinorVersion = minor })
			ctx := t.Context()
			src, f := create(t, c, "src"), create(t, c, "f")
			defer closeAll(t, src, f)
			write(t, src, 0, pattern(1, 10_000))
			o := f.object()
			for range 3 {
				_, seek := f.Seek(ctx, 0, true)
				_, cp := f.CopyFrom(ctx, 0, src, 0, 1000)
				_, get := c.GetXattr(ctx, root, o, "a")
				_, list := c.ListXattrs(ctx, root, o)
				_, acl := c.GetACL(ctx, root, o)
				_, setACL := c.SetACL(ctx, root, o, nil)
				for what, err := range map[string]error{
					"allocate": f.Allocate(ctx, 0, 10), "deallocate": f.Deallocate(ctx, 0, 10), "zero": f.ZeroRange(ctx, 0, 10),
					"seek": seek, "copy": cp, "getxattr": get, "listxattr": list, "get ACL": acl, "set ACL": setACL,
					"setxattr":    c.SetXattr(ctx, root, o, "a", nil, nfs4.SetXattrEither),
					"removexattr": c.RemoveXattr(ctx, root, o, "a"),
				} {
					if Errno(err) != 95 {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			want := int(minor) - 1
			for _, op := range ops {
				if n := g.sent(op); n != want {
					t.Errorf("%v asked %d times, want %d", op, n, want)
				}
			}
			for _, op := range xattrOps {
				if n := g.sent(op); n != 0 {
					t.Errorf("%v asked %d times, although attributes tell", op, n)
				}
			}
			if got := c.Never(FeatureSeek); got != (minor == 1) {
				t.Errorf("never: %v", got)
			}
			if c.Never(FeatureACL) {
				t.Error("minor version 1 has ACLs")
			}
		})
	}
}

func TestXattrs(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	ctx := t.Context()
	f := create(t, c, "f")
	defer closeAll(t, f)
	dirFH, dirAttrs := c.Root()
	for _, o := range []Object{f.object(), {FH: dirFH, FSID: dirAttrs.FSID}} {
		if names, err := c.ListXattrs(ctx, root, o); err != nil || len(names) != 0 {
			t.Fatalf("%q, %v", names, err)
		}
		for _, n := range []int{0, 1, 255, 4095, 64 << 10} {
			v := pattern(uint64(n), n)
			if err := c.SetXattr(ctx, root, o, "v", v, nfs4.SetXattrEither); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if got, err := c.GetXattr(ctx, root, o, "v"); err != nil || !bytes.Equal(got, v) {
				t.Fatalf("%d bytes: got %d, %v", n, len(got), err)
			}
		}
		for what, k := range map[string]struct {
			err  error
			want nfs4.Status
		}{
			"too big":      {c.SetXattr(ctx, root, o, "v", make([]byte, 64<<10+1), nfs4.SetXattrEither), nfs4.ErrXattr2Big},
			"there":        {c.SetXattr(ctx, root, o, "v", nil, nfs4.SetXattrCreate), nfs4.ErrExist},
			"not there":    {c.SetXattr(ctx, root, o, "w", nil, nfs4.SetXattrReplace), nfs4.ErrNoXattr},
			"remove none":  {c.RemoveXattr(ctx, root, o, "w"), nfs4.ErrNoXattr},
			"without name": {c.SetXattr(ctx, root, o, "", nil, nfs4.SetXattrEither), nfs4.ErrInval},
		} {
			if !errors.Is(k.err, k.want) {
				t.Errorf("%s: %v, want %v", what, k.err, k.want)
			}
		}
		want := []string{"v"}
		for i := range 300 {
			name := fmt.Sprintf("name-%03d", i)
			want = append(want, name)
			if err := c.SetXattr(ctx, root, o, name, []byte{0, byte(i)}, nfs4.SetXattrCreate); err != nil {
				t.Fatal(err)
			}
		}
		// In several replies.
		remove := g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
			if a, ok := op.Args.(*nfs4.ListXattrsArgs); ok {
				a.MaxCount = 300
			}
			return nfstest.Verdict{}
		})
		names, err := c.ListXattrs(ctx, root, o)
		remove()
		slices.Sort(names)
		slices.Sort(want)
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%d names, %v", len(names), err)
		}
		for _, name := range want {
			if err := c.RemoveXattr(ctx, root, o, name); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Lists that do not end, or are longer than anybody can use.
func TestXattrListBounds(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	f := create(t, c, "f")
	defer closeAll(t, f)
	edit(g, 1, func(r *nfs4.ListXattrsRes) { r.EOF = false })
	if names, err := c.ListXattrs(t.Context(), root, f.object()); !errors.Is(err, ErrProtocol) {
		t.Errorf("no end: %d names, %v", len(names), err)
	}
	remove := g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
		if a, ok := op.Args.(*nfs4.ListXattrsArgs); ok {
			a.Cookie = 0
			return nfstest.Verdict{Edit: func(res nfs4.Res) {
				r := res.(*nfs4.ListXattrsRes)
				r.EOF = false
				r.Names = []nfs4.Component{nfs4.Component(bytes.Repeat([]byte("n"), 255))}
			}}
		}
		return nfstest.Verdict{}
	})
	if names, err := c.ListXattrs(t.Context(), root, f.object()); !errors.Is(err, nfs4.ErrXattr2Big) {
		t.Errorf("a list that goes on: %d names, %v", len(names), err)
	}
	remove()
}

func TestACL(t *testing.T) {
	for _, minor := range []uint32{1, 2} {
		g := newRig(t, nfstest.Options{})
		c := g.client(func(o *Options) { o.MinorVersion = minor })
		f := create(t, c, "f")
		acl, err := c.GetACL(t.Context(), root, f.object())
		if err != nil || len(acl) < 3 {
			t.Fatalf("%v, %v", acl, err)
		}
		acl = []nfs4.ACE{
			{Type: nfs4.ACEAllow, Mask: nfs4.ACEReadData | nfs4.ACEWriteData | nfs4.ACEAppendData, Who: "OWNER@"},
			{Type: nfs4.ACEAllow, Flag: nfs4.ACEIdentifierGroup, Mask: nfs4.ACEReadData, Who: "1234"},
			{Type: nfs4.ACEAllow, Mask: nfs4.ACEExecute, Who: "EVERYONE@"},
		}
		attrs, err := c.SetACL(t.Context(), root, f.object(), acl)
		if err != nil || attrs.Mode&0o777 != 0o711 {
			t.Fatalf("%v, %v", attrs, err)
		}
		if got, err := c.GetACL(t.Context(), root, f.object()); err != nil || !reflect.DeepEqual(got, acl) {
			t.Errorf("%v, %v", got, err)
		}
		closeAll(t, f)
	}
}

func TestLabel(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client()
	f := create(t, c, "f")
	defer closeAll(t, f)
	label := []byte("system_u:object_r:etc_t:s0\x00")
	if _, err := c.SetLabel(t.Context(), root, f.object(), label); err != nil {
		t.Fatal(err)
	}
	if got, err := c.GetLabel(t.Context(), root, f.object()); err != nil || !bytes.Equal(got, label) {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.SetLabel(t.Context(), root, f.object(), make([]byte, nfs4.MaxLabel+1)); !errors.Is(err, nfs4.ErrBadLabel) {
		t.Errorf("too long: %v", err)
	}
	old := g.client(func(o *Options) { o.MinorVersion = 1; o.Unique = "old" })
	if _, err := old.GetLabel(t.Context(), root, f.object()); Errno(err) != 95 {
		t.Errorf("of minor version 1: %v", err)
	}
}
