package fusefs

import "sync"

// handles are what the kernel has open, by the number that it was given.
type handles struct {
	mu    sync.RWMutex
	files map[uint64]*fileHandle
	dirs  map[uint64]*dirHandle
	last  uint64
}

func newHandles() *handles {
	return &handles{files: make(map[uint64]*fileHandle), dirs: make(map[uint64]*dirHandle)}
}

func (t *handles) addFile(f *fileHandle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.files[t.last] = f
	return t.last
}

func (t *handles) addDir(d *dirHandle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last++
	t.dirs[t.last] = d
	return t.last
}

func (t *handles) file(fh uint64) *fileHandle {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.files[fh]
}

func (t *handles) dir(fh uint64) *dirHandle {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.dirs[fh]
}

func (t *handles) takeFile(fh uint64) *fileHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.files[fh]
	delete(t.files, fh)
	return f
}

func (t *handles) takeDir(fh uint64) *dirHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	d := t.dirs[fh]
	delete(t.dirs, fh)
	return d
}

// takeAll empties the table and returns the files that were in it.
func (t *handles) takeAll() []*fileHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*fileHandle, 0, len(t.files))
	for _, f := range t.files {
		all = append(all, f)
	}
	clear(t.files)
	clear(t.dirs)
	return all
}

func (t *handles) count() (files, dirs int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.files), len(t.dirs)
}
