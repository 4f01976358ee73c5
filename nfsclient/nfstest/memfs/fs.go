// Package memfs is a file system in memory with the semantics of POSIX: what a
// local disk would do, without a disk and without a kernel. It knows nothing of
// protocols; a server puts one in front of it.
//
// Callers name objects by *Inode and pass the credentials of whoever asks.
// Errors are syscall.Errno values. Names are bytes in a string; "." and ".." are
// not entries of a directory.
//
// # Stable and unstable data
//
// A write may be made unstable. Until Commit the file system remembers what
// the file was like before, and DropUncommitted puts that back: this is what a
// server that loses power does to its clients.
//
// # Locks
//
//	FS.mu         the tree: directories, link counts, the table of inodes
//	└── Inode.mu  attributes, data and extended attributes of one inode
//	    └── account.mu, FS.dirtyMu
//
// An operation on the tree holds FS.mu exclusively and needs no Inode.mu;
// everything else holds FS.mu shared, and Inode.mu.
package memfs

import (
	"sync"
	"syscall"
	"time"
)

// Limits of names and links.
const (
	MaxName    = 255               // bytes of a name
	MaxLink    = 65000             // hard links of an inode
	MaxTarget  = 4095              // bytes of the target of a symbolic link
	MaxSize    = 1<<63 - chunkSize // bytes of a file: offsets do not overflow
	pageSize   = 4096              // bytes, the granularity of holes and of space accounting
	chunkSize  = 64 << 10          // bytes, the unit in which files are stored
	chunkPages = chunkSize / pageSize
)

// Options of a file system.
type Options struct {
	// Bytes is the space for file data; zero means 64 GiB. The memory is
	// taken when it is written to.
	Bytes int64
	// Inodes is the largest number of objects; zero means 4 Mi.
	Inodes int64
	// Quota is the largest number of bytes that the files of one user, root
	// excepted, may occupy; zero means no quota.
	Quota int64
	// Now is the clock for the times of objects; nil means time.Now.
	Now func() time.Time
}

// FS is a file system. It is safe for concurrent use.
type FS struct {
	opt  Options
	acct account

	mu      sync.RWMutex
	root    *Inode
	inodes  map[uint64]*Inode
	nextIno uint64
	nextGen uint64

	dirtyMu sync.Mutex
	dirty   map[*Inode]struct{} // inodes with uncommitted data
}

// New returns an empty file system whose root belongs to root and has mode 0755.
func New(o Options) *FS {
	if o.Bytes == 0 {
		o.Bytes = 64 << 30
	}
	if o.Inodes == 0 {
		o.Inodes = 4 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	fs := &FS{
		opt:     o,
		acct:    account{limit: o.Bytes, quota: o.Quota, users: make(map[uint32]int64)},
		inodes:  make(map[uint64]*Inode),
		nextIno: 1,
		dirty:   make(map[*Inode]struct{}),
	}
	fs.root = fs.newInode(Directory, 0o755, Cred{})
	fs.root.parent = fs.root
	fs.root.nlink = 2
	return fs
}

// Root returns the root directory.
func (fs *FS) Root() *Inode { return fs.root }

// newInode is called with fs.mu held exclusively, or before fs is shared.
func (fs *FS) newInode(kind Kind, mode uint32, c Cred) *Inode {
	now := fs.opt.Now()
	fs.nextGen++
	n := &Inode{
		fs: fs, ino: fs.nextIno, gen: fs.nextGen, kind: kind,
		mode: mode & 0o7777, uid: c.UID, gid: c.GID,
		atime: now, mtime: now, ctime: now, btime: now, change: 1,
	}
	fs.nextIno++
	if kind == Directory {
		n.dir = newDirectory()
	}
	fs.inodes[n.ino] = n
	return n
}

// Get returns the inode with this number and generation. It fails with ESTALE
// if there is none, or none any more.
func (fs *FS) Get(ino, gen uint64) (*Inode, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if n := fs.inodes[ino]; n != nil && n.gen == gen {
		return n, nil
	}
	return nil, syscall.ESTALE
}

// Hold keeps n usable after its last name is gone, until as many calls of
// Release have been made: what an open file descriptor does.
// It fails with ESTALE if n is gone already.
func (fs *FS) Hold(n *Inode) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n.gone {
		return syscall.ESTALE
	}
	n.holds++
	return nil
}

// Release takes back a Hold.
func (fs *FS) Release(n *Inode) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n.holds--
	fs.reap(n)
}

// reap frees n if nothing refers to it any more. fs.mu is held exclusively.
func (fs *FS) reap(n *Inode) {
	if n.nlink > 0 || n.holds > 0 {
		return
	}
	if n.gone {
		return
	}
	n.gone = true
	delete(fs.inodes, n.ino)
	n.discard(0)
	fs.dirtyMu.Lock()
	delete(fs.dirty, n)
	fs.dirtyMu.Unlock()
	n.undo = nil
}

// Stat is the state of a file system as a whole.
type Stat struct {
	Bytes, BytesFree   int64
	Inodes, InodesFree int64
	QuotaUsed          int64 // bytes that the files of the user asked about occupy
	Quota              int64 // bytes that they may occupy, zero if there is no quota
}

// Statfs tells about the file system, as c sees it.
func (fs *FS) Statfs(c Cred) Stat {
	fs.mu.RLock()
	n := int64(len(fs.inodes))
	fs.mu.RUnlock()
	fs.acct.mu.Lock()
	defer fs.acct.mu.Unlock()
	return Stat{
		Bytes: fs.acct.limit, BytesFree: max(0, fs.acct.limit-fs.acct.used),
		Inodes: fs.opt.Inodes, InodesFree: max(0, fs.opt.Inodes-n),
		QuotaUsed: fs.acct.users[c.UID], Quota: fs.opt.Quota,
	}
}

// SetSpace changes the space for file data: a test that fills a file system
// need not write much.
func (fs *FS) SetSpace(bytes int64) {
	fs.acct.mu.Lock()
	defer fs.acct.mu.Unlock()
	fs.acct.limit = bytes
}

// account counts the space that files occupy.
type account struct {
	mu    sync.Mutex
	limit int64
	quota int64
	used  int64
	users map[uint32]int64
}

// charge takes n bytes for a file of uid, or fails and takes nothing.
func (a *account) charge(uid uint32, n int64) error {
	if n == 0 {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > 0 && a.used+n > a.limit {
		return syscall.ENOSPC
	}
	if n > 0 && a.quota > 0 && uid != 0 && a.users[uid]+n > a.quota {
		return syscall.EDQUOT
	}
	a.add(uid, n)
	return nil
}

func (a *account) add(uid uint32, n int64) {
	a.used += n
	if a.users[uid] += n; a.users[uid] == 0 {
		delete(a.users, uid)
	}
}

// refund gives back n bytes.
func (a *account) refund(uid uint32, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(uid, -n)
}

// move makes n bytes of one user those of another, without regard to quotas.
func (a *account) move(from, to uint32, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.add(from, -n)
	a.add(to, n)
}
