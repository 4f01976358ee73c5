package memfs

import (
	"math/bits"
	"syscall"
)

// span calls fn for every chunk that the bytes of a file from off up to end
// touch, with the part of the chunk that is meant.
func span(off, end int64, fn func(index int64, lo, hi int)) {
	for off < end {
		i := off / chunkSize
		lo := int(off - i*chunkSize)
		hi := int(min(end-i*chunkSize, chunkSize))
		fn(i, lo, hi)
		off = (i + 1) * chunkSize
	}
}

// regular tells whether n is a file with data: EISDIR or EINVAL if it is
// something else, ESTALE if it was removed. fs.mu is held.
func (n *Inode) regular() error {
	switch {
	case n.gone:
		return syscall.ESTALE
	case n.kind == Regular:
		return nil
	case n.kind == Directory:
		return syscall.EISDIR
	}
	return syscall.EINVAL
}

// Read fills p with data from offset off on. It returns how many bytes there
// were, and whether they reach to the end of the file. It does not check
// permissions: an open file may be read whatever has become of its mode.
func (fs *FS) Read(n *Inode, off int64, p []byte) (got int, eof bool, err error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if err := n.regular(); err != nil {
		return 0, false, err
	}
	if off < 0 {
		return 0, false, syscall.EINVAL
	}
	n.mu.RLock()
	if off < n.size {
		got = int(min(int64(len(p)), n.size-off))
		n.readAt(p[:got], off)
	}
	eof = off+int64(got) >= n.size
	n.mu.RUnlock()
	n.mu.Lock()
	n.atime = fs.opt.Now()
	n.mu.Unlock()
	return got, eof, nil
}

func (n *Inode) readAt(p []byte, off int64) {
	span(off, off+int64(len(p)), func(i int64, lo, hi int) {
		n.chunks[i].read(p[:hi-lo], lo)
		p = p[hi-lo:]
	})
}

// Write puts p at offset off; the file grows as needed. It is stable at once,
// or when Commit is called. As Read, it does not check permissions; c is asked
// about only to drop the set-user-id bits of a program that is written to.
func (fs *FS) Write(c Cred, n *Inode, off int64, p []byte, stable bool) error {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if err := n.regular(); err != nil {
		return err
	}
	if off < 0 {
		return syscall.EINVAL
	}
	if int64(len(p)) > MaxSize-off {
		return syscall.EFBIG
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(p) == 0 {
		return nil
	}
	if err := n.writeAt(p, off, stable); err != nil {
		return err
	}
	n.killPriv(c)
	n.touch(true)
	return nil
}

// writeAt is called with n.mu held exclusively.
func (n *Inode) writeAt(p []byte, off int64, stable bool) error {
	end := off + int64(len(p))
	if err := n.reserve(off, end); err != nil {
		return err
	}
	if !stable {
		n.remember(off, end)
	}
	span(off, end, func(i int64, lo, hi int) {
		part := p[:hi-lo]
		p = p[hi-lo:]
		c := n.chunks[i]
		c.present |= pageMask(lo, hi)
		c.write(lo, part)
		if stable && n.undo != nil {
			n.undo.write(i, lo, part)
		}
	})
	n.size = max(n.size, end)
	if stable && n.undo != nil {
		n.undo.size = max(n.undo.size, end)
	}
	return nil
}

// reserve makes chunks for the bytes from off up to end, and charges the pages
// of them that were holes. It does all of it or nothing, and leaves marking the
// pages as present to its caller.
func (n *Inode) reserve(off, end int64) error {
	var pages int64
	span(off, end, func(i int64, lo, hi int) {
		m := pageMask(lo, hi)
		if c := n.chunks[i]; c != nil {
			m &^= c.present
		}
		pages += int64(bits.OnesCount16(m))
	})
	if err := n.fs.acct.charge(n.uid, pages*pageSize); err != nil {
		return err
	}
	n.pages += pages
	if n.chunks == nil {
		n.chunks = make(map[int64]*chunk)
	}
	span(off, end, func(i int64, _, _ int) {
		if n.chunks[i] == nil {
			// Those that existed before are remembered in remember; a
			// chunk with nothing in it is as good as none.
			n.chunks[i] = &chunk{}
		}
	})
	return nil
}

// remember keeps the chunks that are about to be changed from off up to end,
// unless a previous state of them is kept already.
func (n *Inode) remember(off, end int64) {
	if n.undo == nil {
		n.undo = &undo{size: n.size, chunks: make(map[int64]*chunk)}
		n.fs.dirtyMu.Lock()
		n.fs.dirty[n] = struct{}{}
		n.fs.dirtyMu.Unlock()
	}
	span(off, end, func(i int64, _, _ int) {
		if _, kept := n.undo.chunks[i]; kept {
			return
		}
		c := n.chunks[i]
		if c != nil && c.present == 0 {
			c = nil
		}
		n.undo.chunks[i] = c.clone()
	})
}

// write makes a stable write in the remembered state as well.
func (u *undo) write(i int64, lo int, p []byte) {
	c, kept := u.chunks[i]
	if !kept {
		return // the chunk has no uncommitted data
	}
	if c == nil {
		c = &chunk{}
		u.chunks[i] = c
	}
	c.present |= pageMask(lo, lo+len(p))
	c.write(lo, p)
}

// Commit makes the data of n stable.
func (fs *FS) Commit(n *Inode) error {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if err := n.regular(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.commit()
	return nil
}

func (n *Inode) commit() {
	if n.undo == nil {
		return
	}
	n.undo = nil
	n.fs.dirtyMu.Lock()
	delete(n.fs.dirty, n)
	n.fs.dirtyMu.Unlock()
}

// DropUncommitted puts every file back to what was stable of it, and returns
// the number of files that had more.
func (fs *FS) DropUncommitted() int {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	files := 0
	for n := range fs.dirty {
		u := n.undo
		var pages int64
		for i, c := range u.chunks {
			if now := n.chunks[i]; now != nil {
				pages -= int64(bits.OnesCount16(now.present))
			}
			if c == nil {
				delete(n.chunks, i)
				continue
			}
			pages += int64(bits.OnesCount16(c.present))
			n.chunks[i] = c
		}
		n.pages += pages
		fs.acct.refund(n.uid, -pages*pageSize)
		n.size = u.size
		n.undo = nil
		n.touch(true)
		files++
	}
	clear(fs.dirty)
	return files
}

// discard frees what lies behind size. n.mu or fs.mu is held exclusively.
func (n *Inode) discard(size int64) {
	var freed int64
	first := size / chunkSize
	if lo := int(size % chunkSize); lo != 0 {
		if c := n.chunks[first]; c != nil {
			freed += c.zero(lo, chunkSize)
		}
		first++
	}
	for i, c := range n.chunks {
		if i >= first {
			freed += int64(bits.OnesCount16(c.present))
			delete(n.chunks, i)
		}
	}
	n.pages -= freed
	n.fs.acct.refund(n.uid, freed*pageSize)
}

// truncate sets the size, which becomes stable together with the data before
// it. n.mu is held exclusively.
func (n *Inode) truncate(size int64) error {
	if size < 0 {
		return syscall.EINVAL
	}
	n.commit()
	if size < n.size {
		n.discard(size)
	}
	n.size = size
	return nil
}

// CommitAll makes the data of all files stable.
func (fs *FS) CommitAll() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for n := range fs.dirty {
		n.undo = nil
	}
	clear(fs.dirty)
}

// DirtyFiles returns the number of files with data that is not stable.
func (fs *FS) DirtyFiles() int {
	fs.dirtyMu.Lock()
	defer fs.dirtyMu.Unlock()
	return len(fs.dirty)
}
