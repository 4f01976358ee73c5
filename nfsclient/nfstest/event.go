package nfstest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// Event is a COMPOUND that the server has carried out, or a callback.
type Event struct {
	N        uint64 // counts events from 1 on
	Time     time.Time
	Peer     string // name of the connection
	Client   nfs4.ClientID
	Session  nfs4.SessionID
	Slot     uint32
	Sequence uint32
	UID      uint32
	Callback bool // from the server to the client
	Replay   bool // answered from the reply cache
	Mute     bool // not answered
	Status   nfs4.Status
	Ops      []OpEvent
}

// OpEvent is an operation of a COMPOUND.
type OpEvent struct {
	Op     nfs4.OpNum
	CBOp   nfs4.CBOpNum // of a callback
	Status nfs4.Status
	FileID uint64 // of the current filehandle; zero if there is none
	Name   string // argument of operations that have a name
	Offset uint64 // argument of operations on a range
	Count  uint64
	Stable nfs4.StableHow // of a WRITE
}

// Has tells whether the COMPOUND had this operation.
func (e *Event) Has(op nfs4.OpNum) bool {
	for _, o := range e.Ops {
		if o.Op == op && !e.Callback {
			return true
		}
	}
	return false
}

// HasCB tells whether the callback had this operation.
func (e *Event) HasCB(op nfs4.CBOpNum) bool {
	for _, o := range e.Ops {
		if o.CBOp == op && e.Callback {
			return true
		}
	}
	return false
}

// String is one line for the log of a failed test.
func (e *Event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", e.N, e.Peer)
	if e.Sequence != 0 {
		fmt.Fprintf(&b, " slot %d seq %d", e.Slot, e.Sequence)
	}
	if e.Replay {
		b.WriteString(" replay")
	}
	for _, o := range e.Ops {
		if e.Callback {
			fmt.Fprintf(&b, " %v", o.CBOp)
		} else {
			fmt.Fprintf(&b, " %v", o.Op)
		}
		if o.Name != "" {
			fmt.Fprintf(&b, " %q", o.Name)
		}
		if o.Count != 0 {
			fmt.Fprintf(&b, " %d+%d", o.Offset, o.Count)
		}
		if o.Status != nfs4.OK {
			fmt.Fprintf(&b, " %v", o.Status)
		}
	}
	return b.String()
}

// keepEvents is the number of events that are remembered.
const keepEvents = 8192

type eventLog struct {
	mu    sync.Mutex
	n     uint64
	ring  [keepEvents]Event
	news  chan struct{} // closed and replaced at every event
	count map[nfs4.OpNum]uint64
}

func (l *eventLog) init() {
	l.news = make(chan struct{})
	l.count = make(map[nfs4.OpNum]uint64)
}

func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.N = l.n + 1
	l.ring[l.n%keepEvents] = e
	l.n++
	if !e.Callback && !e.Replay {
		for _, o := range e.Ops {
			l.count[o.Op]++
		}
	}
	close(l.news)
	l.news = make(chan struct{})
}

// since returns the events behind number n that are still there.
func (l *eventLog) since(n uint64) []Event {
	if l.n > keepEvents {
		n = max(n, l.n-keepEvents)
	}
	var events []Event
	for ; n < l.n; n++ {
		events = append(events, l.ring[n%keepEvents])
	}
	return events
}

// Events returns what has happened after event number n, the last 8192 events
// at most. With n zero that is everything remembered.
func (s *Server) Events(n uint64) []Event {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.since(n)
}

// LastEvent returns the number of the last event.
func (s *Server) LastEvent() uint64 {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.n
}

// WaitEvent waits for an event behind number n that the function accepts.
func (s *Server) WaitEvent(ctx context.Context, n uint64, accept func(*Event) bool) (Event, error) {
	for {
		s.log.mu.Lock()
		events, news := s.log.since(n), s.log.news
		s.log.mu.Unlock()
		for i := range events {
			n = events[i].N
			if accept(&events[i]) {
				return events[i], nil
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Count returns how many operations of this kind have been carried out, replays
// not counted.
func (s *Server) Count(op nfs4.OpNum) uint64 {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	return s.log.count[op]
}

// describe fills in what is known of the arguments of an operation.
func (o *OpEvent) describe(args nfs4.Args) {
	switch a := args.(type) {
	case *nfs4.LookupArgs:
		o.Name = a.Name
	case *nfs4.OpenArgs:
		o.Name = a.Name
	case *nfs4.CreateArgs:
		o.Name = a.Name
	case *nfs4.RemoveArgs:
		o.Name = a.Name
	case *nfs4.RenameArgs:
		o.Name = a.OldName + " " + a.NewName
	case *nfs4.LinkArgs:
		o.Name = a.Name
	case *nfs4.GetXattrArgs:
		o.Name = a.Name
	case *nfs4.SetXattrArgs:
		o.Name = a.Name
	case *nfs4.RemoveXattrArgs:
		o.Name = a.Name
	case *nfs4.ReadArgs:
		o.Offset, o.Count = a.Offset, uint64(a.Count)
	case *nfs4.WriteArgs:
		o.Offset, o.Count, o.Stable = a.Offset, uint64(len(a.Data)), a.Stable
	case *nfs4.CommitArgs:
		o.Offset, o.Count = a.Offset, uint64(a.Count)
	case *nfs4.ReadDirArgs:
		o.Offset, o.Count = a.Cookie, uint64(a.MaxCount)
	case *nfs4.LockArgs:
		o.Offset, o.Count = a.Offset, a.Length
	case *nfs4.LockTArgs:
		o.Offset, o.Count = a.Offset, a.Length
	case *nfs4.LockUArgs:
		o.Offset, o.Count = a.Offset, a.Length
	}
}
