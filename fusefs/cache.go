package fusefs

// cacheState tells whether the kernel's cached data of a file is still the
// file's: which change attribute (RFC 8881 section 5.8.1.4) belongs to it.
//
// A change attribute that is new tells nothing about who made the change, so
// own changes are marked before they are sent:
//
//	          attributes with a new change attribute
//	clean ------------------------------------------> clean, data dropped
//	  |
//	  | own change begins            attributes arrive
//	  +-----------------> changing ---------------------> clean, data kept,
//	                                                      but shared
//	clean, shared: the change that was taken for ours may have been another's
//	as well; the next open drops the data
//
// Attributes that come back with an own change itself, and those read when a
// file is flushed, close the gap in which others count as ours, so they do not
// leave it shared.
//
// Whoever is told to drop the data does so, and only then says dropped: until
// then nobody else may take it for that of the new change attribute.
type cacheState struct {
	change   uint64 // that the cached data belongs to
	known    bool   // change has a value
	changing int    // own changes on their way
	changed  bool   // own changes since change was read
	shared   bool
}

// begin marks that an own change is on its way.
func (s *cacheState) begin() {
	s.changing++
	s.changed = true
}

// end says that an own change has been answered.
func (s *cacheState) end() { s.changing-- }

// dropped says that the cached data was dropped because of a change attribute.
func (s *cacheState) dropped(change uint64) {
	s.change, s.known = change, true
	s.shared = false
}

// observe takes a change attribute and tells whether cached data has to be
// dropped. exact says that no change of others can hide behind an own one.
func (s *cacheState) observe(change uint64, exact bool) (drop bool) {
	if s.known && change != s.change {
		if s.changed {
			if !exact {
				s.shared = true
			}
		} else {
			drop = true
		}
	}
	if !drop {
		s.change, s.known = change, true
	}
	s.changed = s.changing > 0
	return drop
}

// open takes the change attribute that came with an open and tells whether
// cached data has to be dropped: unless it surely belongs to this change. Of a
// file of which nothing is known nothing is cached.
func (s *cacheState) open(change uint64) (drop bool) {
	drop = s.known && (change != s.change || s.changed || s.shared)
	if !drop {
		s.change, s.known = change, true
	}
	s.changed = s.changing > 0
	return drop
}

// dropCache has the kernel drop the data and attributes of a node. The kernel
// says ENOENT if it has none.
func (b *bridge) dropCache(n *node) {
	if s := b.server.Load(); s != nil {
		s.InodeNotify(n.id, 0, 0)
	}
}

// dropFor has the kernel drop the data and attributes of a file for the sake of
// a change attribute. When it returns, what is read is that or newer.
func (b *bridge) dropFor(n *node, change uint64) {
	b.stats.dropped.Add(1)
	b.dropCache(n)
	n.mu.Lock()
	n.cache.dropped(change)
	n.mu.Unlock()
}

// dropAttrs has the kernel ask for the attributes of a node when it next needs
// them.
func (b *bridge) dropAttrs(n *node) {
	if s := b.server.Load(); s != nil {
		s.InodeNotify(n.id, -1, 0)
	}
}

// change marks an own change of a file; the function it returns says that it
// has been answered. It returns the number of the change, and whether no other
// own change overlapped it: then attributes that came with the answer say how
// the file is after both.
func (b *bridge) change(n *node) (answered func() (seq uint64, alone bool)) {
	before := n.modified.Load()
	n.mu.Lock()
	alone := n.cache.changing == 0
	n.cache.begin()
	n.mu.Unlock()
	return func() (uint64, bool) {
		n.mu.Lock()
		n.cache.end()
		alone = alone && n.cache.changing == 0
		n.mu.Unlock()
		alone = alone && n.modified.Load() == before
		return n.touch(b), alone
	}
}
