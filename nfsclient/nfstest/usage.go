package nfstest

import (
	"fmt"
	"strings"

	"nfsrdma-fuse/xdr/nfs4"
)

// Usage is what clients occupy at the server. After a client has gone in good
// order all of it is zero.
type Usage struct {
	Connections int
	Clients     int
	Sessions    int
	Opens       int
	Locks       int // byte ranges
	LockStates  int
	Delegations int
	Revoked     int // stateids revoked and not freed
	Callbacks   int // waiting to be sent or answered
	Waiters     int // clients that wait for a lock
	Dirty       int // files with uncommitted data
	BusySlots   int // requests that are being carried out
}

// String lists what is not zero.
func (u Usage) String() string {
	var parts []string
	for _, f := range []struct {
		n    int
		name string
	}{{u.Connections, "connections"}, {u.Clients, "clients"}, {u.Sessions, "sessions"}, {u.Opens, "opens"},
		{u.Locks, "locked ranges"}, {u.LockStates, "lock states"}, {u.Delegations, "delegations"},
		{u.Revoked, "revoked stateids"}, {u.Callbacks, "callbacks"}, {u.Waiters, "lock waiters"},
		{u.Dirty, "dirty files"}, {u.BusySlots, "busy slots"}} {
		if f.n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", f.n, f.name))
		}
	}
	if parts == nil {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// Usage tells what clients occupy, after leases and recalls that have run out
// were dealt with.
func (s *Server) Usage() Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(s.now())
	u := Usage{Connections: len(s.peers), Clients: len(s.clients), Sessions: len(s.sessions), Waiters: len(s.waiters)}
	for _, st := range s.states {
		switch {
		case st.revoked != nfs4.OK:
			u.Revoked++
		case st.kind == openState:
			u.Opens++
		case st.kind == lockState:
			u.LockStates++
		case st.kind == delegState:
			u.Delegations++
		}
	}
	for _, f := range s.files {
		u.Locks += len(f.ranges.list)
	}
	for _, cl := range s.clients {
		u.Callbacks += len(cl.callbacks)
	}
	for _, sess := range s.sessions {
		for _, busy := range sess.cb.busy {
			if busy {
				u.Callbacks++
			}
		}
		for i := range sess.slots {
			if sess.slots[i].busy {
				u.BusySlots++
			}
		}
	}
	for _, e := range s.exports.byID {
		u.Dirty += e.fs.DirtyFiles()
	}
	return u
}

// Leaks returns what clients have left behind, or the empty string. Connections
// that end take a moment to be noticed; tests that have just closed one wait
// with WaitClean.
func (s *Server) Leaks() string {
	if u := s.Usage(); u != (Usage{}) {
		return u.String()
	}
	return ""
}
