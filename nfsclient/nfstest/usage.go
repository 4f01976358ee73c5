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

// Leaks returns what clients have left behind, or the empty string: the Usage,
// and what has happened to some of the files that there is state of. Connections
// that end take a moment to be noticed; tests that have just closed one wait with
// WaitClean.
func (s *Server) Leaks() string {
	u := s.Usage()
	if u == (Usage{}) {
		return ""
	}
	var b strings.Builder
	b.WriteString(u.String())
	for _, l := range s.leftovers() {
		fmt.Fprintf(&b, "\n\t%s", l.what)
		events := s.Events(0)
		n := 0
		for i := len(events) - 1; i >= 0 && n < 10; i-- {
			if events[i].touches(l.fileID) {
				n++
				fmt.Fprintf(&b, "\n\t\t%s", events[i].String())
			}
		}
	}
	return b.String()
}

// leftover is a state that is still there.
type leftover struct {
	what   string
	fileID uint64
}

// leftovers describes some of the states that are there.
func (s *Server) leftovers() (list []leftover) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range s.states {
		if len(list) == 3 {
			break
		}
		ino := st.file.o.n.Ino()
		switch {
		case st.revoked != nfs4.OK:
			list = append(list, leftover{fmt.Sprintf("revoked stateid of file %d", ino), ino})
		case st.kind == openState:
			list = append(list, leftover{fmt.Sprintf("open of file %d, access %d, seq %d, owner %q", ino, st.access, st.seq, st.owner), ino})
		case st.kind == lockState:
			list = append(list, leftover{fmt.Sprintf("locks of file %d, owner %q", ino, st.owner), ino})
		default:
			list = append(list, leftover{fmt.Sprintf("delegation of file %d, write %v, recalled %v", ino, st.write, st.recalled), ino})
		}
	}
	return list
}

// touches tells whether an operation of the COMPOUND had this file as its
// current filehandle, before or after.
func (e *Event) touches(fileID uint64) bool {
	for _, o := range e.Ops {
		if o.FileID == fileID {
			return true
		}
	}
	return false
}
