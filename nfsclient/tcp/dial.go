package tcp

import (
	"context"
	"errors"
	"net"
	"time"

	"nfsrdma-fuse/ulb"
)

// Dial resolves addr ("host:port") and connects to it. It tries until ctx is
// done. The error is a *ulb.ConnError; errors.Is finds the errno, or that of
// ctx.
func Dial(ctx context.Context, addr string, cfg Config) (*Conn, error) {
	if _, err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	d := net.Dialer{KeepAlive: -1} // NewConn sees to it
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, &ulb.ConnError{Transport: "tcp", Peer: addr, Err: err}
	}
	return NewConn(nc, cfg)
}

// Accept waits for a peer, until ctx is done, and makes a connection with it.
// It must not be called twice at the same time for one listener. A listener
// that knows no deadlines (a *net.TCPListener does) is not affected by ctx.
func Accept(ctx context.Context, l net.Listener, cfg Config) (*Conn, error) {
	if _, err := cfg.withDefaults(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if dl, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
		if err := dl.SetDeadline(time.Time{}); err != nil {
			return nil, err
		}
		ran := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			_ = dl.SetDeadline(time.Unix(1, 0))
			close(ran)
		})
		defer func() {
			if !stop() {
				<-ran // or the next Accept would get the deadline
			}
		}()
	}
	nc, err := l.Accept()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return NewConn(nc, cfg)
}
