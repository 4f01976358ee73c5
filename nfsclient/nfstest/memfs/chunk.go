package memfs

import "math/bits"

// chunk is a stretch of chunkSize bytes of a file. Pages that were never
// written are holes: they read as zeros and occupy no space.
type chunk struct {
	data    []byte // from the start of the chunk on; zeros follow
	present uint16 // pages that are not holes, a bit each
}

const _ = uint(16 - chunkPages) // present has a bit for every page

// pageMask returns the bits of the pages that the bytes from lo up to hi touch.
func pageMask(lo, hi int) uint16 {
	if lo >= hi {
		return 0
	}
	first, last := lo/pageSize, (hi-1)/pageSize
	return uint16(1<<(last+1) - 1<<first)
}

// innerMask returns the bits of the pages that lie wholly between lo and hi.
func innerMask(lo, hi int) uint16 {
	first, last := (lo+pageSize-1)/pageSize, hi/pageSize
	if first >= last {
		return 0
	}
	return uint16(1<<last - 1<<first)
}

// grow makes the stored part at least n bytes long. Small files stay small.
func (c *chunk) grow(n int) {
	if n <= len(c.data) {
		return
	}
	if n > cap(c.data) {
		room := 512
		for room < n {
			room *= 2
		}
		data := make([]byte, n, min(room, chunkSize))
		copy(data, c.data)
		c.data = data
		return
	}
	old := len(c.data)
	c.data = c.data[:n]
	clear(c.data[old:])
}

func (c *chunk) clone() *chunk {
	if c == nil {
		return nil
	}
	return &chunk{data: append([]byte(nil), c.data...), present: c.present}
}

// read fills dst with the bytes from off on.
func (c *chunk) read(dst []byte, off int) {
	n := 0
	if c != nil && off < len(c.data) {
		n = copy(dst, c.data[off:])
	}
	clear(dst[n:])
}

// write puts src at off. The pages must be present already.
func (c *chunk) write(off int, src []byte) {
	c.grow(off + len(src))
	copy(c.data[off:], src)
}

// zero makes the bytes from lo up to hi zeros, and the pages that become all
// zeros by it holes. It returns how many pages those were.
func (c *chunk) zero(lo, hi int) (freed int64) {
	if lo < len(c.data) {
		clear(c.data[lo:min(hi, len(c.data))])
	}
	gone := innerMask(lo, hi) & c.present
	c.present &^= gone
	if hi >= len(c.data) && lo < len(c.data) {
		c.data = c.data[:lo]
	}
	return int64(bits.OnesCount16(gone))
}

// undo is what a file was like before its uncommitted writes.
type undo struct {
	size   int64
	chunks map[int64]*chunk // as they were; nil for those that did not exist
}
