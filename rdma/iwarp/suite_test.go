package iwarp

import (
	"testing"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/rdma/rdmatest"
)

// TestQueuePair runs the suite that every provider has to pass, in each
// configuration that changes the way of the octets.
func TestQueuePair(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
	}{
		{"plain", Config{}},
		{"CRC", Config{CRC: true}},
		// Segments are checked one by one, so what lies within bounds of a message
		// that crosses them is placed unless it comes in one segment.
		{"small FPDUs", Config{MaxULPDU: 4200}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rdmatest.TestQueuePair(t, func(t testing.TB, co, so rdma.Options) (rdma.QueuePair, rdma.QueuePair) {
				c, s := connect(t, tc.cfg, tc.cfg, co, so)
				announce(c) // the suite lets either end begin
				return c, s
			})
		})
	}
}
