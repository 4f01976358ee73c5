package memfs

import (
	"math/bits"
	"syscall"
)

// SeekData returns the first offset at or behind off that has data, or, with
// hole set, the first that lies in a hole; behind the last byte of a file there
// is a hole. It fails with ENXIO if there is no such offset within the file.
func (fs *FS) SeekData(n *Inode, off int64, hole bool) (at int64, eof bool, err error) {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if err := n.regular(); err != nil {
		return 0, false, err
	}
	n.mu.RLock()
	defer n.mu.RUnlock()
	if off < 0 {
		return 0, false, syscall.EINVAL
	}
	if off >= n.size {
		return 0, false, syscall.ENXIO
	}
	for at := off; at < n.size; {
		i := at / chunkSize
		c := n.chunks[i]
		if (c == nil || c.present == 0) && !hole {
			next, ok := n.nextChunk(i + 1)
			if !ok {
				return 0, true, syscall.ENXIO
			}
			at = next * chunkSize
			continue
		}
		page := int(at-i*chunkSize) / pageSize
		isHole := c == nil || c.present&(1<<page) == 0
		if isHole == hole {
			return at, false, nil
		}
		at = i*chunkSize + int64(page+1)*pageSize
	}
	if hole {
		return n.size, true, nil
	}
	return 0, true, syscall.ENXIO
}

// nextChunk returns the smallest index of a chunk with data, from i on.
func (n *Inode) nextChunk(i int64) (next int64, ok bool) {
	last := (n.size - 1) / chunkSize
	if last-i > int64(len(n.chunks)) { // a sparse file: look at what there is
		for j, c := range n.chunks {
			if j >= i && j <= last && c.present != 0 && (!ok || j < next) {
				next, ok = j, true
			}
		}
		return next, ok
	}
	for ; i <= last; i++ {
		if c := n.chunks[i]; c != nil && c.present != 0 {
			return i, true
		}
	}
	return 0, false
}

// maxAllocate bounds the space that one call reserves, bytes.
const maxAllocate = 16 << 30

// Allocate makes sure that there is space for the bytes from off up to off+size,
// and makes the file as long as that.
func (fs *FS) Allocate(c Cred, n *Inode, off, size int64) error {
	end, err := extent(off, size)
	if err != nil {
		return err
	}
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if err := n.regular(); err != nil {
		return err
	}
	if size > maxAllocate {
		return syscall.ENOSPC
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.commit()
	if err := n.reserve(off, end); err != nil {
		return err
	}
	span(off, end, func(i int64, lo, hi int) { n.chunks[i].present |= pageMask(lo, hi) })
	n.size = max(n.size, end)
	n.killPriv(c)
	n.touch(true)
	return nil
}

// Deallocate makes the bytes from off up to off+size a hole. The size of the
// file stays.
func (fs *FS) Deallocate(c Cred, n *Inode, off, size int64) error {
	end, err := extent(off, size)
	if err != nil {
		return err
	}
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	if err := n.regular(); err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.commit()
	if end >= n.size { // the rest of the last page holds nothing
		end = (n.size + pageSize - 1) &^ (pageSize - 1)
	}
	n.punch(off, end)
	n.killPriv(c)
	n.touch(true)
	return nil
}

// punch makes a hole. n.mu or fs.mu is held exclusively.
func (n *Inode) punch(off, end int64) {
	if off >= end {
		return
	}
	var freed int64
	zero := func(i int64, lo, hi int) {
		if c := n.chunks[i]; c != nil {
			freed += c.zero(lo, hi)
			if c.present == 0 {
				delete(n.chunks, i)
			}
		}
	}
	if (end-off)/chunkSize > int64(len(n.chunks)) {
		for i := range n.chunks {
			lo, hi := max(off-i*chunkSize, 0), min(end-i*chunkSize, chunkSize)
			if lo < hi {
				zero(i, int(lo), int(hi))
			}
		}
	} else {
		span(off, end, zero)
	}
	n.pages -= freed
	n.fs.acct.refund(n.uid, freed*pageSize)
}

func extent(off, size int64) (end int64, err error) {
	if off < 0 || size <= 0 {
		return 0, syscall.EINVAL
	}
	if size > MaxSize-off {
		return 0, syscall.EFBIG
	}
	return off + size, nil
}

// Copy copies size bytes of src at srcOff to dst at dstOff, holes as holes. A
// size of zero means up to the end of src. It returns how many bytes were
// copied; with exact set the source must have them all. It is stable at once.
func (fs *FS) Copy(c Cred, src *Inode, srcOff int64, dst *Inode, dstOff, size int64, exact bool) (copied int64, err error) {
	if srcOff < 0 || dstOff < 0 || size < 0 {
		return 0, syscall.EINVAL
	}
	fs.mu.Lock() // two inodes at once
	defer fs.mu.Unlock()
	if err := src.regular(); err != nil {
		return 0, err
	}
	if err := dst.regular(); err != nil {
		return 0, err
	}
	if srcOff > src.size || exact && size > src.size-srcOff {
		return 0, syscall.EINVAL
	}
	if avail := src.size - srcOff; size == 0 || size > avail {
		size = avail
	}
	if size > MaxSize-dstOff {
		return 0, syscall.EFBIG
	}
	if src == dst && srcOff < dstOff+size && dstOff < srcOff+size {
		return 0, syscall.EINVAL
	}
	if size == 0 {
		return 0, nil
	}
	dst.commit()
	err = dst.copyFrom(src, srcOff, dstOff, size)
	dst.killPriv(c)
	dst.touch(true)
	if err != nil {
		return 0, err
	}
	return size, nil
}

func (n *Inode) copyFrom(src *Inode, srcOff, off, size int64) error {
	buf := make([]byte, chunkSize)
	for size > 0 {
		at := int(srcOff % chunkSize)
		part := min(size, int64(chunkSize-at))
		c := src.chunks[srcOff/chunkSize]
		if c == nil || c.present == 0 {
			// Go over all of the hole in one step, however large.
			if next, ok := src.nextChunk(srcOff/chunkSize + 1); !ok {
				part = size
			} else {
				part = min(size, next*chunkSize-srcOff)
			}
			n.punch(off, off+part)
			n.size = max(n.size, off+part)
		} else {
			c.read(buf[:part], at)
			if err := n.writeAt(buf[:part], off, true); err != nil {
				return err
			}
			holes := pageMask(at, at+int(part)) &^ c.present
			for holes != 0 {
				p := bits.TrailingZeros16(holes)
				holes &^= 1 << p
				lo, hi := max(p*pageSize, at), min((p+1)*pageSize, at+int(part))
				n.punch(off+int64(lo-at), off+int64(hi-at))
			}
		}
		srcOff, off, size = srcOff+part, off+part, size-part
	}
	return nil
}
