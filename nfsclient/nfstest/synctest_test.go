package nfstest

import (
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// In a bubble of synctest the server's time is the bubble's: a test of an hour
// takes no time.
func TestInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewServer(Options{Lease: time.Minute, RecallTimeout: 30 * time.Second})
		defer s.Close()
		a, b := newTester(t, s, "a"), newTester(t, s, "b")
		defer a.conn.Close()
		defer b.conn.Close()
		a.opened(createArgs("o", "f", nfs4.ShareAccessRead))
		for range 60 {
			time.Sleep(50 * time.Second)
			a.ok()
			b.ok()
		}
		write := openArgs("o", "f", nfs4.ShareAccessWrite)
		b.fails(nfs4.ErrDelay, putRoot(), write)
		synctest.Wait()
		a.waitCB(1)
		time.Sleep(31 * time.Second)
		b.ok(putRoot(), write)
		if f := a.flags(); f != nfs4.SeqStatusRecallableStateRevoked {
			t.Errorf("flags %#x", f)
		}
		time.Sleep(61 * time.Second)
		if u := s.Usage(); u.Clients != 0 || u.Opens != 0 {
			t.Errorf("after the lease: %v", u)
		}
	})
}
