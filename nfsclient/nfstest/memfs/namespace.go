package memfs

import (
	"strings"
	"syscall"
)

// DirChange are the change attributes of a directory around an operation.
type DirChange struct{ Before, After uint64 }

// CheckName tells whether name can be that of an entry: ENAMETOOLONG, or
// EINVAL for a name that is empty, reserved, or has a slash or a zero byte.
func CheckName(name string) error {
	switch {
	case len(name) > MaxName:
		return syscall.ENAMETOOLONG
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return syscall.EINVAL
	}
	return nil
}

// search is called with fs.mu held.
func (fs *FS) search(c Cred, dir *Inode, name string) (*Inode, error) {
	if dir.kind != Directory {
		return nil, syscall.ENOTDIR
	}
	dir.mu.RLock()
	err := dir.may(c, MayExec)
	dir.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if n := dir.dir.get(name); n != nil {
		return n, nil
	}
	return nil, syscall.ENOENT
}

// Lookup returns the object that the entry name of dir leads to.
func (fs *FS) Lookup(c Cred, dir *Inode, name string) (*Inode, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return fs.search(c, dir, name)
}

// Parent returns the directory that dir is in; the root is in itself. It fails
// with ENOENT if dir was removed.
func (fs *FS) Parent(c Cred, dir *Inode) (*Inode, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if dir.kind != Directory {
		return nil, syscall.ENOTDIR
	}
	dir.mu.RLock()
	err := dir.may(c, MayExec)
	dir.mu.RUnlock()
	if err != nil {
		return nil, err
	}
	if dir.parent == nil {
		return nil, syscall.ENOENT
	}
	return dir.parent, nil
}

// Object describes an object to be made.
type Object struct {
	Kind         Kind
	Mode         uint32 // the lower twelve bits of st_mode
	Target       string // of a symbolic link
	Major, Minor uint32 // of a device
}

// Make makes an object and an entry for it in dir.
func (fs *FS) Make(c Cred, dir *Inode, name string, o Object) (*Inode, DirChange, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	switch n, err := fs.search(c, dir, name); {
	case n != nil:
		return nil, DirChange{}, syscall.EEXIST
	case err != syscall.ENOENT:
		return nil, DirChange{}, err
	}
	if dir.parent == nil { // removed: nothing can be made in it
		return nil, DirChange{}, syscall.ENOENT
	}
	if err := dir.may(c, MayWrite|MayExec); err != nil {
		return nil, DirChange{}, err
	}
	switch {
	case o.Kind == Symlink && o.Target == "":
		return nil, DirChange{}, syscall.EINVAL
	case o.Kind == Symlink && len(o.Target) > MaxTarget:
		return nil, DirChange{}, syscall.ENAMETOOLONG
	case (o.Kind == BlockDevice || o.Kind == CharDevice) && !c.isRoot():
		return nil, DirChange{}, syscall.EPERM
	case o.Kind == Directory && dir.nlink >= MaxLink:
		return nil, DirChange{}, syscall.EMLINK
	case int64(len(fs.inodes)) >= fs.opt.Inodes:
		return nil, DirChange{}, syscall.ENOSPC
	}
	n := fs.newInode(o.Kind, o.Mode, c)
	if dir.mode&setGID != 0 {
		n.gid = dir.gid
		if o.Kind == Directory {
			n.mode |= setGID
		}
	}
	if o.Kind != Directory && n.mode&setGID != 0 && n.mode&0o010 != 0 && !c.isRoot() && !c.inGroup(n.gid) {
		n.mode &^= setGID
	}
	n.nlink = 1
	n.target, n.major, n.minor = o.Target, o.Major, o.Minor
	if o.Kind == Symlink {
		n.mode = 0o777
	}
	if o.Kind == Directory {
		n.nlink, n.parent = 2, dir
		dir.nlink++
	}
	before := dir.change
	dir.dir.add(name, n)
	dir.touch(true)
	return n, DirChange{before, dir.change}, nil
}

// Link makes an entry of dir that leads to n.
func (fs *FS) Link(c Cred, n, dir *Inode, name string) (DirChange, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if n.kind == Directory {
		return DirChange{}, syscall.EPERM
	}
	switch old, err := fs.search(c, dir, name); {
	case old != nil:
		return DirChange{}, syscall.EEXIST
	case err != syscall.ENOENT:
		return DirChange{}, err
	}
	if err := dir.may(c, MayWrite|MayExec); err != nil {
		return DirChange{}, err
	}
	if dir.parent == nil || n.nlink == 0 {
		return DirChange{}, syscall.ENOENT
	}
	if n.nlink >= MaxLink {
		return DirChange{}, syscall.EMLINK
	}
	before := dir.change
	n.nlink++
	n.touch(false)
	dir.dir.add(name, n)
	dir.touch(true)
	return DirChange{before, dir.change}, nil
}

// Remove removes an entry of dir; a directory that it leads to must be empty.
func (fs *FS) Remove(c Cred, dir *Inode, name string) (DirChange, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, err := fs.search(c, dir, name)
	if err != nil {
		return DirChange{}, err
	}
	if err := dir.mayDelete(c, n); err != nil {
		return DirChange{}, err
	}
	if n.kind == Directory && n.dir.live > 0 {
		return DirChange{}, syscall.ENOTEMPTY
	}
	before := dir.change
	dir.dir.remove(name)
	dir.touch(true)
	fs.unlinked(dir, n)
	return DirChange{before, dir.change}, nil
}

// unlinked takes a link from n, whose entry in dir is gone.
func (fs *FS) unlinked(dir, n *Inode) {
	if n.kind == Directory {
		n.nlink, n.parent = 0, nil
		dir.nlink--
	} else {
		n.nlink--
	}
	n.touch(false)
	fs.reap(n)
}

// Rename makes the entry newName of newDir lead to what the entry name of dir
// leads to, and removes the latter. An object that newName led to loses that
// link.
func (fs *FS) Rename(c Cred, dir *Inode, name string, newDir *Inode, newName string) (from, to DirChange, err error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	n, err := fs.search(c, dir, name)
	if err != nil {
		return from, to, err
	}
	old, err := fs.search(c, newDir, newName)
	if err != nil && err != syscall.ENOENT {
		return from, to, err
	}
	if err := fs.mayRename(c, dir, n, newDir, old); err != nil {
		return from, to, err
	}
	from.Before, to.Before = dir.change, newDir.change
	from.After, to.After = from.Before, to.Before
	if n == old { // two names of one object, or the same name twice
		return from, to, nil
	}
	if old != nil {
		newDir.dir.replace(newName, n)
		dir.dir.remove(name)
		fs.unlinked(newDir, old)
	} else {
		newDir.dir.add(newName, n)
		dir.dir.remove(name)
	}
	if n.kind == Directory && dir != newDir {
		n.parent = newDir
		dir.nlink--
		newDir.nlink++
	}
	n.touch(false)
	dir.touch(true)
	if newDir != dir {
		newDir.touch(true)
	}
	from.After, to.After = dir.change, newDir.change
	return from, to, nil
}

// mayRename checks a rename of n from dir to newDir, over old unless that is nil.
func (fs *FS) mayRename(c Cred, dir, n, newDir, old *Inode) error {
	if err := dir.mayDelete(c, n); err != nil {
		return err
	}
	if newDir.parent == nil {
		return syscall.ENOENT
	}
	if old != nil {
		if err := newDir.mayDelete(c, old); err != nil {
			return err
		}
	} else if err := newDir.may(c, MayWrite|MayExec); err != nil {
		return err
	}
	if n.kind == Directory {
		for d := newDir; ; d = d.parent {
			if d == n {
				return syscall.EINVAL // a directory cannot become its own descendant
			}
			if d == d.parent {
				break
			}
		}
		if dir != newDir {
			if err := n.may(c, MayWrite); err != nil { // its ".." changes
				return err
			}
			if old == nil && newDir.nlink >= MaxLink {
				return syscall.EMLINK
			}
		}
	}
	if old == nil || old == n {
		return nil
	}
	switch {
	case n.kind == Directory && old.kind != Directory:
		return syscall.ENOTDIR
	case n.kind != Directory && old.kind == Directory:
		return syscall.EISDIR
	case old.kind == Directory && old.dir.live > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

// Entry is an entry of a directory.
type Entry struct {
	Name   string
	Cookie uint64
	Inode  *Inode
	Attr   Attr
}

// ReadDir appends to dst at most limit of the entries of dir behind cookie, and
// tells whether those were the last. Cookie 0 is the beginning.
func (fs *FS) ReadDir(c Cred, dir *Inode, cookie uint64, limit int, dst []Entry) (entries []Entry, end bool, err error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if dir.kind != Directory {
		return dst, false, syscall.ENOTDIR
	}
	dir.mu.Lock()
	err = dir.may(c, MayRead)
	if err == nil && cookie == 0 {
		dir.atime = fs.opt.Now()
	}
	dir.mu.Unlock()
	if err != nil {
		return dst, false, err
	}
	end = dir.dir.after(cookie, func(e *entry) bool {
		if limit == 0 {
			return false
		}
		limit--
		dst = append(dst, Entry{e.name, e.cookie, e.inode, e.inode.attr()})
		return true
	})
	return dst, end, nil
}
