package nfsclient

import (
	"context"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// While a delegation is held nobody else changes the file, nor its access
// rights (RFC 8881 section 10.4), so opening and closing it need not be told: the
// open that the server knows stays as it is when the last user closes the file,
// and serves the next one of the same owner. When the delegation goes, what
// nobody has open any more is closed.

// OpenDelegated opens a regular file without asking the server. It returns nil
// where only the server can tell: unless a delegation is held that covers the
// access, and this user has opened the file for it under that delegation, since
// this client has last changed who may. Its attributes are those that were seen
// last, but for own changes.
func (c *Client) OpenDelegated(cred Cred, fh FH, read, write bool) *File {
	var access uint32
	if read {
		access |= nfs4.ShareAccessRead
	}
	if write {
		access |= nfs4.ShareAccessWrite
	}
	key := c.creds.get(cred).key
	s := &c.state
	s.mu.Lock()
	n := s.nodes[string(fh)]
	if n == nil || access == 0 || n.deleg == nil || !n.deleg.covers(access) {
		s.mu.Unlock()
		return nil
	}
	o := n.shares[key]
	if o == nil || !o.held || o.lost != nil || access&^(o.granted&o.proven) != 0 || o.taken() {
		s.mu.Unlock()
		return nil
	}
	n.refs++
	n.files++
	o.counts[access]++
	s.delegs.use(n.deleg, time.Now())
	f := &File{c: c, open: o, access: access, fsid: n.fsid}
	s.files[f] = struct{}{}
	s.mu.Unlock()
	n.writes.mu.Lock()
	f.seen.Store(n.writes.lost.n)
	n.writes.mu.Unlock()
	return f
}

// Delegated tells whether a delegation of the file is held: until it is
// recalled, nobody but this client changes the file.
func (c *Client) Delegated(fh FH) bool {
	s := &c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[string(fh)]
	return n != nil && n.deleg != nil && n.deleg.phase == delegHeld
}

// WatchDelegations has f called when a delegation ends, before the server is
// told where it has asked for it. f must not wait.
func (c *Client) WatchDelegations(f func(fh FH)) { c.watchDelegs.Store(&f) }

// doubtAccess notes that who may open a file may have changed by our own doing,
// for which no delegation is recalled.
func (s *state) doubtAccess(fh FH) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.nodes[string(fh)]; n != nil {
		for _, o := range n.shares {
			o.proven = 0
		}
	}
}

// delegationEnds tells the watcher. Called without locks.
func (c *Client) delegationEnds(d *delegation) {
	if f := c.watchDelegs.Load(); f != nil {
		(*f)(d.node.fh)
	}
}

// deferred tells whether the server need not be told that a share is closed.
// Called with state.mu held.
func (o *openShare) deferred() bool {
	d := o.node.deleg
	return d != nil && o.lost == nil && d.covers(o.granted)
}

// afterDelegation closes what was left open of a node whose delegation is gone,
// and drops the delegation's reference.
func (c *Client) afterDelegation(ctx context.Context, n *node) {
	s := &c.state
	s.mu.Lock()
	var idle []*openShare
	for _, o := range n.shares {
		if o.held && o.needed() == 0 {
			idle = append(idle, o)
		}
	}
	s.mu.Unlock()
	for _, o := range idle {
		if err := c.settleShare(ctx, o); err != nil {
			c.log.WithError(err).Debug("file of a returned delegation not closed")
		}
	}
	s.mu.Lock()
	for _, o := range idle {
		n.forget(o)
	}
	s.unref(n)
	s.mu.Unlock()
}
