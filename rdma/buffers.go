package rdma

import (
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// recv is a receive buffer and what was decoded of the message in it. From the
// time it is filled until it is given back it belongs to a call being served,
// or to the reply of one that was sent; another one is posted in its place at
// once, so that the peer never finds fewer than its credits promise.
type recv struct {
	held
	buf     *ulb.Buffer
	header  rpcrdma.Header
	payload []byte
	copied  bool // buf is an ordinary piece of memory, not one to be posted
}

// held is memory that a ulb.Reply refers to until it is released.
type held struct {
	conn    *Conn
	recv    *recv       // the reply lies in a receive buffer,
	long    *ulb.Buffer // or in this
	bulk    [1]xdr.Bulk
	release func()
}

func (h *held) give() {
	h.bulk[0] = xdr.Bulk{}
	if h.recv != nil {
		h.conn.putRecv(h.recv)
		return
	}
	h.long.Release()
	h.long = nil
	c := h.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freeHeld = append(c.freeHeld, h)
}

func (c *Conn) getHeld() *held {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.freeHeld); n > 0 {
		h := c.freeHeld[n-1]
		c.freeHeld = c.freeHeld[:n-1]
		return h
	}
	h := &held{conn: c}
	h.release = h.give
	return h
}

// newRecv makes a receive buffer. Called before the connection starts and by
// the poller.
func (c *Conn) newRecv(size int) (*recv, error) {
	data, region, err := c.qp.Memory().Alloc(size)
	if err != nil {
		return nil, err
	}
	r := &recv{buf: &ulb.Buffer{Data: data, Region: region}}
	r.held = held{conn: c, recv: r}
	r.release = r.give
	c.recvs[r.buf] = r
	return r, nil
}

// putRecv takes a receive buffer back.
func (c *Conn) putRecv(r *recv) {
	r.payload = nil
	if r.copied {
		return
	}
	c.mu.Lock()
	if !c.closed {
		c.freeRecvs = append(c.freeRecvs, r)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.qp.Memory().Free(r.buf.Data, r.buf.Region)
}

// spare returns a receive buffer to be posted in the place of one that was
// filled, or nil if so many are in use that the message has to be copied out.
// Called by the poller.
func (c *Conn) spare() *recv {
	c.mu.Lock()
	if n := len(c.freeRecvs); n > 0 {
		r := c.freeRecvs[n-1]
		c.freeRecvs[n-1] = nil
		c.freeRecvs = c.freeRecvs[:n-1]
		c.mu.Unlock()
		return r
	}
	c.mu.Unlock()
	if len(c.recvs) >= 2*c.cfg.receives() {
		return nil
	}
	r, err := c.newRecv(c.recvLen)
	if err != nil {
		return nil // copying does it as well
	}
	return r
}

// copyOf returns a receive buffer that holds the first n bytes of r and need
// not be posted again.
func (c *Conn) copyOf(r *recv, n int) *recv {
	data := append([]byte(nil), r.buf.Data[:n]...)
	other := &recv{buf: &ulb.Buffer{Data: data}, copied: true}
	other.held = held{conn: c, recv: other}
	other.release = other.give
	return other
}

// getSend returns a buffer for an inline message.
func (c *Conn) getSend() (*ulb.Buffer, error) {
	c.mu.Lock()
	if n := len(c.freeSends); n > 0 {
		b := c.freeSends[n-1]
		c.freeSends[n-1] = nil
		c.freeSends = c.freeSends[:n-1]
		c.mu.Unlock()
		return b, nil
	}
	c.mu.Unlock()
	data, region, err := c.qp.Memory().Alloc(c.cfg.InlineSize)
	if err != nil {
		return nil, err
	}
	return &ulb.Buffer{Data: data, Region: region}, nil
}

func (c *Conn) putSend(b *ulb.Buffer) {
	if b == nil {
		return
	}
	c.mu.Lock()
	if !c.closed {
		c.freeSends = append(c.freeSends, b)
		c.mu.Unlock()
		return
	}
	c.mu.Unlock()
	c.qp.Memory().Free(b.Data, b.Region)
}
