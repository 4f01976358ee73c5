// Package iwarptest is a scripted iWARP peer for tests: it says exactly what
// the script tells it to, right or wrong, at any level from raw octets to whole
// messages, and shows what the other end said.
//
// A hostile server that answers the first call with an RDMA Write to memory
// nobody offered:
//
//	srv, err := iwarptest.Serve(func(p *iwarptest.Peer) error {
//		if _, err := p.Accept(nil); err != nil {
//			return err
//		}
//		if _, err := p.Receive(); err != nil {
//			return err
//		}
//		return p.RDMAWrite(0xdead, 0, []byte("nobody asked for this"))
//	})
//
// The package shares no code with the implementation it tests: what the two
// agree on, the RFCs say.
package iwarptest
