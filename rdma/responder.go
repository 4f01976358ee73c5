package rdma

import (
	"errors"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// The way of a call of the peer:
//
//	poller   count it against the credits granted; a goroutine takes it over
//	served   check its chunk lists; pull its Read chunks by RDMA Read
//	         call the Handler
//	respond  plan the reply; write results and a long reply by RDMA Write, send
//	         the reply behind them, all in one batch
//	         wait until nothing of it is in the send queue any more
//
// What cannot be understood or carried is answered with RDMA_ERROR.

// served is a call of the peer being answered, by a goroutine of its own.
type served struct {
	c     *Conn
	recv  *recv
	fault error // the header is malformed: answered without the Handler

	pulls   []ulb.Pull
	pulled  *ulb.Buffer
	req     ulb.Request
	bulk    []xdr.Bulk
	plan    ulb.ReplyPlan
	header  rpcrdma.Header
	send    *ulb.Buffer
	long    *ulb.Buffer
	extra   *ulb.Buffer // long, if it is not from the pool
	wrap    ulb.Buffer  // around a result in ordinary memory
	batch   []WorkRequest
	gathers []Gather
	w       waiter
	wake    chan struct{} // all that was posted is completed
	answer  func(xdr.Message) error
	run     func()

	responded bool

	// The following is guarded by c.mu.

	serving bool // counted in c.serving
	pending int  // work requests not completed
	waiting bool // somebody listens on wake
	err     error
}

func (c *Conn) granted() int {
	if c.back {
		return c.cfg.Credits
	}
	return c.cfg.BackCredits
}

// serve takes a call of the peer; err is what is wrong with its header. Called
// by the poller.
func (c *Conn) serve(r *recv, err error) {
	if c.cfg.Handler == nil {
		c.count.unanswered.Add(1)
		c.putRecv(r)
		return
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		c.putRecv(r)
		return
	}
	if c.serving >= c.granted() {
		c.mu.Unlock()
		c.putRecv(r)
		c.violation("more than %d calls at once, as many as credits were granted", c.granted())
		return
	}
	c.serving++
	var s *served
	if n := len(c.freeServed); n > 0 {
		s = c.freeServed[n-1]
		c.freeServed = c.freeServed[:n-1]
	} else {
		s = &served{c: c, w: newWaiter(), wake: make(chan struct{}, 1)}
		s.answer, s.run = s.respond, s.serve
	}
	s.serving = true
	c.served.Add(1)
	c.mu.Unlock()
	s.recv, s.fault = r, err
	s.responded, s.err = false, nil
	go s.run()
}

// serve is the goroutine of a call.
func (s *served) serve() {
	c := s.c
	defer c.served.Done()
	defer s.free()
	if s.fault == nil {
		s.fault = s.accept()
	}
	switch {
	case s.fault == nil:
		c.cfg.Handler(c.ctx, &s.req, s.answer)
		if !s.responded {
			c.count.unanswered.Add(1)
		}
	case c.ctx.Err() == nil:
		s.refuse(s.fault)
	}
}

var errNoChunks = errors.New("chunks in the backward direction")

// accept makes a request of the message. An error is the fault to answer with
// ERR_CHUNK.
func (s *served) accept() error {
	c, h := s.c, &s.recv.header
	if !c.back && h.HasChunks() {
		return errNoChunks // RFC 8167 section 5.3
	}
	var err error
	if s.pulls, err = ulb.CheckCall(h, s.pulls[:0]); err != nil {
		return err
	}
	stream := s.recv.payload
	s.bulk = s.bulk[:0]
	if len(s.pulls) > 0 {
		if err := s.pull(); err != nil {
			return err
		}
		at := 0
		for _, p := range s.pulls {
			data := s.pulled.Data[at : at+p.Len]
			at += align(p.Len)
			if p.Position == 0 {
				stream = data
			} else {
				// The profile has one of these, so that no earlier item
				// shifts it.
				s.bulk = append(s.bulk, xdr.Bulk{Pos: p.Position, Data: data})
			}
		}
		if isReply, err := replyOrCall(h.XID, stream); err != nil || isReply {
			return errMessage
		}
	}
	s.req.Msg = xdr.Message{Stream: stream, Bulk: s.bulk}
	s.req.ReplyMax, s.req.BulkMax = ulb.RequestRoom(s.offered(), c.sizes)
	return nil
}

func (s *served) offered() ulb.Offered {
	return ulb.Offered{Write: s.recv.header.Write, Reply: s.recv.header.Reply}
}

// pull reads the Read chunks, one behind the other, into one buffer.
func (s *served) pull() error {
	c, n := s.c, 0
	for _, p := range s.pulls {
		n += align(p.Len)
	}
	if n > c.long.Max() {
		return ulb.ErrTooLarge
	}
	var err error
	if s.pulled, err = c.long.Get(c.ctx, n); err != nil {
		return err
	}
	at := 0
	for _, p := range s.pulls {
		for i, seg := range s.recv.header.Read[p.From:p.To] {
			if i == 0 {
				at = align(at)
			}
			if seg.Length == 0 {
				continue
			}
			if err = s.read(seg, at); err != nil {
				break
			}
			at += int(seg.Length)
		}
	}
	return errors.Join(err, s.settled())
}

// read posts an RDMA Read of one segment.
func (s *served) read(seg rpcrdma.ReadSegment, at int) error {
	c := s.c
	if err := s.takeRead(); err != nil {
		return err
	}
	if err := c.takeSends(c.ctx, &s.w, 1); err != nil {
		return err
	}
	s.gathers = append(s.gathers[:0], Gather{Buf: s.pulled, Off: at, Len: int(seg.Length)})
	s.batch = append(s.batch[:0], WorkRequest{Op: OpRead, Cookie: s, Local: s.gathers,
		Remote: Remote{Handle: Handle(seg.Handle), Offset: seg.Offset}})
	c.count.bytesRead.Add(uint64(seg.Length))
	return s.post()
}

func (s *served) takeRead() error {
	c := s.c
	c.mu.Lock()
	if c.ended {
		err := c.err
		c.mu.Unlock()
		return err
	}
	ok := c.reads.take(&s.w, 1)
	c.mu.Unlock()
	if ok {
		return nil
	}
	return c.wait(c.ctx, &s.w, func() bool { return c.reads.cancel(&s.w) })
}

// post posts s.batch, for which places were taken.
func (s *served) post() error {
	c := s.c
	c.mu.Lock()
	s.pending += len(s.batch)
	c.mu.Unlock()
	err := c.qp.Post(s.batch)
	if err != nil {
		c.mu.Lock()
		s.pending -= len(s.batch)
		c.mu.Unlock()
		c.fail(err)
	}
	return err
}

// completed takes the completion of a work request. Called with c.mu held.
func (s *served) completed(err error) {
	if err != nil && s.err == nil {
		s.err = err
	}
	if s.pending--; s.pending == 0 && s.waiting {
		s.waiting = false
		s.wake <- struct{}{}
	}
}

// settled waits until everything posted is completed: nothing refers to the
// memory any more then. Completions come even if the connection ends.
func (s *served) settled() error {
	c := s.c
	c.mu.Lock()
	s.waiting = s.pending > 0
	wait := s.waiting
	c.mu.Unlock()
	if wait {
		<-s.wake
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return s.err
}

var errResponded = errors.New("rdma: the call was answered before")

// respond sends the reply. It is what the Handler is given.
func (s *served) respond(reply xdr.Message) error {
	if s.responded {
		return errResponded
	}
	s.responded = true
	c := s.c
	if err := s.plan.Plan(reply, s.offered(), c.sizes); err != nil {
		s.refuse(err)
		return err
	}
	h := &s.header
	h.Reset()
	h.XID, h.Vers, h.Credits, h.Proc = s.recv.header.XID, c.codec.Version, uint32(c.granted()), rpcrdma.Msg
	h.Write = append(h.Write, s.plan.Write...)
	h.Reply = s.plan.Reply
	s.batch, s.gathers = s.batch[:0], s.gathers[:0]
	if err := s.writeResults(reply); err != nil {
		return err
	}
	if s.plan.Long {
		h.Proc = rpcrdma.NoMsg
	}
	c.count.served.Add(1)
	return s.sendMessage(s.plan.Rest)
}

// writeResults makes RDMA Writes of the results that are paired with a Write
// chunk, and of a long reply.
func (s *served) writeResults(reply xdr.Message) error {
	c, n := s.c, 0
	for i := range s.plan.Placed {
		if len(s.plan.Write[i]) > 0 && !c.info.AnyMemory {
			n += align(len(reply.Bulk[i].Data))
		}
	}
	longAt := n
	if s.plan.Long {
		n += s.plan.Rest.Len()
	}
	if n > 0 {
		if n > c.long.Max() {
			s.refuse(ulb.ErrTooLarge)
			return ulb.ErrTooLarge
		}
		var err error
		if s.long, err = s.getLong(n); err != nil {
			return err
		}
	}
	at := 0
	for i := range s.plan.Placed {
		data := reply.Bulk[i].Data
		if len(s.plan.Write[i]) == 0 || len(data) == 0 {
			continue
		}
		if c.info.AnyMemory {
			b := &s.wrap
			if i > 0 {
				b = new(ulb.Buffer)
			}
			b.Data = data
			s.write(s.plan.Write[i], b, 0)
			continue
		}
		copy(s.long.Data[at:], data)
		s.write(s.plan.Write[i], s.long, at)
		at += align(len(data))
	}
	if s.plan.Long {
		s.plan.Rest.AppendTo(s.long.Data[longAt:longAt])
		s.write(s.plan.Reply, s.long, longAt)
	}
	return nil
}

// getLong returns memory for results and a long reply. A call that holds such
// memory for its arguments does not wait for more: all of it could be held by
// calls in the same position.
func (s *served) getLong(n int) (*ulb.Buffer, error) {
	c := s.c
	if s.pulled == nil {
		return c.long.Get(c.ctx, n)
	}
	if b := c.long.TryGet(n); b != nil {
		return b, nil
	}
	data, region, err := c.qp.Memory().Alloc(n)
	if err != nil {
		return nil, err
	}
	s.extra = &ulb.Buffer{Data: data, Region: region}
	return s.extra, nil
}

func (s *served) write(chunk rpcrdma.Chunk, buf *ulb.Buffer, at int) {
	for _, seg := range chunk {
		if seg.Length == 0 {
			break
		}
		s.batch = append(s.batch, WorkRequest{Op: OpWrite, Cookie: s, Local: s.local(buf, at, int(seg.Length)),
			Remote: Remote{Handle: Handle(seg.Handle), Offset: seg.Offset}})
		at += int(seg.Length)
		s.c.count.bytesWritten.Add(uint64(seg.Length))
	}
}

func (s *served) local(buf *ulb.Buffer, off, n int) []Gather {
	i := len(s.gathers)
	s.gathers = append(s.gathers, Gather{Buf: buf, Off: off, Len: n})
	return s.gathers[i : i+1 : i+1]
}

// refuse answers with RDMA_ERROR: the header is malformed, or the reply fits
// nowhere (RFC 8166 section 4.5).
func (s *served) refuse(err error) {
	c := s.c
	h := &s.header
	h.Reset()
	h.XID, h.Vers, h.Proc = s.recv.header.XID, s.recv.header.Vers, s.recv.header.Proc
	if !h.ErrorReply(err, uint32(c.granted())) {
		return
	}
	s.batch, s.gathers = s.batch[:0], s.gathers[:0]
	c.count.refusals.Add(1)
	_ = s.sendMessage(xdr.Message{}) // if it cannot be sent the connection has ended
}

// sendMessage sends s.header, and msg behind it unless it is long, as the last
// of s.batch.
func (s *served) sendMessage(msg xdr.Message) error {
	c, h := s.c, &s.header
	var err error
	if s.send, err = c.getSend(); err != nil {
		c.fail(err) // a reply that cannot be sent: RFC 8166 section 4.5.4
		return err
	}
	out := c.codec.Append(s.send.Data[:0], h)
	if h.Proc == rpcrdma.Msg {
		out = msg.AppendTo(out)
	}
	wr := WorkRequest{Op: OpSend, Cookie: s, Local: s.local(s.send, 0, len(out))}
	if handle, ok := s.invalidate(); ok && h.Proc != rpcrdma.Error {
		wr.Op, wr.Remote.Handle = OpSendInvalidate, handle
	}
	s.batch = append(s.batch, wr)
	// Batches are carried out in order, so that a very long one may be split.
	all := s.batch
	for len(all) > 0 && err == nil {
		s.batch = all[:min(len(all), maxBatch, c.sq.limit)]
		all = all[len(s.batch):]
		if err = c.takeSends(c.ctx, &s.w, len(s.batch)); err != nil {
			break
		}
		if len(all) == 0 {
			s.leave() // the peer may send its next call when it has this
		}
		err = s.post()
	}
	return errors.Join(err, s.settled())
}

// invalidate chooses a handle of the call for the peer to be relieved of, if
// both ends have said that they can do that (RFC 8797 section 4.1).
func (s *served) invalidate() (Handle, bool) {
	h := &s.recv.header
	switch {
	case !s.c.peer.Invalidate || h.Vers != s.c.codec.Version:
	case len(h.Write) > 0 && len(h.Write[0]) > 0:
		return Handle(h.Write[0][0].Handle), true
	case len(h.Reply) > 0:
		return Handle(h.Reply[0].Handle), true
	case len(h.Read) > 0:
		return Handle(h.Read[0].Handle), true
	}
	return 0, false
}

// leave takes the call out of those that occupy a credit.
func (s *served) leave() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.serving {
		s.serving = false
		s.c.serving--
	}
}

// free gives back what the call has taken.
func (s *served) free() {
	c := s.c
	_ = s.settled()
	s.leave()
	s.pulled.Release()
	s.long.Release()
	if s.extra != nil {
		c.qp.Memory().Free(s.extra.Data, s.extra.Region)
	}
	c.putSend(s.send)
	c.putRecv(s.recv)
	s.pulled, s.long, s.extra, s.send, s.recv = nil, nil, nil, nil, nil
	s.req = ulb.Request{}
	clear(s.bulk)
	s.wrap = ulb.Buffer{}
	clear(s.batch[:cap(s.batch)])
	clear(s.gathers[:cap(s.gathers)])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freeServed = append(c.freeServed, s)
}
