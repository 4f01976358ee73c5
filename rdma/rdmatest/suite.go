package rdmatest

import (
	"errors"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

// ConnectFunc connects two queue pairs of one provider with each other and
// returns the connecting end first. It passes on the options, Prepare included,
// and fails the test itself when it cannot.
type ConnectFunc func(t testing.TB, client, server rdma.Options) (rdma.QueuePair, rdma.QueuePair)

// TestQueuePair runs the cases that every provider of queue pairs has to pass.
// Each case connects anew.
func TestQueuePair(t *testing.T, connect ConnectFunc) { TestDevice(t, connect, Device{}) }

// Device says what cannot be asked of a provider because of the device under
// it. Memory is safe in any case.
type Device struct {
	// QuietFaults: the end whose device finds a fault of the peer need not learn
	// more than that the connection has ended.
	QuietFaults bool
	// Stuck names violations after which the device leaves both ends waiting,
	// with the reason; they are skipped.
	Stuck map[string]string
}

// TestDevice is TestQueuePair for a provider on such a device.
func TestDevice(t *testing.T, connect ConnectFunc, d Device) {
	device = d
	for _, c := range []struct {
		name string
		run  func(t *testing.T, connect ConnectFunc)
	}{
		{"Info", testInfo},
		{"Prepare", testPrepare},
		{"SendSizes", testSendSizes},
		{"SendOrder", testSendOrder},
		{"Write", testWrite},
		{"WriteBeforeSend", testWriteBeforeSend},
		{"Read", testRead},
		{"ReadsAtOnce", testReadsAtOnce},
		{"LocalInvalidate", testLocalInvalidate},
		{"RemoteInvalidate", testRemoteInvalidate},
		{"Handles", testHandles},
		{"MaxSends", testMaxSends},
		{"Violations", testViolations},
		{"SendWithoutReceive", testSendWithoutReceive},
		{"SendTooLong", testSendTooLong},
		{"Disconnect", testDisconnect},
		{"DisconnectWithCause", testDisconnectWithCause},
		{"AfterEnd", testAfterEnd},
		{"CloseWakesPoll", testCloseWakesPoll},
		{"BothWaysAtOnce", testBothWaysAtOnce},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, connect) })
	}
}

// device is what is being tested; cases run one after the other.
var device Device

// patience is how long the suite waits for a completion before it takes the
// provider for stuck.
const patience = 20 * time.Second

var errStuck = errors.New("rdmatest: no completion came in time")

// end is one end of a connection under test, used by one goroutine.
type end struct {
	t    testing.TB
	name string
	qp   rdma.QueuePair
	peer *end
	mem  ulb.Memory
	got  []rdma.Completion
}

func options() rdma.Options {
	return rdma.Options{IRD: 8, ORD: 8, MaxReceives: 64, MaxSends: 64}
}

// pair connects two ends; the second may read the first one's memory and the
// other way round.
func pair(t testing.TB, connect ConnectFunc) (client, server *end) {
	t.Helper()
	return pairWith(t, connect, options(), options())
}

func pairWith(t testing.TB, connect ConnectFunc, co, so rdma.Options) (client, server *end) {
	t.Helper()
	c, s := connect(t, co, so)
	client = &end{t: t, name: "client", qp: c, mem: c.Memory()}
	server = &end{t: t, name: "server", qp: s, mem: s.Memory()}
	client.peer, server.peer = server, client
	t.Cleanup(func() {
		for _, e := range []*end{client, server} {
			if err := e.qp.Close(); err != nil {
				t.Errorf("%s: Close: %v", e.name, err)
			}
		}
	})
	return client, server
}

// buffer returns n bytes of the end's memory, filled from seed. It is freed
// after both ends were closed.
func (e *end) buffer(n int, seed byte) *ulb.Buffer {
	e.t.Helper()
	data, region, err := e.mem.Alloc(n)
	if err != nil {
		e.t.Fatalf("%s: Alloc: %v", e.name, err)
	}
	fill(data, seed)
	b := &ulb.Buffer{Data: data, Region: region}
	mem := e.mem
	e.t.Cleanup(func() {
		e.qp.Close() // nothing may refer to the buffer any more
		mem.Free(data, region)
	})
	return b
}

func fill(data []byte, seed byte) {
	for i := range data {
		data[i] = byte(i) ^ byte(i>>8)*7 ^ seed
	}
}

func (e *end) receive(bufs ...*ulb.Buffer) {
	e.t.Helper()
	if err := e.qp.Receive(bufs...); err != nil {
		e.t.Fatalf("%s: Receive: %v", e.name, err)
	}
}

func (e *end) post(batch ...rdma.WorkRequest) {
	e.t.Helper()
	if err := e.qp.Post(batch); err != nil {
		e.t.Fatalf("%s: Post: %v", e.name, err)
	}
}

// expose exposes memory and sends a message, with which the access is in force:
// a handle is of no use to a peer before it has been told.
func (e *end) expose(b *ulb.Buffer, off, n int, a rdma.Access) rdma.Remote {
	e.t.Helper()
	r, err := e.qp.Expose(b, off, n, a)
	if err != nil {
		e.t.Fatalf("%s: Expose: %v", e.name, err)
	}
	settle(e, e.peer)
	return r
}

// poll returns the next completion, or the error that ended the connection.
func (e *end) poll() (rdma.Completion, error) {
	e.t.Helper()
	if len(e.got) == 0 {
		watchdog := time.AfterFunc(patience, func() { e.qp.Disconnect(errStuck) })
		defer watchdog.Stop()
		dst := make([]rdma.Completion, 3)
		n, err := e.qp.Poll(dst)
		if errors.Is(err, errStuck) {
			e.t.Fatalf("%s: %v", e.name, err)
		}
		if err != nil {
			if n != 0 {
				e.t.Fatalf("%s: Poll returned %d completions together with %v", e.name, n, err)
			}
			return rdma.Completion{}, err
		}
		if n < 1 || n > len(dst) {
			e.t.Fatalf("%s: Poll stored %d completions into room for %d", e.name, n, len(dst))
		}
		e.got = dst[:n]
	}
	c := e.got[0]
	e.got = e.got[1:]
	return c, nil
}

// expect returns the next completion, which must be a good one of kind op.
func (e *end) expect(op rdma.Op, cookie any) rdma.Completion {
	e.t.Helper()
	c, err := e.poll()
	if err != nil {
		e.t.Fatalf("%s: connection ended: %v", e.name, err)
	}
	if c.Err != nil {
		e.t.Fatalf("%s: completion of kind %d with error: %v", e.name, c.Op, c.Err)
	}
	if c.Op != op || c.Cookie != cookie {
		e.t.Fatalf("%s: completion of kind %d with cookie %v, want kind %d with %v", e.name, c.Op, c.Cookie, op, cookie)
	}
	return c
}

// drain polls until the connection has ended, and returns what was left and
// the error. All that is left must have failed, Sends and Writes excepted,
// which may have been carried out before.
func (e *end) drain() ([]rdma.Completion, error) {
	e.t.Helper()
	var left []rdma.Completion
	for {
		c, err := e.poll()
		if err != nil {
			return left, err
		}
		left = append(left, c)
	}
}

// drainBoth drains both ends at the same time. It returns what was left at the
// first one.
func drainBoth(e, other *end) (left []rdma.Completion, err, otherErr error) {
	e.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, otherErr = other.drain()
	}()
	defer func() { <-done }() // also if e has failed the test
	left, err = e.drain()
	<-done
	return left, err, otherErr
}

// settle sends a message to the other end and waits until it is there: all that
// was posted before it has been carried out then.
func settle(from, to *end) {
	from.t.Helper()
	rb := to.buffer(16, 0)
	to.receive(rb)
	from.post(rdma.WorkRequest{Op: rdma.OpSend, Cookie: "sync", Local: all(from.buffer(8, 1))})
	from.expect(rdma.OpSend, "sync")
	to.expect(rdma.OpReceive, nil)
}

func all(b *ulb.Buffer) []rdma.Gather { return []rdma.Gather{{Buf: b, Len: len(b.Data)}} }

func at(r rdma.Remote, off int) rdma.Remote {
	r.Offset += uint64(off)
	return r
}

// expectAny returns the next completion whatever its kind; its cookie must
// be the one given.
func (e *end) expectAny(cookie any) rdma.Completion {
	e.t.Helper()
	c, err := e.poll()
	if err != nil || c.Cookie != cookie {
		e.t.Fatalf("%s: completion %+v, error %v", e.name, c, err)
	}
	return c
}
