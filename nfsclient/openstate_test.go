package nfsclient

import (
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr/nfs4"
)

func TestNewerSeq(t *testing.T) {
	for _, c := range []struct {
		a, b uint32
		want bool
	}{{2, 1, true}, {1, 2, false}, {1, 1, false}, {1, 0xffffffff, true}, {0xffffffff, 1, false}, {3, 0xfffffff0, true}} {
		if got := newerSeq(c.a, c.b); got != c.want {
			t.Errorf("newerSeq(%#x, %#x) = %v", c.a, c.b, got)
		}
	}
}

// serverShare is a server's view of what one owner has open of one file.
type serverShare struct {
	open   bool
	sid    nfs4.StateID
	access uint32
	others byte
}

func (s *serverShare) doOpen(access uint32) nfs4.StateID {
	if !s.open {
		s.others++
		s.open, s.access = true, 0
		s.sid = nfs4.StateID{Other: [12]byte{s.others}}
	}
	s.access |= access
	s.bump()
	return s.sid
}

func (s *serverShare) bump() {
	if s.sid.Seq++; s.sid.Seq == 0 {
		s.sid.Seq = 1
	}
}

func (s *serverShare) check(sid nfs4.StateID) nfs4.Status {
	switch {
	case !s.open || sid.Other != s.sid.Other:
		return nfs4.ErrBadStateID
	case newerSeq(s.sid.Seq, sid.Seq):
		return nfs4.ErrOldStateID
	case sid.Seq != s.sid.Seq:
		return nfs4.ErrBadStateID
	}
	return nfs4.OK
}

// Opens and closes whose replies arrive in any order: in the end the server has
// exactly what is open here, and nothing that is open here is ever closed
// there.
func TestShareAgainstServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var sh share
		var srv serverShare
		type reply struct {
			sid    nfs4.StateID
			access uint32
		}
		var replies []reply // of OPENs, on their way
		var files []uint32  // open here
		settle := func(t *rapid.T) bool {
			do, sid, access := sh.next(len(replies) > 0)
			switch do {
			case shareKeep, shareWait:
				return false
			case shareClose:
				switch s := srv.check(sid); s {
				case nfs4.OK:
					srv.open = false
					sh.closed(sid)
				case nfs4.ErrOldStateID:
					return false // a reply is on its way
				default:
					sh.closed(sid)
				}
			case shareDowngrade:
				switch s := srv.check(sid); s {
				case nfs4.OK:
					if access&^srv.access != 0 {
						t.Fatalf("downgrade to %d of %d", access, srv.access)
					}
					srv.access = access
					srv.bump()
					sh.downgraded(srv.sid, access)
				case nfs4.ErrOldStateID:
					return false
				default:
					t.Fatalf("downgrade: %v", s)
				}
			}
			return true
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				access := rapid.Uint32Range(1, 3).Draw(t, "access")
				replies = append(replies, reply{srv.doOpen(access), access})
			},
			"reply": func(t *rapid.T) {
				if len(replies) == 0 {
					t.Skip("no reply is missing")
				}
				i := rapid.IntRange(0, len(replies)-1).Draw(t, "which")
				r := replies[i]
				replies = append(replies[:i], replies[i+1:]...)
				sh.opened(r.sid, r.access)
				files = append(files, r.access)
			},
			"release": func(t *rapid.T) {
				if len(files) == 0 {
					t.Skip("no file is open")
				}
				i := rapid.IntRange(0, len(files)-1).Draw(t, "which")
				sh.release(files[i])
				files = append(files[:i], files[i+1:]...)
			},
			"settle": func(t *rapid.T) { settle(t) },
			"": func(t *rapid.T) {
				var need uint32
				for _, a := range files {
					need |= a
				}
				if sh.needed() != need {
					t.Fatalf("needs %d, has open %d", sh.needed(), need)
				}
				if need != 0 && (!srv.open || need&^srv.access != 0) {
					t.Fatalf("open here for %d, at the server for %d", need, srv.access)
				}
			},
		})
		for len(replies) > 0 {
			sh.opened(replies[0].sid, replies[0].access)
			files = append(files, replies[0].access)
			replies = replies[1:]
		}
		for settle(t) {
		}
		if do, _, _ := sh.next(false); do != shareKeep {
			t.Fatalf("still to do: %d", do)
		}
		if srv.open != (len(files) > 0) || srv.open && srv.access != sh.needed() {
			t.Fatalf("server has %v for %d, here %v", srv.open, srv.access, files)
		}
	})
}

func TestShareLost(t *testing.T) {
	var sh share
	sh.opened(nfs4.StateID{Seq: 1, Other: [12]byte{1}}, 3)
	sh.lose(ErrStateLost)
	if _, err := sh.stateID(); err != ErrStateLost {
		t.Errorf("stateid of lost state: %v", err)
	}
	sh.release(3)
	if do, sid, _ := sh.next(false); do != shareClose || sid.Other[0] != 1 {
		t.Errorf("what may be left of lost state is not closed: %d", do)
	}
	sh.opened(nfs4.StateID{Seq: 1, Other: [12]byte{2}}, 1)
	if sid, err := sh.stateID(); err != nil || sid.Seq != 0 || sid.Other[0] != 2 {
		t.Errorf("%v %v", sid, err)
	}
}
