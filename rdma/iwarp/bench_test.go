package iwarp

import (
	"io"
	"net"
	"testing"
	"time"

	"nfsrdma-fuse/rdma"
)

const (
	transferLen = 1 << 20
	messageLen  = 256 // a call and a reply without their payload
)

// BenchmarkTransfer moves 1 MiB from one end to the other for a small request,
// as a READ (the server writes into the client's memory) and as a WRITE (the
// server reads from it) do, over software iWARP and over plain TCP. The metric
// "ratio" is the rate divided by that of TCP in the same run; the aim is 0.6.
func BenchmarkTransfer(b *testing.B) {
	for _, bc := range []struct {
		name   string
		config Config
	}{
		{name: "iwarp"},
		{name: "iwarp-crc", config: Config{CRC: true}},
		{name: "iwarp-mss", config: Config{MaxULPDU: 1440}},
	} {
		b.Run(bc.name+"/write", func(b *testing.B) { benchTransfer(b, bc.config, pushTransfer, tcpPush) })
		b.Run(bc.name+"/read", func(b *testing.B) { benchTransfer(b, bc.config, pullTransfer, tcpPull) })
	}
	b.Run("tcp/write", func(b *testing.B) { benchTCP(b, tcpPush) })
	b.Run("tcp/read", func(b *testing.B) { benchTCP(b, tcpPull) })
}

type benchState struct {
	client, server *rdma.Gather
	exposed        rdma.Remote
	calls, work    []rdma.WorkRequest
	comp, srvComp  [8]rdma.Completion
	access         rdma.Access
	invalidate     [1]rdma.WorkRequest
}

func newBenchState(access rdma.Access) *benchState {
	st := &benchState{access: access}
	st.client = &rdma.Gather{Buf: pattern(transferLen, 1), Len: transferLen}
	st.server = &rdma.Gather{Buf: pattern(transferLen, 2), Len: transferLen}
	msg := &rdma.Gather{Buf: buffer(messageLen), Len: messageLen}
	st.calls = []rdma.WorkRequest{{Op: rdma.OpSend, Local: []rdma.Gather{*msg}}}
	reply := rdma.WorkRequest{Op: rdma.OpSend, Local: []rdma.Gather{{Buf: buffer(messageLen), Len: messageLen}}}
	if access == rdma.RemoteWrite {
		st.work = []rdma.WorkRequest{{Op: rdma.OpWrite, Local: []rdma.Gather{*st.server}}, reply}
	} else {
		st.work = []rdma.WorkRequest{{Op: rdma.OpRead, Local: []rdma.Gather{*st.server}}, reply}
	}
	return st
}

// benchCall makes one call: expose, send, await the reply, withdraw.
func benchCall(b testing.TB, c *QP, st *benchState) {
	at, err := c.Expose(st.client.Buf, 0, transferLen, st.access)
	if err != nil {
		b.Fatal(err)
	}
	st.exposed = at
	if err := c.Post(st.calls); err != nil {
		b.Fatal(err)
	}
	st.invalidate[0] = rdma.WorkRequest{Op: rdma.OpInvalidate, Remote: at}
	for done := false; !done; {
		n, err := c.Poll(st.comp[:])
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			switch e := &st.comp[i]; e.Op {
			case rdma.OpReceive:
				if err := c.Receive(e.Buf); err != nil {
					b.Fatal(err)
				}
				if err := c.Post(st.invalidate[:]); err != nil {
					b.Fatal(err)
				}
			case rdma.OpInvalidate:
				done = true
			}
		}
	}
}

// benchServe answers calls until the connection ends.
func benchServe(s *QP, st *benchState) {
	for {
		n, err := s.Poll(st.srvComp[:])
		if err != nil {
			return
		}
		for i := range n {
			e := &st.srvComp[i]
			if e.Err != nil {
				continue
			}
			switch e.Op {
			case rdma.OpReceive:
				if s.Receive(e.Buf) != nil {
					return
				}
				st.work[0].Remote = st.exposed
				w := st.work
				if st.access == rdma.RemoteRead {
					w = w[:1]
				}
				if s.Post(w) != nil {
					return
				}
			case rdma.OpRead:
				if s.Post(st.work[1:]) != nil {
					return
				}
			}
		}
	}
}

const (
	pushTransfer = rdma.RemoteWrite
	pullTransfer = rdma.RemoteRead
)

func benchTransfer(b *testing.B, cfg Config, access rdma.Access, tcp tcpMode) {
	c, s := pair(b, cfg, cfg)
	st := newBenchState(access)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		benchServe(s, st)
	}()
	tcpCall, tcpEnd := tcpPair(b, tcp)
	benchCall(b, c, st) // warm up
	tcpCall()
	// The two take turns, so that both meet the same load of the machine.
	var took, tcpTook time.Duration
	measure := func(d *time.Duration, f func()) {
		start := time.Now()
		f()
		*d += time.Since(start)
	}
	b.SetBytes(transferLen)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		measure(&took, func() { benchCall(b, c, st) })
		if n++; n%benchTurn == 0 {
			b.StopTimer()
			for range benchTurn {
				measure(&tcpTook, tcpCall)
			}
			b.StartTimer()
		}
	}
	for range n % benchTurn {
		measure(&tcpTook, tcpCall)
	}
	c.Close()
	<-ended
	tcpEnd()
	b.ReportMetric(float64(tcpTook)/float64(took), "ratio")
}

// BenchmarkMessage sends a short message and awaits a short answer.
func BenchmarkMessage(b *testing.B) {
	b.Run("iwarp", func(b *testing.B) {
		c, s := pair(b, Config{}, Config{})
		ended := make(chan struct{})
		msg := func() []rdma.WorkRequest {
			return []rdma.WorkRequest{{Op: rdma.OpSend, Local: []rdma.Gather{{Buf: buffer(messageLen), Len: messageLen}}}}
		}
		// turn waits for a message, and posts its buffer again.
		turn := func(q *QP, comp []rdma.Completion) bool {
			for {
				n, err := q.Poll(comp)
				if err != nil {
					return false
				}
				got := false
				for i := range n {
					if e := &comp[i]; e.Op == rdma.OpReceive && e.Err == nil {
						got = true
						if q.Receive(e.Buf) != nil {
							return false
						}
					}
				}
				if got {
					return true
				}
			}
		}
		go func() {
			defer close(ended)
			answer, comp := msg(), make([]rdma.Completion, 8)
			for turn(s, comp) && s.Post(answer) == nil {
			}
		}()
		call, comp := msg(), make([]rdma.Completion, 8)
		b.ReportAllocs()
		for b.Loop() {
			if err := c.Post(call); err != nil {
				b.Fatal(err)
			}
			if !turn(c, comp) {
				b.Fatal("connection ended")
			}
		}
		c.Close()
		<-ended
	})
	b.Run("tcp", func(b *testing.B) {
		call, end := tcpPair(b, tcpNothing)
		defer end()
		for b.Loop() {
			call()
		}
	})
}

const benchTurn = 16 // transfers

// tcpMode says which way the payload goes.
type tcpMode uint8

const (
	tcpNothing tcpMode = iota
	tcpPush
	tcpPull
)

func benchTCP(b *testing.B, mode tcpMode) {
	b.SetBytes(transferLen)
	call, end := tcpPair(b, mode)
	defer end()
	for b.Loop() {
		call()
	}
}

func tcpPair(b *testing.B, mode tcpMode) (call, end func()) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	server, err := l.Accept()
	if err != nil {
		b.Fatal(err)
	}
	up, down := messageLen, messageLen
	switch mode {
	case tcpPull:
		up += transferLen
	case tcpPush:
		down += transferLen
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		in, out := make([]byte, up), make([]byte, down)
		for {
			if _, err := io.ReadFull(server, in); err != nil {
				return
			}
			if _, err := server.Write(out); err != nil {
				return
			}
		}
	}()
	in, out := make([]byte, down), make([]byte, up)
	call = func() {
		if _, err := client.Write(out); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(client, in); err != nil {
			b.Fatal(err)
		}
	}
	return call, func() { client.Close(); <-done; server.Close() }
}
