package rdmatest

import (
	"testing"

	"go.uber.org/goleak"

	"nfsrdma-fuse/rdma"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPair(t *testing.T) {
	for name, p := range map[string]Params{
		"AnyMemory": {AnyMemory: true},
		"OwnMemory": {},
	} {
		t.Run(name, func(t *testing.T) {
			TestQueuePair(t, func(t testing.TB, client, server rdma.Options) (rdma.QueuePair, rdma.QueuePair) {
				p.Memory = [2]*Memory{{}, {}}
				c, s, err := NewPair(client, server, p)
				if err != nil {
					t.Fatal(err)
				}
				return c, s
			})
		})
	}
}
