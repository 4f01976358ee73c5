package rdmatest

import (
	"bytes"
	"errors"
	"testing"

	"nfsrdma-fuse/rdma"
)

func testLocalInvalidate(t *testing.T, connect ConnectFunc) {
	for _, a := range []rdma.Access{rdma.RemoteRead, rdma.RemoteWrite} {
		c, s := pair(t, connect)
		b := c.buffer(4096, 0)
		other := c.buffer(4096, 0)
		gone, stays := c.expose(b, 0, 4096, a), c.expose(other, 0, 4096, a)
		c.post(rdma.WorkRequest{Op: rdma.OpInvalidate, Cookie: "inv", Remote: gone})
		c.expect(rdma.OpInvalidate, "inv")
		touch := func(r rdma.Remote) {
			op := rdma.OpRead
			if a == rdma.RemoteWrite {
				op = rdma.OpWrite
			}
			s.post(rdma.WorkRequest{Op: op, Cookie: "touch", Local: all(s.buffer(16, 0xff)), Remote: r})
		}
		touch(stays)
		if op := s.expectAny("touch"); op.Err != nil {
			t.Fatalf("memory still exposed was not reached: %v", op.Err)
		}
		before := bytes.Clone(b.Data)
		c.receive(c.buffer(64, 0)) // by which a silent device can show that it has given up
		touch(gone)
		endsAtBoth(t, c, s)
		if !bytes.Equal(b.Data, before) {
			t.Error("memory withdrawn before was written")
		}
	}
}

func testRemoteInvalidate(t *testing.T, connect ConnectFunc) {
	c, s := pair(t, connect)
	if c.qp.Info().NoInvalidate {
		t.Skipf("%s: a peer must not withdraw handles", c.qp.Info().Device)
	}
	b := c.buffer(4096, 0)
	r := c.expose(b, 0, 4096, rdma.RemoteWrite)
	note, msg := c.buffer(16, 0), s.buffer(12, 6)
	c.receive(note)
	src := s.buffer(4096, 0x77)
	s.post(
		rdma.WorkRequest{Op: rdma.OpWrite, Cookie: "w", Local: all(src), Remote: r},
		rdma.WorkRequest{Op: rdma.OpSendInvalidate, Cookie: "s", Local: all(msg), Remote: rdma.Remote{Handle: r.Handle}})
	got := c.expect(rdma.OpReceive, nil)
	if !got.HasInvalidated || got.Invalidated != r.Handle || got.Len != 12 || !bytes.Equal(note.Data[:12], msg.Data) {
		t.Fatalf("completion %+v, want handle %#x invalidated", got, r.Handle)
	}
	if !bytes.Equal(b.Data, src.Data) {
		t.Fatal("written data differs")
	}
	for range 2 {
		if done, err := s.poll(); err != nil || done.Err != nil {
			t.Fatal(err, done.Err)
		}
	}
	fill(src.Data, 0x12)
	before := bytes.Clone(b.Data)
	c.receive(c.buffer(64, 0)) // by which a silent device can show that it has given up
	s.post(rdma.WorkRequest{Op: rdma.OpWrite, Local: all(src), Remote: r})
	endsAtBoth(t, c, s)
	if !bytes.Equal(b.Data, before) {
		t.Error("memory withdrawn by the peer was written afterwards")
	}
}

func testHandles(t *testing.T, connect ConnectFunc) {
	c, _ := pair(t, connect)
	b := c.buffer(4096, 0)
	seen := make(map[rdma.Handle]bool)
	var steps []rdma.Handle
	last := rdma.Handle(0)
	for range 256 {
		r := c.expose(b, 0, 4096, rdma.RemoteRead)
		if seen[r.Handle] {
			t.Fatalf("handle %#x came back within 256 exposures", r.Handle)
		}
		seen[r.Handle] = true
		steps = append(steps, r.Handle-last)
		last = r.Handle
		c.post(rdma.WorkRequest{Op: rdma.OpInvalidate, Remote: r})
		c.expect(rdma.OpInvalidate, nil)
	}
	same := 0
	for _, d := range steps[2:] {
		if d == steps[1] {
			same++
		}
	}
	if same > len(steps)/2 {
		t.Errorf("handles can be predicted: %d of %d steps are %#x", same, len(steps), steps[1])
	}
	// The same memory may be exposed more than once at a time.
	x, y := c.expose(b, 0, 4096, rdma.RemoteRead), c.expose(b, 0, 4096, rdma.RemoteRead)
	if x.Handle == y.Handle {
		t.Error("two exposures share a handle")
	}
	if _, err := c.qp.Expose(b, 0, 0, rdma.RemoteRead); err == nil {
		t.Error("nothing was exposed without an error")
	}
	if _, err := c.qp.Expose(b, 4000, 97, rdma.RemoteRead); err == nil {
		t.Error("memory behind the buffer was exposed without an error")
	}
}

// A peer that reaches where it may not is cut off, and nothing is touched
// (RFC 5040 section 8, blueprint rule: never memory).
func testViolations(t *testing.T, connect ConnectFunc) {
	const size = 8192
	for _, v := range []struct {
		name   string
		access rdma.Access // the exposed part is [1024, 5120)
		op     rdma.Op
		shift  int // from the start of the exposed part
		n      int
		flip   rdma.Handle // changes the handle
	}{
		{"write before", rdma.RemoteWrite, rdma.OpWrite, -1, 64, 0},
		{"write across the end", rdma.RemoteWrite, rdma.OpWrite, 4096 - 63, 64, 0},
		{"write behind", rdma.RemoteWrite, rdma.OpWrite, 4096, 1, 0},
		{"write far behind", rdma.RemoteWrite, rdma.OpWrite, 1 << 40, 64, 0},
		{"write too long", rdma.RemoteWrite, rdma.OpWrite, 0, 4097, 0},
		{"read before", rdma.RemoteRead, rdma.OpRead, -64, 64, 0},
		{"read across the end", rdma.RemoteRead, rdma.OpRead, 4096 - 63, 64, 0},
		{"read too long", rdma.RemoteRead, rdma.OpRead, 0, 4097, 0},
		{"write where reads are allowed", rdma.RemoteRead, rdma.OpWrite, 0, 64, 0},
		{"read where writes are allowed", rdma.RemoteWrite, rdma.OpRead, 0, 64, 0},
		{"write with a key off by one", rdma.RemoteWrite, rdma.OpWrite, 0, 64, 1},
		{"write with another index", rdma.RemoteWrite, rdma.OpWrite, 0, 64, 0x5500},
		{"read with another handle", rdma.RemoteRead, rdma.OpRead, 0, 64, 0xff00ff00},
		{"invalidate of an unknown handle", rdma.RemoteRead, rdma.OpSendInvalidate, 0, 8, 0x00f0f000},
	} {
		t.Run(v.name, func(t *testing.T) {
			if why := device.Stuck[v.name]; why != "" {
				t.Skip(why)
			}
			c, s := pair(t, connect)
			b := c.buffer(size, 0x21)
			before := bytes.Clone(b.Data)
			spare := c.buffer(64, 0)
			c.receive(spare)
			r := c.expose(b, 1024, 4096, v.access)
			r.Handle ^= v.flip
			local := s.buffer(size, 0xee)
			mine := bytes.Clone(local.Data)
			s.post(rdma.WorkRequest{Op: v.op, Cookie: "bad", Local: []rdma.Gather{{Buf: local, Len: v.n}}, Remote: at(r, v.shift)})
			left, err, offender := drainBoth(c, s)
			var fault *rdma.ProtocolError
			if !errors.As(err, &fault) && !device.QuietFaults {
				t.Errorf("victim's connection ended with %v, want a *ProtocolError", err)
			}
			for _, done := range left {
				if done.Op == rdma.OpReceive && done.Err == nil {
					t.Error("a message came through")
				}
			}
			if errors.Is(offender, rdma.ErrClosed) {
				t.Errorf("offender's connection ended with %v", offender)
			}
			if !bytes.Equal(b.Data, before) {
				t.Error("memory was touched")
			}
			if v.op == rdma.OpRead && !bytes.Equal(local.Data, mine) {
				t.Error("data was handed out")
			}
		})
	}
}
