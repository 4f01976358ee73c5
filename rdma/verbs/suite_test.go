//go:build cgo && linux

package verbs

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// deviceAddr returns an address of this machine that an RDMA device has:
// $NFSRDMA_VERBS_ADDR, or the first that is found. It skips the test if there
// is none.
func deviceAddr(t testing.TB) string {
	t.Helper()
	if addr := os.Getenv("NFSRDMA_VERBS_ADDR"); addr != "" {
		return addr
	}
	if err := Available(); err != nil {
		t.Skip(err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		ip, ok := a.(*net.IPNet)
		if !ok || ip.IP.IsLinkLocalUnicast() {
			continue
		}
		if l, err := Listen(net.JoinHostPort(ip.IP.String(), "0"), Config{}); err == nil {
			l.Close()
			return ip.IP.String()
		}
	}
	t.Skip("no RDMA device on this machine (rdma link add rxe0 type rxe netdev eth0 makes one)")
	return ""
}

// connectPair connects two queue pairs over the device of addr.
func connectPair(t testing.TB, addr string, co, so rdma.Options) (rdma.QueuePair, rdma.QueuePair) {
	t.Helper()
	l, err := Listen(net.JoinHostPort(addr, "0"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	type accepted struct {
		qp  rdma.QueuePair
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		qp, err := l.Accept(ctx, so)
		got <- accepted{qp, err}
	}()
	c, err := new(Connector).Connect(ctx, l.Addr().String(), co)
	if err != nil {
		cancel()
		<-got
		t.Fatal(err)
	}
	s := <-got
	if s.err != nil {
		c.Close()
		t.Fatal(s.err)
	}
	return c, s.qp
}

// deviceLimits returns what the device of addr can do.
func deviceLimits(t testing.TB, addr string) limits {
	t.Helper()
	o := rdma.Options{IRD: 1, ORD: 1, MaxReceives: 1, MaxSends: 1}
	c, s := connectPair(t, addr, o, o)
	defer c.Close()
	defer s.Close()
	return c.(*QP).dev.lim
}

// TestQueuePair runs the suite that every provider has to pass.
func TestQueuePair(t *testing.T) {
	addr := deviceAddr(t)
	var device rdmatest.Device
	if deviceLimits(t, addr).iwarp {
		device.QuietFaults = true // siw ends connections without a word
		device.Stuck = map[string]string{
			"read where writes are allowed": "siw sends a Terminate, and neither it nor its peer ends the connection",
		}
	}
	rdmatest.TestDevice(t, func(t testing.TB, co, so rdma.Options) (rdma.QueuePair, rdma.QueuePair) {
		return connectPair(t, addr, co, so)
	}, device)
}
