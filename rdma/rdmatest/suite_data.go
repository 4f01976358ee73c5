package rdmatest

import (
	"bytes"
	"math/rand/v2"
	"sync"
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

func testInfo(t *testing.T, connect ConnectFunc) {
	co, so := options(), options()
	co.PrivateData, so.PrivateData = []byte("from the client"), []byte("from the server!")
	co.IRD, co.ORD, so.IRD, so.ORD = 5, 3, 4, 2
	c, s := pairWith(t, connect, co, so)
	ci, si := c.qp.Info(), s.qp.Info()
	for _, i := range []rdma.Info{ci, si} {
		if i.Provider == "" || i.Device == "" || i.LocalAddr == "" || i.RemoteAddr == "" {
			t.Errorf("incomplete: %+v", i)
		}
		if i.MaxSegment < 64<<10 || i.MaxGather < 2 || i.MaxSends < co.MaxSends {
			t.Errorf("limits too low: %+v", i)
		}
	}
	if !bytes.Contains(ci.PrivateData, so.PrivateData) || !bytes.Contains(si.PrivateData, co.PrivateData) {
		t.Errorf("private data: client got %q, server got %q", ci.PrivateData, si.PrivateData)
	}
	if ci.ReadDepth < 1 || ci.ReadDepth > min(co.ORD, so.IRD) {
		t.Errorf("client's ReadDepth %d with ORD %d and the peer's IRD %d", ci.ReadDepth, co.ORD, so.IRD)
	}
	if si.ReadDepth < 1 || si.ReadDepth > min(so.ORD, co.IRD) {
		t.Errorf("server's ReadDepth %d with ORD %d and the peer's IRD %d", si.ReadDepth, so.ORD, co.IRD)
	}
}

func testPrepare(t *testing.T, connect ConnectFunc) {
	so := options()
	var data []byte
	var region any
	so.Prepare = func(qp rdma.QueuePair) (err error) {
		if data, region, err = qp.Memory().Alloc(64); err != nil {
			return err
		}
		return qp.Receive(&ulb.Buffer{Data: data, Region: region})
	}
	c, s := pairWith(t, connect, options(), so)
	t.Cleanup(func() {
		s.qp.Close()
		s.mem.Free(data, region)
	})
	if data == nil {
		t.Fatal("Prepare was not called")
	}
	c.post(rdma.WorkRequest{Op: rdma.OpSend, Local: all(c.buffer(64, 9))})
	got := s.expect(rdma.OpReceive, nil)
	want := make([]byte, 64)
	if fill(want, 9); got.Len != 64 || !bytes.Equal(got.Buf.Data, want) {
		t.Error("message into the buffer posted by Prepare arrived wrong")
	}
}

func testSendSizes(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	for i, n := range []int{1, 3, 28, 1024, 1460, 4096, 65536, 100_001} {
		for _, dir := range [][2]*end{{c, s}, {s, c}} {
			from, to := dir[0], dir[1]
			rb := to.buffer(n+5, 0)
			tail := bytes.Clone(rb.Data[n:])
			to.receive(rb)
			sb := from.buffer(n+2, byte(i))
			// In two pieces where that is possible, from the middle.
			g := []rdma.Gather{{Buf: sb, Off: 1, Len: n/2 + 1}}
			if n-n/2-1 > 0 {
				g = append(g, rdma.Gather{Buf: sb, Off: n/2 + 2, Len: n - n/2 - 1})
			}
			from.post(rdma.WorkRequest{Op: rdma.OpSend, Cookie: i, Local: g})
			got := to.expect(rdma.OpReceive, nil)
			if got.Buf != rb || got.Len != n || got.HasInvalidated {
				t.Fatalf("%s: message of %d bytes: %+v", to.name, n, got)
			}
			if !bytes.Equal(rb.Data[:n], sb.Data[1:n+1]) {
				t.Errorf("%s: message of %d bytes differs", to.name, n)
			}
			if !bytes.Equal(rb.Data[n:], tail) {
				t.Errorf("%s: message of %d bytes wrote behind its end", to.name, n)
			}
			from.expect(rdma.OpSend, i)
		}
	}
}

func testSendOrder(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	var bufs []*ulb.Buffer
	for range 48 {
		bufs = append(bufs, s.buffer(64, 0))
	}
	s.receive(bufs[:20]...)
	s.receive(bufs[20:]...)
	sb := c.buffer(48, 0)
	var batch []rdma.WorkRequest
	for i := range 48 {
		sb.Data[i] = byte(i)
		batch = append(batch, rdma.WorkRequest{Op: rdma.OpSend, Cookie: i, Local: []rdma.Gather{{Buf: sb, Off: i, Len: 1}}})
	}
	c.post(batch[:7]...)
	c.post(batch[7:]...)
	clear(batch) // the provider must not have kept it
	for i := range 48 {
		got := s.expect(rdma.OpReceive, nil)
		if got.Buf != bufs[i] || got.Len != 1 || got.Buf.Data[0] != byte(i) {
			t.Fatalf("message %d: arrived as %d", i, got.Buf.Data[0])
		}
	}
	for i := range 48 {
		c.expect(rdma.OpSend, i)
	}
}

func testWrite(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	const size = 1<<20 + 4096
	for _, w := range []struct{ off, n, at, len int }{
		{0, size, 0, size},                  // the whole
		{4096, 1 << 20, 0, 1 << 20},         // exposed from the middle of the buffer
		{4096, 1 << 20, 77, 1001},           // into the middle, no multiple of anything
		{1, 65536, 65535, 1},                // the last byte
		{10, 100, 0, 100},                   // small
		{0, 4096, 4096 - 1448, 1448},        // to the end
		{64, 1<<20 - 64, 5, 1<<20 - 64 - 5}, // long, to the end
	} {
		dst := c.buffer(size, 0)
		want := bytes.Clone(dst.Data)
		src := s.buffer(size, 0x5a)
		copy(want[w.off+w.at:], src.Data[3:3+w.len-min(3, w.len)])
		r := c.expose(dst, w.off, w.n, rdma.RemoteWrite)
		first := w.len / 3
		g := []rdma.Gather{{Buf: src, Off: 0, Len: first}, {Buf: src, Off: first, Len: w.len - first}}
		copy(want[w.off+w.at:w.off+w.at+w.len], src.Data)
		s.post(rdma.WorkRequest{Op: rdma.OpWrite, Cookie: w.len, Local: g, Remote: at(r, w.at)})
		s.expect(rdma.OpWrite, w.len)
		settle(s, c)
		if !bytes.Equal(dst.Data, want) {
			t.Errorf("%+v: memory differs", w)
		}
		c.post(rdma.WorkRequest{Op: rdma.OpInvalidate, Remote: r})
		c.expect(rdma.OpInvalidate, nil)
	}
}

// What was written is in place when a message sent behind it is received
// (RFC 5040 section 5.5).
func testWriteBeforeSend(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	const size = 200_000
	dst, src := c.buffer(size, 0), s.buffer(size, 1)
	note, msg := c.buffer(16, 0), s.buffer(4, 0)
	r := c.expose(dst, 0, size, rdma.RemoteWrite)
	for i := range 20 {
		fill(src.Data, byte(i))
		c.receive(note)
		s.post(
			rdma.WorkRequest{Op: rdma.OpWrite, Cookie: "w", Local: all(src), Remote: r},
			rdma.WorkRequest{Op: rdma.OpSend, Cookie: "s", Local: all(msg)})
		c.expect(rdma.OpReceive, nil)
		if !bytes.Equal(dst.Data, src.Data) {
			t.Fatalf("round %d: message arrived before the data was in place", i)
		}
		// Writes and Sends may be reported in either order.
		for range 2 {
			if done, err := s.poll(); err != nil || done.Err != nil {
				t.Fatal(err, done.Err)
			}
		}
	}
}

func testRead(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	const size = 1<<20 + 4096
	src := c.buffer(size, 0x33)
	for _, w := range []struct{ off, n, at, len int }{
		{0, size, 0, size}, {4096, 1 << 20, 0, 1 << 20}, {3, 70_000, 69_999, 1}, {8, 4096, 1, 1447}, {0, 5, 0, 5},
	} {
		dst := s.buffer(size, 0)
		want := bytes.Clone(dst.Data)
		copy(want[9:9+min(w.len, size-9)], src.Data[w.off+w.at:])
		n := min(w.len, size-9)
		r := c.expose(src, w.off, w.n, rdma.RemoteRead)
		s.post(rdma.WorkRequest{Op: rdma.OpRead, Cookie: w.len, Local: []rdma.Gather{{Buf: dst, Off: 9, Len: n}}, Remote: at(r, w.at)})
		s.expect(rdma.OpRead, w.len)
		if !bytes.Equal(dst.Data, want) {
			t.Errorf("%+v: memory differs", w)
		}
		c.post(rdma.WorkRequest{Op: rdma.OpInvalidate, Remote: r})
		c.expect(rdma.OpInvalidate, nil)
	}
}

func testReadsAtOnce(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	depth := s.qp.Info().ReadDepth
	const size = 50_000
	src := c.buffer(depth*size, 0x44)
	r := c.expose(src, 0, depth*size, rdma.RemoteRead)
	dst := s.buffer(depth*size, 0)
	for range 5 {
		clear(dst.Data)
		var batch []rdma.WorkRequest
		for i := range depth {
			batch = append(batch, rdma.WorkRequest{Op: rdma.OpRead, Cookie: i,
				Local: []rdma.Gather{{Buf: dst, Off: i * size, Len: size}}, Remote: at(r, i*size)})
		}
		s.post(batch...)
		seen := make(map[any]bool)
		for range depth {
			done, err := s.poll()
			if err != nil || done.Err != nil || done.Op != rdma.OpRead || seen[done.Cookie] {
				t.Fatalf("completion %+v, error %v", done, err)
			}
			seen[done.Cookie] = true
		}
		if !bytes.Equal(dst.Data, src.Data) {
			t.Fatal("memory differs")
		}
	}
}

func testMaxSends(t *testing.T, connect ConnectFunc) {
	co := options()
	co.MaxSends = 8
	c, s := pairWith(t, connect, co, options())
	n := c.qp.Info().MaxSends
	var bufs []*ulb.Buffer
	for range 4 {
		bufs = append(bufs, s.buffer(16, 0))
	}
	s.receive(bufs...)
	b := c.buffer(16, 0)
	batch := make([]rdma.WorkRequest, n+1)
	for i := range batch {
		batch[i] = rdma.WorkRequest{Op: rdma.OpSend, Local: all(b)}
	}
	if err := c.qp.Post(batch); err == nil {
		t.Errorf("a batch of %d was taken, MaxSends is %d", len(batch), n)
	}
	// Nothing of it was carried out, and the connection is as good as before.
	c.post(rdma.WorkRequest{Op: rdma.OpSend, Cookie: "good", Local: []rdma.Gather{{Buf: b, Len: 7}}})
	c.expect(rdma.OpSend, "good")
	if got := s.expect(rdma.OpReceive, nil); got.Len != 7 {
		t.Errorf("message of %d bytes from the refused batch", got.Len)
	}
	if depth := c.qp.Info().ReadDepth; depth+1 <= n {
		src := s.buffer(64, 0)
		r := s.expose(src, 0, 64, rdma.RemoteRead)
		reads := make([]rdma.WorkRequest, depth+1)
		for i := range reads {
			reads[i] = rdma.WorkRequest{Op: rdma.OpRead, Local: []rdma.Gather{{Buf: b, Len: 16}}, Remote: r}
		}
		if err := c.qp.Post(reads); err == nil {
			t.Errorf("%d Reads were taken, ReadDepth is %d", len(reads), depth)
		}
	}
}

// Both ends send, write and read at once, each with several goroutines.
func testBothWaysAtOnce(t *testing.T, connect ConnectFunc) {
	const workers, rounds, size = 4, 40, 30_000
	// There are no credits at this level: room for all messages at once.
	o := options()
	o.MaxReceives = workers * rounds
	c, s := pairWith(t, connect, o, o)
	type tally struct{ sends, writes, reads, recvs int }
	var wg sync.WaitGroup
	counts := make([]tally, 2)
	ends := []*end{c, s}
	// Every worker has memory of its own to reach at the other end.
	type lane struct {
		local, writable, readable *ulb.Buffer
		w, r                      rdma.Remote
		stop                      chan struct{} // closed when the connection is lost
	}
	lanes := make([][]*lane, 2)
	for i, e := range ends {
		other := ends[1-i]
		for range workers {
			l := &lane{local: e.buffer(2*size, byte(rand.Uint32())), writable: other.buffer(size, 0), readable: other.buffer(size, 3), stop: make(chan struct{})}
			l.w = other.expose(l.writable, 0, size, rdma.RemoteWrite)
			l.r = other.expose(l.readable, 0, size, rdma.RemoteRead)
			lanes[i] = append(lanes[i], l)
		}
		var bufs []*ulb.Buffer
		for range workers * rounds {
			bufs = append(bufs, e.buffer(256, 0))
		}
		e.receive(bufs...)
	}
	for i, e := range ends {
		wg.Add(1)
		go func() { // poller
			defer wg.Done()
			n := &counts[i]
			for n.sends < workers*rounds || n.writes < workers*rounds || n.reads < workers*rounds || n.recvs < workers*rounds {
				done, err := e.poll()
				if err != nil || done.Err != nil {
					t.Errorf("%s: %+v, %v", e.name, done, err)
					e.qp.Disconnect(nil)
					for _, l := range lanes[i] {
						close(l.stop)
					}
					return
				}
				switch done.Op {
				case rdma.OpReceive:
					n.recvs++
					continue
				case rdma.OpSend:
					n.sends++
				case rdma.OpWrite:
					n.writes++
				case rdma.OpRead:
					n.reads++
				}
				done.Cookie.(*sync.WaitGroup).Done()
			}
		}()
		for _, l := range lanes[i] {
			wg.Add(1)
			go func() {
				defer wg.Done()
				for range rounds {
					var left sync.WaitGroup
					left.Add(3)
					if err := e.qp.Post([]rdma.WorkRequest{
						{Op: rdma.OpWrite, Cookie: &left, Local: []rdma.Gather{{Buf: l.local, Len: size}}, Remote: l.w},
						{Op: rdma.OpRead, Cookie: &left, Local: []rdma.Gather{{Buf: l.local, Off: size, Len: size}}, Remote: l.r},
						{Op: rdma.OpSend, Cookie: &left, Local: []rdma.Gather{{Buf: l.local, Len: 200}}},
					}); err != nil {
						t.Errorf("%s: Post: %v", e.name, err)
						return
					}
					all := make(chan struct{})
					go func() { left.Wait(); close(all) }()
					select {
					case <-all:
					case <-l.stop:
						return
					}
					if !bytes.Equal(l.local.Data[size:], l.readable.Data) {
						t.Errorf("%s: data read differs", e.name)
					}
				}
			}()
		}
	}
	wg.Wait()
	for i := range ends {
		for _, l := range lanes[i] {
			if !bytes.Equal(l.writable.Data, l.local.Data[:size]) {
				t.Errorf("%s: data written by it differs", ends[i].name)
			}
		}
	}
}
