package fusefs

import (
	"context"

	"nfsrdma-fuse/nfsclient"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// backend is what the bridge needs of a client. The methods are those of
// nfsclient.Client, with interfaces in place of its types.
type backend interface {
	Limits() nfsclient.Limits
	Lookup(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name string) (nfs4.FH, *nfs4.Attrs, error)
	GetAttr(ctx context.Context, cred nfsclient.Cred, fh nfs4.FH) (*nfs4.Attrs, error)
	SetAttr(ctx context.Context, cred nfsclient.Cred, fh nfs4.FH, f file, set *nfs4.Attrs) (*nfs4.Attrs, error)
	Access(ctx context.Context, cred nfsclient.Cred, fh nfs4.FH, want uint32) (uint32, error)
	ReadLink(ctx context.Context, cred nfsclient.Cred, fh nfs4.FH) (string, error)
	Mkdir(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name string, set *nfs4.Attrs) (nfs4.FH, *nfs4.Attrs, error)
	Symlink(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name, target string, set *nfs4.Attrs) (nfs4.FH, *nfs4.Attrs, error)
	Mknod(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name string, typ nfs4.FileType, dev nfs4.SpecData, set *nfs4.Attrs) (nfs4.FH, *nfs4.Attrs, error)
	Link(ctx context.Context, cred nfsclient.Cred, fh, dir nfs4.FH, name string) (*nfs4.Attrs, error)
	Remove(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, name string) error
	Rename(ctx context.Context, cred nfsclient.Cred, fromDir nfs4.FH, fromName string, toDir nfs4.FH, toName string) error
	StatFS(ctx context.Context, cred nfsclient.Cred, fh nfs4.FH) (*nfs4.Attrs, error)
	Open(ctx context.Context, cred nfsclient.Cred, r nfsclient.OpenRequest) (file, nfs4.FH, *nfs4.Attrs, error)
	// ReadDir calls each for every entry of one page of a directory; the entry
	// is valid during the call.
	ReadDir(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, cookie uint64, verf nfs4.Verifier, plus bool, n int, each func(*nfsclient.DirEntry)) (newVerf nfs4.Verifier, eof bool, err error)
}

// dirWatcher is a backend that tells how an operation has changed a directory,
// before it returns. A backend need not be one.
type dirWatcher interface {
	WatchDirs(func(dir nfs4.FH, ci nfs4.ChangeInfo, attrs *nfs4.Attrs))
}

// file is an open file of a backend.
type file interface {
	Read(ctx context.Context, off int64, n int) (buf *ulb.Buffer, got int, eof bool, err error)
	// WriteAttrs and SyncAttrs return attributes if they came with the answer.
	WriteAttrs(ctx context.Context, off int64, data []byte) (n int, attrs *nfs4.Attrs, err error)
	SyncAttrs(ctx context.Context) (*nfs4.Attrs, error)
	Close(ctx context.Context) error
}

// client makes a backend of an nfsclient.Client.
type client struct{ *nfsclient.Client }

func (c client) SetAttr(ctx context.Context, cred nfsclient.Cred, fh nfs4.FH, f file, set *nfs4.Attrs) (*nfs4.Attrs, error) {
	open, _ := f.(*nfsclient.File) // nil if there is none
	return c.Client.SetAttr(ctx, cred, fh, open, set)
}

func (c client) Open(ctx context.Context, cred nfsclient.Cred, r nfsclient.OpenRequest) (file, nfs4.FH, *nfs4.Attrs, error) {
	f, fh, attrs, err := c.Client.Open(ctx, cred, r)
	if err != nil {
		return nil, nil, nil, err
	}
	return f, fh, attrs, nil
}

func (c client) OpenDelegated(cred nfsclient.Cred, fh nfs4.FH, read, write bool) file {
	if f := c.Client.OpenDelegated(cred, fh, read, write); f != nil {
		return f
	}
	return nil
}

func (c client) ReadDir(ctx context.Context, cred nfsclient.Cred, dir nfs4.FH, cookie uint64, verf nfs4.Verifier, plus bool, n int, each func(*nfsclient.DirEntry)) (nfs4.Verifier, bool, error) {
	page, err := c.Client.ReadDir(ctx, cred, dir, cookie, verf, plus, n)
	if err != nil {
		return nfs4.Verifier{}, false, err
	}
	defer page.Release()
	var e nfsclient.DirEntry
	for page.Next(&e) {
		each(&e)
	}
	return page.Verf, page.EOF, nil
}
