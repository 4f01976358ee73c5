package nfstest

import (
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// client is a client id and what belongs to it (RFC 8881 section 18.35.4).
type client struct {
	id        nfs4.ClientID
	owner     string
	verf      nfs4.Verifier
	principal string
	confirmed bool
	minor     uint32
	impl      string

	csSeq uint32                 // of the last CREATE_SESSION
	csRes *nfs4.CreateSessionRes // the reply to it

	sessions  map[nfs4.SessionID]*session
	states    map[*state]struct{}
	renewed   time.Time
	use       int         // calls that are being carried out
	callbacks []*callback // waiting for a path or a slot
	recalls   int         // delegations recalled and neither returned nor revoked

	mayReclaim bool // it had state before the server restarted
	reclaimed  bool // RECLAIM_COMPLETE was seen

	// Stateids revoked and not freed yet, by reason.
	allRevoked, adminRevoked, delegRevoked int
}

// clientOwner is a co_ownerid: it can have a confirmed record and, while the
// client is restarting, an unconfirmed one.
type clientOwner struct {
	confirmed, unconfirmed *client
}

// exchangeID carries out EXCHANGE_ID. The numbers are those of the cases in RFC
// 8881 section 18.35.4.
func (c *compound) exchangeID(a *nfs4.ExchangeIDArgs) nfs4.Res {
	const known = nfs4.ExchgIDSuppMovedRefer | nfs4.ExchgIDSuppMovedMigr | nfs4.ExchgIDSuppFenceOps |
		nfs4.ExchgIDBindPrincStateID | nfs4.ExchgIDMaskPNFS | nfs4.ExchgIDUpdConfirmedRecA
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(c.now)
	switch {
	case a.Flags&^known != 0 || len(a.OwnerID) == 0:
		return fail(nfs4.OpExchangeID, nfs4.ErrInval)
	case a.Protect != nfs4.ProtectNone:
		return fail(nfs4.OpExchangeID, nfs4.ErrEncrAlgUnsupp)
	}
	owner := string(a.OwnerID)
	o := s.owners[owner]
	if o == nil {
		o = &clientOwner{}
	}
	update := a.Flags&nfs4.ExchgIDUpdConfirmedRecA != 0
	old := o.confirmed
	if update {
		switch {
		case old == nil: // 7
			return fail(nfs4.OpExchangeID, nfs4.ErrNoEnt)
		case old.verf != a.Verf: // 8
			return fail(nfs4.OpExchangeID, nfs4.ErrNotSame)
		case old.principal != c.principal: // 9
			return fail(nfs4.OpExchangeID, nfs4.ErrPerm)
		}
		return c.exchanged(old) // 6
	}
	if old != nil && old.principal != c.principal { // 3
		if len(old.states) > 0 {
			return fail(nfs4.OpExchangeID, nfs4.ErrClientIDInUse)
		}
		s.forget(old)
		old = nil
	}
	if old != nil && old.verf == a.Verf { // 2
		return c.exchanged(old)
	}
	// 1, 4 and 5: a new record, that takes the place of an unconfirmed one.
	if o.unconfirmed != nil {
		s.forget(o.unconfirmed)
	}
	if len(s.clients) >= maxClients {
		return fail(nfs4.OpExchangeID, nfs4.ErrDelay)
	}
	s.nextID++
	cl := &client{
		id:    nfs4.ClientID(uint64(s.boot)<<32 | s.nextID&0xffffffff),
		owner: owner, verf: a.Verf, principal: c.principal, renewed: c.now,
		csRes:    &nfs4.CreateSessionRes{Status: nfs4.ErrSeqMisordered},
		sessions: make(map[nfs4.SessionID]*session),
		states:   make(map[*state]struct{}),
	}
	if a.HasImpl {
		cl.impl = a.Impl.Name
	}
	s.clients[cl.id] = cl
	if o = s.owners[owner]; o == nil { // forget may have removed it
		o = &clientOwner{}
		s.owners[owner] = o
	}
	o.unconfirmed = cl
	return c.exchanged(cl)
}

func (c *compound) exchanged(cl *client) nfs4.Res {
	res := &nfs4.ExchangeIDRes{
		ClientID: cl.id, SequenceID: cl.csSeq + 1, Flags: nfs4.ExchgIDUseNonPNFS,
		ServerMajorID: c.s.name, ServerScope: c.s.name,
		HasImpl: true, Impl: nfs4.ImplID{Domain: "nfstest.invalid", Name: "nfstest"},
	}
	if cl.confirmed {
		res.Flags |= nfs4.ExchgIDConfirmedR
	}
	c.event.Client = cl.id
	return res
}

// confirm makes a record confirmed, in place of an earlier instance of the same
// client, whose state goes (RFC 8881 section 18.36.4). s.mu is held.
func (s *Server) confirm(c *compound, cl *client) nfs4.Status {
	o := s.owners[cl.owner]
	if old := o.confirmed; old != nil {
		if old.use > 0 && c.cl != old {
			return nfs4.ErrDelay // it is still being served
		}
		s.forget(old)
		if s.owners[cl.owner] == nil {
			s.owners[cl.owner] = o
		}
	}
	o.confirmed, o.unconfirmed = cl, nil
	cl.confirmed = true
	if _, ok := s.reclaim[cl.owner]; ok && s.inGrace() {
		cl.mayReclaim = true
	}
	return nfs4.OK
}

// forget removes a client and everything that belongs to it. s.mu is held.
func (s *Server) forget(cl *client) {
	for st := range cl.states {
		s.dropState(st)
	}
	for _, sess := range cl.sessions {
		s.dropSession(sess)
	}
	delete(s.clients, cl.id)
	if o := s.owners[cl.owner]; o != nil {
		if o.confirmed == cl {
			o.confirmed = nil
			delete(s.stable, cl.owner)
			delete(s.reclaim, cl.owner)
		}
		if o.unconfirmed == cl {
			o.unconfirmed = nil
		}
		if *o == (clientOwner{}) {
			delete(s.owners, cl.owner)
		}
	}
	for i := len(s.waiters) - 1; i >= 0; i-- {
		if s.waiters[i].client == cl {
			s.waiters = append(s.waiters[:i], s.waiters[i+1:]...)
		}
	}
}

// destroyClientID carries out DESTROY_CLIENTID (RFC 8881 section 18.50).
func (c *compound) destroyClientID(a *nfs4.DestroyClientIDArgs) nfs4.Res {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	cl := s.clients[a.ClientID]
	switch {
	case cl == nil:
		return fail(nfs4.OpDestroyClientID, nfs4.ErrStaleClientID)
	case cl == c.cl || len(cl.sessions) > 0 || len(cl.states) > 0:
		return fail(nfs4.OpDestroyClientID, nfs4.ErrClientIDBusy)
	}
	c.event.Client = cl.id
	s.forget(cl)
	return &nfs4.DestroyClientIDRes{}
}

// reclaimComplete carries out RECLAIM_COMPLETE (RFC 8881 section 18.51).
func (c *compound) reclaimComplete(a *nfs4.ReclaimCompleteArgs) nfs4.Res {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.OneFS {
		if !c.cur.valid() {
			return fail(nfs4.OpReclaimComplete, nfs4.ErrNoFileHandle)
		}
		return &nfs4.ReclaimCompleteRes{} // no file system ever moves here
	}
	if c.cl.reclaimed {
		return fail(nfs4.OpReclaimComplete, nfs4.ErrCompleteAlready)
	}
	c.cl.reclaimed = true
	delete(s.reclaim, c.cl.owner)
	s.stable[c.cl.owner] = struct{}{}
	return &nfs4.ReclaimCompleteRes{}
}

// sweep does what time has made due: leases and recalls that have run out. s.mu
// is held.
func (s *Server) sweep(now time.Time) {
	if d := now.Sub(s.lastSweep); d >= 0 && d < s.opt.Lease/64 {
		return // often enough
	}
	s.lastSweep = now
	for _, cl := range s.clients {
		if cl.use > 0 || now.Sub(cl.renewed) <= s.opt.Lease {
			continue
		}
		switch {
		case !cl.confirmed || s.opt.Expiry == ExpireClient:
			s.forget(cl)
		case s.opt.Expiry == ExpireState && len(cl.states) > 0:
			for st := range cl.states {
				s.revoke(st, nfs4.ErrExpired)
			}
		}
	}
	for n, until := range s.holdOff {
		if !now.Before(until) {
			delete(s.holdOff, n)
		}
	}
	for _, cl := range s.clients {
		if cl.recalls == 0 {
			continue
		}
		for st := range cl.states {
			if st.recalled && st.revoked == nfs4.OK && now.Sub(st.recalledAt) > s.opt.RecallTimeout {
				s.revoke(st, nfs4.ErrDelegRevoked)
			}
		}
	}
}

// expired tells whether the client's lease has run out. s.mu is held.
func (s *Server) expired(cl *client) bool {
	return cl.use == 0 && s.now().Sub(cl.renewed) > s.opt.Lease
}

// callHeaderLen returns the length of the RPC call header in stream, which was
// decoded before.
func callHeaderLen(stream []byte) int {
	n := 24
	for range 2 { // credential and verifier: flavor, length, body
		n += 8 + (int(be32(stream[n+4:]))+3)&^3
	}
	return n
}

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

// ExpireClients makes the leases of all clients run out that nothing is being
// carried out for, whatever the clock says.
func (s *Server) ExpireClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cl := range s.clients {
		cl.renewed = s.now().Add(-s.opt.Lease - time.Nanosecond)
	}
	s.lastSweep = time.Time{}
	s.sweep(s.now())
}
