package iwarp

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// link is the octet stream below MPA. On a TCP socket it reads and writes with
// scatter and gather and without blocking inside the system call; on any other
// net.Conn it copies.
type link struct {
	conn net.Conn
	raw  syscall.RawConn // nil if conn is no TCP socket

	// State of the one read and the one write in progress: the closures are
	// made once, so that the data path allocates nothing.
	rd readOp
	wr writeOp
}

func newLink(conn net.Conn) *link {
	l := &link{conn: conn}
	if tcp, ok := conn.(*net.TCPConn); ok && vectored {
		if raw, err := tcp.SyscallConn(); err == nil {
			l.raw = raw
			l.rd.fn = l.rd.call
			l.wr.fn = l.wr.call
		}
	}
	return l
}

// errWithdrawn says that a region was withdrawn while octets were on their way
// to or from it.
var errWithdrawn = errors.New("memory withdrawn during the transfer")

// past is a deadline that ends an operation at once.
var past = time.Unix(1, 0)

// closeWrite sends FIN, if the connection can be half closed.
func (l *link) closeWrite() {
	if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite() // a lost connection needs no FIN
	}
}
