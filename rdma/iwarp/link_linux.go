package iwarp

import (
	"io"
	"os"
	"syscall"
	"unsafe"
)

// vectored says that this system has readv and writev.
const vectored = true

// maxPieces is how many pieces of memory one write gathers (IOV_MAX is 1024).
const maxPieces = 1000

// readOp is one readv call: into the payload's place, and what comes behind it
// into the staging buffer.
type readOp struct {
	fn  func(fd uintptr) bool
	dst *target // nil: only into tail
	// tail takes octets behind the payload.
	tail []byte

	iov [2]syscall.Iovec
	n   int
	err error
}

func (o *readOp) call(fd uintptr) bool {
	dst, err := o.dst.lock()
	if err != nil {
		o.n, o.err = 0, err
		return true
	}
	k := 0
	if len(dst) > 0 {
		o.iov[k].Base = &dst[0]
		o.iov[k].SetLen(len(dst))
		k++
	}
	if len(o.tail) > 0 {
		o.iov[k].Base = &o.tail[0]
		o.iov[k].SetLen(len(o.tail))
		k++
	}
	var n uintptr
	var errno syscall.Errno
	for {
		n, _, errno = syscall.Syscall(syscall.SYS_READV, fd, uintptr(unsafe.Pointer(&o.iov[0])), uintptr(k))
		if errno != syscall.EINTR {
			break
		}
	}
	if errno == 0 {
		raceReceive()
		k := min(int(n), len(dst))
		raceWrite(dst[:k])
		o.dst.placed(dst[:k])
	}
	o.dst.unlock()
	o.iov = [2]syscall.Iovec{}
	switch {
	case errno == syscall.EAGAIN:
		return false
	case errno != 0:
		o.n, o.err = 0, os.NewSyscallError("readv", errno)
	case n == 0:
		o.n, o.err = 0, io.EOF
	default:
		o.n, o.err = int(n), nil
	}
	return true
}

// read reads at least one octet: first into dst (which may be nil), then into
// tail. It waits until there is one.
func (l *link) read(dst *target, tail []byte) (int, error) {
	if l.raw == nil {
		return l.conn.Read(tail)
	}
	l.rd.dst, l.rd.tail = dst, tail
	err := l.raw.Read(l.rd.fn)
	l.rd.dst, l.rd.tail = nil, nil
	if err != nil {
		return 0, err
	}
	return l.rd.n, l.rd.err
}

// writeOp is the writing of one batch.
type writeOp struct {
	fn    func(fd uintptr) bool
	b     *batch
	block bool
	iov   [maxPieces]syscall.Iovec
	full  bool // the socket took no more, and block was false
	err   error
}

func (o *writeOp) call(fd uintptr) bool {
	b := o.b
	for {
		if err := b.lock(); err != nil {
			o.err = err
			return true
		}
		k := 0
		for _, p := range b.pieces[b.next:] {
			o.iov[k].Base = &p[0]
			o.iov[k].SetLen(len(p))
			k++
			raceRead(p)
		}
		raceSend()
		n, _, errno := syscall.Syscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&o.iov[0])), uintptr(k))
		clear(o.iov[:k])
		b.unlock()
		switch errno {
		case 0:
			if b.advance(int(n)) {
				return true
			}
		case syscall.EINTR:
		case syscall.EAGAIN:
			if !o.block {
				o.full = true
				return true
			}
			return false
		default:
			o.err = os.NewSyscallError("writev", errno)
			return true
		}
	}
}

// write writes the rest of batch b. Without block it stops when the socket
// takes no more, and reports false.
func (l *link) write(b *batch, block bool) (done bool, err error) {
	if l.raw == nil {
		if !block {
			return false, nil
		}
		return true, l.copyOut(b)
	}
	o := &l.wr
	o.b, o.block, o.full, o.err = b, block, false, nil
	err = l.raw.Write(o.fn)
	o.b = nil
	if err == nil {
		err = o.err
	}
	return !o.full, err
}
