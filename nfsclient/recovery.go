package nfsclient

import "fmt"

// recovery knows what is missing for the session to be usable, and in which
// order it is to be had. It does no I/O: the manager asks it for the next
// action, carries that out and reports back; events report what was lost.
//
//	connect --> identify --> create session --> reclaim --> open
//	   |                           ^    ^          ^         |
//	   |  session known            |    |          |         |
//	   +--------> bind ------------+----+----------+         |
//	   ^           |   (bad session)               |         |
//	   |           +------------------(state kept)-+-------->+
//	   |                                                     |
//	   +----- connection lost, session lost, client id lost -+
//
// "open" is the gate for requests of applications. It is not safe for
// concurrent use; Client.mu guards it.
type recovery struct {
	connected  bool // there is a connection, not known to have ended
	identified bool // the server knows our client id
	session    bool // there is a session, not known to be gone
	bound      bool // the connection belongs to the session, in both directions
	reclaimed  bool // state of an earlier client id was reclaimed or given up
	open       bool // requests may go out
	verified   bool // no state is suspected to have been revoked
	same       bool // state is to be reclaimed, under the client id that it was had with
}

// action is what the manager has to do next.
type action uint8

const (
	actNone     action = iota
	actConnect         // make a connection
	actIdentify        // EXCHANGE_ID
	actSession         // CREATE_SESSION
	actBind            // BIND_CONN_TO_SESSION
	actReclaim         // reclaim opens, RECLAIM_COMPLETE
	actOpen            // let requests out
	actVerify          // find and replace revoked state
)

func (a action) String() string {
	switch a {
	case actNone:
		return "nothing"
	case actConnect:
		return "connect"
	case actIdentify:
		return "EXCHANGE_ID"
	case actSession:
		return "CREATE_SESSION"
	case actBind:
		return "BIND_CONN_TO_SESSION"
	case actReclaim:
		return "reclaim"
	case actOpen:
		return "resume"
	case actVerify:
		return "verify state"
	}
	return fmt.Sprintf("action(%d)", uint8(a))
}

// next returns what has to be done now.
func (r *recovery) next() action {
	switch {
	case !r.connected:
		return actConnect
	case !r.identified:
		return actIdentify
	case !r.session:
		return actSession
	case !r.bound:
		return actBind
	case !r.reclaimed:
		return actReclaim
	case !r.open:
		return actOpen
	case !r.verified:
		return actVerify
	}
	return actNone
}

// did reports that an action has succeeded.
func (r *recovery) did(a action) {
	switch a {
	case actConnect:
		r.connected, r.bound, r.open = true, false, false
	case actIdentify:
		r.identified = true
	case actSession:
		// CREATE_SESSION binds the connection that it came on.
		r.session, r.bound = true, true
	case actBind:
		r.bound = true
	case actReclaim:
		r.reclaimed, r.verified, r.same = true, true, false
	case actOpen:
		r.open = r.next() == actOpen
	case actVerify:
		r.verified = true
	}
}

// disconnected reports that the connection has ended.
func (r *recovery) disconnected() { r.connected, r.bound, r.open = false, false, false }

// unbound reports that the connection has to be bound again.
func (r *recovery) unbound() { r.bound, r.open = false, false }

// sessionLost reports that there is no session any more.
func (r *recovery) sessionLost() { r.session, r.bound, r.open = false, false, false }

// clientLost reports that the server has forgotten the client and all its
// state.
func (r *recovery) clientLost() {
	r.sessionLost()
	r.identified, r.reclaimed, r.same = false, false, false
}

// reclaim reports that state has to be reclaimed although the session is
// kept.
func (r *recovery) reclaim() { r.reclaimed, r.open, r.same = false, false, true }

// revoked reports that some state may have been revoked.
func (r *recovery) revoked() { r.verified = false }
