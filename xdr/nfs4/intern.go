package nfs4

import (
	"hash/maphash"
	"sync/atomic"
)

// interner gives equal short strings the same memory: a listing names the same
// few owners over and over. It remembers a fixed number of them, the newest in
// each place, and is safe for concurrent use.
type interner struct {
	seed  maphash.Seed
	slots [internSlots]atomic.Pointer[string]
}

const (
	internSlots = 512 // strings remembered
	internLen   = 64  // bytes of the longest string worth remembering
)

// owners are the names of owners and groups seen in attributes.
var owners = interner{seed: maphash.MakeSeed()}

// get returns b as a string.
func (t *interner) get(b []byte) string {
	if len(b) == 0 || len(b) > internLen {
		return string(b)
	}
	slot := &t.slots[maphash.Bytes(t.seed, b)%internSlots]
	if p := slot.Load(); p != nil && *p == string(b) {
		return *p
	}
	s := string(b)
	slot.Store(&s)
	return s
}
