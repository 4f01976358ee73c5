package nfstest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// blockOnce returns a hook that holds up the first operation of a kind: it closes
// entered and waits for leave.
func blockOnce(op nfs4.OpNum, entered, leave chan struct{}) Hook {
	var once sync.Once
	return func(ctx context.Context, o *Op) (v Verdict) {
		if o.Args.Op() == op {
			once.Do(func() {
				close(entered)
				select {
				case <-leave:
				case <-ctx.Done():
				}
			})
		}
		return v
	}
}

func TestHookVerdicts(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "hooks")
	c.cache = true

	s.FailNext(nfs4.OpGetFH, nfs4.ErrDelay, 2)
	c.fails(nfs4.ErrDelay, putRoot(), getFH())
	c.fails(nfs4.ErrDelay, putRoot(), getFH())
	c.ok(putRoot(), getFH())

	remove := s.Hook(func(_ context.Context, op *Op) Verdict {
		if op.Index != 2 || op.Count != 3 || op.Client != c.id || op.Session != c.session || op.Handle == nil {
			return Verdict{}
		}
		return Verdict{Edit: func(res nfs4.Res) { res.(*nfs4.GetAttrRes).Attrs.Size = 4711 }}
	})
	get := &nfs4.GetAttrArgs{AttrRequest: nfs4.MakeBitmap(nfs4.AttrSize)}
	if res := c.ok(putRoot(), get).(*nfs4.GetAttrRes); res.Attrs.Size != 4711 {
		t.Errorf("size %d", res.Attrs.Size)
	}
	remove()
	if res := c.ok(putRoot(), get).(*nfs4.GetAttrRes); res.Attrs.Size == 4711 {
		t.Error("hook was not removed")
	}

	remove = s.Hook(func(context.Context, *Op) Verdict {
		return Verdict{Garble: func(b []byte) []byte { return b[:len(b)-4] }}
	})
	if _, err := c.roundTrip(c.encode(c.sequence(0), putRoot())); err == nil {
		t.Error("garbled reply was decoded")
	}
	remove()

	// Muted: carried out, not answered; a retry gets the reply.
	s.MuteNext(nfs4.OpCreate, 1)
	msg := c.encode(c.sequence(0), putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "muted"})
	n := s.LastEvent()
	gone := make(chan error, 1)
	err := c.conn.Send(context.Background(), &ulb.Call{Msg: msg, ReplyMax: 4096,
		Done: func(_ *ulb.Call, _ ulb.Reply, err error) { gone <- err }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := s.WaitEvent(ctx, n, func(e *Event) bool { return e.Mute && e.Has(nfs4.OpCreate) }); err != nil {
		t.Fatal(err)
	}
	res, err := c.roundTrip(msg)
	if err != nil || res.Status != nfs4.OK {
		t.Errorf("retry: %v, %v", res, err)
	}
	c.conn.Close()
	if err := <-gone; !errors.As(err, new(*ulb.ConnError)) {
		t.Errorf("the call without an answer ended with %v", err)
	}

	// Lost: as if it had never come.
	c.dial()
	lost := s.Hook(func(_ context.Context, op *Op) Verdict { return Verdict{Lose: true} })
	msg = c.encode(c.sequence(0), putRoot(), &nfs4.CreateArgs{Type: nfs4.TypeDir, Name: "lost"})
	if err := c.conn.Send(ctx, &ulb.Call{Msg: msg, ReplyMax: 4096, Done: func(*ulb.Call, ulb.Reply, error) {}}); err != nil {
		t.Fatal(err)
	}
	c.conn.Close()
	lost()
	c.dial()
	if _, err := s.Stat("/lost"); err == nil {
		t.Error("a lost call was carried out")
	}
	if res, err := c.roundTrip(msg); err != nil || res.Status != nfs4.OK {
		t.Errorf("sent again: %v, %v", res, err)
	}

	// Cut: the reply is lost with the connection.
	s.CutNext(nfs4.OpRemove, 1)
	msg = c.encode(c.sequence(0), putRoot(), &nfs4.RemoveArgs{Name: "lost"})
	if _, err := c.roundTrip(msg); !errors.As(err, new(*ulb.ConnError)) {
		t.Errorf("cut: %v", err)
	}
	c.conn.Close()
	c.dial()
	if res, err := c.roundTrip(msg); err != nil || res.Status != nfs4.OK {
		t.Errorf("sent again: %v, %v", res, err)
	}
	if n := s.Count(nfs4.OpRemove); n != 1 {
		t.Errorf("carried out %d times", n)
	}
	for _, e := range s.Events(0) {
		if e.String() == "" || strings.Contains(e.String(), "REMOVE") && !strings.Contains(e.String(), `"lost"`) {
			t.Errorf("event %q", e.String())
		}
	}
}

// A restart does not wait for a hook that holds an operation up: the operation's
// context ends with the connection.
func TestRestartWhileBlocked(t *testing.T) {
	s := newServer(t, Options{})
	c := newTester(t, s, "blocked")
	entered := make(chan struct{})
	defer s.Hook(blockOnce(nfs4.OpPutRootFH, entered, nil))()
	done := make(chan error, 1)
	msg := c.encode(c.sequence(0), putRoot())
	go func() {
		_, err := c.roundTrip(msg)
		done <- err
	}()
	<-entered
	if err := s.Restart(RestartOptions{KeepState: true}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.As(err, new(*ulb.ConnError)) {
		t.Errorf("%v", err)
	}
}
