package tcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// ended checks that the connection ends with the cause, and its calls with it.
func ended(t *testing.T, c *Conn, done chan outcome, cause error) {
	t.Helper()
	o := wait(t, done)
	wait(t, c.Done())
	var ce *ulb.ConnError
	if err := c.Err(); !errors.As(err, &ce) || !errors.Is(err, cause) || ce.Transport != "tcp" || ce.Peer != c.peer {
		t.Errorf("the connection ended with %v, want %v", err, cause)
	}
	if !errors.Is(o.err, cause) || !errors.As(o.err, &ce) || o.reply.Msg.Stream != nil {
		t.Errorf("the call ended with %v, want %v", o.err, cause)
	}
	call, _ := newCall(99, "")
	if err := c.Send(context.Background(), call); !errors.Is(err, cause) {
		t.Errorf("Send after the end: %v, want %v", err, cause)
	}
	if s := c.Stats(); s.Outstanding != 0 || len(c.places) != 0 {
		t.Errorf("left behind: %+v, %d places", s, len(c.places))
	}
}

// What a peer can send that costs it the connection.
func TestHostilePeer(t *testing.T) {
	const limit = 1<<20 + Overhead
	result := readReply(7, make([]byte, 5000)).AppendTo(nil)
	tests := []struct {
		name string
		sent []byte
		want error
	}{
		{"another protocol", []byte("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"), ErrRecord},
		{"zeros", make([]byte, 4*(maxFragments+1)), ErrRecord},
		{"ones", bytes.Repeat([]byte{0xff}, 1000), ErrRecord},
		{"a record too long", words(lastFragment | (limit + 1)), ErrRecord},
		{"a reply too long in sum", append(fragment(false, append(replyTo(7, ""), make([]byte, 500)...)), words(lastFragment|limit)...), ErrRecord},
		{"an unknown reply too long in sum", append(fragment(false, append(replyTo(8, ""), make([]byte, 500)...)), words(lastFragment|limit)...), ErrRecord},
		{"an empty record", fragment(true, nil), ErrRecord},
		{"a record of seven bytes", fragment(true, make([]byte, 7)), ErrRecord},
		{"neither call nor reply", fragment(true, words(7, 2, 0, 0, 0, 0)), ErrRecord},
		{"a result longer than its record", fragment(true, result[:4000]), ErrRecord},
		{"cut in a marker", []byte{0x80, 0}, io.ErrUnexpectedEOF},
		{"cut in the head of a record", fragment(true, replyTo(7, ""))[:9], io.ErrUnexpectedEOF},
		{"cut in a result", fragment(true, result)[:2000], io.ErrUnexpectedEOF},
		{"cut in a reply", fragment(true, result)[:200], io.ErrUnexpectedEOF},
		{"cut in a call", fragment(true, callBytes(1, "abcdefgh"))[:30], io.ErrUnexpectedEOF},
		{"cut in an unknown reply", fragment(true, replyTo(8, "abcdefgh"))[:30], io.ErrUnexpectedEOF},
		{"closed", nil, io.EOF},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, p := connect(t, Config{Handler: echo})
			call, done := newCall(7, "")
			call.Sink, call.SinkLen = &ulb.Buffer{Data: make([]byte, 8192)}, 8192
			send(t, c, call)
			p.record()
			p.write(tt.sent)
			p.nc.(*net.TCPConn).CloseWrite()
			ended(t, c, done, tt.want)
		})
	}
}

func TestPeerResets(t *testing.T) {
	c, p := connect(t, Config{})
	call, done := newCall(7, "")
	send(t, c, call)
	p.record()
	p.nc.(*net.TCPConn).SetLinger(0)
	p.nc.Close()
	ended(t, c, done, syscall.ECONNRESET)
}

func TestClose(t *testing.T) {
	c, p := connect(t, Config{})
	call, done := newCall(7, "")
	send(t, c, call)
	p.record()
	pool := c.Pool()
	kept, err := pool.Get(context.Background(), 4096)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	c.Close()
	ended(t, c, done, net.ErrClosed)
	copy(kept.Data, "still there")
	kept.Release()
	if n := pool.Used(); n != 0 {
		t.Errorf("the pool holds %d bytes", n)
	}
	if _, err := io.ReadFull(p.nc, make([]byte, 1)); err != io.EOF {
		t.Errorf("the peer sees %v", err)
	}
}

func TestPoolOfTheCaller(t *testing.T) {
	pool := ulb.NewPool(ulb.HeapMemory{}, 256<<10)
	defer pool.Close()
	c, _ := connect(t, Config{Pool: pool})
	if c.Pool() != pool || c.Limits().MaxPayload != 256<<10 {
		t.Errorf("%+v", c.Limits())
	}
	c.Close()
	b, err := pool.Get(context.Background(), 4096)
	if err != nil {
		t.Fatalf("the pool was closed with the connection: %v", err)
	}
	b.Release()
}

// The end of the connection releases those who wait for a place.
func TestEndReleasesSenders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newConn(t, near, Config{MaxCalls: 1})
		first, done := newCall(1, "")
		send(t, c, first)
		failed := make(chan error, 1)
		go func() {
			second, _ := newCall(2, "")
			failed <- c.Send(context.Background(), second)
		}()
		synctest.Wait()
		far.Close()
		if err := <-failed; !errors.Is(err, c.Err()) {
			t.Errorf("Send: %v", err)
		}
		if o := <-done; o.err == nil {
			t.Error("the first call succeeded")
		}
		c.Close()
	})
}

// A reply that is in counts, even if the connection ends before the call was
// written in full; the memory of the call is not used any more by then.
func TestEndWhileWriting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		c := newConn(t, near, Config{})
		call, done := newCall(7, string(make([]byte, 100)))
		other, otherDone := newCall(8, "")
		queuedCall, queuedDone := newCall(9, "")
		send(t, c, call)
		synctest.Wait()
		send(t, c, other)
		send(t, c, queuedCall)
		if _, err := io.ReadFull(far, make([]byte, markerLen+8)); err != nil {
			t.Fatal(err)
		}
		peer{t, far}.write(fragment(true, replyTo(7, "early...")))
		synctest.Wait()
		far.Close()
		if got := results(t, <-done); got != "early..." {
			t.Errorf("results %q", got)
		}
		for _, d := range []chan outcome{otherDone, queuedDone} {
			var ce *ulb.ConnError
			if o := <-d; !errors.As(o.err, &ce) {
				t.Errorf("%v", o.err)
			}
		}
		c.Close()
	})
}

// Replies that wait to be written are given up with the connection.
func TestEndReleasesHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		answered := make(chan error, 2)
		c := newConn(t, near, Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			answered <- respond(xdr.Message{Stream: replyTo(7, "")})
		}})
		p := peer{t, far}
		p.write(fragment(true, callBytes(1, "")))
		synctest.Wait() // the writer is stuck with this one
		p.write(fragment(true, callBytes(2, "")))
		synctest.Wait()
		c.Close()
		for range 2 {
			if err := <-answered; err == nil {
				t.Error("an answer that nobody read was written")
			}
		}
		far.Close()
	})
}

func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan *Conn, 1)
	go func() {
		c, err := Accept(context.Background(), l, Config{Handler: echo})
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	c, err := Dial(context.Background(), l.Addr().String(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	far := <-accepted
	call, done := newCall(7, "abcdefgh")
	send(t, c, call)
	if got := results(t, wait(t, done)); got != "abcdefgh" {
		t.Errorf("results %q", got)
	}
	c.Close()
	wait(t, far.Done())
	if err := far.Err(); !errors.Is(err, io.EOF) {
		t.Errorf("the other end sees %v", err)
	}
	far.Close()

	// Waiting for a peer can be given up, again and again.
	for range 2 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		if _, err := Accept(ctx, l, Config{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Accept: %v", err)
		}
		cancel()
	}
	l.Close()
	if _, err := Accept(context.Background(), l, Config{}); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept on a closed listener: %v", err)
	}

	_, err = Dial(context.Background(), l.Addr().String(), Config{})
	var ce *ulb.ConnError
	if !errors.Is(err, syscall.ECONNREFUSED) || !errors.As(err, &ce) || strings.Count(err.Error(), l.Addr().String()) != 1 {
		t.Errorf("nobody listens: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Dial(ctx, "192.0.2.1:2049", Config{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := Dial(context.Background(), "127.0.0.1", Config{}); err == nil {
		t.Error("an address without a port was accepted")
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"payload":  {MaxPayload: maxPayload + 1},
		"negative": {MaxPayload: -1},
		"calls":    {MaxCalls: maxConcurrent + 1},
		"served":   {MaxServe: -1},
		"pool":     {PoolBytes: 1},
	} {
		near, far := net.Pipe()
		if _, err := NewConn(near, cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := far.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: the connection stays open (%v)", name, err)
		}
		if _, err := Dial(context.Background(), "127.0.0.1:1", cfg); err == nil || errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: Dial: %v", name, err)
		}
		far.Close()
	}
}

// Whatever a peer sends, the connection ends in order and every call gets its
// Done.
func FuzzPeer(f *testing.F) {
	f.Add(fragment(true, replyTo(7, "results.")))
	f.Add(fragment(true, readReply(7, make([]byte, 3000)).AppendTo(nil)))
	f.Add(append(fragment(true, callBytes(1, "abcdefgh")), fragment(true, replyTo(7, ""))...))
	f.Add(append(fragment(false, replyTo(7, "")[:20]), fragment(true, make([]byte, 600))...))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		near, far := net.Pipe()
		c := newConn(t, near, Config{MaxPayload: 4096, Handler: echo})
		call, done := newCall(7, "")
		const room = 2048
		sink := bytes.Repeat([]byte{0xee}, room+64)
		call.Sink, call.SinkLen = &ulb.Buffer{Data: sink}, room
		send(t, c, call)
		go func() { _, _ = io.Copy(io.Discard, far) }()
		_, _ = far.Write(sent)
		far.Close()
		o := wait(t, done)
		if o.err == nil {
			for _, b := range o.reply.Msg.Bulk {
				if len(b.Data) > room {
					t.Errorf("%d bytes were placed", len(b.Data))
				}
			}
			o.reply.Release()
		}
		c.Close()
		if bytes.Count(sink[room:], []byte{0xee}) != 64 {
			t.Error("written behind the sink")
		}
		if s := c.Stats(); s.Outstanding != 0 || s.Serving != 0 {
			t.Errorf("%+v", s)
		}
	})
}
