package fusefs

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"nfsrdma-fuse/xdr/nfs4"
)

// node is an object that the kernel knows. It lives as long as the kernel
// counts a lookup of it.
type node struct {
	id   uint64 // FUSE node id
	fh   nfs4.FH
	typ  uint32 // of the S_IF constants
	ino  uint64 // inode number
	fsid nfs4.FSID

	// The following are guarded by nodes.mu.

	lookups uint64   // those that the kernel has been given and not given back
	names   []dentry // those under which the kernel may know the node

	// modified is the value of bridge.seq at the last own change of the object,
	// its entries included: what was fetched earlier may be out of date.
	modified atomic.Uint64

	mu    sync.Mutex
	cache cacheState
	// dropped says that the kernel has dropped its data when the file was
	// locked, and droppedAt to which change attribute that led.
	dropped   bool
	droppedAt uint64
	valid     validity
	dir       *dirState     // set if the node is a directory
	rider     *rider        // attributes that the kernel has not been told of; may be nil
	opens     int           // opens done or in progress
	silly     *silly        // set if the file has no name of its own any more
	verf      nfs4.Verifier // of the directory's cookies, as last seen

	foundAt time.Time // of the last lookup by name
	foundBy uint32    // the thread that did it
}

// touch says that an own change of the object has been answered. It returns the
// change's number.
func (n *node) touch(b *bridge) uint64 {
	seq := b.seq.Add(1)
	n.modified.Store(seq)
	return seq
}

// dentry is a name in a directory.
type dentry struct {
	dir  uint64 // node id
	name string
}

// nodes are all objects that the kernel knows.
type nodes struct {
	fsid nfs4.FSID // the root's

	mu     sync.Mutex
	byID   map[uint64]*node
	byFH   map[string]*node
	byName map[uint64]map[string]*node // by directory and name
	lastID uint64
}

func newNodes(root nfs4.FH, attrs *nfs4.Attrs) *nodes {
	t := &nodes{
		fsid:   attrs.FSID,
		byID:   make(map[uint64]*node),
		byFH:   make(map[string]*node),
		byName: make(map[uint64]map[string]*node),
		lastID: fuse.FUSE_ROOT_ID,
	}
	n := &node{id: fuse.FUSE_ROOT_ID, fh: root.Clone(), typ: fuse.S_IFDIR, fsid: attrs.FSID, lookups: 1, dir: new(dirState)}
	n.ino = t.inode(attrs.FSID, attrs.FileID)
	t.byID[n.id] = n
	t.byFH[string(n.fh)] = n
	return t
}

// get returns the node of an id that the kernel has sent; nil if it has none,
// which is a fault of the kernel's or ours.
func (t *nodes) get(id uint64) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byID[id]
}

// enter returns the node for an object that was found under a name, and counts
// a lookup that the kernel is about to be given. An object without a name
// comes with a dentry of directory 0.
func (t *nodes) enter(d dentry, fh nfs4.FH, a *nfs4.Attrs) *node {
	typ := fileType(a.Type)
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.byFH[string(fh)]
	if n == nil || n.typ != typ && n.id != fuse.FUSE_ROOT_ID {
		// A server that gives an old filehandle to an object of another type
		// gets a new node for it; the old one goes when the kernel forgets it.
		t.lastID++
		n = &node{id: t.lastID, fh: fh.Clone(), typ: typ, fsid: a.FSID}
		n.ino = t.inode(a.FSID, a.FileID)
		if typ == fuse.S_IFDIR {
			n.dir = new(dirState)
		}
		t.byID[n.id] = n
		t.byFH[string(n.fh)] = n
	}
	n.lookups++
	t.bind(d, n)
	return n
}

// peek returns the node of a filehandle if the kernel knows it.
func (t *nodes) peek(fh nfs4.FH) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byFH[string(fh)]
}

// bind makes d a name of n and of nothing else. It is called with t.mu held.
func (t *nodes) bind(d dentry, n *node) {
	if d.dir == 0 || n.id == fuse.FUSE_ROOT_ID {
		return
	}
	old := t.at(d)
	if old == n {
		return
	}
	if old != nil {
		old.dropName(d)
	}
	names := t.byName[d.dir]
	if names == nil {
		names = make(map[string]*node)
		t.byName[d.dir] = names
	}
	names[d.name] = n
	n.names = append(n.names, d)
}

// at returns the node with a name, or nil. It is called with t.mu held.
func (t *nodes) at(d dentry) *node { return t.byName[d.dir][d.name] }

// unbind removes a name. It is called with t.mu held.
func (t *nodes) unbind(d dentry) {
	names := t.byName[d.dir]
	delete(names, d.name)
	if len(names) == 0 {
		delete(t.byName, d.dir)
	}
}

// in returns the names that the kernel knows in a directory.
func (t *nodes) in(dir *node) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.byName[dir.id]))
}

// onlyName returns the one name under which the kernel knows a node, and the
// directory that has it; nil if there is none or more than one.
func (t *nodes) onlyName(n *node) (dir *node, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(n.names) != 1 {
		return nil, ""
	}
	return t.byID[n.names[0].dir], n.names[0].name
}

func (n *node) dropName(d dentry) {
	for i := range n.names {
		if n.names[i] == d {
			last := len(n.names) - 1
			n.names[i] = n.names[last]
			n.names[last] = dentry{}
			n.names = n.names[:last]
			return
		}
	}
}

// named returns the node that the kernel knows under a name, or nil.
func (t *nodes) named(dir *node, name string) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.at(dentry{dir.id, name})
}

// unname says that a name is gone.
func (t *nodes) unname(dir *node, name string) {
	d := dentry{dir.id, name}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := t.at(d); n != nil {
		n.dropName(d)
		t.unbind(d)
	}
}

// move says that an entry has another name now.
func (t *nodes) move(fromDir *node, fromName string, toDir *node, toName string) {
	from, to := dentry{fromDir.id, fromName}, dentry{toDir.id, toName}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.at(from)
	if old := t.at(to); old != nil {
		if old == n {
			return // two names of one object: rename does nothing
		}
		old.dropName(to)
		t.unbind(to)
	}
	if n != nil {
		n.dropName(from)
		t.unbind(from)
		t.bind(to, n)
	}
}

// parent returns the directory that dir is in, as far as it is known; dir itself
// otherwise.
func (t *nodes) parent(dir *node) *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(dir.names) > 0 {
		if p := t.byID[dir.names[0].dir]; p != nil {
			return p
		}
	}
	return dir
}

// forget takes back n lookups.
func (t *nodes) forget(id, n uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.byID[id]
	if x == nil || id == fuse.FUSE_ROOT_ID {
		return
	}
	x.lookups -= min(n, x.lookups)
	if x.lookups > 0 {
		return
	}
	delete(t.byID, id)
	if t.byFH[string(x.fh)] == x {
		delete(t.byFH, string(x.fh))
	}
	for _, d := range x.names {
		t.unbind(d)
	}
	x.names = nil
}

func (t *nodes) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

// inode returns the inode number of an object: its fileid, mixed with the fsid if
// that is not the root's.
func (t *nodes) inode(fsid nfs4.FSID, fileid uint64) uint64 {
	ino := fileid
	if fsid != t.fsid {
		ino ^= mix(mix(fsid.Major) + fsid.Minor)
	}
	if ino == 0 { // means "none" to programs
		ino = mix(fileid + 1)
	}
	return ino
}

// mix is the finaliser of splitmix64: every bit of the argument changes half of
// those of the result.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
