package nfsclient

import (
	"context"
	"testing"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// roads are the ways to a server, with all their layers.
var roads = []struct {
	name string
	dial func(t testing.TB, s *nfstest.Server) Dialer
}{
	{"local", func(t testing.TB, s *nfstest.Server) Dialer {
		return func(ctx context.Context, back ulb.Handler) (Transport, error) { return s.Dial(ctx, back) }
	}},
	{"tcp", func(t testing.TB, s *nfstest.Server) Dialer {
		addr, err := s.ListenTCP("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, back ulb.Handler) (Transport, error) {
			return tcp.Dial(ctx, addr.String(), tcp.Config{Handler: back})
		}
	}},
	{"rdma", func(t testing.TB, s *nfstest.Server) Dialer {
		addr, err := s.ListenRDMA("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context, back ulb.Handler) (Transport, error) {
			return rdma.Dial(ctx, &iwarp.Connector{}, addr.String(), rdma.Config{Handler: back})
		}
	}},
}

// onRoads runs a test over every road.
func onRoads(t *testing.T, so nfstest.Options, f func(t *testing.T, g *rig, c *Client)) {
	for _, road := range roads {
		t.Run(road.name, func(t *testing.T) {
			g := newRig(t, so)
			dial := road.dial(t, g.srv)
			f(t, g, g.client(func(o *Options) { o.Dial = dial }))
		})
	}
}

func TestEverythingOnEveryRoad(t *testing.T) {
	onRoads(t, nfstest.Options{}, func(t *testing.T, g *rig, c *Client) {
		everything(t, c)
		f := create(t, c, "big")
		data := pattern(9, 9<<20+3)
		write(t, f, 0, data)
		for off := 0; off < len(data); off += 2 << 20 {
			expect(t, f, int64(off), data[off:min(off+2<<20, len(data))])
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestCutsOnEveryRoad(t *testing.T) {
	onRoads(t, nfstest.Options{}, func(t *testing.T, g *rig, c *Client) {
		f := create(t, c, "f")
		data := pattern(4, 1<<20)
		for i := range 10 {
			if i%2 == 0 {
				g.srv.CutNext(nfs4.OpWrite, 1)
			} else {
				g.srv.CutNext(nfs4.OpRead, 1)
			}
			write(t, f, int64(i)<<20, data)
			expect(t, f, int64(i)<<20, data)
		}
		if n := c.Stats().Reconnects; n < 10 {
			t.Errorf("%d reconnects", n)
		}
		if err := f.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
