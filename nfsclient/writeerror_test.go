package nfsclient

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// openAgain opens a file once more.
func openAgain(t *testing.T, f *File) *File {
	t.Helper()
	g, _, _, err := f.c.Open(t.Context(), root, OpenRequest{FH: f.FH(), Read: true, Write: true})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Data that could not be brought to stable storage is an error once for each
// file that was open at the time, at its next Sync or Close, and for no other.
func TestWriteErrorReachesEveryOpenOnce(t *testing.T) {
	lose := map[string]func(t *testing.T, g *rig, c *Client, f *File) (told *File){
		"COMMIT fails": func(t *testing.T, g *rig, c *Client, f *File) *File {
			g.srv.FailNext(nfs4.OpCommit, nfs4.ErrNoSpc, 1)
			if err := f.Sync(t.Context()); !errors.Is(err, nfs4.ErrNoSpc) {
				t.Errorf("sync: %v", err)
			}
			return f
		},
		"writing again fails": func(t *testing.T, g *rig, c *Client, f *File) *File {
			g.srv.ChangeWriteVerifier(true)
			g.srv.FailNext(nfs4.OpWrite, nfs4.ErrNoSpc, 1)
			if err := f.Sync(t.Context()); !errors.Is(err, nfs4.ErrNoSpc) {
				t.Errorf("sync: %v", err)
			}
			return f
		},
		"committed for another file's sake": func(t *testing.T, g *rig, c *Client, f *File) *File {
			g.srv.FailNext(nfs4.OpCommit, nfs4.ErrNoSpc, 1)
			other := create(t, c, "other")
			write(t, other, 0, make([]byte, 1<<20))
			closeAll(t, other)
			return nil
		},
	}
	for name, fail := range lose {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nfstest.Options{})
			c := g.client(func(o *Options) { o.MaxUncommitted = 1 << 20 })
			ctx := t.Context()
			f := create(t, c, "f")
			files := []*File{f, openAgain(t, f), openAgain(t, f), openAgain(t, f)}
			write(t, f, 0, make([]byte, 500_000))
			told := fail(t, g, c, f)
			if s := c.Stats(); s.Uncommitted != 0 {
				t.Errorf("%d bytes held that are lost", s.Uncommitted)
			}
			late := openAgain(t, f)
			if err := late.Sync(ctx); err != nil {
				t.Errorf("file opened afterwards: %v", err)
			}
			for i, f := range files[:3] {
				want := nfs4.ErrNoSpc
				if f == told {
					want = nfs4.OK
				}
				tell := f.Sync
				if i == 2 {
					tell = func(context.Context) error { return f.Failure() }
				}
				err := tell(ctx)
				if status, _ := statusOf(err); status != want {
					t.Errorf("file %d: %v, want %v", i, err, want)
				}
				if err := f.Sync(ctx); err != nil {
					t.Errorf("file %d, told already: %v", i, err)
				}
			}
			if err := files[3].Close(ctx); !errors.Is(err, nfs4.ErrNoSpc) {
				t.Errorf("close: %v", err)
			}
			write(t, late, 0, []byte("x")) // for a COMMIT that succeeds
			closeAll(t, append(files[:3], late)...)
		})
	}
}

// A WRITE that the server refuses fails at once, with what went before it
// counted.
func TestWriteRefused(t *testing.T) {
	for _, status := range []nfs4.Status{nfs4.ErrNoSpc, nfs4.ErrDQuot, nfs4.ErrFBig, nfs4.ErrROFS, nfs4.ErrIO, nfs4.ErrAccess, nfs4.ErrStale} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nfstest.Options{})
			c := g.client(func(o *Options) { o.WSize = 64 << 10 })
			f := create(t, c, "f")
			data := pattern(1, 256<<10)
			g.srv.Hook(func(_ context.Context, op *nfstest.Op) nfstest.Verdict {
				if a, ok := op.Args.(*nfs4.WriteArgs); ok && a.Offset == 128<<10 {
					return nfstest.Verdict{Status: status}
				}
				return nfstest.Verdict{}
			})
			n, err := f.Write(t.Context(), 0, data)
			if n != 128<<10 || !errors.Is(err, status) {
				t.Errorf("%v: %d written, %v", status, n, err)
			}
			if err := f.Sync(t.Context()); err != nil {
				t.Errorf("%v: sync of what was written: %v", status, err)
			}
			expect(t, f, 0, data[:128<<10])
			if n, err := f.Write(t.Context(), 128<<10, data[:1000]); n != 0 || !errors.Is(err, status) {
				t.Errorf("%v: %d written, %v", status, n, err)
			}
			closeAll(t, f)
		})
	}
}
