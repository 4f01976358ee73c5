package rdmatest

import (
	"sync"
	"unsafe"

	"nfsrdma-fuse/ulb"
)

// Memory is memory of the in-memory provider. It knows what it has handed out,
// so that a test can find leaks and the provider can refuse memory that is not
// its own, or not any more.
type Memory struct {
	mu     sync.Mutex
	blocks map[*block]bool
}

type block struct {
	mem  *Memory
	data []byte
}

// Alloc implements ulb.Memory.
func (m *Memory) Alloc(n int) ([]byte, any, error) {
	data, _, err := ulb.HeapMemory{}.Alloc(n)
	if err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blocks == nil {
		m.blocks = make(map[*block]bool)
	}
	b := &block{mem: m, data: data}
	m.blocks[b] = true
	return data, b, nil
}

// Free implements ulb.Memory. Memory that is not handed out panics.
func (m *Memory) Free(_ []byte, region any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b := region.(*block)
	if !m.blocks[b] {
		panic("rdmatest: memory freed twice, or of another provider")
	}
	delete(m.blocks, b)
}

// InUse returns the number of blocks handed out and not freed.
func (m *Memory) InUse() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.blocks)
}

// owns reports whether buf is memory handed out by m and not freed since, or a
// part of such memory.
func (m *Memory) owns(buf *ulb.Buffer) bool {
	b, ok := buf.Region.(*block)
	if !ok || len(buf.Data) == 0 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	start, at := addressOf(b.data), addressOf(buf.Data)
	return m.blocks[b] && at >= start && at+uintptr(len(buf.Data)) <= start+uintptr(len(b.data))
}

func addressOf(data []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(data))) }
