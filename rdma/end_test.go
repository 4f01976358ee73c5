package rdma_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
)

// When the connection ends, by whichever way, every call is told why and gets
// its memory back; those that wait are told too, handlers' contexts end, and
// nothing can be sent any more.
func TestEnd(t *testing.T) {
	errNet := errors.New("network unreachable")
	for _, e := range []struct {
		name string
		end  func(p *pair)
		want error
	}{
		{"Close", func(p *pair) { p.client.Close() }, rdma.ErrClosed},
		{"Close of the peer", func(p *pair) { p.server.Close() }, io.EOF},
		{"network", func(p *pair) { p.qp[0].(*rdmatest.QueuePair).Cut(errNet) }, errNet},
	} {
		t.Run(e.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				handlerCtx := make(chan error, 8)
				p := connect(t, rdma.Config{}, rdma.Config{Credits: 6, Handler: func(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
					g.handle(ctx, req, respond)
					handlerCtx <- ctx.Err()
				}}, rdmatest.Params{})
				go func() { g.open <- struct{}{} }()
				res := await(t, send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300}))
				res.reply.Release()
				<-handlerCtx

				// Five calls of all forms are outstanding, two more wait.
				calls := []*ulb.Call{
					{Msg: callMessage(200), ReplyMax: 300},
					{Msg: callMessage(9000), ReplyMax: 300},
					{Msg: callMessage(200), ReplyMax: 9000},
					{Msg: callMessage(200), ReplyMax: 300, Sink: getBuffer(t, p.client, 50_000), SinkLen: 50_000},
					{ReplyMax: 300, ArgBuf: getBuffer(t, p.client, 50_000)},
				}
				calls[4].Msg = callMessage(200, calls[4].ArgBuf.Data[:40_000])
				var got []<-chan result
				for _, c := range calls {
					got = append(got, send(t, p.client, c))
				}
				refused := make(chan error, 2)
				for range 2 {
					go func() {
						refused <- p.client.Send(context.Background(), &ulb.Call{Msg: callMessage(200), ReplyMax: 300,
							Done: func(*ulb.Call, ulb.Reply, error) { t.Error("Done of a call that was not sent") }})
					}()
				}
				synctest.Wait()
				if s := p.client.Stats(); s.Outstanding != 5 || s.Exposed != 4 {
					t.Errorf("%+v", s)
				}
				select {
				case <-p.client.Done():
					t.Fatal("ended already")
				default:
				}
				e.end(p)
				var lost *ulb.ConnError
				check := func(err error) {
					t.Helper()
					if !errors.As(err, &lost) || !errors.Is(err, e.want) || lost.Peer != "memory:server" || lost.Transport != "rdma" {
						t.Errorf("%v, want *ulb.ConnError with %v", err, e.want)
					}
				}
				<-p.client.Done()
				for _, ch := range got {
					select {
					case res := <-ch:
						check(res.err)
					default:
						t.Error("a call was not done when the connection was")
					}
				}
				check(<-refused)
				check(<-refused)
				check(p.client.Err())
				check(p.client.Send(context.Background(), calls[0]))
				for range 5 {
					if err := <-handlerCtx; !errors.Is(err, context.Canceled) {
						t.Errorf("handler: %v", err)
					}
				}
				calls[3].Sink.Release()
				calls[4].ArgBuf.Release()
				closePair(p)
			})
		})
	}
}

// Close waits for handlers; Done does not.
func TestCloseWaitsForHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stay := make(chan struct{})
		var respondErr error
		p := connect(t, rdma.Config{}, rdma.Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			<-stay
			respondErr = respond(replyMessage(req, 120))
		}}, rdmatest.Params{})
		got := send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300})
		synctest.Wait()
		p.client.Close()
		<-p.server.Done()
		<-got
		closed := make(chan struct{})
		go func() {
			p.server.Close()
			close(closed)
		}()
		synctest.Wait()
		select {
		case <-closed:
			t.Error("Close returned while a handler was running")
		default:
		}
		close(stay)
		<-closed
		if respondErr == nil {
			t.Error("a reply could be sent after the end")
		}
		closePair(p)
	})
}

// A reply that was received before the end counts, although its memory could
// not be invalidated any more: the end has done that.
func TestReplyThenEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: echo}, rdmatest.Params{})
		qp := p.qp[0].(*rdmatest.QueuePair)
		qp.Hold(rdma.OpInvalidate)
		got := send(t, p.client, &ulb.Call{Msg: callMessage(9000), ReplyMax: 9000})
		synctest.Wait()
		p.server.Close()
		res := <-got
		if res.err != nil {
			t.Errorf("the reply was thrown away: %v", res.err)
		}
		res.reply.Release()
		closePair(p)
	})
}

// Calls sent while the connection ends are either refused or done, exactly
// once each.
func TestSendWhileEnding(t *testing.T) {
	for i := range 20 {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: echo}, rdmatest.Params{})
		warmPair(t, p)
		const senders = 8
		finished := make(chan int, senders)
		for range senders {
			go func() {
				open := 0
				outcome := make(chan error, 1)
				call := &ulb.Call{ReplyMax: 9000, Done: func(_ *ulb.Call, r ulb.Reply, err error) {
					r.Release()
					outcome <- err
				}}
				for {
					call.Msg = callMessage(5000)
					if err := p.client.Send(context.Background(), call); err != nil {
						break
					}
					open++
					if err := <-outcome; err != nil {
						open--
						break
					}
					open--
				}
				finished <- open
			}()
		}
		end := p.client
		if i%2 == 0 {
			end = p.server
		}
		for end.Stats().BytesPulled+end.Stats().BytesRead < uint64(i)*10_000 {
			runtime.Gosched()
		}
		end.Close()
		for range senders {
			if n := await(t, finished); n != 0 {
				t.Fatalf("%d calls open", n)
			}
		}
		await(t, p.client.Done())
	}
}

func warmPair(t testing.TB, p *pair) {
	t.Helper()
	res := await(t, send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300}))
	if res.err != nil {
		t.Fatal(res.err)
	}
	res.reply.Release()
}

// refusingConnector fails as a network does.
type refusingConnector struct{ err error }

func (r refusingConnector) Connect(context.Context, string, rdma.Options) (rdma.QueuePair, error) {
	return nil, r.err
}

func TestDialFails(t *testing.T) {
	errRefused := errors.New("connection refused")
	_, err := rdma.Dial(t.Context(), refusingConnector{errRefused}, "server:20049", rdma.Config{})
	var lost *ulb.ConnError
	if !errors.Is(err, errRefused) || !errors.As(err, &lost) || lost.Peer != "server:20049" {
		t.Errorf("%v", err)
	}
	for _, cfg := range []rdma.Config{{InlineSize: 1000}, {InlineSize: 128 << 10}, {InlineSize: 512}, {Credits: -1}, {Credits: 5000}, {BackCredits: -1}, {PoolBytes: 1}, {LongBytes: -1}} {
		if _, err := rdma.Dial(t.Context(), refusingConnector{errRefused}, "server:20049", cfg); err == nil || errors.Is(err, errRefused) {
			t.Errorf("%+v: %v", cfg, err)
		}
		if _, err := rdma.Accept(t.Context(), nil, cfg); err == nil {
			t.Errorf("%+v: accepted", cfg)
		}
	}
}
