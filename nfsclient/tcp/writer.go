package tcp

import (
	"encoding/binary"
	"net"

	"nfsrdma-fuse/xdr"
)

// item is a message to be written: a call, or a reply to a call of the peer.
type item struct {
	msg    xdr.Message
	call   *call
	served *served
}

// Limits of what is handed to the kernel at once. A reply to the first call of
// a batch is not delivered before the whole batch is written.
const (
	batchItems = 32
	batchBytes = 256 << 10 // another item is added while there are fewer
)

// writer is what the writing goroutine keeps from batch to batch.
type writer struct {
	batch   []item
	markers [batchItems][markerLen]byte
	pieces  [][]byte
	gather  net.Buffers
}

// enqueueLocked adds a message to what is to be written. The queue is bounded
// by the calls outstanding and the calls served.
func (c *Conn) enqueueLocked(it item) {
	c.queue = append(c.queue, it)
	select {
	case c.kick <- struct{}{}:
	default: // the writer is going to look anyway
	}
}

// write writes what is queued until the connection ends. It is the writer
// goroutine.
func (c *Conn) write() {
	defer close(c.written)
	var w writer
	for {
		select {
		case <-c.kick:
		case <-c.ctx.Done():
			c.drop()
			return
		}
		for c.nextBatch(&w) {
			err := w.send(c.nc)
			if err != nil {
				c.fail(err)
			}
			c.sent(&w, err)
		}
	}
}

// nextBatch takes items off the queue. It reports false if there are none, or
// the connection has ended.
func (c *Conn) nextBatch(w *writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || len(c.queue) == 0 {
		return false
	}
	n := 0
	for bytes := 0; n < len(c.queue) && n < batchItems && bytes < batchBytes; n++ {
		bytes += c.queue[n].msg.Len()
		if cl := c.queue[n].call; cl != nil {
			cl.state = writing
		}
	}
	w.batch = append(w.batch[:0], c.queue[:n]...)
	rest := copy(c.queue, c.queue[n:])
	clear(c.queue[rest:])
	c.queue = c.queue[:rest]
	return true
}

// send writes the batch, each message as a record of one fragment.
func (w *writer) send(nc net.Conn) error {
	w.pieces = w.pieces[:0]
	for i, it := range w.batch {
		binary.BigEndian.PutUint32(w.markers[i][:], lastFragment|uint32(it.msg.Len()))
		w.pieces = append(w.pieces, w.markers[i][:])
		w.pieces = it.msg.AppendSegments(w.pieces)
	}
	w.gather = w.pieces // consumed by writing; pieces keeps the memory
	_, err := w.gather.WriteTo(nc)
	clear(w.pieces)
	return err
}

// sent lets go of the messages of the batch.
func (c *Conn) sent(w *writer, err error) {
	for _, it := range w.batch {
		if it.served != nil {
			it.served.sent <- err
			continue
		}
		c.mu.Lock()
		it.call.state = written
		replied := it.call.replied
		c.mu.Unlock()
		if replied {
			c.finish(it.call)
		}
	}
	clear(w.batch)
}

// drop tells those who wait for a reply to be written that it will not be. The
// calls in the queue are finished by the reader with all others.
func (c *Conn) drop() {
	c.mu.Lock()
	queue := c.queue
	c.queue = nil
	c.mu.Unlock()
	for _, it := range queue {
		if it.served != nil {
			it.served.sent <- c.err
		}
	}
}
