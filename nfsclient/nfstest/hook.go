package nfstest

import (
	"context"
	"sync"

	"nfsrdma-fuse/xdr/nfs4"
)

// Op is an operation that a client has sent and that the server is about to
// carry out, as a hook sees it.
type Op struct {
	Peer     string        // name of the connection
	Client   nfs4.ClientID // zero outside of a session
	Session  nfs4.SessionID
	Slot     uint32
	Sequence uint32
	Minor    uint32
	UID      uint32
	Index    int       // position in the COMPOUND; SEQUENCE has 0
	Count    int       // operations in the COMPOUND
	Args     nfs4.Args // not to be kept beyond the hook
	Handle   nfs4.FH   // current filehandle, nil if there is none
}

// Verdict is what a hook wants to happen to an operation. The zero value is:
// nothing unusual.
type Verdict struct {
	// Status other than OK makes the operation fail with it instead of being
	// carried out.
	Status nfs4.Status
	// Lose, with the first operation of a COMPOUND, makes the server forget
	// the call as if it had never come. With others it is the same as Mute.
	Lose bool
	// Mute makes the server carry out the COMPOUND and never answer.
	Mute bool
	// Cut makes the server cut the connection when the COMPOUND was carried
	// out, in place of answering.
	Cut bool
	// Edit changes the result before it is encoded. It is not called for an
	// operation that fails by Status.
	Edit func(res nfs4.Res)
	// Garble changes the encoded reply, RPC header included, before it is
	// sent. The reply cache is not affected. Bulk data of the reply is moved
	// into the stream first.
	Garble func(reply []byte) []byte
}

// Hook is called before each operation. It may block: that delays the operation,
// with no lock held. The context is done when the connection is cut.
type Hook func(ctx context.Context, op *Op) Verdict

type hooks struct {
	mu   sync.Mutex
	next int
	list []installed
}

type installed struct {
	id int
	fn Hook
}

// Hook installs a hook, and returns the function that removes it again. With
// several hooks the verdict of the first that has one counts.
func (s *Server) Hook(h Hook) (remove func()) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.next++
	id := s.hooks.next
	s.hooks.list = append(s.hooks.list[:len(s.hooks.list):len(s.hooks.list)], installed{id, h})
	return func() {
		s.hooks.mu.Lock()
		defer s.hooks.mu.Unlock()
		var rest []installed
		for _, i := range s.hooks.list {
			if i.id != id {
				rest = append(rest, i)
			}
		}
		s.hooks.list = rest
	}
}

// FailNext makes the next n operations of this kind fail with a status.
func (s *Server) FailNext(op nfs4.OpNum, status nfs4.Status, n int) {
	s.next(op, n, Verdict{Status: status})
}

// MuteNext makes the server carry out the next n calls with an operation of this
// kind and never answer them.
func (s *Server) MuteNext(op nfs4.OpNum, n int) { s.next(op, n, Verdict{Mute: true}) }

// CutNext makes the server carry out the next n calls with an operation of this
// kind, and cut the connection instead of answering.
func (s *Server) CutNext(op nfs4.OpNum, n int) { s.next(op, n, Verdict{Cut: true}) }

func (s *Server) next(op nfs4.OpNum, n int, v Verdict) {
	var mu sync.Mutex
	var remove func()
	mu.Lock()
	defer mu.Unlock()
	remove = s.Hook(func(_ context.Context, o *Op) Verdict {
		if o.Args.Op() != op {
			return Verdict{}
		}
		mu.Lock()
		defer mu.Unlock()
		if n == 0 {
			return Verdict{}
		}
		if n--; n == 0 {
			remove()
		}
		return v
	})
}

func (v *Verdict) isZero() bool {
	return v.Status == nfs4.OK && !v.Lose && !v.Mute && !v.Cut && v.Edit == nil && v.Garble == nil
}

// ask calls the hooks for an operation.
func (h *hooks) ask(ctx context.Context, op func() *Op) Verdict {
	h.mu.Lock()
	list := h.list
	h.mu.Unlock()
	if len(list) == 0 {
		return Verdict{}
	}
	o := op()
	for _, i := range list {
		if v := i.fn(ctx, o); !v.isZero() {
			return v
		}
	}
	return Verdict{}
}
