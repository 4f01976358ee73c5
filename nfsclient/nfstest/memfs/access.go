package memfs

import (
	"slices"
	"syscall"
)

// Cred are the credentials of whoever asks for an operation. UID 0 may do
// everything.
type Cred struct {
	UID, GID uint32
	Groups   []uint32 // besides GID
}

func (c Cred) isRoot() bool { return c.UID == 0 }

func (c Cred) inGroup(gid uint32) bool { return c.GID == gid || slices.Contains(c.Groups, gid) }

// Kinds of access.
const (
	MayExec  = 1
	MayWrite = 2
	MayRead  = 4
)

// Mode bits beyond the permissions.
const (
	setUID = 0o4000
	setGID = 0o2000
	sticky = 0o1000
)

// permits tells which of the kinds of access in want the credentials have to
// an object with these attributes.
func (c Cred) permits(kind Kind, mode, uid, gid, want uint32) uint32 {
	if c.isRoot() {
		if kind != Directory && mode&0o111 == 0 {
			want &^= MayExec // root executes what somebody may execute
		}
		return want
	}
	switch {
	case c.UID == uid:
		mode >>= 6
	case c.inGroup(gid):
		mode >>= 3
	}
	return want & mode
}

// may is called with n.mu held, or fs.mu exclusively.
func (n *Inode) may(c Cred, want uint32) error {
	if c.permits(n.kind, n.mode, n.uid, n.gid, want) != want {
		return syscall.EACCES
	}
	return nil
}

// Access returns those of the kinds of access in want that c has.
func (n *Inode) Access(c Cred, want uint32) uint32 {
	n.fs.mu.RLock()
	defer n.fs.mu.RUnlock()
	n.mu.RLock()
	defer n.mu.RUnlock()
	return c.permits(n.kind, n.mode, n.uid, n.gid, want)
}

// mayDelete tells whether c may take the entry that leads to n out of dir: with
// the sticky bit of dir set only the owner of either may. fs.mu is held.
func (dir *Inode) mayDelete(c Cred, n *Inode) error {
	if err := dir.may(c, MayWrite|MayExec); err != nil {
		return err
	}
	if dir.mode&sticky != 0 && !c.isRoot() && c.UID != dir.uid && c.UID != n.uid {
		return syscall.EPERM
	}
	return nil
}

// killPriv drops the bits that make a program run as somebody else, as a change
// of the program by c demands. n.mu or fs.mu is held exclusively.
func (n *Inode) killPriv(c Cred) {
	if n.kind != Regular || c.isRoot() {
		return
	}
	n.mode &^= setUID
	if n.mode&0o010 != 0 {
		n.mode &^= setGID // without the execute bit it never meant a program
	}
}
