package iwarp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"nfsrdma-fuse/rdma"
	"nfsrdma-fuse/ulb"
)

const (
	maxGather = 32
	// maxSegment is what one handle covers at most; the protocol would allow
	// 4 GiB.
	maxSegment = 1 << 30

	// lingerTime is how long an ended connection waits for the peer: to take
	// the last octets of the FPDU being sent and the Terminate, and to close.
	lingerTime = 500 * time.Millisecond
)

// ErrQueueFull says that a batch or a set of receive buffers exceeds what the
// queue pair was made for. Nothing of it was taken.
var ErrQueueFull = errors.New("iwarp: more work requests or receive buffers than the queue pair was made for")

// QP is a queue pair over one TCP connection. It implements rdma.QueuePair.
//
//	preparing ── start ──> open ── fail ──> ending ── both goroutines stopped ──> ended
//
// preparing: receive buffers can be posted. open: everything. ending: nothing
// is placed any more; the sending goroutine completes the FPDU it is in, sends
// a Terminate if there is a reason for one, and half-closes. ended: outstanding
// work has been completed with rdma.ErrFlushed. enter is the only method that
// changes the state.
type QP struct {
	cfg    Config
	agreed agreement
	info   rdma.Info
	link   *link
	table  *stagTable
	wg     sync.WaitGroup // the two goroutines

	mu       sync.Mutex
	pollCond sync.Cond // a completion, or the end
	sendCond sync.Cond // the sending goroutine has something to do
	state    state
	err      error      // why the connection ended
	sendErr  error      // why nothing can be sent any more
	term     *terminate // to be sent because of it
	stopped  int        // goroutines that touch no buffer any more

	sq   sendQueue
	rq   recvQueue
	cq   compQueue
	resp responseQueue
	rd   readQueue

	reads int // RDMA Reads posted whose completion was not polled yet

	// sending is set while somebody has the right to send: a goroutine in
	// Post, or the sending goroutine; handover gives it to the latter.
	sending, handover bool
	// quiet: the listening end must not send before it has received an FPDU
	// (RFC 5044 section 7.1.2, rule 4).
	quiet    bool
	nudgeDue bool

	tx    transmitter // belongs to who has the right to send
	nudge *nudgeTimer // nil on the listening end
}

type state uint8

const (
	statePreparing state = iota
	stateOpen
	stateEnding
	stateEnded
)

func (s state) String() string {
	return [...]string{"preparing", "open", "ending", "ended"}[s]
}

// newQP makes the queue pair for a connection whose negotiation has come to a.
func newQP(conn net.Conn, cfg Config, o rdma.Options, a agreement, listening bool) *QP {
	q := &QP{
		cfg:    cfg,
		agreed: a,
		link:   newLink(conn),
		table:  newStagTable(),
		quiet:  listening,
		info: rdma.Info{
			Provider: "iwarp", LocalAddr: conn.LocalAddr().String(), RemoteAddr: conn.RemoteAddr().String(),
			PrivateData: a.private, MaxSegment: maxSegment, MaxGather: maxGather, ReadDepth: a.ord, MaxSends: o.MaxSends,
			AnyMemory: true,
		},
	}
	q.info.Device = q.info.LocalAddr
	if host, _, err := net.SplitHostPort(q.info.LocalAddr); err == nil {
		q.info.Device = host
	}
	q.pollCond.L, q.sendCond.L = &q.mu, &q.mu
	q.sq.init(o.MaxSends)
	q.rq.init(o.MaxReceives)
	q.cq.init(o.MaxSends + o.MaxReceives)
	q.resp.init(a.ird)
	q.rd.init(a.ord)
	q.tx.init(a.crc, cfg.MaxULPDU)
	if !listening && cfg.NudgeAfter > 0 {
		q.nudge = newNudgeTimer(q)
	}
	return q
}

// start opens the connection for both directions, unless Prepare has ended it.
func (q *QP) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state != statePreparing {
		return
	}
	q.enter(stateOpen)
	q.wg.Add(2)
	go q.receiveLoop()
	go q.sendLoop()
}

// enter changes the state. The caller holds q.mu.
func (q *QP) enter(s state) {
	if s <= q.state {
		panic(fmt.Sprintf("iwarp: state %v after %v", s, q.state))
	}
	q.state = s
}

// Info implements rdma.QueuePair.
func (q *QP) Info() rdma.Info { return q.info }

// Memory implements rdma.QueuePair: any memory will do.
func (q *QP) Memory() ulb.Memory { return ulb.HeapMemory{} }

// Receive implements rdma.QueuePair.
func (q *QP) Receive(bufs ...*ulb.Buffer) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state >= stateEnding {
		return q.err
	}
	if !q.rq.room(len(bufs)) {
		return ErrQueueFull
	}
	for _, b := range bufs {
		q.rq.push(b)
	}
	return nil
}

// Post implements rdma.QueuePair.
func (q *QP) Post(batch []rdma.WorkRequest) error {
	reads := 0
	for i := range batch {
		if err := q.checkWork(&batch[i]); err != nil {
			return err
		}
		if batch[i].Op == rdma.OpRead {
			reads++
		}
	}
	q.mu.Lock()
	if q.state != stateOpen {
		err := q.err
		if err == nil {
			err = errors.New("iwarp: work posted before the connection is up")
		}
		q.mu.Unlock()
		return err
	}
	if !q.sq.room(len(batch)) || q.reads+reads > q.agreed.ord {
		q.mu.Unlock()
		return ErrQueueFull
	}
	q.reads += reads
	for i := range batch {
		q.sq.push(&batch[i])
	}
	q.invalidateEarly()
	if q.sending || !q.canSend() {
		q.mu.Unlock()
		return nil
	}
	q.sending = true
	if q.link.raw == nil {
		q.handOver() // such a connection cannot but block
		q.mu.Unlock()
		return nil
	}
	q.mu.Unlock()
	q.sendInline()
	return nil
}

// checkWork checks a work request against what the queue pair can do.
func (q *QP) checkWork(w *rdma.WorkRequest) error {
	switch w.Op {
	case rdma.OpSend, rdma.OpSendInvalidate, rdma.OpWrite:
	case rdma.OpRead:
		if q.agreed.ord == 0 {
			return errors.New("iwarp: RDMA Read posted, but none was negotiated with the peer (ORD 0)")
		}
		if len(w.Local) != 1 {
			return fmt.Errorf("iwarp: RDMA Read into %d pieces of memory instead of one", len(w.Local))
		}
	case rdma.OpInvalidate:
		if len(w.Local) > 0 {
			return errors.New("iwarp: invalidation with local memory")
		}
	default:
		return fmt.Errorf("iwarp: work request of unknown kind %d", w.Op)
	}
	if len(w.Local) > maxGather {
		return fmt.Errorf("iwarp: %d pieces of memory in a work request, at most %d are allowed", len(w.Local), maxGather)
	}
	n := 0
	for _, g := range w.Local {
		if g.Len < 0 || g.Off < 0 || g.Off > len(g.Buf.Data) || g.Len > len(g.Buf.Data)-g.Off {
			return fmt.Errorf("iwarp: bytes %d+%d of a buffer of %d", g.Off, g.Len, len(g.Buf.Data))
		}
		n += g.Len
	}
	if n > maxSegment {
		return fmt.Errorf("iwarp: work request of %d bytes, at most %d are allowed", n, maxSegment)
	}
	return nil
}

// Expose implements rdma.QueuePair.
func (q *QP) Expose(buf *ulb.Buffer, off, n int, access rdma.Access) (rdma.Remote, error) {
	if off < 0 || n < 1 || n > maxSegment || off > len(buf.Data) || n > len(buf.Data)-off {
		return rdma.Remote{}, fmt.Errorf("iwarp: cannot expose bytes %d+%d of a buffer of %d", off, n, len(buf.Data))
	}
	if access != rdma.RemoteRead && access != rdma.RemoteWrite {
		return rdma.Remote{}, fmt.Errorf("iwarp: unknown kind of access %d", access)
	}
	stag, base, ok := q.table.expose(buf.Data[off:off+n:off+n], access)
	if !ok {
		q.mu.Lock()
		defer q.mu.Unlock()
		return rdma.Remote{}, q.err
	}
	return rdma.Remote{Handle: rdma.Handle(stag), Offset: base}, nil
}

// Poll implements rdma.QueuePair.
func (q *QP) Poll(dst []rdma.Completion) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.cq.empty() {
		if q.state == stateEnded {
			return 0, q.err
		}
		q.pollCond.Wait()
	}
	n := 0
	for n < len(dst) && !q.cq.empty() {
		dst[n] = q.cq.pop()
		switch dst[n].Op {
		case rdma.OpReceive:
			q.rq.polled++
		case rdma.OpRead:
			q.reads--
			q.sq.polled++
		default:
			q.sq.polled++
		}
		n++
	}
	return n, nil
}

// complete queues a completion. The caller holds q.mu.
func (q *QP) complete(c rdma.Completion) {
	q.cq.push(c)
	q.pollCond.Signal()
}

// Disconnect implements rdma.QueuePair.
func (q *QP) Disconnect(cause error) {
	if cause == nil {
		q.fail(fmt.Errorf("iwarp: connection to %s: %w", q.info.RemoteAddr, rdma.ErrClosed), nil)
		return
	}
	var pe *rdma.ProtocolError
	if errors.As(cause, &pe) {
		q.fail(cause, &terminate{code: upperCode(pe.Terminate)})
		return
	}
	q.fail(cause, nil)
}

// upperCode returns the code for a fault that was found above this package.
func upperCode(v uint32) termCode {
	if c := termCode(v); uint32(c) == v && c>>12 <= 2 {
		return c
	}
	return termLocal
}

// Close implements rdma.QueuePair.
func (q *QP) Close() error {
	q.Disconnect(nil)
	q.wg.Wait()
	return nil
}

// fail ends the connection because of err, with a Terminate if term is not nil.
// Only the first call counts.
func (q *QP) fail(err error, term *terminate) {
	q.mu.Lock()
	if q.state >= stateEnding {
		q.mu.Unlock()
		return
	}
	started := q.state == stateOpen
	q.enter(stateEnding)
	q.err, q.term = err, term
	q.sendCond.Signal()
	if started {
		// Wake the receiving goroutine; give what is being written a little
		// time. A closed connection refuses both, and needs neither.
		_ = q.link.conn.SetReadDeadline(past)
		_ = q.link.conn.SetWriteDeadline(time.Now().Add(lingerTime))
	} else { // nothing is running that could end it
		q.flush()
		_ = q.link.conn.Close() // its end is what is wanted
	}
	q.mu.Unlock()
	q.table.close()
	if q.nudge != nil {
		q.nudge.stop()
	}
}

// failing reports whether the connection is coming to its end.
func (q *QP) failing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state >= stateEnding
}

// cannotSend ends the connection because the socket refuses octets. If it does
// so because the peer has closed, its last words may still be in the socket's
// receive buffer and tell why: the receiving goroutine is given a little time to
// find them.
func (q *QP) cannotSend(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.state == stateOpen && q.sendErr == nil {
		q.sendErr = err
		_ = q.link.conn.SetReadDeadline(time.Now().Add(lingerTime)) // a closed connection needs none
	}
}

// whySilent returns the error that has cut short the wait for octets.
func (q *QP) whySilent(timeout error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sendErr != nil {
		return q.sendErr
	}
	return timeout
}

// stop is called by each of the two goroutines when it touches no buffer any
// more. The second call flushes the queues.
func (q *QP) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped++; q.stopped == 2 {
		q.flush()
	}
}

// flush completes everything outstanding. The caller holds q.mu.
func (q *QP) flush() {
	q.enter(stateEnded)
	for q.sq.head < q.sq.tail {
		w := q.sq.at(q.sq.head)
		q.complete(rdma.Completion{Op: w.op, Cookie: w.cookie, Err: rdma.ErrFlushed})
		q.sq.pop()
	}
	for !q.rq.empty() {
		q.complete(rdma.Completion{Op: rdma.OpReceive, Buf: q.rq.pop(), Err: rdma.ErrFlushed})
	}
	q.pollCond.Broadcast()
}

// lost returns the error for the failure of the TCP connection with err.
func (q *QP) lost(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("iwarp: %s closed the connection in the middle of a message: %w", q.info.RemoteAddr, err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("iwarp: %s closed the connection: %w", q.info.RemoteAddr, err)
	}
	return fmt.Errorf("iwarp: connection to %s lost: %w", q.info.RemoteAddr, err)
}
