package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// What is asked of a session.
const (
	// askSize is a payload of 1 MiB and a page for what goes with it.
	askSize = 1<<20 + 4096
	// askCached is room for the replies that have to be kept for a resend.
	askCached = 8192
	askOps    = 16
	// backSize fits into the inline threshold of 4096 bytes that back
	// channel messages are confined to, with the transport's header.
	backSize  = 4000
	backOps   = 8
	backSlots = 16

	// defaultLease is assumed until the server has said what its lease time is.
	defaultLease = 30 * time.Second
	// rebindPause is how long the server's word that the back channel is
	// down is not acted on after it was bound.
	rebindPause = 5 * time.Second
)

// establish brings the client up for the first time. It fails where the
// manager would go on trying.
func (c *Client) establish(ctx context.Context) error {
	for {
		c.mu.Lock()
		act := c.rec.next()
		c.mu.Unlock()
		if act == actNone {
			return nil
		}
		if err := c.perform(ctx, act); err != nil {
			if errors.Is(err, errTryAgain) && ctx.Err() == nil {
				continue
			}
			return err
		}
	}
}

// errTryAgain says that an action failed for a reason that it has itself dealt
// with: next() says how to go on.
var errTryAgain = errors.New("nfsclient: other action needed first")

// perform carries out one action. Nobody else does, so there is one at a time.
func (c *Client) perform(ctx context.Context, act action) error {
	var err error
	if act != actConnect {
		var cancel context.CancelFunc
		ctx, cancel = c.tied(ctx)
		defer cancel()
	}
	switch act {
	case actConnect:
		err = c.connect(ctx)
	case actIdentify:
		err = c.identify(ctx)
	case actSession:
		err = c.createSession(ctx)
	case actBind:
		err = c.bind(ctx)
	case actReclaim:
		err = c.reclaim(ctx)
	case actOpen:
		c.mu.Lock()
		c.rec.did(actOpen)
		c.dispatch()
		c.wakeResender()
		c.mu.Unlock()
		c.wakeAllLocks()
	case actVerify:
		err = c.verify(ctx)
	}
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.rec.connected && act != actConnect {
		if c.lostErr != nil {
			err = c.lostErr
		}
		return fmt.Errorf("%v: %w", act, err)
	}
	if errors.Is(err, errTryAgain) {
		return errTryAgain
	}
	status, _ := statusOf(err)
	switch status {
	case nfs4.ErrBadSession, nfs4.ErrDeadSession:
		if c.sess != nil {
			c.sessionLost(c.sess, status)
		}
		return errTryAgain
	case nfs4.ErrStaleClientID:
		c.clientLost(status)
		return errTryAgain
	}
	return fmt.Errorf("%v: %w", act, err)
}

// clientLost notes that the server has forgotten the client. Called with mu
// held.
func (c *Client) clientLost(why error) {
	if c.sess != nil {
		c.sessionLost(c.sess, why)
	}
	c.old = nil // sessions went with the client id
	c.rec.clientLost()
	c.log.WithField("cause", why).Warn("server has forgotten this client")
}

// connect makes a new connection.
func (c *Client) connect(ctx context.Context) error {
	c.mu.Lock()
	if c.connEnd != nil {
		c.connEnd()
	}
	last := c.tr
	c.tr = nil
	c.mu.Unlock()
	if last != nil {
		last.Close() // every call on it has got its Done when this returns
	}
	ctx, cancel := context.WithTimeout(ctx, c.opt.Timeout)
	defer cancel()
	tr, err := c.opt.Dial(ctx, c.serveCallback)
	if err != nil {
		return err
	}
	c.mu.Lock()
	if c.clientID != 0 {
		c.stats.reconnects.Add(1)
	}
	c.tr = tr
	c.connCtx, c.connEnd = context.WithCancel(c.ctx)
	c.health = health{timeout: c.health.timeout, outstanding: c.health.outstanding}
	c.lostErr = nil
	c.rec.did(actConnect)
	c.pool.Store(tr.Pool())
	close(c.newPool)
	c.newPool = make(chan struct{})
	connCtx := c.connCtx
	c.mu.Unlock()
	c.wg.Go(func() { c.watch(tr, connCtx) })
	return nil
}

// identify introduces the client to the server (RFC 8881 section 18.35).
func (c *Client) identify(ctx context.Context) error {
	r := c.newRequest(c.self)
	r.bypass = true
	res := new(nfs4.ExchangeIDRes)
	r.add(&nfs4.ExchangeIDArgs{
		Verf: c.verf, OwnerID: c.owner, Flags: nfs4.ExchgIDUseNonPNFS,
		HasImpl: true, Impl: nfs4.ImplID{Domain: "github.com", Name: "nfsrdma-fuse"},
	}, res)
	if err := c.do(ctx, r); err != nil {
		if errors.Is(err, nfs4.ErrMinorVersMismatch) && c.opt.MinorVersion == 0 && c.minor.Load() == 2 {
			c.minor.Store(1)
			return errTryAgain
		}
		return err
	}
	defer r.free()
	if res.Protect != nfs4.ProtectNone {
		return fmt.Errorf("%w: server insists on state protection %d", ErrProtocol, res.Protect)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if res.Flags&nfs4.ExchgIDConfirmedR == 0 || res.ClientID != c.clientID {
		// A client id that the server has not had before: none of our state
		// is known under it.
		c.clientID = res.ClientID
		c.nextSeq = res.SequenceID
		c.rec.reclaimed = false
	}
	c.rec.did(actIdentify)
	return nil
}

// createSession makes a session on the present connection, which becomes its
// back channel too (RFC 8881 section 18.36).
func (c *Client) createSession(ctx context.Context) error {
	c.mu.Lock()
	limits := c.tr.Limits()
	args := &nfs4.CreateSessionArgs{
		ClientID: c.clientID, SequenceID: c.nextSeq,
		Flags: nfs4.CreateSessionConnBackChan,
		ForeChan: nfs4.ChannelAttrs{
			MaxRequestSize: c.askSize(c.opt.WSize, limits), MaxResponseSize: c.askSize(c.opt.RSize, limits),
			MaxResponseSizeCached: askCached, MaxOperations: askOps, MaxRequests: uint32(c.opt.Slots),
		},
		BackChan: nfs4.ChannelAttrs{
			MaxRequestSize: backSize, MaxResponseSize: backSize, MaxResponseSizeCached: backSize,
			MaxOperations: backOps, MaxRequests: backSlots,
		},
		CBProgram: rpc.CallbackBase,
		SecParms: []nfs4.CallbackSec{
			{Flavor: nfs4.FlavorSys, Machine: c.creds.machine},
			{Flavor: nfs4.FlavorNone},
		},
	}
	c.mu.Unlock()
	r := c.newRequest(c.self)
	r.bypass = true
	res := new(nfs4.CreateSessionRes)
	r.add(args, res)
	if err := c.do(ctx, r); err != nil {
		if errors.Is(err, nfs4.ErrSeqMisordered) {
			// We and the server disagree about how many sessions there have
			// been. A new instance of the client begins to count anew.
			c.mu.Lock()
			c.verf = newVerifier()
			c.clientLost(nfs4.ErrSeqMisordered)
			c.mu.Unlock()
			return errTryAgain
		}
		return err
	}
	defer r.free()
	f := res.ForeChan
	if f.MaxRequests < 1 || f.MaxOperations < minOps || f.MaxRequestSize < minMessage || f.MaxResponseSize < minMessage {
		return fmt.Errorf("%w: session too small to work with: %d slots, %d operations, messages of %d and %d bytes",
			ErrProtocol, f.MaxRequests, f.MaxOperations, f.MaxRequestSize, f.MaxResponseSize)
	}
	s := &session{
		id:   res.SessionID,
		fore: f, back: res.BackChan,
		table: newSlotTable(min(int(f.MaxRequests), c.opt.Slots)),
		cb:    newCBSlotTable(backSlots),
	}
	c.mu.Lock()
	c.nextSeq++
	c.sess = s
	c.doubtful = nil
	c.boundAt = time.Now()
	c.lease.renewed(r.at)
	c.rec.did(actSession)
	c.setSizes(s, limits)
	c.mu.Unlock()
	if res.Flags&nfs4.CreateSessionConnBackChan == 0 {
		c.log.Warn("server does not use the connection for callbacks: no delegations")
	}
	return nil
}

// Smallest session that this client can work with.
const (
	minOps     = 8
	minMessage = 8192
)

// askSize returns the size of the largest message to ask for, given the
// payload that is wanted, 0 meaning any.
func (c *Client) askSize(payload int, l ulb.Limits) uint32 {
	n := askSize
	if payload > 1<<20 {
		n = payload + 4096
	}
	if l.MaxPayload > 0 {
		n = min(n, l.MaxPayload+4096)
	}
	return uint32(max(n, minMessage))
}

// bind attaches the connection to the session, in both directions if the
// server wants to (RFC 8881 section 18.34).
func (c *Client) bind(ctx context.Context) error {
	c.mu.Lock()
	s := c.sess
	c.mu.Unlock()
	r := c.newRequest(c.self)
	r.bypass = true
	res := new(nfs4.BindConnToSessionRes)
	r.add(&nfs4.BindConnToSessionArgs{SessionID: s.id, Dir: nfs4.ConnBoth}, res)
	if err := c.do(ctx, r); err != nil {
		if _, ok := statusOf(err); ok && !errors.Is(err, nfs4.ErrBadSession) {
			// The session exists and yet cannot be used from here.
			c.mu.Lock()
			c.resetSession(s, err)
			c.mu.Unlock()
			return errTryAgain
		}
		return err
	}
	r.free()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sess == s && !s.gone {
		c.boundAt = time.Now()
		c.rec.did(actBind)
	}
	return nil
}

// resetSession replaces a session that the server still has. Requests in
// flight on it go on; it is destroyed when they are done. Called with mu held.
func (c *Client) resetSession(s *session, why error) {
	if s != c.sess || s.gone {
		return
	}
	c.log.WithField("cause", why).Warn("session replaced")
	c.old = append(c.old, s)
	c.sess = nil
	for _, r := range s.parked {
		c.unparkable(r)
	}
	s.parked = nil
	c.rec.sessionLost()
	c.wakeManager()
}

// statusFlags acts on the flags of a SEQUENCE result (RFC 8881 section
// 18.46.3). Called with mu held.
func (c *Client) statusFlags(flags uint32, sent time.Time) {
	if flags == 0 {
		return
	}
	const (
		down    = nfs4.SeqStatusCBPathDown | nfs4.SeqStatusCBPathDownSession
		revoked = nfs4.SeqStatusExpiredAllStateRevoked | nfs4.SeqStatusExpiredSomeStateRevoked |
			nfs4.SeqStatusAdminStateRevoked | nfs4.SeqStatusRecallableStateRevoked
	)
	if flags&nfs4.SeqStatusRestartReclaimNeeded != 0 && c.rec.reclaimed && !sent.Before(c.checked) {
		c.rec.reclaim()
		c.wakeManager()
	}
	if flags&nfs4.SeqStatusBackchannelFault != 0 {
		c.resetSession(c.sess, errors.New("fault of the back channel"))
	} else if flags&down != 0 && sent.Sub(c.boundAt) > rebindPause && c.rec.bound {
		c.rec.unbound()
		c.wakeManager()
	}
	// A reply to a request that was sent before state was last looked at
	// tells nothing new.
	if flags&revoked != 0 && sent.Sub(c.checked) > revokedPause && c.rec.verified {
		c.rec.revoked()
		c.wakeManager()
	}
}

// revokedPause is the time between two looks for revoked state.
const revokedPause = 5 * time.Second
