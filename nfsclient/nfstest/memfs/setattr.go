package memfs

import (
	"syscall"
	"time"
)

// SetAttr says which attributes of an object to set.
type SetAttr struct {
	Mode     *uint32 // the lower twelve bits of st_mode
	UID, GID *uint32
	Size     *int64
	// Atime and Mtime are times to set; with AtimeNow and MtimeNow set it
	// is the file system's clock that is taken.
	Atime, Mtime       *time.Time
	AtimeNow, MtimeNow bool
	// Opened says that the caller has the file open for writing, so that
	// its size may be set whatever its mode is by now.
	Opened bool
}

// SetAttr sets attributes of n: all of them, or none.
func (fs *FS) SetAttr(c Cred, n *Inode, s SetAttr) error {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.maySet(c, s); err != nil {
		return err
	}
	data := s.Size != nil
	if s.Size != nil {
		if err := n.truncate(*s.Size); err != nil {
			return err
		}
		n.killPriv(c)
	}
	if s.UID != nil || s.GID != nil {
		n.chown(c, s)
	}
	if s.Mode != nil {
		n.mode = *s.Mode & 0o7777
		if !c.isRoot() && !c.inGroup(n.gid) && n.kind != Directory {
			n.mode &^= setGID
		}
	}
	n.touch(data)
	switch {
	case s.AtimeNow:
		n.atime = fs.opt.Now()
	case s.Atime != nil:
		n.atime = *s.Atime
	}
	switch {
	case s.MtimeNow:
		n.mtime = n.ctime
	case s.Mtime != nil:
		n.mtime = *s.Mtime
	}
	return nil
}

// maySet checks everything that could be refused, so that SetAttr need not stop
// halfway.
func (n *Inode) maySet(c Cred, s SetAttr) error {
	if n.gone {
		return syscall.ESTALE
	}
	owner := c.isRoot() || c.UID == n.uid
	if s.Size != nil {
		if err := n.regular(); err != nil {
			return err
		}
		if *s.Size < 0 {
			return syscall.EINVAL
		}
		if !s.Opened {
			if err := n.may(c, MayWrite); err != nil {
				return err
			}
		}
	}
	if s.Mode != nil && !owner {
		return syscall.EPERM
	}
	if s.UID != nil && !c.isRoot() && (!owner || *s.UID != n.uid) {
		return syscall.EPERM
	}
	if s.GID != nil && !c.isRoot() && (!owner || *s.GID != n.gid && !c.inGroup(*s.GID)) {
		return syscall.EPERM
	}
	if (s.Atime != nil || s.Mtime != nil) && !owner {
		return syscall.EPERM
	}
	if (s.AtimeNow || s.MtimeNow) && !owner {
		// Both to the present: whoever may write may do that.
		if !s.AtimeNow || !s.MtimeNow {
			return syscall.EPERM
		}
		if err := n.may(c, MayWrite); err != nil {
			return err
		}
	}
	return nil
}

func (n *Inode) chown(c Cred, s SetAttr) {
	if s.UID != nil && *s.UID != n.uid {
		n.fs.acct.move(n.uid, *s.UID, n.pages*pageSize)
		n.uid = *s.UID
	}
	if s.GID != nil {
		n.gid = *s.GID
	}
	if n.kind != Directory { // whoever changes it: the new owner did not ask for them
		n.mode &^= setUID
		if n.mode&0o010 != 0 {
			n.mode &^= setGID
		}
	}
}
