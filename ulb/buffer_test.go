package ulb

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tracked is Memory that knows what is out.
type tracked struct {
	mu  sync.Mutex
	out map[*byte]int
	err error
}

func (m *tracked) Alloc(n int) ([]byte, any, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return nil, nil, m.err
	}
	data, _, err := HeapMemory{}.Alloc(n)
	if m.out == nil {
		m.out = make(map[*byte]int)
	}
	m.out[&data[0]] = n
	return data, nil, err
}

func (m *tracked) Free(data []byte, _ any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.out[&data[0]] != len(data) {
		panic("freed what was not allocated")
	}
	delete(m.out, &data[0])
}

func (m *tracked) bytes() (n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.out {
		n += k
	}
	return n
}

func TestHeapMemoryAlignment(t *testing.T) {
	for _, n := range []int{1, 100, 4096, 4097, 8192, 12_288, 65_536, 100_000, MaxBuffer} {
		for range 20 {
			data, _, err := HeapMemory{}.Alloc(n)
			if err != nil || len(data) != n {
				t.Fatalf("%d bytes, error %v", len(data), err)
			}
			if at := uintptr(unsafe.Pointer(&data[0])); at%PageSize != 0 {
				t.Fatalf("%d bytes start at %#x", n, at)
			}
		}
	}
}

func TestPoolClasses(t *testing.T) {
	p := NewPool(HeapMemory{}, 64<<20)
	for _, c := range []struct{ n, want int }{
		{0, 4096}, {1, 4096}, {4096, 4096}, {4097, 8192}, {1 << 20, 1 << 20}, {1<<20 + 1, 2 << 20},
		{4 << 20, 4 << 20}, {4<<20 + 1, MaxBuffer}, {MaxBuffer, MaxBuffer},
	} {
		b, err := p.Get(t.Context(), c.n)
		if err != nil || len(b.Data) != c.want {
			t.Fatalf("Get(%d): %d bytes, %v", c.n, len(b.Data), err)
		}
		b.Release()
	}
	if _, err := p.Get(t.Context(), MaxBuffer+1); err == nil {
		t.Error("a buffer larger than the largest class")
	}
	if _, err := NewPool(HeapMemory{}, 10_000).Get(t.Context(), 8193); err == nil {
		t.Error("a buffer larger than the pool")
	}
	for _, c := range []struct{ limit, want int }{{100, 0}, {4096, 4096}, {10_000, 8192}, {4 << 20, 4 << 20}, {MaxBuffer, MaxBuffer}, {1 << 30, MaxBuffer}} {
		if got := NewPool(HeapMemory{}, c.limit).Max(); got != c.want {
			t.Errorf("largest buffer of a pool of %d bytes: %d", c.limit, got)
		}
	}
}

func TestPoolReuse(t *testing.T) {
	m := &tracked{}
	p := NewPool(m, 64<<10)
	a, _ := p.Get(t.Context(), 32<<10)
	a.Release()
	b, _ := p.Get(t.Context(), 20<<10)
	if a != b {
		t.Error("an idle buffer was not used again")
	}
	b.Release()
	// Idle buffers of other classes make room.
	var got []*Buffer
	for range 16 {
		b, err := p.Get(t.Context(), 4096)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b)
	}
	if n := m.bytes(); n != 64<<10 {
		t.Errorf("%d bytes allocated", n)
	}
	if !p.Tight() {
		t.Error("a full pool is not tight")
	}
	for _, b := range got {
		b.Release()
	}
	if p.Tight() || p.InUse() != 0 {
		t.Error("an idle pool is tight")
	}
	if n := testing.AllocsPerRun(100, func() {
		b, _ := p.Get(context.Background(), 4096)
		b.Release()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	p.Close()
	if n := m.bytes(); n != 0 {
		t.Errorf("%d bytes left after Close", n)
	}
}

func TestPoolDoubleRelease(t *testing.T) {
	p := NewPool(HeapMemory{}, 64<<10)
	b, _ := p.Get(t.Context(), 4096)
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("a second Release went unnoticed")
		}
		if p.InUse() != 0 {
			t.Errorf("%d in use", p.InUse())
		}
	}()
	b.Release()
}

// A large request is served in its turn, however many small ones come.
func TestPoolFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(HeapMemory{}, 16<<10)
		var held []*Buffer
		for range 4 {
			b, _ := p.Get(t.Context(), 4096)
			held = append(held, b)
		}
		var order []int
		var mu sync.Mutex
		get := func(n int) {
			go func() {
				b, err := p.Get(context.Background(), n)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, n)
				mu.Unlock()
				b.Release()
			}()
			synctest.Wait()
		}
		get(16 << 10)
		get(4096)
		get(4095)
		if p.TryGet(1) != nil {
			t.Error("TryGet pushed in")
		}
		for i, b := range held {
			if len(order) != 0 {
				t.Fatalf("after %d releases %v were served", i, order)
			}
			b.Release()
			synctest.Wait()
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 3 || order[0] != 16<<10 {
			t.Errorf("served: %v", order)
		}
	})
}

func TestPoolCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(HeapMemory{}, 16<<10)
		b, _ := p.Get(t.Context(), 8<<10)
		ctx, cancel := context.WithCancel(context.Background())
		errs := make(chan error, 1)
		go func() {
			_, err := p.Get(ctx, 16<<10)
			errs <- err
		}()
		synctest.Wait()
		small := make(chan *Buffer, 1)
		go func() {
			b, _ := p.Get(context.Background(), 4096)
			small <- b
		}()
		synctest.Wait()
		select {
		case <-small:
			t.Fatal("a small request passed the large one before it")
		default:
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("Get: %v", err)
		}
		(<-small).Release() // its turn came when the large one went away
		b.Release()
		if p.InUse() != 0 {
			t.Errorf("%d in use", p.InUse())
		}
	})
}

func TestPoolClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &tracked{}
		p := NewPool(m, 8<<10)
		b, _ := p.Get(t.Context(), 8<<10)
		errs := make(chan error, 1)
		go func() {
			_, err := p.Get(context.Background(), 4096)
			errs <- err
		}()
		synctest.Wait()
		p.Close()
		p.Close()
		if err := <-errs; !errors.Is(err, ErrPoolClosed) {
			t.Errorf("waiting Get: %v", err)
		}
		if _, err := p.Get(t.Context(), 1); !errors.Is(err, ErrPoolClosed) {
			t.Errorf("Get: %v", err)
		}
		if p.TryGet(1) != nil {
			t.Error("TryGet from a closed pool")
		}
		if m.bytes() == 0 {
			t.Error("memory in use was freed")
		}
		b.Release()
		if m.bytes() != 0 {
			t.Error("memory was not freed by the last Release")
		}
	})
}

func TestPoolMemoryFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &tracked{}
		p := NewPool(m, 8<<10)
		b, _ := p.Get(t.Context(), 4<<10)
		errs := make(chan error, 1)
		go func() {
			_, err := p.Get(context.Background(), 8<<10)
			errs <- err
		}()
		synctest.Wait()
		m.err = errors.New("no memory")
		b.Release()
		if err := <-errs; !errors.Is(err, m.err) {
			t.Errorf("waiting Get: %v", err)
		}
		if _, err := p.Get(t.Context(), 8<<10); !errors.Is(err, m.err) {
			t.Errorf("Get: %v", err)
		}
	})
}

// The pool against a model: never more than the limit, never the same buffer
// twice, everything back at the end.
func TestPoolRandom(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &tracked{}
		limit := rapid.IntRange(4096, 1<<20).Draw(rt, "limit")
		p := NewPool(m, limit)
		held := make(map[*Buffer]bool)
		total := 0
		rt.Repeat(map[string]func(*rapid.T){
			"get": func(rt *rapid.T) {
				n := rapid.IntRange(0, p.Max()).Draw(rt, "n")
				b := p.TryGet(n)
				if b == nil {
					if total+class(n) <= limit {
						rt.Fatalf("no %d bytes although %d of %d are out", n, total, limit)
					}
					return
				}
				if held[b] || len(b.Data) < n {
					rt.Fatal("wrong buffer")
				}
				held[b] = true
				total += len(b.Data)
			},
			"release": func(rt *rapid.T) {
				for b := range held {
					delete(held, b)
					total -= len(b.Data)
					b.Release()
					break
				}
			},
			"": func(rt *rapid.T) {
				if n := m.bytes(); n > limit || n != p.Used() || p.InUse() != len(held) {
					rt.Fatalf("%d bytes allocated, limit %d; %d in use, %d held", n, limit, p.InUse(), len(held))
				}
			},
		})
		for b := range held {
			b.Release()
		}
		p.Close()
		if m.bytes() != 0 {
			rt.Fatal("memory left")
		}
	})
}
