package nfstest

import (
	"context"
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient/tcp"
	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/iwarp"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// sender is what all client transports have in common.
type sender interface {
	Conn
	Err() error
	Pool() *ulb.Pool
}

func dialers(t *testing.T, s *Server) map[string]func(ulb.Handler) (sender, error) {
	tcpAddr, err := s.ListenTCP("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	rdmaAddr, err := s.ListenRDMA("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return map[string]func(ulb.Handler) (sender, error){
		"tcp": func(h ulb.Handler) (sender, error) { return tcp.Dial(ctx, tcpAddr.String(), tcp.Config{Handler: h}) },
		"rdma": func(h ulb.Handler) (sender, error) {
			return rdma.Dial(ctx, &iwarp.Connector{}, rdmaAddr.String(), rdma.Config{Handler: h})
		},
		"local": func(h ulb.Handler) (sender, error) { return s.Dial(ctx, h) },
	}
}

func null(c sender) error {
	var e xdr.Encoder
	(&rpc.CallHeader{XID: 1, Prog: nfs4.Program, Vers: nfs4.Version}).Encode(&e)
	done := make(chan error, 1)
	call := &ulb.Call{Msg: e.Message(), ReplyMax: 512, Done: func(_ *ulb.Call, r ulb.Reply, err error) {
		r.Release()
		done <- err
	}}
	if err := c.Send(context.Background(), call); err != nil {
		return err
	}
	return <-done
}

func TestListeners(t *testing.T) {
	s := newServer(t, Options{})
	for name, dial := range dialers(t, s) {
		t.Run(name, func(t *testing.T) {
			c, err := dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := null(c); err != nil {
				t.Fatal(err)
			}
			s.Disconnect()
			<-c.Done()
			if c.Err() == nil {
				t.Error("no error after the connection was cut")
			}
			// Down and up again, at the same address.
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if c2, err := dial(nil); err == nil {
				if null(c2) == nil {
					t.Error("served while it was stopped")
				}
				c2.Close()
			}
			if err := s.Start(RestartOptions{KeepState: true}); err != nil {
				t.Fatal(err)
			}
			c3, err := dial(nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c3.Close()
			if err := null(c3); err != nil {
				t.Error(err)
			}
		})
	}
}
