package rdma_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// A device may report the reply before the Send of its call. The call's memory
// is still referred to then.
func TestReplyBeforeSendCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			_ = respond(replyMessage(req, 120))
		}}, rdmatest.Params{})
		p.qp[0].(*rdmatest.QueuePair).Hold(rdma.OpSend)
		call := &ulb.Call{Msg: callMessage(9000), ReplyMax: 300}
		got := send(t, p.client, call)
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("Done was called although the Send is not completed")
		default:
		}
		if s := p.client.Stats(); s.Exposed != 0 || s.Outstanding != 1 || s.Replies != 1 {
			t.Errorf("%+v", s)
		}
		p.qp[0].(*rdmatest.QueuePair).Hold()
		res := <-got
		if res.err != nil {
			t.Error(res.err)
		}
		res.reply.Release()
		closePair(p)
	})
}

// The same with a handle whose invalidation takes time: the peer has access
// until then.
func TestReplyBeforeInvalidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: echo}, rdmatest.Params{})
		qp := p.qp[0].(*rdmatest.QueuePair)
		qp.Hold(rdma.OpSend, rdma.OpInvalidate)
		// Two handles, of which the peer withdraws one.
		got := send(t, p.client, &ulb.Call{Msg: callMessage(9000), ReplyMax: 9000})
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("Done was called although nothing is completed")
		default:
		}
		if s := p.client.Stats(); s.Exposed != 1 || s.RemoteInvals != 1 || s.LocalInvals != 0 || s.CreditsInUse != 0 {
			t.Errorf("%+v", s)
		}
		qp.Hold(rdma.OpInvalidate)
		res := <-send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300}) // the connection works
		res.reply.Release()
		select {
		case <-got:
			t.Fatal("Done was called although a handle may be in force")
		default:
		}
		qp.Hold()
		res = <-got
		if res.err != nil {
			t.Error(res.err)
		}
		res.reply.Release()
		if s := p.client.Stats(); s.Exposed != 0 || s.LocalInvals != 1 {
			t.Errorf("%+v", s)
		}
		closePair(p)
	})
}

// At the responder a reply's memory is in use until its Send is completed; the
// credit is free from the time that the reply may have arrived.
func TestRespondWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		returned := make(chan error, 10)
		p := connect(t, rdma.Config{}, rdma.Config{Credits: 2, Handler: func(_ context.Context, req *ulb.Request, respond func(xdr.Message) error) {
			returned <- respond(replyMessage(req, 120))
		}}, rdmatest.Params{})
		qp := p.qp[1].(*rdmatest.QueuePair)
		qp.Hold(rdma.OpSend)
		for range 5 { // more than there are credits
			res := <-send(t, p.client, &ulb.Call{Msg: callMessage(200), ReplyMax: 300})
			if res.err != nil {
				t.Fatal(res.err)
			}
			res.reply.Release()
		}
		synctest.Wait()
		if len(returned) > 0 {
			t.Error("respond returned before the Send was completed")
		}
		qp.Hold()
		for range 5 {
			if err := <-returned; err != nil {
				t.Error(err)
			}
		}
		closePair(p)
	})
}

// A call that waits for a place in the send queue can be cancelled like one
// that waits for a credit, which it gives back.
func TestSendQueueFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := connect(t, rdma.Config{}, rdma.Config{Handler: echo}, rdmatest.Params{})
		warmPair(t, p)
		qp := p.qp[0].(*rdmatest.QueuePair)
		synctest.Wait()
		qp.Hold(rdma.OpSend)
		var wg sync.WaitGroup
		places := qp.Info().MaxSends
		for range places {
			wg.Add(1)
			call := &ulb.Call{Msg: callMessage(200), ReplyMax: 300, Done: func(_ *ulb.Call, r ulb.Reply, err error) {
				r.Release()
				wg.Done()
			}}
			if err := p.client.Send(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the reply is in, the call is not over
		}
		ctx, cancel := context.WithCancel(t.Context())
		errs := make(chan error, 1)
		go func() {
			errs <- p.client.Send(ctx, &ulb.Call{Msg: callMessage(200), ReplyMax: 300, Done: func(*ulb.Call, ulb.Reply, error) { t.Error("Done was called") }})
		}()
		synctest.Wait()
		if s := p.client.Stats(); s.Outstanding != places || s.CreditsInUse != 1 {
			t.Errorf("%+v", s)
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("Send: %v", err)
		}
		if s := p.client.Stats(); s.CreditsInUse != 0 {
			t.Errorf("%+v", s)
		}
		qp.Hold()
		wg.Wait()
		closePair(p)
	})
}

// Places in the send queue come back, whoever invalidates.
func TestSendQueuePlaces(t *testing.T) {
	for _, pd := range []*rpcrdma.PrivateData{usual, nil} {
		c, r := rawServer(t, rdma.Config{Credits: 1, BackCredits: 1}, pd)
		call := readCall(t, c)
		call.ReplyMax = 100
		for range 200 { // the queue has 70 places
			got := send(t, c, call)
			in := r.next()
			h := in.reply(32)
			h.Write = in.h.Write
			h.Write[0][0].Length = 0
			msg := append(h.AppendTo(nil), rpcReply(in.h.XID, 100)...)
			if pd != nil {
				r.send(msg, in.h.Write[0][0].Handle)
			} else {
				r.send(msg)
			}
			if err := r.qp.Receive(in.Buf); err != nil {
				t.Fatal(err)
			}
			res := await(t, got)
			if res.err != nil {
				t.Fatal(res.err)
			}
			res.reply.Release()
		}
		call.Sink.Release()
	}
}
