package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"nfsrdma-fuse/rdma"
)

// Connector connects queue pairs over TCP. The zero value is ready for use. It
// implements rdma.Connector.
type Connector struct {
	Config Config
}

// Connect implements rdma.Connector. Options.Prepare is called when the peer
// has agreed, so that Info is complete, and before anything it sends is read.
func (c *Connector) Connect(ctx context.Context, addr string, o rdma.Options) (rdma.QueuePair, error) {
	cfg := c.Config.withDefaults()
	of := offer{crc: cfg.CRC, ird: o.IRD, ord: o.ORD, private: o.PrivateData}
	if err := of.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Timeout)
	defer cancel()
	conn, err := cfg.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("iwarp: connecting to %s: %w", addr, err)
	}
	q, err := initiate(ctx, conn, cfg, o, of)
	if err != nil {
		_ = conn.Close() // the first error tells more
		return nil, fmt.Errorf("iwarp: connecting to %s: %w", addr, err)
	}
	return q, nil
}

// initiate negotiates as the connecting end.
func initiate(ctx context.Context, conn net.Conn, cfg Config, o rdma.Options, of offer) (*QP, error) {
	n, request, err := newInitiator(of)
	if err != nil {
		return nil, err
	}
	err = exchange(ctx, conn, cfg.Timeout, func() error {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		return n.read(conn)
	})
	if err != nil {
		return nil, err
	}
	a, err := n.settle(of)
	if err != nil {
		refuse(conn, err)
		return nil, err
	}
	q := newQP(conn, cfg, o, a, false)
	if o.Prepare != nil {
		if err := o.Prepare(q); err != nil {
			return nil, errors.Join(err, q.Close())
		}
	}
	q.start()
	return q, nil
}

// refuse tells a peer that has accepted why it is left, if RFC 6581 section 8
// has a code for it.
func refuse(conn net.Conn, err error) {
	var pe *rdma.ProtocolError
	if !errors.As(err, &pe) || pe.Terminate == 0 {
		return
	}
	b := newBatch(true) // a peer that does not check CRCs does not mind them
	b.terminate(&terminate{code: termCode(pe.Terminate)})
	_ = conn.SetWriteDeadline(time.Now().Add(lingerTime)) // best effort, as the connection is given up
	_ = newLink(conn).copyOut(b)
}

// read reads the peer's frame. It reads as much as there is, so that octets
// behind the frame are noticed.
func (n *negotiation) read(conn net.Conn) error {
	var buf [mpaHeaderLen + mpaMaxPrivate + 1]byte
	for {
		k, err := conn.Read(buf[:])
		if k > 0 {
			done, err := n.input(buf[:k])
			if done || err != nil {
				return err
			}
		}
		if err == io.EOF {
			return errClosedEarly
		}
		if err != nil {
			return err
		}
	}
}

var errClosedEarly = errors.New("the peer closed the connection during the MPA negotiation; " +
	"see that an NFS/RDMA server listens on this port over iWARP")

// exchange runs f, which uses conn, until it is done or ctx is.
func exchange(ctx context.Context, conn net.Conn, timeout time.Duration, f func() error) error {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) }) // a closed one needs no deadline
	err := f()
	if !stop() {
		err = ctx.Err()
	} else if err == nil {
		err = ctx.Err()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer to the MPA request in time (%v at most): the peer took the TCP connection "+
			"but does not speak iWARP, or is stuck: %w", timeout, context.DeadlineExceeded)
	case err != nil:
		return err
	}
	return nil
}
