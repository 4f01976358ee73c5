package nfstest

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// LocalConn is one end of a connection within the process: a client's transport
// without a socket, so that tests can run in a bubble of testing/synctest. It
// holds calls to what they provide for their replies, as RDMA does.
type LocalConn struct {
	name   string
	link   *localLink
	remote *LocalConn
	handle ulb.Handler // of this end
	pool   *ulb.Pool
	credit chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	err   error
	calls map[*ulb.Call]struct{}
	live  sync.WaitGroup // calls whose Done has not returned
}

// localLink is what both ends share.
type localLink struct {
	ctx     context.Context
	cancel  context.CancelFunc
	serving sync.WaitGroup // handlers of both ends
	once    sync.Once
}

const (
	localCalls   = 64
	localPool    = 64 << 20
	localPayload = 4 << 20
)

// Dial connects to the server within the process. Callbacks go to back, which
// may be nil.
func (s *Server) Dial(ctx context.Context, back ulb.Handler) (*LocalConn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p, err := s.newPeer(fmt.Sprintf("local-%d", s.net.count.Add(1)))
	if err != nil {
		return nil, &ulb.ConnError{Transport: "local", Peer: "nfstest", Err: err}
	}
	link := &localLink{}
	link.ctx, link.cancel = context.WithCancel(context.Background())
	end := func(name string, h ulb.Handler) *LocalConn {
		return &LocalConn{name: name, link: link, handle: h, calls: make(map[*ulb.Call]struct{}),
			credit: make(chan struct{}, localCalls), done: make(chan struct{}),
			pool: ulb.NewPool(ulb.HeapMemory{}, localPool)}
	}
	client, server := end("nfstest", back), end("client", p.handle)
	client.remote, server.remote = server, client
	s.net.conns.Add(1)
	go func() {
		defer s.net.conns.Done()
		p.attach(server)
	}()
	return client, nil
}

// Send sends a call to the other end.
func (c *LocalConn) Send(ctx context.Context, call *ulb.Call) error {
	select {
	case c.credit <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.link.ctx.Done():
		return c.lost()
	}
	req := &ulb.Request{Msg: clone(call.Msg), ReplyMax: call.ReplyMax, BulkMax: call.SinkLen}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		<-c.credit
		return c.lost()
	}
	c.calls[call] = struct{}{}
	c.live.Add(1)
	c.link.serving.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.link.serving.Done()
		if h := c.remote.handle; h != nil {
			h(c.link.ctx, req, func(m xdr.Message) error { return c.answer(call, m) })
		}
	}()
	return nil
}

func clone(m xdr.Message) xdr.Message {
	out := xdr.Message{Stream: append([]byte(nil), m.Stream...)}
	for _, b := range m.Bulk {
		out.Bulk = append(out.Bulk, xdr.Bulk{Pos: b.Pos, Data: append([]byte(nil), b.Data...)})
	}
	return out
}

// answer gives a reply to the call it belongs to.
func (c *LocalConn) answer(call *ulb.Call, m xdr.Message) error {
	if !c.take(call) {
		return c.lost()
	}
	defer c.finished()
	var msg xdr.Message
	if call.Sink != nil && len(m.Bulk) == 1 && len(m.Bulk[0].Data) <= call.SinkLen {
		n := copy(call.Sink.Data, m.Bulk[0].Data)
		msg.Stream = append(msg.Stream, m.Stream...)
		msg.Bulk = []xdr.Bulk{{Pos: xdr.AnyPos, Data: call.Sink.Data[:n]}}
	} else {
		msg.Stream = m.AppendTo(nil)
	}
	if len(msg.Stream) > call.ReplyMax {
		call.Done(call, ulb.Reply{}, ulb.ErrReplyTooLarge)
		return nil
	}
	call.Done(call, ulb.NewReply(msg, nil), nil)
	return nil
}

// take removes a call from those outstanding, and tells whether it was one.
func (c *LocalConn) take(call *ulb.Call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.calls[call]
	delete(c.calls, call)
	return ok
}

func (c *LocalConn) finished() {
	<-c.credit
	c.live.Done()
}

func (c *LocalConn) lost() error {
	return &ulb.ConnError{Transport: "local", Peer: c.name, Err: c.cause()}
}

func (c *LocalConn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return io.EOF
	}
	return c.err
}

// end fails what is outstanding at this end.
func (c *LocalConn) end(cause error) {
	c.mu.Lock()
	c.err = cause
	calls := c.calls
	c.calls = make(map[*ulb.Call]struct{})
	c.mu.Unlock()
	for call := range calls {
		call.Done(call, ulb.Reply{}, c.lost())
		c.finished()
	}
	go func() {
		c.live.Wait()
		close(c.done)
	}()
}

// Close ends the connection, and waits until both ends are done with it. It must
// not be called by a handler or by Call.Done.
func (c *LocalConn) Close() error {
	c.link.once.Do(func() {
		c.link.cancel()
		c.end(net.ErrClosed)
		c.remote.end(io.EOF)
	})
	<-c.done
	<-c.remote.done
	c.link.serving.Wait()
	c.pool.Close()
	return nil
}

// Done is closed when the connection has ended and all calls are done.
func (c *LocalConn) Done() <-chan struct{} { return c.done }

// Err returns why the connection has ended, or nil.
func (c *LocalConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		return nil
	}
	return &ulb.ConnError{Transport: "local", Peer: c.name, Err: c.err}
}

// Limits returns what the connection allows its calls.
func (c *LocalConn) Limits() ulb.Limits {
	return ulb.Limits{MaxPayload: localPayload, MaxCalls: localCalls}
}

// Pool returns the pool for payload buffers.
func (c *LocalConn) Pool() *ulb.Pool { return c.pool }
