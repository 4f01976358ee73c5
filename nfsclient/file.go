package nfsclient

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"syscall"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
)

// File is an open file. It is safe for concurrent use.
type File struct {
	c      *Client
	open   *openShare
	access uint32 // share access
	stable bool   // every WRITE goes to stable storage
	wrote  atomic.Bool
	fsid   nfs4.FSID // of its file system
	closed atomic.Bool
	seen   atomic.Uint64 // lost writes that this file has been told of
	// lockers are those who have made locks through the file; guarded by
	// state.mu.
	lockers map[*locker]struct{}
}

// maxParallel bounds the pieces of one large read or write that are in flight.
const maxParallel = 4

// FH returns the filehandle; it must not be changed.
func (f *File) FH() FH { return f.open.node.fh }

// Read reads up to n bytes at off into a buffer of the transport, which the
// caller owns: the data is buf.Data[:got], and the caller releases it. got is
// less than n only at the end of the file, which eof tells. n is best not
// greater than Limits.RSize: more takes several READs and a copy.
func (f *File) Read(ctx context.Context, off int64, n int) (buf *ulb.Buffer, got int, eof bool, err error) {
	if off < 0 || n < 0 {
		return nil, 0, false, opError(nfs4.OpRead, nfs4.ErrInval)
	}
	if rsize := f.c.rsize(); n > rsize {
		return f.readPieces(ctx, off, n, rsize)
	}
	buf, got, eof, err = f.readOnce(ctx, off, n)
	if err == nil && !eof && got < n {
		got, eof, err = f.readRest(ctx, buf.Data[:n], off, got)
	}
	if err != nil {
		buf.Release()
		return nil, 0, false, err
	}
	return buf, got, eof, nil
}

// buffer returns a payload buffer of the present connection. A connection may
// close its pool when it ends; then the next one's is waited for.
func (c *Client) buffer(ctx context.Context, n int) (*ulb.Buffer, error) {
	for {
		c.mu.Lock()
		pool, changed := c.pool.Load(), c.newPool
		c.mu.Unlock()
		buf, err := pool.Get(ctx, n)
		if !errors.Is(err, ulb.ErrPoolClosed) {
			return buf, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-c.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// readOnce sends one READ. If it fails buf is nil.
func (f *File) readOnce(ctx context.Context, off int64, n int) (buf *ulb.Buffer, got int, eof bool, err error) {
	c := f.c
	// Some servers write the padding of the data into the chunk as well, so
	// what is asked for and the room for it are multiples of four.
	count := xdr.PadLen(n)
	buf, err = c.buffer(ctx, max(count, 4))
	if err != nil {
		return nil, 0, false, opError(nfs4.OpRead, err)
	}
	r := c.newRequest(f.open.cred)
	r.buf = buf
	r.call.Sink, r.call.SinkLen = buf, count
	r.addPutFH(f.open.node.fh)
	r.read = nfs4.ReadArgs{Offset: uint64(off), Count: uint32(count)}
	r.add(&r.read, &r.readRes)
	for try := 0; ; try++ {
		if r.read.StateID, err = c.pickIO(f, nfs4.ShareAccessRead); err != nil {
			r.free()
			return nil, 0, false, opError(nfs4.OpRead, err)
		}
		_, status, err := c.exec(ctx, r)
		if err != nil {
			return nil, 0, false, opError(nfs4.OpRead, err)
		}
		if status == nfs4.OK {
			break
		}
		if stateTrouble(status) && try < maxStateTries {
			err = c.restateIO(ctx, f, nfs4.ShareAccessRead, r.read.StateID, status)
			if err == nil {
				continue
			}
		} else {
			err = status
		}
		r.free()
		return nil, 0, false, opError(nfs4.OpRead, err)
	}
	res := &r.readRes
	if len(res.Data) > count {
		r.free()
		return nil, 0, false, opError(nfs4.OpRead, fmt.Errorf("%w: %d bytes where %d were asked for", ErrProtocol, len(res.Data), count))
	}
	if !res.Beside {
		if r.reply.SinkOffered && len(res.Data) > 0 {
			r.free()
			return nil, 0, false, opError(nfs4.OpRead, fmt.Errorf("%w: data beside the chunk offered for it", ErrProtocol))
		}
		c.stats.copied.Add(uint64(copy(buf.Data, res.Data)))
	}
	got, eof = len(res.Data), res.EOF
	if got > n {
		got, eof = n, false
	}
	r.buf = nil // the caller's now
	r.free()
	return buf, got, eof, nil
}

// readRest goes on after a short READ, into what is left of dst behind got.
// A server may return less than was asked for at any time, but an application is
// owed everything up to the end of the file.
func (f *File) readRest(ctx context.Context, dst []byte, off int64, got int) (int, bool, error) {
	rsize := f.c.rsize()
	for got < len(dst) {
		buf, n, eof, err := f.readOnce(ctx, off+int64(got), min(len(dst)-got, rsize))
		if err != nil {
			return got, false, err
		}
		f.c.stats.copied.Add(uint64(copy(dst[got:], buf.Data[:n])))
		buf.Release()
		got += n
		if eof {
			return got, true, nil
		}
		if n == 0 {
			return got, false, opError(nfs4.OpRead, fmt.Errorf("%w: no data and not at the end of the file", ErrProtocol))
		}
	}
	return got, false, nil
}

// readPieces reads more than one READ can carry.
func (f *File) readPieces(ctx context.Context, off int64, n, rsize int) (*ulb.Buffer, int, bool, error) {
	if n > f.c.pool.Load().Max() {
		n = f.c.pool.Load().Max()
	}
	whole, err := f.c.buffer(ctx, n)
	if err != nil {
		return nil, 0, false, opError(nfs4.OpRead, err)
	}
	type piece struct {
		got int
		eof bool
		err error
	}
	pieces := make([]piece, (n+rsize-1)/rsize)
	parallel(len(pieces), func(i int) {
		at := i * rsize
		dst := whole.Data[at:min(at+rsize, n)]
		p := &pieces[i]
		p.got, p.eof, p.err = f.readRest(ctx, dst, off+int64(at), 0)
	})
	got := 0
	for i, p := range pieces {
		if p.err != nil {
			whole.Release()
			return nil, 0, false, p.err
		}
		got += p.got
		if p.eof || p.got < min(rsize, n-i*rsize) {
			return whole, got, p.eof, nil
		}
	}
	return whole, got, false, nil
}

// parallel calls f for 0 to n-1, up to maxParallel of them at once.
func parallel(n int, f func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, maxParallel) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// Write writes data at off. When it returns, the server has the data but may
// lose it by a restart; a copy is kept until Sync, so that it can be written
// again. data may be used again when Write has returned. If the error is not
// nil, the first n bytes were written.
func (f *File) Write(ctx context.Context, off int64, data []byte) (n int, err error) {
	n, _, err = f.write(ctx, off, data, false)
	return n, err
}

// WriteAttrs is Write for a caller who writes as programs do: what looks like
// the only write to a small file goes to stable storage at once, so that it needs
// no COMMIT. Then the attributes that the file had afterwards come with the
// answer; otherwise attrs is nil.
func (f *File) WriteAttrs(ctx context.Context, off int64, data []byte) (n int, attrs *nfs4.Attrs, err error) {
	return f.write(ctx, off, data, len(data)%sector != 0)
}

func (f *File) write(ctx context.Context, off int64, data []byte, only bool) (n int, attrs *nfs4.Attrs, err error) {
	if f.access&nfs4.ShareAccessWrite == 0 {
		return 0, nil, opError(nfs4.OpWrite, syscall.EBADF)
	}
	if off < 0 || off > math.MaxInt64-int64(len(data)) {
		return 0, nil, opError(nfs4.OpWrite, nfs4.ErrFBig)
	}
	wsize := f.c.wsize()
	first := !f.wrote.Swap(true)
	if len(data) <= wsize {
		return f.writePiece(ctx, off, data, only && first)
	}
	type piece struct {
		n   int
		err error
	}
	pieces := make([]piece, (len(data)+wsize-1)/wsize)
	parallel(len(pieces), func(i int) {
		at := i * wsize
		p := &pieces[i]
		p.n, _, p.err = f.writePiece(ctx, off+int64(at), data[at:min(at+wsize, len(data))], false)
	})
	for _, p := range pieces {
		n += p.n
		if p.err != nil {
			return n, nil, p.err
		}
	}
	return n, nil, nil
}

// sector is what the sizes of programs' buffers are multiples of. The first write
// to an open file of another size ends with the data that the program has: it
// is probably the last one, too. If it is not, the server has gone to its
// storage once more than was needed, and no more than once for an open file.
const sector = 512

// writePiece writes what fits into one WRITE, with more of them if the server
// takes less. only says that it is probably all that will be written.
func (f *File) writePiece(ctx context.Context, off int64, data []byte, only bool) (n int, attrs *nfs4.Attrs, err error) {
	for n < len(data) {
		var m int
		m, attrs, err = f.writeOnce(ctx, off+int64(n), data[n:], writeHow{only: only})
		if err != nil {
			return n, nil, opError(nfs4.OpWrite, err)
		}
		n += m
	}
	return n, attrs, nil
}

// writeHow says what is special about a WRITE.
type writeHow struct {
	atEnd bool // it fails with NFS4ERR_NOT_SAME unless the file ends at its offset
	only  bool // it is probably all that will be written
}

// writeOnce sends one WRITE.
func (f *File) writeOnce(ctx context.Context, off int64, data []byte, how writeHow) (n int, attrs *nfs4.Attrs, err error) {
	c, node := f.c, f.open.node
	if err := c.makeRoom(ctx, len(data)); err != nil {
		return 0, nil, err
	}
	buf, err := c.buffer(ctx, len(data))
	if err != nil {
		return 0, nil, err
	}
	c.stats.copied.Add(uint64(copy(buf.Data, data)))
	order, err := node.writes.begin(ctx, off, len(data))
	if err != nil {
		buf.Release()
		return 0, nil, err
	}
	how.only = how.only && node.writes.alone()
	stable := nfs4.Unstable
	if f.stable || how.only {
		stable = nfs4.FileSync
	}
	r := c.newRequest(f.open.cred)
	r.buf = buf
	r.writes, r.order = &node.writes, order
	r.atEnd, r.unsafe = how.atEnd, how.atEnd
	if err := f.sendWrite(ctx, r, buf, off, len(data), stable, how.only); err != nil {
		return 0, nil, err
	}
	n = int(r.writeRes.Count)
	if how.only && n == len(data) && r.writeRes.Committed == nfs4.FileSync {
		attrs = r.attrsBehind()
	}
	r.buf = nil // the ledger's now
	c.written(f, off, buf, order, &r.writeRes)
	r.free()
	return n, attrs, nil
}

// sendWrite carries out a WRITE of the first n bytes of buf, and asks for the
// attributes of the file if they are wanted. When it fails the request is not
// the caller's any more.
func (f *File) sendWrite(ctx context.Context, r *request, buf *ulb.Buffer, off int64, n int, stable nfs4.StableHow, want bool) (err error) {
	c := f.c
	r.call.ArgBuf = buf
	r.addPutFH(f.open.node.fh)
	if r.atEnd {
		r.add(&nfs4.VerifyArgs{Attrs: nfs4.Attrs{Mask: nfs4.MakeBitmap(nfs4.AttrSize), Size: uint64(off)}}, new(nfs4.VerifyRes))
	}
	r.write = nfs4.WriteArgs{Offset: uint64(off), Stable: stable, Data: buf.Data[:n]}
	r.main(&r.write, &r.writeRes)
	if want {
		r.addGetAttr(ObjectAttrs)
	}
	w, order := r.writes, r.order
	for try := 0; ; try++ {
		if r.write.StateID, err = c.pickIO(f, nfs4.ShareAccessWrite); err != nil {
			r.free()
			return err
		}
		done, status, err := c.exec(ctx, r)
		if err != nil {
			if w != nil {
				w.abandon(order) // unless it has ended already
			}
			return err
		}
		if done > r.modify {
			if got := r.writeRes.Count; got == 0 || got > uint32(n) {
				r.free()
				return fmt.Errorf("%w: %d bytes of %d written", ErrProtocol, got, n)
			}
			return nil
		}
		if stateTrouble(status) && try < maxStateTries && !r.urgent {
			err = c.restateIO(ctx, f, nfs4.ShareAccessWrite, r.write.StateID, status)
			if err == nil {
				continue
			}
		} else {
			err = status
		}
		r.free()
		return err
	}
}

// Sync waits until everything written to the file, through this or any other
// File of this client, is on stable storage. If data was lost it tells every
// File that was open at the time, once.
func (f *File) Sync(ctx context.Context) error {
	_, err := f.sync(ctx, false)
	return err
}

// SyncAttrs is Sync, and returns the attributes that the file had afterwards if
// they came with the answer; otherwise attrs is nil.
func (f *File) SyncAttrs(ctx context.Context) (attrs *nfs4.Attrs, err error) {
	return f.sync(ctx, true)
}

func (f *File) sync(ctx context.Context, want bool) (*nfs4.Attrs, error) {
	attrs, mine := f.c.syncNodeAttrs(ctx, f.open.node, want)
	if mine != nil && !final(mine) {
		return nil, mine // what there is to be told is told by the next
	}
	others := f.Failure()
	switch {
	case mine != nil:
		return nil, mine
	case others != nil:
		return nil, others
	}
	return attrs, nil
}

// Failure returns the error of data that was lost since the file was opened or
// last told of it, which it is with this.
func (f *File) Failure() error {
	w := &f.open.node.writes
	w.mu.Lock()
	defer w.mu.Unlock()
	seen, err := w.lost.since(f.seen.Load())
	f.seen.Store(seen)
	return err
}
