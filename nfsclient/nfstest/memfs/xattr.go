package memfs

import (
	"slices"
	"syscall"
)

// Limits of extended attributes.
const (
	MaxXattrName  = 255      // bytes
	MaxXattrValue = 64 << 10 // bytes
	maxXattrTotal = 1 << 20  // bytes of names and values of one object
)

// XattrMode says whether SetXattr may make or replace an attribute.
type XattrMode uint8

// Modes of SetXattr.
const (
	XattrEither  XattrMode = iota
	XattrCreate            // EEXIST if it is there
	XattrReplace           // ENODATA if it is not
)

func xattrable(n *Inode) error {
	if n.kind != Regular && n.kind != Directory {
		return syscall.EPERM // as Linux has it for user attributes
	}
	return nil
}

// GetXattr returns a copy of the value of an extended attribute.
func (fs *FS) GetXattr(c Cred, n *Inode, name string) ([]byte, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n.mu.RLock()
	defer n.mu.RUnlock()
	if err := n.may(c, MayRead); err != nil {
		return nil, err
	}
	v, ok := n.xattrs[name]
	if !ok {
		return nil, syscall.ENODATA
	}
	return slices.Clone(v), nil
}

// SetXattr sets an extended attribute. It returns the change attributes of the
// object.
func (fs *FS) SetXattr(c Cred, n *Inode, name string, value []byte, mode XattrMode) (DirChange, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.mayXattr(c, name); err != nil {
		return DirChange{}, err
	}
	old, ok := n.xattrs[name]
	switch {
	case mode == XattrCreate && ok:
		return DirChange{}, syscall.EEXIST
	case mode == XattrReplace && !ok:
		return DirChange{}, syscall.ENODATA
	case len(value) > MaxXattrValue:
		return DirChange{}, syscall.E2BIG
	}
	total := n.xattrBytes + len(value) - len(old)
	if !ok {
		total += len(name)
	}
	if total > maxXattrTotal {
		return DirChange{}, syscall.ENOSPC
	}
	if n.xattrs == nil {
		n.xattrs = make(map[string][]byte)
	}
	n.xattrs[name], n.xattrBytes = slices.Clone(value), total
	before := n.change
	n.touch(false)
	return DirChange{before, n.change}, nil
}

// RemoveXattr removes an extended attribute.
func (fs *FS) RemoveXattr(c Cred, n *Inode, name string) (DirChange, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.mayXattr(c, name); err != nil {
		return DirChange{}, err
	}
	old, ok := n.xattrs[name]
	if !ok {
		return DirChange{}, syscall.ENODATA
	}
	delete(n.xattrs, name)
	n.xattrBytes -= len(name) + len(old)
	before := n.change
	n.touch(false)
	return DirChange{before, n.change}, nil
}

func (n *Inode) mayXattr(c Cred, name string) error {
	if err := xattrable(n); err != nil {
		return err
	}
	if name == "" || len(name) > MaxXattrName {
		return syscall.EINVAL
	}
	if n.kind == Directory && n.mode&sticky != 0 && !c.isRoot() && c.UID != n.uid {
		return syscall.EPERM
	}
	return n.may(c, MayWrite)
}

// ListXattrs returns the names of the extended attributes, sorted.
func (fs *FS) ListXattrs(c Cred, n *Inode) ([]string, error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n.mu.RLock()
	defer n.mu.RUnlock()
	if err := n.may(c, MayRead); err != nil {
		return nil, err
	}
	names := make([]string, 0, len(n.xattrs))
	for name := range n.xattrs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}
