//go:build cgo && linux

package verbs

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// nullCall is the RPC message of a NULL call of NFS version 4.
func nullCall(xid uint32) []byte {
	var b []byte
	for _, w := range []uint32{xid, 0, 2, 100003, 4, 0, 0, 0, 0, 0} {
		b = binary.BigEndian.AppendUint32(b, w)
	}
	return b
}

// null makes a NULL call and waits for the reply.
func null(t testing.TB, c *rdma.Conn, xid uint32) error {
	t.Helper()
	done := make(chan error, 1)
	err := c.Send(t.Context(), &ulb.Call{
		Msg: xdr.Message{Stream: nullCall(xid)}, ReplyMax: 64,
		Done: func(_ *ulb.Call, r ulb.Reply, err error) {
			if s := r.Msg.Stream; err == nil && (len(s) < 24 || binary.BigEndian.Uint32(s) != xid || binary.BigEndian.Uint32(s[20:]) != 0) {
				err = errors.New("not a successful reply")
			}
			r.Release()
			done <- err
		},
	})
	if err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		return errors.New("no reply")
	}
}

// TestServer calls the NFS server of $NFSRDMA_VERBS_SERVER ("host:port").
func TestServer(t *testing.T) {
	addr := os.Getenv("NFSRDMA_VERBS_SERVER")
	if addr == "" {
		t.Skip("no NFS/RDMA server named in NFSRDMA_VERBS_SERVER")
	}
	if device, err := new(Connector).Probe(t.Context(), addr); err != nil {
		t.Fatal(err)
	} else {
		t.Logf("device %s", device)
	}
	for i := range uint32(60) {
		c, err := rdma.Dial(t.Context(), new(Connector), addr, rdma.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			t.Log(c.Info())
		}
		for j := range uint32(5) {
			if err := null(t, c, 100*i+j); err != nil {
				t.Fatalf("connection %d: %v", i, errors.Join(err, c.Close()))
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := SharedMemory().InUse(); n != 0 {
		t.Errorf("%d bytes of buffers are still handed out", n)
	}
}

// echo answers any call with success, the result of BulkMax bytes beside it.
func echo(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	var s []byte
	for _, w := range []uint32{binary.BigEndian.Uint32(req.Msg.Stream), 1, 0, 0, 0, 0} {
		s = binary.BigEndian.AppendUint32(s, w)
	}
	m := xdr.Message{Stream: s}
	if req.BulkMax > 0 {
		data := make([]byte, req.BulkMax)
		for i := range data {
			data[i] = byte(i % 251)
		}
		m.Bulk = []xdr.Bulk{{Pos: len(s), Data: data}}
	}
	for _, b := range req.Msg.Bulk {
		for i, v := range b.Data {
			if v != byte(i%253) {
				return // left unanswered
			}
		}
	}
	_ = respond(m) // a connection that has ended wants no reply
}

// connections connects this provider's ends with each other, and on iWARP also
// with software iWARP.
func connections(t *testing.T, run func(t *testing.T, l rdma.Listener, c rdma.Connector)) {
	addr := net.JoinHostPort(deviceAddr(t), "0")
	isIWARP := deviceLimits(t, deviceAddr(t)).iwarp
	for _, way := range []struct {
		name           string
		client, server bool // by this provider
	}{{"verbs to verbs", true, true}, {"verbs to software iWARP", true, false}, {"software iWARP to verbs", false, true}} {
		t.Run(way.name, func(t *testing.T) {
			if !isIWARP && !(way.client && way.server) {
				t.Skip("the device does not speak iWARP")
			}
			var l rdma.Listener
			var err error
			if way.server {
				l, err = Listen(addr, Config{})
			} else {
				l, err = iwarp.Listen(addr, iwarp.Config{})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var c rdma.Connector = new(Connector)
			if !way.client {
				c = new(iwarp.Connector)
			}
			run(t, l, c)
		})
	}
}

// TestCalls carries calls inline, with an argument by Read chunk and with a
// result by Write chunk, 4 KiB to 1 MiB.
func TestCalls(t *testing.T) {
	connections(t, func(t *testing.T, l rdma.Listener, connector rdma.Connector) {
		accepted := make(chan *rdma.Conn, 1)
		go func() {
			c, err := rdma.Accept(t.Context(), l, rdma.Config{Handler: echo})
			if err != nil {
				t.Error(err)
			}
			accepted <- c
		}()
		c, err := rdma.Dial(t.Context(), connector, l.Addr().String(), rdma.Config{})
		if err != nil {
			t.Fatal(err)
		}
		s := <-accepted
		if s == nil {
			t.FailNow()
		}
		t.Log(c.Info())
		for i, n := range []int{0, 4096, 100_000, 1 << 20, 1 << 20, 4096} {
			if err := call(t, c, uint32(1000+i), n); err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		if got := c.Stats().Exposed; got != 0 {
			t.Errorf("%d handles are still in force", got)
		}
		for _, e := range []*rdma.Conn{c, s} {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		if n := SharedMemory().InUse(); n != 0 {
			t.Errorf("%d bytes of buffers are still handed out", n)
		}
	})
}

// call makes a call with an argument and a result of n bytes, one after the
// other, and checks the result.
func call(t *testing.T, c *rdma.Conn, xid uint32, n int) error {
	if n == 0 {
		return null(t, c, xid)
	}
	for _, argument := range []bool{true, false} {
		buf, err := c.Pool().Get(t.Context(), n)
		if err != nil {
			return err
		}
		uc := &ulb.Call{Msg: xdr.Message{Stream: nullCall(xid)}, ReplyMax: 64}
		if argument {
			for i := range buf.Data[:n] {
				buf.Data[i] = byte(i % 253)
			}
			uc.Msg.Bulk = []xdr.Bulk{{Pos: len(uc.Msg.Stream), Data: buf.Data[:n]}}
			uc.ArgBuf = buf
		} else {
			uc.Sink, uc.SinkLen = buf, n
		}
		done := make(chan error, 1)
		uc.Done = func(_ *ulb.Call, r ulb.Reply, err error) {
			if err == nil && !argument {
				if len(r.Msg.Bulk) != 1 || len(r.Msg.Bulk[0].Data) != n {
					err = errors.New("no result")
				} else {
					for i, v := range r.Msg.Bulk[0].Data {
						if v != byte(i%251) {
							err = errors.New("the result differs")
							break
						}
					}
				}
			}
			r.Release()
			done <- err
		}
		if err := c.Send(t.Context(), uc); err != nil {
			return err
		}
		select {
		case err = <-done:
		case <-time.After(20 * time.Second):
			return errors.New("no reply")
		}
		buf.Release()
		if err != nil {
			return err
		}
		xid += 1 << 16
	}
	return nil
}

// TestRefused connects to a port on which nobody listens.
func TestRefused(t *testing.T) {
	addr := net.JoinHostPort(deviceAddr(t), "1")
	began := time.Now()
	_, err := new(Connector).Connect(t.Context(), addr, rdma.Options{IRD: 1, MaxReceives: 1, MaxSends: 1})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, want a refused connection", err)
	}
	t.Logf("after %v: %v", time.Since(began).Round(time.Millisecond), err)
}
