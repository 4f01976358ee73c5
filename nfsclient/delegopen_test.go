package nfsclient

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// sentOps returns the operations of a kind that the server has seen since n.
func (g *rig) sentOps(n uint64, op nfs4.OpNum) (count int) {
	for _, e := range g.srv.Events(n) {
		if slices.ContainsFunc(e.Ops, func(o nfstest.OpEvent) bool { return !e.Callback && o.Op == op }) {
			count++
		}
	}
	return count
}

// Under a delegation a file is opened and closed without a word to the server;
// when the delegation is recalled, what nobody has open is closed, and what
// somebody has stays.
func TestOpenDelegated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{})
		a, b := g.client(), g.client(func(o *Options) { o.Unique = "b" })
		var ended []string
		a.WatchDelegations(func(fh FH) { ended = append(ended, string(fh)) })
		f := create(t, a, "f")
		fh := f.FH().Clone()
		write(t, f, 0, []byte("one"))
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !a.Delegated(fh) || g.srv.Usage().Opens != 1 {
			t.Fatalf("delegated %v, %d opens at the server", a.Delegated(fh), g.srv.Usage().Opens)
		}
		// Having made the file does not show that its mode lets one open it.
		if a.OpenDelegated(root, fh, true, true) != nil {
			t.Error("opened after having been made only")
		}
		reopen := func() {
			t.Helper()
			f, _, _, err := a.Open(t.Context(), root, OpenRequest{FH: fh, Read: true, Write: true})
			if err != nil || f.Close(t.Context()) != nil {
				t.Fatal(err)
			}
		}
		reopen()
		before := g.srv.LastEvent()
		for range 3 {
			if f = a.OpenDelegated(root, fh, true, true); f == nil {
				t.Fatal("not opened")
			}
			expect(t, f, 0, []byte("one"))
			if err := f.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := g.sentOps(before, nfs4.OpOpen) + g.sentOps(before, nfs4.OpClose); n != 0 {
			t.Errorf("%d opens and closes sent\n%s", n, g.events(before))
		}
		// What the server has not granted to this user it is asked for.
		if a.OpenDelegated(Cred{UID: 7}, fh, true, false) != nil {
			t.Error("opened for somebody else")
		}
		// So it is after an own change of who may open the file.
		if _, err := a.SetAttr(t.Context(), root, fh, nil, &nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrMode), Mode: 0o600}); err != nil {
			t.Fatal(err)
		}
		if a.OpenDelegated(root, fh, true, false) != nil {
			t.Error("opened after a change of its mode")
		}
		reopen()
		if f = a.OpenDelegated(root, fh, true, false); f == nil {
			t.Fatal("not opened")
		}

		// Another client's open recalls it.
		dir, _ := b.Root()
		other, _, _, err := b.Open(t.Context(), root, OpenRequest{Dir: dir, Name: "f", Read: true})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a.Delegated(fh) || len(ended) != 1 || ended[0] != string(fh) {
			t.Errorf("delegated %v, told of %q", a.Delegated(fh), ended)
		}
		if a.OpenDelegated(root, fh, true, false) != nil {
			t.Error("opened without a delegation")
		}
		expect(t, f, 0, []byte("one")) // goes on under its open
		for _, f := range []*File{f, other} {
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		}
		synctest.Wait()
		if n := g.srv.Usage().Opens; n != 0 {
			t.Errorf("%d opens left\n%s", n, g.events(before))
		}
	})
}

// A delegation of a file that nobody uses goes back after a while, and the open
// with it.
func TestOpenDelegatedIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
		c := g.client()
		f := create(t, c, "f")
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if u := g.srv.Usage(); u.Opens != 1 || u.Delegations != 1 {
			t.Fatalf("%+v", u)
		}
		time.Sleep(2 * idleLeases * 20 * time.Second) // of the bubble
		synctest.Wait()
		if u := g.srv.Usage(); u.Opens != 0 || u.Delegations != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// A server that has restarted knows of no delegation, and not of what was left
// open under it.
func TestOpenDelegatedRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nfstest.Options{Lease: 20 * time.Second})
		c := g.client()
		idle, used := create(t, c, "idle"), create(t, c, "used")
		ended := 0
		c.WatchDelegations(func(FH) { ended++ })
		if err := idle.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
			t.Fatal(err)
		}
		write(t, used, 0, []byte("after"))
		if c.OpenDelegated(root, idle.FH(), true, false) != nil || ended != 2 {
			t.Errorf("opened without a delegation, or not told: %d", ended)
		}
		if u := g.srv.Usage(); u.Opens != 1 {
			t.Errorf("%+v", u)
		}
		if err := used.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
