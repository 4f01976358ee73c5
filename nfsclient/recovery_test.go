package nfsclient

import (
	"testing"

	"pgregory.net/rapid"
)

func TestRecoveryOrder(t *testing.T) {
	drive := func(r *recovery) (did []action) {
		for a := r.next(); a != actNone; a = r.next() {
			did = append(did, a)
			r.did(a)
		}
		return did
	}
	same := func(t *testing.T, got []action, want ...action) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	}
	var r recovery
	same(t, drive(&r), actConnect, actIdentify, actSession, actReclaim, actOpen)
	r.disconnected()
	same(t, drive(&r), actConnect, actBind, actOpen)
	r.sessionLost()
	same(t, drive(&r), actSession, actOpen)
	r.clientLost()
	same(t, drive(&r), actIdentify, actSession, actReclaim, actOpen)
	r.unbound()
	same(t, drive(&r), actBind, actOpen)
	r.reclaim()
	same(t, drive(&r), actReclaim, actOpen)
	r.revoked()
	if !r.open {
		t.Error("closed for everybody because some state is in doubt")
	}
	same(t, drive(&r), actVerify)
}

// Whatever is lost in whatever order, a few actions bring it back, and requests are
// let out only when everything below them is there.
func TestRecoveryAlwaysComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r recovery
		for range rapid.IntRange(0, 50).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "event") {
			case 0:
				r.disconnected()
			case 1:
				r.sessionLost()
			case 2:
				r.clientLost()
			case 3:
				r.unbound()
			case 4:
				r.reclaim()
			case 5:
				r.revoked()
			default:
				r.did(r.next())
			}
			if r.open && !(r.connected && r.identified && r.session && r.bound && r.reclaimed) {
				t.Fatalf("open with %+v", r)
			}
		}
		for range 7 {
			r.did(r.next())
		}
		if a := r.next(); a != actNone {
			t.Fatalf("still to do: %v, %+v", a, r)
		}
	})
}
