package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"math"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// written notes in the ledger of a file what a WRITE through f has left there,
// and takes over its buffer.
func (c *Client) written(f *File, off int64, buf *ulb.Buffer, order uint64, res *nfs4.WriteRes) {
	n := f.open.node
	w := &n.writes
	w.mu.Lock()
	if res.Committed == nfs4.FileSync {
		w.ledger.stable(off, int(res.Count), order)
		buf.Release()
	} else {
		w.ledger.add(off, int(res.Count), buf, order, res.Verf, f)
	}
	c.state.pages.set(n, w.ledger.size)
	w.mu.Unlock()
}

// truncated notes that an operation which was sent at mark has cut a file to
// size.
func (c *Client) truncated(fh FH, size uint64, mark uint64) {
	s := &c.state
	s.mu.Lock()
	n := s.nodes[string(fh)]
	if n != nil {
		n.refs++
	}
	s.mu.Unlock()
	if n == nil {
		return
	}
	w := &n.writes
	w.mu.Lock()
	w.ledger.truncate(int64(min(size, math.MaxInt64)), mark)
	s.pages.set(n, w.ledger.size)
	w.mu.Unlock()
	s.mu.Lock()
	s.unref(n)
	s.mu.Unlock()
}

// makeRoom waits until n more bytes of uncommitted data may be held, by
// committing the files that have waited longest.
func (c *Client) makeRoom(ctx context.Context, n int) error {
	for {
		old := c.state.pages.oldest(n, c.maxDirty())
		if old == nil {
			return nil
		}
		// A failure that is final is not this writer's. Those who have the file
		// open learn of it.
		if err := c.syncNode(ctx, old); err != nil && !final(err) {
			return err
		}
	}
}

// maxDirty is the limit on memory held for uncommitted data. It leaves the
// larger part of the transport's pool to the data under way.
func (c *Client) maxDirty() int {
	return min(c.opt.MaxUncommitted, c.pool.Load().Limit()/2)
}

// syncNode brings everything that was acknowledged of a file before the call to
// stable storage. A failure that is final means that the data is lost; all who
// have the file open are told.
func (c *Client) syncNode(ctx context.Context, n *node) error {
	_, err := c.syncNodeAttrs(ctx, n, false)
	return err
}

// syncNodeAttrs is syncNode; if attributes are wanted it returns those that came
// with the COMMIT, or nil if none was needed or did not bring any.
func (c *Client) syncNodeAttrs(ctx context.Context, n *node, want bool) (attrs *nfs4.Attrs, err error) {
	w := &n.writes
	w.mu.Lock()
	if w.ledger.empty() {
		w.mu.Unlock()
		return nil, nil
	}
	mark := w.ledger.mark()
	file := w.ledger.pieces[0].file
	w.mu.Unlock()

	verf, attrs, err := c.sendCommit(ctx, n, file, false, want)
	if err == nil {
		w.mu.Lock()
		stale := w.ledger.committed(mark, verf)
		w.mu.Unlock()
		if stale {
			attrs = nil // of what the server had lost
			err = c.rewrite(ctx, n, mark, verf)
		}
	}
	if err != nil && final(err) {
		w.mu.Lock()
		w.ledger.discard(mark)
		w.lost.add(err)
		w.mu.Unlock()
	}
	c.account(n)
	return attrs, err
}

// final tells whether an error says that the server will not do it, rather than
// that it could not be asked in the time that there was.
func final(err error) bool {
	return !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrClosed)
}

// account brings the account of uncommitted memory up to date with a node's
// ledger.
func (c *Client) account(n *node) {
	w := &n.writes
	w.mu.Lock()
	c.state.pages.set(n, w.ledger.size)
	w.mu.Unlock()
}

// sendCommit commits the whole file, and asks for its attributes if they are
// wanted. No open is needed for that, only the right to write.
func (c *Client) sendCommit(ctx context.Context, n *node, f *File, urgent, want bool) (verf nfs4.Verifier, attrs *nfs4.Attrs, err error) {
	r := c.newRequest(f.open.cred)
	r.urgent = urgent
	r.addPutFH(n.fh)
	r.commit = nfs4.CommitArgs{}
	r.main(&r.commit, &r.commitRes)
	if want {
		r.addGetAttr(ObjectAttrs)
	}
	if err := c.do(ctx, r); err != nil {
		return nfs4.Verifier{}, nil, err
	}
	defer r.free()
	if want {
		attrs = r.attrsBehind()
	}
	return r.commitRes.Verf, attrs, nil
}

// rewrite writes again what a COMMIT sent at mark has found to be lost, one
// WRITE after the other, straight to stable storage.
func (c *Client) rewrite(ctx context.Context, n *node, mark uint64, verf nfs4.Verifier) error {
	w := &n.writes
	if err := w.beginRewrite(ctx); err != nil {
		return opError(nfs4.OpWrite, err)
	}
	defer w.endRewrite()
	return c.rewritePieces(ctx, n, mark, verf, false)
}

func (c *Client) rewritePieces(ctx context.Context, n *node, mark uint64, verf nfs4.Verifier, urgent bool) error {
	c.log.Info("server has lost unstable data in a restart, writing it again")
	w := &n.writes
	for off := int64(0); ; {
		w.mu.Lock()
		d, ok := w.ledger.next(off, mark, verf)
		if ok {
			w.ledger.pin(d)
		}
		w.mu.Unlock()
		if !ok {
			return nil
		}
		off = d.end
		err := c.rewritePiece(ctx, n, &d, urgent)
		w.mu.Lock()
		if err == nil {
			w.ledger.rewritten(d)
		}
		w.ledger.unpin(d)
		w.mu.Unlock()
		if err != nil {
			return opError(nfs4.OpWrite, err)
		}
	}
}

// restore writes again what a server that has restarted has lost of any file,
// before anybody can read there what was written and is not there any more. No
// other request gets out meanwhile: WRITEs that were in flight are issued again
// afterwards. What cannot be written now is left to the next Sync.
func (c *Client) restore(ctx context.Context) error {
	for _, n := range c.state.pages.all() {
		w := &n.writes
		w.mu.Lock()
		empty, mark := w.ledger.empty(), w.ledger.mark()
		var file *File
		if !empty {
			file = w.ledger.pieces[0].file
		}
		w.mu.Unlock()
		if empty {
			continue
		}
		verf, _, err := c.sendCommit(ctx, n, file, true, false)
		if err == nil {
			w.mu.Lock()
			stale := w.ledger.committed(mark, verf)
			w.mu.Unlock()
			if stale {
				err = c.rewritePieces(ctx, n, mark, verf, true)
			}
		}
		c.account(n)
		if err != nil {
			status, ok := statusOf(err)
			if gone := errors.Is(err, ErrStateLost) || errors.Is(err, ErrLocksLost); !gone && (!ok || sessionTrouble(status)) {
				return err
			}
			c.log.WithError(err).Warn("data lost by the server could not be written again yet")
		}
	}
	return nil
}

// rewritePiece writes one piece again. The request gets a copy of the data: if
// the wait for it is given up, it goes on owning its buffer, and so does the
// ledger.
func (c *Client) rewritePiece(ctx context.Context, n *node, d *dirty, urgent bool) error {
	off := d.off
	for data := d.data(); len(data) > 0; {
		buf, err := c.buffer(ctx, len(data))
		if err != nil {
			return err
		}
		m := copy(buf.Data, data)
		c.stats.copied.Add(uint64(m))
		r := c.newRequest(d.file.open.cred)
		r.buf = buf
		r.urgent = urgent
		r.writes = &n.writes
		r.order = n.writes.track(off, m)
		if err := d.file.sendWrite(ctx, r, buf, off, m, nfs4.FileSync, false); err != nil {
			return err
		}
		count, how := int(r.writeRes.Count), r.writeRes.Committed
		r.free()
		if how != nfs4.FileSync {
			return fmt.Errorf("%w: data not on stable storage as was asked", ErrProtocol)
		}
		data = data[count:]
		off += int64(count)
		c.stats.rewritten.Add(uint64(count))
	}
	return nil
}
