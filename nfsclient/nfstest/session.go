package nfstest

import (
	"slices"

	"nfsrdma-fuse/xdr/nfs4"
)

// session is a session of a client (RFC 8881 section 2.10).
type session struct {
	id     nfs4.SessionID
	client *client
	minor  uint32
	fore   nfs4.ChannelAttrs
	back   nfs4.ChannelAttrs
	slots  []slot
	target uint32 // highest slot that the client should use

	conns map[*peer]struct{} // fore channel

	// The back channel: connections, slots and what the client asked for.
	backConns []*peer
	backLost  bool // there was one, and its connection has ended
	cbProgram uint32
	cbSec     nfs4.CallbackSec
	cb        callbackSlots
}

// bind makes p a connection of the session's fore or back channel.
func (sess *session) bind(p *peer, dir nfs4.ConnDir) {
	if dir&nfs4.ConnFore != 0 {
		sess.conns[p] = struct{}{}
	}
	if dir&nfs4.ConnBack != 0 {
		if !slices.Contains(sess.backConns, p) {
			sess.backConns = append(sess.backConns, p)
		}
		sess.backLost = false
	}
}

// unbind forgets a connection.
func (sess *session) unbind(p *peer) {
	delete(sess.conns, p)
	if i := slices.Index(sess.backConns, p); i >= 0 {
		sess.backConns = slices.Delete(sess.backConns, i, i+1)
		sess.backLost = len(sess.backConns) == 0
	}
}

// sequence carries out SEQUENCE (RFC 8881 section 18.46).
func (c *compound) sequence(a *nfs4.SequenceArgs) nfs4.Res {
	s := c.s
	bytes := c.req.Msg.Len()
	sum := s.checksum(c.req.Msg, callHeaderLen(c.req.Msg.Stream))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(c.now)
	sess := s.sessions[a.SessionID]
	if sess == nil {
		return fail(nfs4.OpSequence, nfs4.ErrBadSession)
	}
	cl := sess.client
	status, sl, replay := nfs4.OK, (*slot)(nil), false
	switch {
	case c.minor != sess.minor:
		status = nfs4.ErrInval
	case a.SlotID >= uint32(len(sess.slots)):
		status = nfs4.ErrBadSlot
	case a.HighestSlotID >= uint32(len(sess.slots)):
		status = nfs4.ErrBadHighSlot
	case bytes > int(sess.fore.MaxRequestSize):
		status = nfs4.ErrReqTooBig
	case c.args.Count > int(sess.fore.MaxOperations):
		status = nfs4.ErrTooManyOps
	default:
		sl = &sess.slots[a.SlotID]
		status, replay = sl.begin(a.SequenceID, sum, c.principal)
	}
	c.event.Client, c.event.Session = cl.id, sess.id
	c.event.Slot, c.event.Sequence = a.SlotID, a.SequenceID
	if status != nfs4.OK {
		return fail(nfs4.OpSequence, status)
	}
	sess.bind(c.p, nfs4.ConnFore) // allowed without state protection (section 2.10.3.1)
	cl.renewed = c.now
	cl.use++
	c.inUse = cl
	c.sess, c.cl, c.slot, c.seq = sess, cl, sl, a
	c.limit = int(sess.fore.MaxResponseSize)
	if a.CacheThis && int(sess.fore.MaxResponseSizeCached) < c.limit {
		c.limit, c.tooBig = int(sess.fore.MaxResponseSizeCached), nfs4.ErrRepTooBigToCache
	}
	res := &nfs4.SequenceRes{
		SessionID: a.SessionID, SequenceID: a.SequenceID, SlotID: a.SlotID,
		HighestSlotID: uint32(len(sess.slots) - 1), TargetHighestSlotID: sess.target,
		StatusFlags: cl.statusFlags(sess),
	}
	if !replay {
		sl.res = *res
		return res
	}
	c.event.Replay = true
	if sl.cached {
		sl.repeat(&c.m.enc, c.xid)
		return nil
	}
	// All that is known is that the request was carried out.
	c.w.Add(&sl.res)
	status = nfs4.ErrRetryUncachedRep
	second := fail(c.args.Ops[1].Op(), status)
	if bad, ok := c.args.Ops[1].(*nfs4.IllegalArgs); ok {
		second, status = bad.Res(), bad.Status
	}
	c.w.Add(second)
	c.w.End(status)
	c.event.Status = status
	return nil
}

// statusFlags returns what SEQUENCE tells the client (RFC 8881 section 18.46.3).
// s.mu is held.
func (cl *client) statusFlags(sess *session) (flags uint32) {
	if cl.allRevoked > 0 {
		flags |= nfs4.SeqStatusExpiredAllStateRevoked
	}
	if cl.adminRevoked > 0 {
		flags |= nfs4.SeqStatusAdminStateRevoked
	}
	if cl.delegRevoked > 0 {
		flags |= nfs4.SeqStatusRecallableStateRevoked
	}
	if cl.mayReclaim && !cl.reclaimed {
		flags |= nfs4.SeqStatusRestartReclaimNeeded
	}
	if sess.backLost {
		flags |= nfs4.SeqStatusCBPathDownSession
		up := false
		for _, other := range cl.sessions {
			up = up || len(other.backConns) > 0
		}
		if !up {
			flags |= nfs4.SeqStatusCBPathDown
		}
	}
	if sess.cb.fault {
		flags |= nfs4.SeqStatusBackchannelFault
	}
	return flags
}

// createSession carries out CREATE_SESSION (RFC 8881 section 18.36).
func (c *compound) createSession(a *nfs4.CreateSessionArgs) nfs4.Res {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(c.now)
	cl := s.clients[a.ClientID]
	switch {
	case cl == nil:
		return fail(nfs4.OpCreateSession, nfs4.ErrStaleClientID)
	case a.SequenceID == cl.csSeq:
		return cl.csRes
	case a.SequenceID != cl.csSeq+1:
		return fail(nfs4.OpCreateSession, nfs4.ErrSeqMisordered)
	}
	res := &nfs4.CreateSessionRes{SequenceID: a.SequenceID}
	res.Status = s.newSession(c, cl, a, res)
	if res.Status != nfs4.OK {
		*res = nfs4.CreateSessionRes{Status: res.Status}
	}
	if res.Status != nfs4.ErrDelay { // the client tries again with the same number
		cl.csSeq, cl.csRes = a.SequenceID, res
	}
	return res
}

func (s *Server) newSession(c *compound, cl *client, a *nfs4.CreateSessionArgs, res *nfs4.CreateSessionRes) nfs4.Status {
	const flags = nfs4.CreateSessionPersist | nfs4.CreateSessionConnBackChan | nfs4.CreateSessionConnRDMA
	switch {
	case cl.principal != c.principal:
		return nfs4.ErrClientIDInUse
	case a.Flags&^flags != 0:
		return nfs4.ErrInval
	case len(cl.sessions) >= maxSessions:
		return nfs4.ErrNoSpc
	case a.ForeChan.MaxResponseSize < minResponse || a.ForeChan.MaxRequestSize < minResponse:
		return nfs4.ErrTooSmall
	case a.ForeChan.MaxRequests == 0 || a.ForeChan.MaxOperations == 0:
		return nfs4.ErrInval
	}
	back := a.Flags&nfs4.CreateSessionConnBackChan != 0 && !c.p.deaf
	if back && (a.BackChan.MaxRequestSize < minCallback || a.BackChan.MaxResponseSize < minCallback/2 ||
		a.BackChan.MaxOperations < 2 || a.BackChan.MaxRequests == 0) {
		return nfs4.ErrTooSmall
	}
	sec, ok := chooseSec(a.SecParms)
	if !ok {
		return nfs4.ErrEncrAlgUnsupp
	}
	if !cl.confirmed {
		if st := s.confirm(c, cl); st != nfs4.OK {
			return st
		}
	}
	s.nextID++
	most := uint32(s.opt.MaxPayload + headerRoom)
	fore := nfs4.ChannelAttrs{
		MaxRequestSize:        min(a.ForeChan.MaxRequestSize, most),
		MaxResponseSize:       min(a.ForeChan.MaxResponseSize, most),
		MaxResponseSizeCached: min(a.ForeChan.MaxResponseSizeCached, uint32(s.opt.MaxCached)),
		MaxOperations:         min(a.ForeChan.MaxOperations, uint32(s.opt.MaxOps)),
		MaxRequests:           min(a.ForeChan.MaxRequests, uint32(min(s.opt.Slots, maxSlots))),
	}
	sess := &session{
		id: sessionID(s.boot, cl.id, s.nextID), client: cl, minor: c.minor,
		fore: fore, back: a.BackChan, slots: make([]slot, fore.MaxRequests), target: fore.MaxRequests - 1,
		conns: make(map[*peer]struct{}), cbProgram: a.CBProgram, cbSec: sec,
	}
	sess.back.HeaderPadSize = 0
	sess.back.HasRDMAIRD = false
	sess.cb.init(int(min(a.BackChan.MaxRequests, maxCallbackSlots)))
	sess.bind(c.p, nfs4.ConnFore)
	if back {
		sess.bind(c.p, nfs4.ConnBack)
		res.Flags |= nfs4.CreateSessionConnBackChan
	}
	s.sessions[sess.id] = sess
	cl.sessions[sess.id] = sess
	cl.minor = c.minor
	cl.renewed = c.now
	res.SessionID, res.ForeChan, res.BackChan = sess.id, fore, sess.back
	return nfs4.OK
}

// chooseSec picks the security of callbacks: AUTH_SYS or none.
func chooseSec(offers []nfs4.CallbackSec) (nfs4.CallbackSec, bool) {
	for _, want := range []uint32{nfs4.FlavorSys, nfs4.FlavorNone} {
		for _, o := range offers {
			if o.Flavor == want {
				o.GIDs = slices.Clone(o.GIDs)
				return o, true
			}
		}
	}
	return nfs4.CallbackSec{}, len(offers) == 0
}

// destroySession carries out DESTROY_SESSION (RFC 8881 section 18.37).
func (c *compound) destroySession(a *nfs4.DestroySessionArgs) nfs4.Res {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[a.SessionID]
	if sess == nil {
		return fail(nfs4.OpDestroySession, nfs4.ErrBadSession)
	}
	if sess == c.sess && len(c.event.Ops) != len(c.args.Ops)-1 {
		return fail(nfs4.OpDestroySession, nfs4.ErrNotOnlyOp)
	}
	for i := range sess.slots {
		if sl := &sess.slots[i]; sl.busy && sl != c.slot {
			return fail(nfs4.OpDestroySession, nfs4.ErrDelay)
		}
	}
	s.dropSession(sess)
	return &nfs4.DestroySessionRes{}
}

func (s *Server) dropSession(sess *session) {
	delete(s.sessions, sess.id)
	delete(sess.client.sessions, sess.id)
	sess.cb.close()
}

// bindConn carries out BIND_CONN_TO_SESSION (RFC 8881 section 18.34).
func (c *compound) bindConn(a *nfs4.BindConnToSessionArgs) nfs4.Res {
	s := c.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(c.now)
	sess := s.sessions[a.SessionID]
	if sess == nil {
		return fail(nfs4.OpBindConnToSession, nfs4.ErrBadSession)
	}
	res := &nfs4.BindConnToSessionRes{SessionID: a.SessionID}
	switch a.Dir {
	case nfs4.ConnFore, nfs4.ConnBack:
		res.Dir = a.Dir
	case nfs4.ConnBoth, nfs4.ConnBackOrBoth:
		res.Dir = nfs4.ConnBoth
	default:
		return fail(nfs4.OpBindConnToSession, nfs4.ErrInval)
	}
	if res.Dir&nfs4.ConnBack != 0 && (sess.cb.size() == 0 || c.p.deaf) { // a session without callbacks
		if a.Dir != nfs4.ConnBoth {
			return fail(nfs4.OpBindConnToSession, nfs4.ErrInval)
		}
		res.Dir = nfs4.ConnFore
	}
	sess.bind(c.p, res.Dir)
	s.retryRecalls(sess.client)
	return res
}

// backchannelCtl carries out BACKCHANNEL_CTL (RFC 8881 section 18.33).
func (c *compound) backchannelCtl(a *nfs4.BackchannelCtlArgs) nfs4.Res {
	sec, ok := chooseSec(a.SecParms)
	if !ok {
		return fail(nfs4.OpBackchannelCtl, nfs4.ErrNoEnt)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.sess.cbProgram, c.sess.cbSec = a.CBProgram, sec
	return &nfs4.BackchannelCtlRes{}
}

// SetSlotTarget tells clients, in the replies to SEQUENCE, to use no slot above
// this one. It applies to the sessions that exist.
func (s *Server) SetSlotTarget(highest uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sess := range s.sessions {
		sess.target = min(highest, uint32(len(sess.slots)-1))
	}
}

// RecallSlots asks the clients of all sessions to use no slot above this one, with
// CB_RECALL_SLOT and in the replies to SEQUENCE. It returns the number of
// sessions asked.
func (s *Server) RecallSlots(highest uint32) int {
	s.SetSlotTarget(highest)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, sess := range s.sessions {
		if len(sess.backConns) == 0 {
			continue
		}
		if slot, ok := sess.cb.take(); ok { // it concerns this session and no other
			cb := &callback{client: sess.client, op: &nfs4.CBRecallSlotArgs{TargetHighestSlotID: sess.target}, sess: sess, slot: slot}
			s.call(cb)
			n++
		}
	}
	return n
}
