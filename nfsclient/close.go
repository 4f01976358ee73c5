package nfsclient

import (
	"context"
	"errors"
	"io"
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// Close syncs and closes the file, and releases the locks that were made through
// it. The server is told even if ctx is done: then by the client, later. While a
// delegation is held it need not be told yet. The error is that of the sync.
func (f *File) Close(ctx context.Context) error {
	if f.closed.Swap(true) {
		return opError(nfs4.OpClose, io.ErrClosedPipe)
	}
	err := f.Sync(ctx)
	if ctx.Err() == nil {
		f.unlockAll(ctx)
		f.release()
		if f.c.settleShare(ctx, f.open) == nil {
			f.gone()
			return err
		}
		f.c.spawn(func(ctx context.Context) {
			_ = f.c.settleShare(ctx, f.open)
			f.gone()
		})
		return err
	}
	// What is left is done by the client: the data may still have to be
	// written again with this file's stateid before that is closed.
	f.c.spawn(func(ctx context.Context) {
		if err := f.c.syncNode(ctx, f.open.node); err != nil {
			f.c.log.WithError(err).Warn("data of a closed file not brought to stable storage")
		}
		f.unlockAll(ctx)
		f.release()
		_ = f.c.settleShare(ctx, f.open)
		f.gone()
	})
	if err == nil {
		err = opError(nfs4.OpClose, ctx.Err())
	}
	return err
}

// release takes back the file's share.
func (f *File) release() {
	s := &f.c.state
	s.mu.Lock()
	f.open.release(f.access)
	s.mu.Unlock()
}

// gone drops the file's references.
func (f *File) gone() {
	s := &f.c.state
	s.mu.Lock()
	delete(s.files, f)
	n := f.open.node
	n.files--
	if n.deleg != nil {
		n.deleg.at = time.Now()
	}
	n.forget(f.open)
	s.unref(n)
	s.mu.Unlock()
}

// settleShare tells the server to close or downgrade what is not needed any more.
// It returns an error only if it could not be told.
func (c *Client) settleShare(ctx context.Context, o *openShare) error {
	if err := o.take(ctx); err != nil {
		return err
	}
	defer o.leave()
	st := &c.state
	for {
		st.mu.Lock()
		opening := st.opening[o.cred.key] > 0
		do, sid, access := o.next(opening)
		if (do == shareClose || do == shareDowngrade) && o.deferred() {
			do = shareKeep
		}
		st.mu.Unlock()
		var err error
		switch do {
		case shareKeep:
			return nil
		case shareWait:
			err = nfs4.ErrOldStateID
		case shareClose:
			err = c.sendClose(ctx, o, sid)
		case shareDowngrade:
			err = c.sendDowngrade(ctx, o, sid, access)
		}
		if err == nil {
			continue
		}
		status, ok := statusOf(err)
		if !ok {
			if ctx.Err() != nil || errors.Is(err, ErrClosed) {
				return err
			}
			// The request could not be made sense of; there is no better one.
			c.log.WithError(err).Warn("file not closed at the server")
			return nil
		}
		if status == nfs4.ErrOldStateID {
			if err := c.awaitSeq(ctx, o, sid); err != nil {
				return err
			}
			continue
		}
		st.mu.Lock()
		if do == shareClose || stateTrouble(status) {
			o.closed(sid) // it is not there any more
		} else {
			o.granted = o.needed() // it stays as it is
		}
		st.mu.Unlock()
		if !stateTrouble(status) {
			c.log.WithError(err).Warn("server refuses to close a file")
		}
	}
}

// awaitSeq waits until more is known of a share than the stateid sid, which the
// server has called old or would: an OPEN of this owner has overtaken us. Its
// reply brings the newer seqid, and perhaps a reason to keep the file open.
func (c *Client) awaitSeq(ctx context.Context, o *openShare, sid nfs4.StateID) error {
	st := &c.state
	st.mu.Lock()
	waiting := sid.IsSpecial() // for any reply, to close a gap
	known := !waiting && o.sid != sid
	opening := st.opening[o.cred.key] > 0
	changed := st.opened
	if !known && !opening && !waiting {
		o.sid.Seq = nextSeq(o.sid.Seq) // the reply was lost for good
	}
	st.mu.Unlock()
	if known || !opening {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) sendClose(ctx context.Context, o *openShare, sid nfs4.StateID) error {
	r := c.newRequest(o.cred)
	r.addPutFH(o.node.fh)
	r.closeArgs = nfs4.CloseArgs{StateID: sid}
	r.change(&r.closeArgs, &r.closeRes)
	if err := c.do(ctx, r); err != nil {
		return err
	}
	r.free()
	c.state.mu.Lock()
	o.closed(sid)
	c.state.mu.Unlock()
	return nil
}

func (c *Client) sendDowngrade(ctx context.Context, o *openShare, sid nfs4.StateID, access uint32) error {
	r := c.newRequest(o.cred)
	r.addPutFH(o.node.fh)
	res := new(nfs4.OpenDowngradeRes)
	r.change(&nfs4.OpenDowngradeArgs{StateID: sid, ShareAccess: access}, res)
	if err := c.do(ctx, r); err != nil {
		return err
	}
	r.free()
	c.state.mu.Lock()
	o.downgraded(res.StateID, access)
	c.state.mu.Unlock()
	return nil
}
