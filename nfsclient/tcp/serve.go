package tcp

import (
	"errors"
	"fmt"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpc"
)

// served is a call of the peer that is being served.
type served struct {
	conn     *Conn
	rec      *record
	req      ulb.Request
	sent     chan error // from the writer
	answered bool

	// Made once, so that they cost no allocation for each call.
	respond func(xdr.Message) error
	start   func()
}

var (
	errAnswered = errors.New("tcp: the call was answered already")
	errNoReply  = errors.New("tcp: the message is not an RPC reply")
)

// readCall takes a call of the peer, of which c.head was read, and starts
// serving it. It waits until one more may be served.
func (c *Conn) readCall() error {
	if c.cfg.Handler == nil {
		c.count.unanswered.Add(1)
		return c.in.skip()
	}
	select {
	case c.serve <- struct{}{}:
	case <-c.ctx.Done():
		return c.Err()
	}
	rec := newRecord(len(c.head) + c.in.left)
	n := copy(rec.buf, c.head[:])
	rec, err := c.in.rest(rec, n, c.cfg.maxRecord())
	if err != nil {
		rec.free()
		<-c.serve
		return err
	}
	s := c.newServed()
	s.rec = rec
	s.req = ulb.Request{Msg: xdr.Message{Stream: rec.message()}, ReplyMax: c.cfg.maxRecord()}
	c.served.Add(1)
	go s.start()
	return nil
}

func (s *served) run() {
	c := s.conn
	c.cfg.Handler(c.ctx, &s.req, s.respond)
	if s.answered {
		c.count.served.Add(1)
	} else {
		c.count.unanswered.Add(1)
	}
	s.rec.free()
	s.rec, s.req, s.answered = nil, ulb.Request{}, false
	c.mu.Lock()
	c.freeServed = append(c.freeServed, s)
	c.mu.Unlock()
	<-c.serve
	c.served.Done()
}

func (c *Conn) newServed() *served {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.freeServed); n > 0 {
		s := c.freeServed[n-1]
		c.freeServed = c.freeServed[:n-1]
		return s
	}
	s := &served{conn: c, sent: make(chan error, 1)}
	s.respond, s.start = s.answer, s.run
	return s
}

// answer writes the reply and returns when that is done or has failed. A reply
// that is too long to be sent leaves the call open for another one.
func (s *served) answer(reply xdr.Message) error {
	c := s.conn
	switch n := reply.Len(); {
	case s.answered:
		return errAnswered
	case n > s.req.ReplyMax:
		return fmt.Errorf("%w: a reply of %d bytes, %d are possible", ulb.ErrTooLarge, n, s.req.ReplyMax)
	case !isReply(reply.Stream):
		return errNoReply
	}
	s.answered = true
	c.mu.Lock()
	if err := c.err; err != nil {
		c.mu.Unlock()
		return err
	}
	c.enqueueLocked(item{msg: reply, served: s})
	c.mu.Unlock()
	return <-s.sent
}

func isReply(stream []byte) bool {
	_, typ, ok := rpc.Peek(stream)
	return ok && typ == rpc.Reply
}
