package nfsclient

import (
	"context"
	"errors"
	"syscall"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

var errPending = errors.New("nfsclient: not in this revision")

// FH is a filehandle. Those that this package returns are the caller's.
type FH = nfs4.FH

// Cred says on whose behalf an operation is done (AUTH_SYS).
type Cred struct {
	UID, GID uint32
	// Groups are the supplementary groups. AUTH_SYS carries 16; the first 16
	// are sent.
	Groups []uint32
}

// Client is a client of one server. It is safe for concurrent use.
type Client struct{}

// New connects to a server, becomes its client (EXCHANGE_ID, CREATE_SESSION,
// RECLAIM_COMPLETE) and looks at the root of its name space. ctx bounds New
// only.
func New(ctx context.Context, o Options) (*Client, error) { return nil, errPending }

// Close commits and closes what is open, returns delegations, destroys session and
// client id and closes the connection. It does as much of that as ctx leaves
// time for; the connection is closed in any case. No other method may be in
// progress or be called afterwards.
func (c *Client) Close(ctx context.Context) error { return errPending }

// Limits are what server, session and transport have agreed on.
type Limits struct {
	MinorVersion uint32        // NFSv4 minor version in use
	RSize, WSize int           // largest READ and WRITE, bytes
	Slots        int           // requests outstanding at once
	Lease        time.Duration // lease time of the server
	MaxName      int           // bytes of a name, 0 if unknown
	MaxLink      int           // links of an object, 0 if unknown
	MaxFileSize  uint64        // bytes, 0 if unknown
	Supported    nfs4.Bitmap   // attributes that the server supports
}

// Limits returns what is in force.
func (c *Client) Limits() Limits { return Limits{} }

// Root returns the root of the server's name space (the pseudo root) and the attributes
// it had when the client was made.
func (c *Client) Root() (FH, *nfs4.Attrs) { return nil, nil }

// Walk looks up a path of names separated by slashes, from the root of the
// server's name space. Empty names and "." are skipped, ".." is not
// understood, and symbolic links are not followed.
func (c *Client) Walk(ctx context.Context, cred Cred, path string) (FH, *nfs4.Attrs, error) {
	return nil, nil, errPending
}

// Lookup finds an entry of a directory.
func (c *Client) Lookup(ctx context.Context, cred Cred, dir FH, name string) (FH, *nfs4.Attrs, error) {
	return nil, nil, errPending
}

// LookupParent finds the directory that dir is in.
func (c *Client) LookupParent(ctx context.Context, cred Cred, dir FH) (FH, *nfs4.Attrs, error) {
	return nil, nil, errPending
}

// GetAttr returns the attributes of an object (those of ObjectAttrs that the server
// supports).
func (c *Client) GetAttr(ctx context.Context, cred Cred, fh FH) (*nfs4.Attrs, error) {
	return nil, errPending
}

// SetAttr sets the attributes in set.Mask and returns the attributes of the object
// afterwards. To set the size through an open file, f is that file; it is nil
// otherwise.
func (c *Client) SetAttr(ctx context.Context, cred Cred, fh FH, f *File, set *nfs4.Attrs) (*nfs4.Attrs, error) {
	return nil, errPending
}

// Access asks the server which of the kinds of access in want (nfs4.AccessRead
// and so on) the caller has.
func (c *Client) Access(ctx context.Context, cred Cred, fh FH, want uint32) (uint32, error) {
	return 0, errPending
}

// ReadLink returns the text of a symbolic link.
func (c *Client) ReadLink(ctx context.Context, cred Cred, fh FH) (string, error) {
	return "", errPending
}

// Mkdir makes a directory. set has its mode and what else is to be set; it may
// be nil.
func (c *Client) Mkdir(ctx context.Context, cred Cred, dir FH, name string, set *nfs4.Attrs) (FH, *nfs4.Attrs, error) {
	return nil, nil, errPending
}

// Symlink makes a symbolic link with the text target.
func (c *Client) Symlink(ctx context.Context, cred Cred, dir FH, name, target string, set *nfs4.Attrs) (FH, *nfs4.Attrs, error) {
	return nil, nil, errPending
}

// Mknod makes a device, FIFO or socket: typ is nfs4.TypeBlk, TypeChr, TypeFifo
// or TypeSock. Regular files are made by Open.
func (c *Client) Mknod(ctx context.Context, cred Cred, dir FH, name string, typ nfs4.FileType, dev nfs4.SpecData, set *nfs4.Attrs) (FH, *nfs4.Attrs, error) {
	return nil, nil, errPending
}

// Link makes an entry for the object fh in the directory dir, and returns the
// attributes of the object afterwards.
func (c *Client) Link(ctx context.Context, cred Cred, fh, dir FH, name string) (*nfs4.Attrs, error) {
	return nil, errPending
}

// Remove removes an entry of a directory, which may itself be an empty directory:
// the server does not tell unlink from rmdir.
func (c *Client) Remove(ctx context.Context, cred Cred, dir FH, name string) error {
	return errPending
}

// Rename moves an entry, replacing what was at the new place.
func (c *Client) Rename(ctx context.Context, cred Cred, fromDir FH, fromName string, toDir FH, toName string) error {
	return errPending
}

// StatFS returns the attributes of the file system that fh is in: SpaceTotal, SpaceFree,
// SpaceAvail (bytes), FilesTotal, FilesFree, FilesAvail, MaxName, FSID; Mask
// tells which the server knows.
func (c *Client) StatFS(ctx context.Context, cred Cred, fh FH) (*nfs4.Attrs, error) {
	return nil, errPending
}

// DirEntry is an entry of a directory. "." and ".." are never among them.
type DirEntry struct {
	// Name aliases the page and is valid until its Release.
	Name []byte
	// Cookie is the place behind this entry: ReadDir goes on from it.
	Cookie uint64
	// Attrs are the attributes of the entry: type and fileid only unless they
	// were asked for, in which case they are those of ObjectAttrs and the
	// filehandle. Attrs.FileHandle aliases the page. If Attrs has
	// nfs4.AttrRDAttrError, the server could not get them and says why
	// there.
	Attrs nfs4.Attrs
}

// DirPage is a piece of a directory.
type DirPage struct {
	// Verf goes with the cookies of this page.
	Verf nfs4.Verifier
	// EOF says that no entry follows those of this page.
	EOF bool
}

// Next stores the next entry of the page in e. It returns false behind the last.
func (p *DirPage) Next(e *DirEntry) bool { return false }

// Release gives the memory of the page back.
func (p *DirPage) Release() {}

// ReadDir returns the entries that follow cookie: the one of an earlier entry,
// with the verifier of its page, or zero to begin. Server cookies are
// passed through; 1 and 2 do not occur. If plus is set, entries come with
// attributes and filehandles. n is the number of bytes to ask for; zero means a
// good size. If the server no longer knows the cookie the error matches
// nfs4.ErrBadCookie or nfs4.ErrNotSame, and the caller has to begin again.
func (c *Client) ReadDir(ctx context.Context, cred Cred, dir FH, cookie uint64, verf nfs4.Verifier, plus bool, n int) (*DirPage, error) {
	return nil, errPending
}

// OpenRequest says what to open.
type OpenRequest struct {
	// Dir and Name name the file, or FH does: an existing file that was
	// looked up before. With FH, Create and Exclusive must not be set.
	Dir  FH
	Name string
	FH   FH

	Read, Write bool // access wanted; at least one
	Create      bool // make the file if there is none
	Exclusive   bool // with Create: fail with EEXIST if there is one
	Truncate    bool // with Write: set the size to zero

	// Attrs has the mode and what else to give to a file that is made; it may
	// be nil.
	Attrs *nfs4.Attrs
}

// Open opens a regular file, and returns it with its filehandle and
// attributes. If the request was cancelled while the server may have carried it out, the
// client closes what was opened by itself.
func (c *Client) Open(ctx context.Context, cred Cred, r OpenRequest) (*File, FH, *nfs4.Attrs, error) {
	return nil, nil, nil, errPending
}

// File is an open file. It is safe for concurrent use.
type File struct{}

// FH returns the filehandle; it must not be changed.
func (f *File) FH() FH { return nil }

// Read reads up to n bytes at off into a buffer of the transport, which the
// caller owns: the data is buf.Data[:got], and the caller releases it. got
// is less than n only at the end of the file, which eof tells. n is best not
// greater than Limits.RSize: more takes several READs and a copy.
func (f *File) Read(ctx context.Context, off int64, n int) (buf *ulb.Buffer, got int, eof bool, err error) {
	return nil, 0, false, errPending
}

// Write writes data at off. When it returns, the server has the data but may
// lose it by a restart; a copy is kept until Sync, so that it can be written
// again. data may be used again when Write has returned. If the error is not
// nil, the first n bytes were written.
func (f *File) Write(ctx context.Context, off int64, data []byte) (n int, err error) {
	return 0, errPending
}

// Sync waits until everything written to the file, through this or any other
// File of this client, is on stable storage.
func (f *File) Sync(ctx context.Context) error { return errPending }

// Close syncs and closes the file. The server is told even if ctx is done: then
// by the client, later. The error is that of the sync.
func (f *File) Close(ctx context.Context) error { return errPending }

// Error is a failed operation.
type Error struct {
	Op string // the operation, for example "LOOKUP"
	// Err is the cause: an nfs4.Status, an RPC or transport error, or the
	// error of a context.
	Err error
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errno returns the errno that an application gets for an error of this
// package: the one that Linux's NFS client would give. It is 0 for nil.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	return syscall.EIO
}
