package nfsclient

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// lockModel is who has locked which of the first bytes of a file, and which of
// all that follow; for each of them by owner: false for reading, true for
// writing.
type lockModel [modelBytes]map[modelOwner]bool

// modelBytes are the bytes that are looked at. The last one stands for all up to
// the end.
const modelBytes = 16

// modelOwner is an owner of a client.
type modelOwner struct {
	client int
	owner  LockOwner
}

// bar returns who is in the way of a lock.
func (m *lockModel) bar(who modelOwner, start, last int, write bool) (in []modelOwner) {
	for i := start; i <= last; i++ {
		for o, w := range m[i] {
			if o != who && (w || write) {
				in = append(in, o)
			}
		}
	}
	return in
}

func (m *lockModel) set(who modelOwner, start, last int, write bool) {
	for i := start; i <= last; i++ {
		m[i][who] = write
	}
}

func (m *lockModel) clear(who modelOwner, start, last int) {
	for i := start; i <= last; i++ {
		delete(m[i], who)
	}
}

// Random locks of several owners of two clients have the outcome that the model
// says, across lost connections and restarts of the server.
func TestLockModel(t *testing.T) {
	// In a bubble the pauses take no time. It does not let a test ask for its
	// deadline.
	synctest.Test(t, func(t *testing.T) { rapid.Check(struct{ rapid.TB }{t}, func(rt *rapid.T) { lockModelRun(t, rt) }) })
}

func lockModelRun(t *testing.T, rt *rapid.T) {
	g := newRig(t, nfstest.Options{Delegations: rapid.SampledFrom([]nfstest.DelegationPolicy{nfstest.DelegateNever, nfstest.DelegateAny}).Draw(rt, "delegations")})
	clients := []*Client{g.client(quiet), g.client(quiet)}
	defer func() {
		for _, c := range clients {
			g.close(c)
		}
		g.srv.Close()
	}()
	files := [2][2]*File{}
	for i, c := range clients {
		for j := range files[i] {
			files[i][j] = create(t, c, "f")
		}
	}
	var m lockModel
	for i := range m {
		m[i] = make(map[modelOwner]bool)
	}
	// used says through which files an owner has locked since it last had
	// nothing.
	used := make(map[modelOwner]map[*File]bool)
	holds := func(who modelOwner) bool {
		return slices.ContainsFunc(m[:], func(b map[modelOwner]bool) bool { _, ok := b[who]; return ok })
	}
	draw := func(rt *rapid.T) (who modelOwner, f *File, file, start, last int) {
		who.client = rapid.IntRange(0, 1).Draw(rt, "client")
		who.owner = rapid.SampledFrom([]LockOwner{alice, bob, carol}).Draw(rt, "owner")
		file = rapid.IntRange(0, 1).Draw(rt, "file")
		a, b := rapid.IntRange(0, modelBytes-1).Draw(rt, "a"), rapid.IntRange(0, modelBytes-1).Draw(rt, "b")
		return who, files[who.client][file], file, min(a, b), max(a, b)
	}
	end := func(last int) uint64 {
		if last == modelBytes-1 {
			return MaxOffset
		}
		return uint64(last)
	}
	rt.Repeat(map[string]func(*rapid.T){
		"lock": func(rt *rapid.T) {
			who, f, _, start, last := draw(rt)
			write := rapid.Bool().Draw(rt, "write")
			_, err := f.Lock(t.Context(), LockRequest{Owner: who.owner, Start: uint64(start), Last: end(last), Write: write})
			bar := m.bar(who, start, last, write)
			if bar == nil && err != nil || bar != nil && !errors.Is(err, nfs4.ErrDenied) {
				rt.Fatalf("%v, in the way are %v\n%s", err, bar, g.events(0))
			}
			if bar == nil {
				m.set(who, start, last, write)
				if used[who] == nil {
					used[who] = make(map[*File]bool)
				}
				used[who][f] = true
			}
		},
		"unlock": func(rt *rapid.T) {
			who, f, _, start, last := draw(rt)
			if _, _, err := f.Unlock(t.Context(), who.owner, uint64(start), end(last), rapid.Bool().Draw(rt, "attributes")); err != nil {
				rt.Fatal(err)
			}
			m.clear(who, start, last)
			if !holds(who) {
				delete(used, who)
			}
		},
		"test": func(rt *rapid.T) {
			who, f, _, start, last := draw(rt)
			write := rapid.Bool().Draw(rt, "write")
			q, err := f.TestLock(t.Context(), LockRequest{Owner: who.owner, Start: uint64(start), Last: end(last), Write: write})
			bar := m.bar(who, start, last, write)
			if err != nil || (q == nil) != (bar == nil) {
				rt.Fatalf("%+v, %v; in the way are %v", q, err, bar)
			}
			if q != nil && q.Mine && !slices.Contains(bar, modelOwner{who.client, q.Owner}) {
				rt.Fatalf("%+v is said to be in the way; it is %v", q, bar)
			}
		},
		"close": func(rt *rapid.T) {
			who, f, file, _, _ := draw(rt)
			if err := f.Close(t.Context()); err != nil {
				rt.Fatal(err)
			}
			for o, fs := range maps.Clone(used) {
				if fs[f] {
					m.clear(o, 0, modelBytes-1)
					delete(used, o)
				}
			}
			files[who.client][file] = create(t, clients[who.client], "f")
		},
		"cut": func(rt *rapid.T) {
			op := rapid.SampledFrom([]nfs4.OpNum{nfs4.OpLock, nfs4.OpLockU, nfs4.OpClose}).Draw(rt, "op")
			g.srv.CutNext(op, 1)
		},
		"restart": func(rt *rapid.T) {
			if rapid.IntRange(0, 9).Draw(rt, "rare") > 0 {
				rt.Skip("restarts are rare")
			}
			if err := g.srv.Restart(nfstest.RestartOptions{}); err != nil {
				rt.Fatal(err)
			}
			for i, c := range clients { // so that grace ends
				if _, err := c.GetAttr(t.Context(), root, files[i][0].FH()); err != nil {
					rt.Fatal(err)
				}
			}
		},
		"": func(rt *rapid.T) {
			// What the clients think they have is what they have.
			for i, c := range clients {
				n := files[i][0].open.node
				c.state.mu.Lock()
				for o, l := range n.lockers {
					var got, want [modelBytes]string
					for b := range modelBytes {
						for _, r := range l.ranges.within(uint64(b), uint64(b)) {
							got[b] = fmt.Sprint(r.write)
						}
						if w, ok := m[b][modelOwner{i, o}]; ok {
							want[b] = fmt.Sprint(w)
						}
					}
					if got != want || l.lost != nil {
						c.state.mu.Unlock()
						rt.Fatalf("client %d, %v: %v (lost: %v), want %v\n%s", i, o, got, l.lost, want, g.events(0))
					}
				}
				c.state.mu.Unlock()
			}
		},
	})
	for i := range files {
		for _, f := range files[i] {
			if err := f.Close(t.Context()); err != nil {
				rt.Fatal(err)
			}
		}
	}
	if u := g.srv.Usage(); u.Locks != 0 || u.LockStates != 0 {
		rt.Fatalf("left at the server: %v", u)
	}
}

// quiet keeps a client from logging what a random test does on purpose.
func quiet(o *Options) { o.Timeout = 5 * time.Second }
