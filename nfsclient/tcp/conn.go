package tcp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/rpc"
)

// Conn is one connection, either end of it. It sends calls, and serves those of
// the peer. A Conn is safe for concurrent use.
//
//	Dial, Accept, NewConn
//	         |
//	         v    Close, fault of the peer, network
//	     +------+ ----------------------------------> +--------+
//	     | open |                                     | ending |
//	     +------+                                     +--------+
//	                                                       | writer and reader have
//	                                                       v stopped
//	                                                   +-------+
//	                                                   | ended |  Done() is closed,
//	                                                   +-------+  no call outstanding
//
// Goroutines: the reader, which takes all records and finishes calls; the
// writer; and one for every call of the peer that is being served.
//
// Locks: Conn.mu guards what is named below it. While it is held no other lock
// is taken, nothing waits, and neither Call.Done nor the Handler is called.
type Conn struct {
	nc      net.Conn
	cfg     Config
	peer    string
	pool    *ulb.Pool
	ownPool bool
	count   counters

	// These are the reader's.
	in   recordReader
	head [8]byte // of the present record
	pad  [4]byte

	places chan struct{} // one element for each outstanding call
	probe  chan struct{} // one more, for a probe
	serve  chan struct{} // one for each call of the peer being served

	ctx     context.Context // of the handlers; ends when the connection does
	cancel  context.CancelFunc
	kick    chan struct{} // the queue is not empty
	written chan struct{} // closed when the writer has stopped
	done    chan struct{}
	served  sync.WaitGroup
	closes  sync.Once

	mu         sync.Mutex
	err        error // why the connection ends, nil while it is open
	calls      map[uint32]*call
	queue      []item // to be written
	freeServed []*served
}

// readBuffer is how much is read ahead, bytes: several small replies with one
// system call, and at most this much of a large one is copied.
const readBuffer = 16 << 10

// NewConn makes a connection of nc, which it owns from then on. It fails only
// if cfg makes no sense, and then closes nc.
func NewConn(nc net.Conn, cfg Config) (*Conn, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		nc.Close()
		return nil, err
	}
	if t, ok := nc.(*net.TCPConn); ok {
		// What cannot be set is no reason to do without the connection.
		_ = t.SetNoDelay(true)
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: cfg.KeepAlive > 0, Idle: cfg.KeepAlive, Interval: cfg.KeepAlive / keepAlives, Count: keepAlives,
		})
	}
	c := &Conn{
		nc: nc, cfg: cfg, peer: nc.RemoteAddr().String(), pool: cfg.Pool,
		in:     recordReader{r: bufio.NewReaderSize(nc, readBuffer), limit: cfg.maxRecord()},
		places: make(chan struct{}, cfg.MaxCalls),
		probe:  make(chan struct{}, 1),
		serve:  make(chan struct{}, cfg.MaxServe),
		kick:   make(chan struct{}, 1), written: make(chan struct{}), done: make(chan struct{}),
		calls: make(map[uint32]*call),
	}
	if c.pool == nil {
		c.pool, c.ownPool = ulb.NewPool(ulb.HeapMemory{}, cfg.PoolBytes), true
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.write()
	go c.read()
	return c, nil
}

// read takes records until the connection ends, and then finishes the calls
// that are left. It is the reader goroutine.
func (c *Conn) read() {
	for {
		if err := c.readRecord(); err != nil {
			c.fail(err)
			break
		}
	}
	// As long as the writer runs it may refer to the memory of a call.
	<-c.written
	c.mu.Lock()
	left := make([]*call, 0, len(c.calls))
	for _, cl := range c.calls {
		left = append(left, cl)
	}
	c.mu.Unlock()
	for _, cl := range left {
		if !cl.replied { // a reply that is in counts
			cl.err = c.err
		}
		c.finish(cl)
	}
	close(c.done)
}

func (c *Conn) readRecord() error {
	if err := c.in.next(); err != nil {
		return err
	}
	n, err := c.in.read(c.head[:])
	if err != nil {
		return err
	}
	xid, typ, ok := rpc.Peek(c.head[:n])
	switch {
	case !ok:
		return fmt.Errorf("%w: no RPC message", ErrRecord)
	case typ == rpc.Call:
		return c.readCall()
	}
	return c.readReply(xid)
}

// fail ends the connection because of err, unless it has ended already.
func (c *Conn) fail(err error) {
	var op *net.OpError // says again what a ConnError says
	if errors.As(err, &op) {
		err = op.Err
	}
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = &ulb.ConnError{Transport: "tcp", Peer: c.peer, Err: err}
	}
	c.mu.Unlock()
	if first {
		c.cancel()
		c.nc.Close()
	}
}

// Done returns a channel that is closed when the connection has ended and Done
// was called for all calls.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, a *ulb.ConnError, or nil if it is open.
// The cause is io.EOF if the peer closed it between two records, and
// net.ErrClosed if this end did.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits until all calls are done and all handlers
// have returned. It must not be called by a Handler or by Call.Done. A
// connection that has ended by itself has to be closed as well.
func (c *Conn) Close() error {
	c.fail(net.ErrClosed)
	<-c.done
	c.served.Wait()
	c.closes.Do(func() {
		if c.ownPool {
			c.pool.Close()
		}
	})
	return nil
}

// Pool returns the pool that payload buffers for this connection come from.
func (c *Conn) Pool() *ulb.Pool { return c.pool }

// Limits returns what the connection allows its calls.
func (c *Conn) Limits() ulb.Limits {
	return ulb.Limits{MaxPayload: min(c.cfg.MaxPayload, c.pool.Max()), MaxCalls: c.cfg.MaxCalls}
}

// Info describes the connection in one line.
func (c *Conn) Info() string {
	return fmt.Sprintf("tcp %v -> %v, %d calls, payload %d bytes", c.nc.LocalAddr(), c.peer, c.cfg.MaxCalls, c.cfg.MaxPayload)
}
