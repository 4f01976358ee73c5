package rdma

import (
	"context"
	"fmt"
	"sync"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// Conn is one RPC-over-RDMA connection (RFC 8166, RFC 8167), either end of it.
// It sends calls, and serves those of the peer. A Conn is safe for concurrent
// use.
//
//	Dial, Accept
//	     |
//	     v   Close, fault of the peer, network
//	  +------+ ------------------------------> +--------+
//	  | open |                                 | ending |
//	  +------+                                 +--------+
//	                                                | all work requests and
//	                                                v receive buffers are back
//	                                            +-------+
//	                                            | ended |  Done() is closed,
//	                                            +-------+  no call outstanding
//
// Goroutines: the poller, which takes all completions, finishes calls and calls
// their Done; and one for every call of the peer that is being served.
//
// Locks: Conn.mu guards what is named below it. While it is held no other lock
// is taken, nothing waits, and neither the queue pair, nor Call.Done, nor the
// Handler is called.
type Conn struct {
	qp      QueuePair
	info    Info
	cfg     Config
	peer    rpcrdma.PrivateData
	back    bool // own calls go in the backward direction: the accepting end
	sizes   ulb.Thresholds
	ownPool bool
	pool    *ulb.Pool
	long    *ulb.Pool // calls and replies too long for an inline message
	codec   *rpcrdma.Codec
	count   counters

	recvs   map[*ulb.Buffer]*recv // all receive buffers; the poller's
	recvLen int                   // their size in bytes

	ctx    context.Context // of the handlers
	cancel context.CancelFunc
	done   chan struct{}
	served sync.WaitGroup // goroutines that serve a call
	closes sync.Once

	mu      sync.Mutex
	idle    sync.Cond // senders == 0
	err     error     // why the connection ends, nil while it is open
	ended   bool      // no new call is taken
	closed  bool      // buffers given back are freed
	senders int       // goroutines between registering a call and having posted it
	calls   map[uint32]*call
	credits credits
	sq      tokens // places in the send queue
	reads   tokens // RDMA Reads
	serving int    // calls of the peer whose reply is not on its way

	freeRecvs  []*recv
	freeSends  []*ulb.Buffer
	freeServed []*served
	freeHeld   []*held
}

// newConn makes a connection of a queue pair that can take receive buffers,
// and posts them. start lets it go.
func newConn(qp QueuePair, cfg Config, back bool, recvSize int) (*Conn, error) {
	c := &Conn{
		qp: qp, cfg: cfg, back: back,
		codec: rpcrdma.ForVersion(rpcrdma.Version1),
		recvs: make(map[*ulb.Buffer]*recv), recvLen: recvSize,
		calls: make(map[uint32]*call),
		done:  make(chan struct{}),
	}
	c.idle.L = &c.mu
	asked := cfg.Credits
	if back {
		asked = cfg.BackCredits
	}
	c.credits = newCredits(asked)
	if c.pool = cfg.Pool; c.pool == nil {
		c.pool, c.ownPool = ulb.NewPool(qp.Memory(), cfg.PoolBytes), true
	}
	c.long = ulb.NewPool(qp.Memory(), cfg.LongBytes)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	var bufs []*ulb.Buffer
	for range cfg.receives() {
		r, err := c.newRecv(recvSize)
		if err != nil {
			c.abandon()
			return nil, err
		}
		bufs = append(bufs, r.buf)
	}
	if err := qp.Receive(bufs...); err != nil {
		c.abandon()
		return nil, err
	}
	return c, nil
}

// abandon frees the memory of a connection that was never started and whose
// queue pair is gone or has taken nothing.
func (c *Conn) abandon() {
	c.cancel()
	for _, r := range c.recvs {
		c.qp.Memory().Free(r.buf.Data, r.buf.Region)
	}
	c.free()
}

// start lets the connection go, once the queue pair is connected.
func (c *Conn) start() {
	c.info = c.qp.Info()
	c.peer, _ = rpcrdma.FindPrivateData(c.info.PrivateData)
	send, receive := rpcrdma.InlineThresholds(c.cfg.privateData(), c.peer)
	c.sizes = ulb.Thresholds{Send: send, Receive: receive, MaxSegment: c.info.MaxSegment, NoChunks: c.back}
	c.sq.limit = c.info.MaxSends
	c.reads.limit = c.info.ReadDepth
	go c.poll()
}

// poll takes completions until there are no more. It is the poller goroutine.
func (c *Conn) poll() {
	p := poller{c: c}
	var dst [64]Completion
	for {
		n, err := c.qp.Poll(dst[:])
		if n == 0 && err != nil {
			c.end(err)
			return
		}
		p.handle(dst[:n])
		clear(dst[:n])
	}
}

// fail ends the connection because of err; nil means that this end wants it.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	c.noteLocked(err)
	c.mu.Unlock()
	c.qp.Disconnect(err)
}

func (c *Conn) noteLocked(err error) {
	if c.err != nil {
		return
	}
	if err == nil {
		err = ErrClosed
	}
	c.err = &ulb.ConnError{Transport: "rdma", Peer: c.info.RemoteAddr, Err: err}
}

// end is called by the poller when the connection has ended and everything
// that was posted is back.
func (c *Conn) end(err error) {
	c.mu.Lock()
	c.noteLocked(err)
	c.ended = true
	c.credits.fail(c.err)
	c.sq.queue.fail(c.err)
	c.reads.queue.fail(c.err)
	// A call that is just being sent is left to its sender.
	for c.senders > 0 {
		c.idle.Wait()
	}
	calls := make([]*call, 0, len(c.calls))
	for _, cl := range c.calls {
		calls = append(calls, cl)
	}
	clear(c.calls)
	c.credits.inUse = 0
	c.mu.Unlock()
	c.cancel()
	for _, cl := range calls {
		// No handle gives access any more, so that the call is finished
		// whatever it was waiting for; a reply that is in counts.
		c.count.exposed.Add(-int64(cl.live()))
		if !cl.replied {
			cl.err = c.err
		}
		cl.finish()
	}
	close(c.done)
}

// Done returns a channel that is closed when the connection has ended and Done
// was called for all calls.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, a *ulb.ConnError, or nil if it is open.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits until all calls are done, all handlers
// have returned and no memory is referred to any more. It must not be called by
// a Handler or by Call.Done. A connection that has ended by itself has to be
// closed as well.
func (c *Conn) Close() error {
	c.fail(nil)
	<-c.done
	c.served.Wait()
	var err error
	c.closes.Do(func() {
		err = c.qp.Close()
		c.free()
	})
	return err
}

// free gives the memory of the connection back. Replies that are not released
// yet keep theirs until they are.
func (c *Conn) free() {
	c.mu.Lock()
	c.closed = true
	recvs, sends := c.freeRecvs, c.freeSends
	c.freeRecvs, c.freeSends = nil, nil
	c.mu.Unlock()
	mem := c.qp.Memory()
	for _, r := range recvs {
		mem.Free(r.buf.Data, r.buf.Region)
	}
	for _, b := range sends {
		mem.Free(b.Data, b.Region)
	}
	c.long.Close()
	if c.ownPool {
		c.pool.Close()
	}
}

// Pool returns the pool that payload buffers for this connection come from.
func (c *Conn) Pool() *ulb.Pool { return c.pool }

// Limits returns what the connection allows its calls.
func (c *Conn) Limits() ulb.Limits {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := ulb.Limits{MaxCalls: c.credits.asked}
	if c.count.replies.Load() > 0 {
		l.MaxCalls = c.credits.limit()
	}
	l.MaxCalls = max(1, l.MaxCalls-1) // one is kept back for probes
	if !c.back {
		l.MaxPayload = min(4<<20, c.pool.Max())
		if c.info.MaxSegment < l.MaxPayload/ulb.MaxSegments {
			l.MaxPayload = ulb.MaxSegments * c.info.MaxSegment
		}
	}
	return l
}

// Info describes the connection in one line.
func (c *Conn) Info() string {
	c.mu.Lock()
	granted := c.credits.granted
	c.mu.Unlock()
	return fmt.Sprintf("rdma/%s %s -> %s, inline %d/%d bytes, %d credits, remote invalidation %t",
		c.info.Provider, c.info.LocalAddr, c.info.RemoteAddr, c.sizes.Send, c.sizes.Receive, granted, c.peer.Invalidate)
}

// wait waits for a waiter that was put into a queue. cancel takes it out again
// when ctx is done.
func (c *Conn) wait(ctx context.Context, w *waiter, cancel func() bool) error {
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	out := cancel()
	c.mu.Unlock()
	if out {
		return ctx.Err()
	}
	return <-w.ready // it was served at the same moment
}

// takeSends takes n places in the send queue.
func (c *Conn) takeSends(ctx context.Context, w *waiter, n int) error {
	c.mu.Lock()
	if c.ended {
		err := c.err
		c.mu.Unlock()
		return err
	}
	if n > c.sq.limit {
		c.mu.Unlock()
		return fmt.Errorf("%w: %d work requests at once, the send queue has %d places", ulb.ErrTooLarge, n, c.sq.limit)
	}
	ok := c.sq.take(w, n)
	c.mu.Unlock()
	if ok {
		return nil
	}
	return c.wait(ctx, w, func() bool { return c.sq.cancel(w) })
}
