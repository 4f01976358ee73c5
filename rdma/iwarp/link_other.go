//go:build !linux

package iwarp

const (
	vectored  = false
	maxPieces = 1000
)

type readOp struct{ fn func(fd uintptr) bool }

func (*readOp) call(uintptr) bool { return true }

type writeOp struct{ fn func(fd uintptr) bool }

func (*writeOp) call(uintptr) bool { return true }

func (l *link) read(_ *target, tail []byte) (int, error) { return l.conn.Read(tail) }

func (l *link) write(b *batch, block bool) (done bool, err error) {
	if !block {
		return false, nil
	}
	return true, l.copyOut(b)
}
