package rdma

import (
	"context"
	"errors"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/rpcrdma"
)

// Dial connects to addr ("host:port") and returns the connection. ctx matters
// only until it has been made.
func Dial(ctx context.Context, connector Connector, addr string, cfg Config) (*Conn, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	lost := func(err error) error { return &ulb.ConnError{Transport: "rdma", Peer: addr, Err: err} }
	qp, err := connector.Connect(ctx, addr, Options{
		PrivateData:      cfg.privateData().AppendTo(nil),
		PlainPrivateData: cfg.plainPrivateData(),
		IRD:              clientReads,
		MaxReceives:      cfg.receives(),
		MaxSends:         cfg.sends(),
	})
	if err != nil {
		return nil, lost(err)
	}
	// The peer is silent until it has received a call, so that receive buffers
	// can wait for what its private data says.
	c, err := newConn(qp, cfg, false, recvSize(qp, cfg))
	if err != nil {
		qp.Close()
		return nil, lost(err)
	}
	c.start()
	return c, nil
}

// Accept waits for a peer and returns the connection with it. It can be called
// again after a *PeerError.
func Accept(ctx context.Context, l Listener, cfg Config) (*Conn, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	var c *Conn
	qp, err := l.Accept(ctx, Options{
		PrivateData:      cfg.privateData().AppendTo(nil),
		PlainPrivateData: cfg.plainPrivateData(),
		ORD:              clientReads,
		MaxReceives:      cfg.receives(),
		MaxSends:         cfg.sends(),
		Prepare: func(qp QueuePair) (err error) {
			if c != nil { // of a peer that went away again
				c.abandon()
			}
			c, err = newConn(qp, cfg, true, cfg.InlineSize)
			return err
		},
	})
	if err == nil && qp.Info().ReadDepth < 1 {
		err = &PeerError{Addr: qp.Info().RemoteAddr, Err: errors.New("it allows no RDMA Reads (IRD 0)")}
		qp.Close()
	}
	if err != nil {
		if c != nil {
			c.abandon()
		}
		return nil, err
	}
	c.start()
	return c, nil
}

// recvSize is the size in bytes of receive buffers at a connecting end. Peers
// that follow RFC 8797 section 4.2 keep to what this end has announced, but
// knfsd sends messages of its own maximum, which it does announce.
func recvSize(qp QueuePair, cfg Config) int {
	peer, _ := rpcrdma.FindPrivateData(qp.Info().PrivateData)
	return max(cfg.InlineSize, min(peer.SendSize, maxInline))
}
