package ulb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"unsafe"
)

// Buffer is a piece of payload memory: what READ results are placed into and
// WRITE arguments are taken from. It has one owner at a time; passing it to a
// call, to the kernel or to another goroutine passes the ownership on. The last
// owner calls Release.
type Buffer struct {
	// Data is the whole memory; its length is the capacity of the buffer.
	Data []byte
	// Region is what the provider of the memory needs to find its
	// registration for local access again (a verbs arena keeps it here).
	Region any

	pool *Pool
	out  bool // handed out; guarded by pool.mu
}

// Release gives the buffer back to its pool. The caller must not touch it
// afterwards, and no peer may still have access to it. Releasing a buffer that
// is not handed out panics: somebody else may own it already.
func (b *Buffer) Release() {
	if b != nil && b.pool != nil {
		b.pool.put(b)
	}
}

// ErrPoolClosed is returned by Pool.Get after Close.
var ErrPoolClosed = errors.New("ulb: buffer pool closed")

// PageSize is the alignment of payload memory, bytes.
const PageSize = 4096

// Memory provides the memory of a pool. Implementations make it usable for
// their transport (a verbs provider registers it). They are safe for
// concurrent use.
type Memory interface {
	// Alloc returns n bytes of memory that start at a multiple of PageSize,
	// and the value of Buffer.Region for it.
	Alloc(n int) (data []byte, region any, err error)
	// Free takes back what Alloc returned.
	Free(data []byte, region any)
}

// Pool hands out payload buffers of a few size classes and never holds more
// than a fixed number of bytes. When they are all in use, Get waits; buffers
// are given to those who wait in the order in which they came, so that a large
// request is not starved by small ones.
//
// A Pool is safe for concurrent use.
type Pool struct {
	mem   Memory
	limit int // bytes

	mu     sync.Mutex
	closed bool
	used   int               // bytes allocated, free buffers included
	out    int               // buffers handed out
	outLen int               // bytes handed out
	free   map[int][]*Buffer // by class
	queue  []*waiting        // in the order of arrival
}

type waiting struct {
	class int
	got   chan *Buffer // one buffer, or closed without one
	err   error        // why it was closed
}

// NewPool returns a pool that takes its memory from mem and holds at most
// limit bytes of it.
func NewPool(mem Memory, limit int) *Pool {
	return &Pool{mem: mem, limit: limit, free: make(map[int][]*Buffer)}
}

// Smallest and largest size class, bytes. Classes are powers of two between.
const (
	MinBuffer = 4 << 10
	MaxBuffer = 4<<20 + 64<<10 // a 4 MiB payload and the message around it
)

func class(n int) int {
	c := MinBuffer
	for c < n {
		c <<= 1
	}
	return min(c, MaxBuffer)
}

// Get returns a buffer with room for n bytes. It waits while the pool's limit
// is reached, until ctx is done. Asking for more than Max is an error.
func (p *Pool) Get(ctx context.Context, n int) (*Buffer, error) {
	if n < 0 || n > p.Max() {
		return nil, fmt.Errorf("ulb: buffer of %d bytes exceeds the pool's maximum of %d", n, p.Max())
	}
	b, w, err := p.getOrWait(class(n))
	if w == nil {
		return b, err
	}
	select {
	case b, ok := <-w.got:
		if !ok {
			return nil, w.err
		}
		return b, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
		p.serve() // what stood behind a large request may fit now
		p.mu.Unlock()
		return nil, ctx.Err()
	}
	p.mu.Unlock()
	// It was served at the same moment.
	b, ok := <-w.got
	if !ok {
		return nil, w.err
	}
	b.Release()
	return nil, ctx.Err()
}

// TryGet is Get for callers that must not wait: it returns nil if there is no
// buffer at once.
func (p *Pool) TryGet(n int) *Buffer {
	if n < 0 || n > p.Max() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.queue) > 0 {
		return nil
	}
	b, _ := p.take(class(n))
	return b
}

// Max returns the size in bytes of the largest buffer that Get can return.
func (p *Pool) Max() int {
	if p.limit >= MaxBuffer {
		return MaxBuffer
	}
	c := MinBuffer
	for c<<1 <= p.limit {
		c <<= 1
	}
	if c > p.limit {
		return 0
	}
	return c
}

func (p *Pool) getOrWait(c int) (*Buffer, *waiting, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrPoolClosed
	}
	if len(p.queue) == 0 {
		if b, err := p.take(c); b != nil || err != nil {
			return b, nil, err
		}
	}
	w := &waiting{class: c, got: make(chan *Buffer, 1)}
	p.queue = append(p.queue, w)
	return nil, w, nil
}

// take returns a buffer of class c, or nil if the limit does not allow it now.
func (p *Pool) take(c int) (*Buffer, error) {
	if l := p.free[c]; len(l) > 0 {
		b := l[len(l)-1]
		l[len(l)-1] = nil
		p.free[c] = l[:len(l)-1]
		p.handOut(b)
		return b, nil
	}
	for size, l := range p.free { // make room from idle buffers of other classes
		for len(l) > 0 && p.used+c > p.limit {
			p.drop(l[len(l)-1])
			l[len(l)-1] = nil
			l = l[:len(l)-1]
		}
		p.free[size] = l
	}
	if p.used+c > p.limit {
		return nil, nil
	}
	data, region, err := p.mem.Alloc(c)
	if err != nil {
		return nil, err
	}
	p.used += c
	b := &Buffer{Data: data, Region: region, pool: p}
	p.handOut(b)
	return b, nil
}

func (p *Pool) handOut(b *Buffer) {
	b.out = true
	p.out++
	p.outLen += len(b.Data)
}

func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.out {
		panic("ulb: buffer released twice")
	}
	b.out = false
	p.out--
	p.outLen -= len(b.Data)
	if p.closed {
		p.drop(b)
		return
	}
	p.free[len(b.Data)] = append(p.free[len(b.Data)], b)
	p.serve()
}

// serve gives buffers to those who wait, as far as they reach.
func (p *Pool) serve() {
	for len(p.queue) > 0 {
		w := p.queue[0]
		b, err := p.take(w.class)
		switch {
		case b != nil:
			w.got <- b
		case err != nil:
			w.err = err
			close(w.got)
		default:
			return
		}
		p.queue = slices.Delete(p.queue, 0, 1)
	}
}

// Limit returns the number of bytes that the pool holds at most. Whoever keeps
// buffers for long has to leave room for those that come and go.
func (p *Pool) Limit() int { return p.limit }

func (p *Pool) drop(b *Buffer) {
	p.used -= len(b.Data)
	p.mem.Free(b.Data, b.Region)
}

// InUse returns the number of buffers handed out and not yet released.
func (p *Pool) InUse() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out
}

// Used returns the number of bytes that the pool holds, idle buffers included.
func (p *Pool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Tight reports whether more than half of the pool's bytes are handed out:
// whoever can do without a buffer should not keep it then.
func (p *Pool) Tight() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.outLen > p.limit/2
}

// Close frees idle buffers and fails those who wait; buffers still in use are
// freed when released.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, l := range p.free {
		for _, b := range l {
			p.drop(b)
		}
	}
	clear(p.free)
	for _, w := range p.queue {
		w.err = ErrPoolClosed
		close(w.got)
	}
	p.queue = nil
}

// HeapMemory is Memory from the Go heap, for transports without a device.
type HeapMemory struct{}

// Alloc implements Memory.
func (HeapMemory) Alloc(n int) ([]byte, any, error) {
	data := make([]byte, n)
	if misaligned(data) == 0 {
		return data, nil, nil // as the runtime's size classes make it
	}
	data = make([]byte, n+PageSize)
	off := (PageSize - misaligned(data)) % PageSize
	return data[off : off+n : off+n], nil, nil
}

// Free implements Memory.
func (HeapMemory) Free([]byte, any) {}

func misaligned(data []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(data))) % PageSize)
}
