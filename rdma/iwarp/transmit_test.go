package iwarp

import (
	"encoding/binary"
	"testing"

	"nfsrdma-fuse/rdma"
)

// TestTurns fills batches while work requests and RDMA Read Responses are both
// waiting, and looks at the order in which they go out: messages are whole, each
// kind keeps its order, and neither waits for more than a turn of the other and
// the message that ends it.
func TestTurns(t *testing.T) {
	const size, count = 100_000, 24
	q := newQP(&octets{}, Config{}.withDefaults(), rdma.Options{MaxReceives: 1, MaxSends: count}, agreement{ird: count}, false)
	src := buffer(size)
	at, err := q.Expose(src, 0, size, rdma.RemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	q.enter(stateOpen)
	for i := range count {
		w := request(rdma.OpWrite, src, rdma.Remote{Handle: rdma.Handle(1000 + i)})
		q.sq.push(&w[0])
		q.resp.push(readRequest{sinkSTag: uint32(2000 + i), size: size, srcSTag: uint32(at.Handle), srcTO: at.Offset})
	}
	var order []uint32 // STags of the messages
	left := 0          // octets of the message in progress
	for {
		if err := q.fill(); err != nil {
			t.Fatal(err)
		}
		if q.tx.b.empty() {
			break
		}
		var stream []byte
		for _, p := range q.tx.b.pieces {
			stream = append(stream, p...)
		}
		q.tx.b.reset()
		for len(stream) > 0 {
			n := int(binary.BigEndian.Uint16(stream))
			var s segment
			if err := s.parse(stream[fpduHeader : fpduHeader+taggedLen]); err != nil {
				t.Fatal(err)
			}
			if left == 0 {
				order = append(order, s.stag)
				left = size
			}
			if s.stag != order[len(order)-1] {
				t.Fatalf("a segment for %d within the message for %d", s.stag, order[len(order)-1])
			}
			left -= n - taggedLen
			stream = stream[fpduHeader+n+padLen(n)+crcLen:]
		}
	}
	if len(order) != 2*count || left != 0 {
		t.Fatalf("%d messages, %d octets missing", len(order), left)
	}
	next := map[bool]uint32{false: 1000, true: 2000}
	run := 0
	for i, stag := range order {
		kind := stag >= 2000
		if stag != next[kind] {
			t.Fatalf("message %d instead of %d", stag, next[kind])
		}
		next[kind]++
		if i > 0 && order[i-1] >= 2000 == kind {
			run += size
		} else {
			run = size
		}
		// Towards the end, only one kind is left.
		if run > turnBytes+size && next[!kind] != 1000+count && next[!kind] != 2000+count {
			t.Errorf("%d octets of one kind in a row", run)
		}
	}
}

// TestNoAllocations checks that moving data allocates nothing once it is in full
// swing: a transfer of 1 MiB is 17 FPDUs each way of looking at it.
func TestNoAllocations(t *testing.T) {
	for _, access := range []rdma.Access{rdma.RemoteWrite, rdma.RemoteRead} {
		for _, cfg := range []Config{{}, {CRC: true}} {
			c, s := pair(t, cfg, cfg)
			st := newBenchState(access)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				benchServe(s, st)
			}()
			n := testing.AllocsPerRun(50, func() { benchCall(t, c, st) })
			c.Close()
			<-ended
			if n >= 1 && !raceEnabled {
				t.Errorf("access %d, CRC %t: %v allocations for each transfer", access, cfg.CRC, n)
			}
		}
	}
}
