package lab

import (
	"bytes"
	"fmt"
)

// cpioArchive makes an initrd of a few files, in the "newc" format that the
// kernel unpacks. Several such archives may stand one behind the other.
type cpioArchive struct {
	buf   bytes.Buffer
	inode int
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
)

// add appends one entry. Directories come before what is in them.
func (a *cpioArchive) add(name string, mode int, data []byte) {
	a.inode++
	links := 1
	if mode&cpioDir != 0 {
		links = 2
	}
	// magic, inode, mode, uid, gid, links, mtime, size, dev ×2, rdev ×2, name length with its NUL, checksum (unused)
	fmt.Fprintf(&a.buf, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x",
		a.inode, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name)+1, 0)
	a.buf.WriteString(name)
	a.buf.WriteByte(0)
	a.pad(4)
	a.buf.Write(data)
	a.pad(4)
}

// bytes ends the archive. The result is padded so that another can follow.
func (a *cpioArchive) bytes() []byte {
	a.add("TRAILER!!!", 0, nil)
	a.pad(512)
	return a.buf.Bytes()
}

func (a *cpioArchive) pad(n int) {
	for a.buf.Len()%n != 0 {
		a.buf.WriteByte(0)
	}
}
