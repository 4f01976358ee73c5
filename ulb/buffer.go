package ulb

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
}

// Release gives the buffer back to its pool. The caller must not touch it
// afterwards, and no peer may still have access to it.
func (b *Buffer) Release() {
	if b != nil && b.pool != nil {
		b.pool.put(b)
	}
}

// ErrPoolClosed is returned by Pool.Get after Close.
var ErrPoolClosed = errors.New("ulb: buffer pool closed")

// Memory provides the memory of a pool. Implementations make it usable for
// their transport (a verbs provider registers it).
type Memory interface {
	// Alloc returns n bytes of page-aligned memory and the value of
	// Buffer.Region for it.
	Alloc(n int) (data []byte, region any, err error)
	// Free takes back what Alloc returned.
	Free(data []byte, region any)
}

// Pool hands out payload buffers of a few size classes and never holds more
// than a fixed number of bytes; when they are all in use, Get waits.
//
// A Pool is safe for concurrent use.
type Pool struct {
	mem   Memory
	limit int // bytes

	mu     sync.Mutex
	closed bool
	used   int               // bytes allocated, free buffers included
	out    int               // buffers handed out
	free   map[int][]*Buffer // by class
	wait   chan struct{}     // closed and replaced when something is given back
}

// NewPool returns a pool that takes its memory from mem and holds at most
// limit bytes of it.
func NewPool(mem Memory, limit int) *Pool {
	return &Pool{mem: mem, limit: limit, free: make(map[int][]*Buffer), wait: make(chan struct{})}
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
// is reached, until ctx is done.
func (p *Pool) Get(ctx context.Context, n int) (*Buffer, error) {
	if n > MaxBuffer || class(n) > p.limit {
		return nil, fmt.Errorf("ulb: buffer of %d bytes exceeds the pool's limit of %d", n, min(p.limit, MaxBuffer))
	}
	for {
		b, wait, err := p.tryGet(class(n))
		if b != nil || err != nil {
			return b, err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *Pool) tryGet(c int) (*Buffer, <-chan struct{}, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrPoolClosed
	}
	if l := p.free[c]; len(l) > 0 {
		b := l[len(l)-1]
		l[len(l)-1] = nil
		p.free[c] = l[:len(l)-1]
		p.out++
		return b, nil, nil
	}
	for size, l := range p.free { // make room from idle buffers of other classes
		for len(l) > 0 && p.used+c > p.limit {
			b := l[len(l)-1]
			l = l[:len(l)-1]
			p.drop(b)
		}
		p.free[size] = l
	}
	if p.used+c > p.limit {
		return nil, p.wait, nil
	}
	data, region, err := p.mem.Alloc(c)
	if err != nil {
		return nil, nil, err
	}
	p.used += c
	p.out++
	return &Buffer{Data: data, Region: region, pool: p}, nil, nil
}

func (p *Pool) put(b *Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out--
	if p.closed {
		p.drop(b)
	} else {
		p.free[len(b.Data)] = append(p.free[len(b.Data)], b)
	}
	close(p.wait)
	p.wait = make(chan struct{})
}

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

// Close frees idle buffers; those still in use are freed when released.
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
	close(p.wait)
	p.wait = make(chan struct{})
}

// HeapMemory is Memory from the Go heap, for transports without a device.
type HeapMemory struct{}

// Alloc implements Memory.
func (HeapMemory) Alloc(n int) ([]byte, any, error) { return make([]byte, n), nil, nil }

// Free implements Memory.
func (HeapMemory) Free([]byte, any) {}
