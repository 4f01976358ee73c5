package nfsclient

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// state is what the client has at the server: open files and delegations.
type state struct {
	mu     sync.Mutex // guards what follows; nothing is waited for while it is held
	nodes  map[string]*node
	files  map[*File]struct{}
	delegs delegations
	// opening counts the OPENs outstanding, by open owner; opened is closed
	// and replaced when one of them has been dealt with.
	opening map[string]int
	opened  chan struct{}
	lost    int64 // bytes of files given up when the client was closed

	pages uncommitted
	acks  atomic.Uint64 // WRITEs acknowledged
}

func (s *state) init() {
	s.nodes = make(map[string]*node)
	s.files = make(map[*File]struct{})
	s.opening = make(map[string]int)
	s.opened = make(chan struct{})
	s.pages.nodes = make(map[*node]holding)
}

// node is a file of which the client has state. It exists as long as anything
// refers to it.
type node struct {
	fh FH

	// The following are guarded by state.mu.

	refs   int // files and delegations
	files  int
	shares map[string]*openShare // by the key of the credential
	deleg  *delegation
	fsid   nfs4.FSID // since the first open

	lockers map[LockOwner]*locker
	waiters map[*lockWaiter]struct{} // for locks

	writes writes
}

// openShare is what one owner has open of a node. Its share is guarded by
// state.mu.
type openShare struct {
	share
	node *node
	cred *credential
	// notifies says that the server tells when a lock has become free; guarded
	// by state.mu.
	notifies bool
	// turn is held while the server is told to close or downgrade the share, or
	// while it is opened again after a loss: one thing at a time.
	turn
}

// node returns the node of a filehandle with a new reference. Called with mu
// held.
func (s *state) node(fh FH) *node {
	n := s.nodes[string(fh)]
	if n == nil {
		n = &node{fh: fh.Clone(), shares: make(map[string]*openShare)}
		n.writes.init(&s.acks)
		s.nodes[string(n.fh)] = n
	}
	n.refs++
	return n
}

// unref drops a reference. Called with mu held.
func (s *state) unref(n *node) {
	if n.refs--; n.refs > 0 {
		return
	}
	delete(s.nodes, string(n.fh))
	// Files are closed with something left to commit only when the client
	// itself is, and could not reach the server any more.
	s.lost += s.release(n)
}

// release gives up what is held of a node's uncommitted data, and tells how
// many bytes of the file that was.
func (s *state) release(n *node) (bytes int64) {
	w := &n.writes
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.ledger.pieces {
		bytes += p.end - p.off
	}
	w.ledger.discard(w.ledger.mark())
	s.pages.set(n, 0)
	return bytes
}

// beginOpen notes that an OPEN is going out.
func (s *state) beginOpen(owner string) {
	s.mu.Lock()
	s.opening[owner]++
	s.mu.Unlock()
}

// endOpen notes that an OPEN has failed, or that what it has opened was
// recorded.
func (s *state) endOpen(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opening[owner]--; s.opening[owner] == 0 {
		delete(s.opening, owner)
	}
	close(s.opened)
	s.opened = make(chan struct{})
}

// anyOpening tells whether an OPEN is outstanding.
func (s *state) anyOpening() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.opening) > 0
}

// share returns what an owner has open of a node. Called with mu held.
func (n *node) share(cred *credential) *openShare {
	o := n.shares[cred.key]
	if o == nil {
		o = &openShare{node: n, cred: cred, turn: newTurn()}
		n.shares[cred.key] = o
	}
	return o
}

// stats adds what is held to a snapshot.
func (s *state) stats(out *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out.OpenFiles = len(s.files)
	out.Delegations = s.delegs.held
	for _, n := range s.nodes {
		for _, l := range n.lockers {
			out.Locks += len(l.ranges)
		}
		out.LockWaiters += len(n.waiters)
	}
	out.Uncommitted = s.pages.size()
}

// abandon releases what is held for data that was never committed, and tells
// how many bytes of the files that was.
func (s *state) abandon() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.nodes {
		s.lost += s.release(n)
	}
	return s.lost
}

func sortByUse(d []*delegation) {
	slices.SortFunc(d, func(a, b *delegation) int { return cmp.Compare(a.used, b.used) })
}

// pick returns the stateid to use for I/O with that access: a delegation's if there
// is one that covers it, otherwise the open's (RFC 8881 section 8.2.5).
func (c *Client) pick(o *openShare, access uint32) (nfs4.StateID, error) {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := o.node.deleg; d != nil && d.covers(access) {
		s.delegs.use(d, time.Now())
		return nfs4.StateID{Other: d.sid.Other}, nil
	}
	return o.stateID()
}

// stateTrouble tells whether a status says that the stateid was not good.
func stateTrouble(s nfs4.Status) bool {
	switch s {
	case nfs4.ErrBadStateID, nfs4.ErrStaleStateID, nfs4.ErrOldStateID, nfs4.ErrExpired,
		nfs4.ErrAdminRevoked, nfs4.ErrDelegRevoked:
		return true
	}
	return false
}

// sessionTrouble tells whether a status is about the session or the client.
func sessionTrouble(s nfs4.Status) bool {
	return s == nfs4.ErrBadSession || s == nfs4.ErrDeadSession || s == nfs4.ErrStaleClientID
}

// maxStateTries bounds how often one operation gets itself a new stateid.
const maxStateTries = 5

// restate is called when the server has refused stateid used for I/O on o.
// When it returns nil, it is worth trying again with what pick returns.
func (c *Client) restate(ctx context.Context, o *openShare, access uint32, used nfs4.StateID, status nfs4.Status) error {
	now, err := c.pick(o, access)
	if err != nil {
		return err
	}
	if now.Other != used.Other {
		return nil // it was replaced meanwhile
	}
	s := &c.state
	s.mu.Lock()
	d := s.delegs.find(used)
	s.mu.Unlock()
	if d != nil {
		c.dropDelegation(ctx, used, status)
		return nil
	}
	return c.reopen(ctx, o, used, status)
}

// reopen opens a share again whose stateid the server has dropped.
func (c *Client) reopen(ctx context.Context, o *openShare, used nfs4.StateID, status nfs4.Status) error {
	if err := o.take(ctx); err != nil {
		return err
	}
	defer o.leave()
	s := &c.state
	s.mu.Lock()
	if !o.held || o.sid.Other != used.Other {
		err := o.lost
		s.mu.Unlock()
		return err
	}
	sid := o.sid
	s.mu.Unlock()
	c.loseLocks(o)
	c.freeStateID(ctx, sid, status)
	return c.claim(ctx, o, nfs4.ClaimFH, false)
}

// claim opens a share again, by its filehandle: after a restart of the server
// (ClaimPrevious) or as a new open (ClaimFH). If the server refuses for good the
// share is lost, unless it refuses to reclaim.
func (c *Client) claim(ctx context.Context, o *openShare, how nfs4.ClaimType, urgent bool) error {
	// One OPEN for every kind of access that somebody has it open for: the
	// server lets us downgrade only to what it has seen opened (RFC 8881
	// section 18.18.3).
	for access := nfs4.ShareAccessBoth; access > 0; access-- {
		c.state.mu.Lock()
		wanted := o.counts[access] > 0
		c.state.mu.Unlock()
		if !wanted {
			continue
		}
		err := c.claimAccess(ctx, o, how, access, urgent)
		if err == nil {
			continue
		}
		status, ok := statusOf(err)
		if !ok {
			return err
		}
		switch status {
		case nfs4.ErrNoGrace, nfs4.ErrReclaimBad, nfs4.ErrReclaimConflict:
			if how == nfs4.ClaimPrevious {
				return err
			}
		}
		if sessionTrouble(status) {
			return err
		}
		c.log.WithError(err).Warn("open file lost at the server")
		c.loseLocks(o)
		c.state.mu.Lock()
		defer c.state.mu.Unlock()
		o.lose(&Error{Op: "OPEN", Err: fmt.Errorf("%w (%v)", ErrStateLost, status)})
		return o.lost
	}
	return nil
}

func (c *Client) claimAccess(ctx context.Context, o *openShare, how nfs4.ClaimType, access uint32, urgent bool) error {
	r := c.newRequest(o.cred)
	r.urgent = urgent
	r.opening = true
	c.state.beginOpen(o.cred.key)
	r.addPutFH(o.node.fh)
	r.open = nfs4.OpenArgs{ShareAccess: access, Owner: nfs4.OpenOwner{Owner: []byte(o.cred.key)}, Claim: how}
	if how != nfs4.ClaimPrevious {
		r.open.ShareAccess |= nfs4.WantNoDeleg
	}
	r.change(&r.open, &r.openRes)
	fh := o.node.fh
	r.orphaned = func(r *request) {
		if done, _, err := r.results(); err == nil && done > r.modify {
			c.regranted(r, fh, access)
		}
	}
	if err := c.do(ctx, r); err != nil {
		return err
	}
	c.regranted(r, fh, access)
	r.free()
	return nil
}

// regranted records what an OPEN by claim has returned. Whoever had the file
// open may have closed it meanwhile, without a stateid to tell the server; then
// what was just opened is closed again.
func (c *Client) regranted(r *request, fh FH, access uint32) {
	s := &c.state
	s.mu.Lock()
	n := s.node(fh)
	o := n.share(r.cred)
	o.grant(r.openRes.StateID, access)
	o.notifies = r.openRes.RFlags&nfs4.OpenResultMayNotifyLock != 0
	idle := o.needed() == 0
	if !idle {
		s.unref(n)
	}
	s.mu.Unlock()
	c.granted(n, r.cred, &r.openRes.Delegation, nil)
	if idle {
		c.spawn(func(ctx context.Context) {
			_ = c.settleShare(ctx, o)
			s.mu.Lock()
			n.forget(o)
			s.unref(n)
			s.mu.Unlock()
		})
	}
}

// forget drops a share that is of no more use. Called with mu held.
func (n *node) forget(o *openShare) {
	if o.needed() == 0 && !o.held && !o.taken() && n.shares[o.cred.key] == o {
		delete(n.shares, o.cred.key)
	}
}

// freeStateID tells the server that the client knows of the loss of a stateid;
// until then it goes on raising status flags (RFC 8881 section 18.38).
func (c *Client) freeStateID(ctx context.Context, sid nfs4.StateID, status nfs4.Status) {
	switch status {
	case nfs4.ErrExpired, nfs4.ErrAdminRevoked, nfs4.ErrDelegRevoked:
	default:
		return // it does not know the stateid any more
	}
	r := c.newRequest(c.self)
	r.add(&nfs4.FreeStateIDArgs{StateID: sid}, new(nfs4.FreeStateIDRes))
	if c.do(ctx, r) == nil {
		r.free()
	}
}
