package memfs

import (
	"sync"
	"time"
)

// Kind is the type of an object.
type Kind uint8

// Kinds of objects.
const (
	Regular Kind = 1 + iota
	Directory
	Symlink
	BlockDevice
	CharDevice
	FIFO
	Socket
)

// Inode is an object of a file system. Its identity never changes.
type Inode struct {
	fs   *FS
	ino  uint64
	gen  uint64
	kind Kind
	// target, major and minor are fixed when the object is made.
	target       string
	major, minor uint32

	// Guarded by FS.mu.
	nlink  uint32
	holds  int
	gone   bool       // nothing refers to it any more
	parent *Inode     // of a directory; nil when it was removed
	dir    *directory // of a directory

	// mu guards what follows, unless FS.mu is held exclusively.
	mu                         sync.RWMutex
	mode                       uint32
	uid, gid                   uint32
	atime, mtime, ctime, btime time.Time
	change                     uint64
	xattrs                     map[string][]byte
	xattrBytes                 int
	tags                       map[string]any

	size   int64
	chunks map[int64]*chunk // by offset / chunkSize
	pages  int64            // pages present in chunks
	undo   *undo            // what uncommitted writes have replaced; nil if there are none
}

// Attr are the attributes of an object.
type Attr struct {
	Kind         Kind
	Ino, Gen     uint64
	Mode         uint32 // the lower twelve bits of st_mode
	Nlink        uint32
	UID, GID     uint32
	Size         int64 // bytes
	Used         int64 // bytes
	Major, Minor uint32
	Atime, Mtime time.Time
	Ctime, Btime time.Time
	// Change is larger after every change of the object.
	Change uint64
}

// Ino returns the number of the inode.
func (n *Inode) Ino() uint64 { return n.ino }

// Gen returns the generation: it tells objects that had the same number apart.
func (n *Inode) Gen() uint64 { return n.gen }

// Kind returns the type of the object.
func (n *Inode) Kind() Kind { return n.kind }

// FS returns the file system that the object belongs to.
func (n *Inode) FS() *FS { return n.fs }

// Target returns the target of a symbolic link.
func (n *Inode) Target() string { return n.target }

// Attr returns the attributes of the object.
func (n *Inode) Attr() Attr {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	return n.attr()
}

// attr is called with fs.mu held shared.
func (n *Inode) attr() Attr {
	n.mu.RLock()
	defer n.mu.RUnlock()
	a := Attr{
		Kind: n.kind, Ino: n.ino, Gen: n.gen, Mode: n.mode, Nlink: n.nlink,
		UID: n.uid, GID: n.gid, Size: n.size, Used: n.pages * pageSize,
		Major: n.major, Minor: n.minor,
		Atime: n.atime, Mtime: n.mtime, Ctime: n.ctime, Btime: n.btime,
		Change: n.change,
	}
	switch n.kind {
	case Directory:
		a.Size = int64(n.dir.live+2) * 32
		a.Used = (a.Size + pageSize - 1) &^ (pageSize - 1)
	case Symlink:
		a.Size = int64(len(n.target))
	}
	return a
}

// touch notes a change of the object's metadata, or of its data as well. n.mu
// or fs.mu is held exclusively.
func (n *Inode) touch(data bool) {
	now := n.fs.opt.Now()
	n.ctime = now
	if data {
		n.mtime = now
	}
	n.change++
}

// Tag returns what SetTag has stored.
func (n *Inode) Tag(key string) any {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.tags[key]
}

// SetTag stores a value with the object, or removes it if v is nil. It counts as
// a change of metadata.
func (n *Inode) SetTag(key string, v any) {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.setTag(key, v)
	n.touch(false)
}

func (n *Inode) setTag(key string, v any) {
	if v == nil {
		delete(n.tags, key)
		return
	}
	if n.tags == nil {
		n.tags = make(map[string]any)
	}
	n.tags[key] = v
}

// Touch notes a change of the object's data that was made elsewhere.
func (n *Inode) Touch() {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.touch(true)
}
