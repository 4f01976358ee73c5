package nfsclient

import (
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
)

func TestReadWrite(t *testing.T) {
	g := newRig(t, nfstest.Options{})
	c := g.client(func(o *Options) { o.RSize, o.WSize = 64<<10, 64<<10 })
	ctx := t.Context()
	f := create(t, c, "f")
	data := pattern(1, 1<<20+17)
	write(t, f, 0, data)
	write(t, f, 5<<20, data[:1]) // behind a hole
	expect(t, f, 0, data)
	expect(t, f, 3, data[3:12])
	expect(t, f, 2<<20, make([]byte, 1<<20))
	for _, n := range []int{0, 1, 2, 3, 5, 4096, 64<<10 + 1} {
		buf, got, eof, err := f.Read(ctx, 5<<20-1, n)
		if err != nil {
			t.Fatal(err)
		}
		if got != min(n, 2) || eof != (n >= 2) && n != 2 {
			t.Errorf("read of %d at 2 bytes before the end: %d, %v", n, got, eof)
		}
		buf.Release()
	}
	if err := f.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	if n := c.Stats().Uncommitted; n != 0 {
		t.Errorf("%d bytes uncommitted after Sync", n)
	}
	if err := f.Close(ctx); err != nil {
		t.Fatal(err)
	}
	dir, _ := c.Root()
	f, _, attrs, err := c.Open(ctx, root, OpenRequest{Dir: dir, Name: "f", Read: true})
	if err != nil || attrs.Size != 5<<20+1 {
		t.Fatalf("open: %v", err)
	}
	expect(t, f, 0, data)
	f2, _, attrs, err := c.Open(ctx, root, OpenRequest{FH: f.FH(), Write: true, Truncate: true})
	if err != nil || attrs.Size != 0 {
		t.Fatalf("open with truncation: %v", err)
	}
	expect(t, f, 0, nil)
	for _, f := range []*File{f, f2} {
		if err := f.Close(ctx); err != nil {
			t.Error(err)
		}
	}
}
