package nfsclient

import (
	"context"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// granted records the delegation that came with an OPEN, if one did. attrs are
// the attributes of the file at the time, or nil.
func (c *Client) granted(n *node, cred *credential, g *nfs4.Delegation, attrs *nfs4.Attrs) {
	if g.Type != nfs4.DelegateRead && g.Type != nfs4.DelegateWrite {
		return
	}
	d := &delegation{node: n, sid: g.StateID, typ: g.Type, cred: cred}
	if attrs != nil && attrs.Has(nfs4.AttrChange) && attrs.Has(nfs4.AttrSize) {
		d.change, d.size, d.known = attrs.Change, attrs.Size, true
	}
	s := &c.state
	s.mu.Lock()
	replaced := s.delegs.grant(d, time.Now())
	if s.delegs.byID[d.sid.Other] != d {
		d = s.delegs.byID[d.sid.Other] // known already
	} else {
		n.refs++ // as long as the server has the delegation
	}
	back := s.delegs.surplus(c.opt.MaxDelegations, func(*delegation) bool { return true })
	s.mu.Unlock()
	if replaced != nil {
		back = append(back, replaced)
	}
	if g.Recall {
		back = append(back, d)
	}
	for _, d := range back {
		c.giveBack(d)
	}
}

// giveBack returns a delegation in the background.
func (c *Client) giveBack(d *delegation) {
	s := &c.state
	s.mu.Lock()
	first := s.delegs.begin(d)
	s.mu.Unlock()
	if first {
		c.delegationEnds(d)
		c.spawn(func(ctx context.Context) { c.returnDelegation(ctx, d) })
	}
}

// ReturnDelegation gives the delegation of a file back, if there is one, in the
// background: for a caller who knows that it is of no more use, because the last
// name of the file was removed.
func (c *Client) ReturnDelegation(fh FH) {
	s := &c.state
	s.mu.Lock()
	var d *delegation
	if n := s.nodes[string(fh)]; n != nil {
		d = n.deleg
	}
	s.mu.Unlock()
	if d != nil {
		c.giveBack(d)
	}
}

// idleLeases is how many lease periods a delegation of a file that nobody has
// open is kept. The server has to keep the file for as long, even if it has no
// name any more, and other clients would have to wait for a recall.
const idleLeases = 2

// returnIdle returns delegations that have not been of use for long.
func (c *Client) returnIdle(now time.Time, lease time.Duration) {
	s := &c.state
	s.mu.Lock()
	back := s.delegs.surplus(0, func(d *delegation) bool {
		return d.node.files == 0 && now.Sub(d.at) > idleLeases*lease
	})
	s.mu.Unlock()
	for _, d := range back {
		c.giveBack(d)
	}
}

// returnDelegation returns a delegation that begin has taken out of use. Opens
// are known to the server and go on under their own stateids.
func (c *Client) returnDelegation(ctx context.Context, d *delegation) {
	n := d.node
	_ = c.syncNode(ctx, n) // who has the file open is told of a failure
	r := c.newRequest(d.cred)
	r.addPutFH(n.fh)
	r.change(&nfs4.DelegReturnArgs{StateID: d.sid}, new(nfs4.DelegReturnRes))
	err := c.do(ctx, r)
	if err == nil {
		r.free()
	} else if status, ok := statusOf(err); !ok {
		c.log.WithError(err).Debug("delegation not returned")
	} else {
		c.freeStateID(ctx, d.sid, status)
	}
	s := &c.state
	s.mu.Lock()
	last := d.phase != delegGone
	if last {
		s.delegs.gone(d)
	}
	s.mu.Unlock()
	if last {
		c.afterDelegation(ctx, n)
	}
}

// dropDelegation forgets a delegation whose stateid the server has refused.
func (c *Client) dropDelegation(ctx context.Context, sid nfs4.StateID, status nfs4.Status) {
	s := &c.state
	s.mu.Lock()
	d := s.delegs.find(sid)
	if d != nil {
		s.delegs.gone(d)
	}
	s.mu.Unlock()
	if d != nil {
		c.delegationEnds(d)
		c.freeStateID(ctx, sid, status)
		c.spawn(func(ctx context.Context) { c.afterDelegation(ctx, d.node) })
	}
}

// closeState closes every open file and returns every delegation.
func (c *Client) closeState(ctx context.Context) error {
	s := &c.state
	s.mu.Lock()
	var files []*File
	for f := range s.files {
		files = append(files, f)
	}
	s.mu.Unlock()
	errs := make([]error, len(files))
	parallel(len(files), func(i int) {
		if !files[i].closed.Load() {
			errs[i] = files[i].Close(ctx)
		}
	})
	s.mu.Lock()
	back := s.delegs.surplus(0, func(*delegation) bool { return true })
	for _, d := range back {
		s.delegs.begin(d)
	}
	s.mu.Unlock()
	parallel(len(back), func(i int) { c.returnDelegation(ctx, back[i]) })
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
