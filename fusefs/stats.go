package fusefs

import "sync/atomic"

// counters count what the bridge does.
type counters struct {
	requests, errors atomic.Uint64
	bytesRead        atomic.Uint64
	bytesWritten     atomic.Uint64
	bytesCopied      atomic.Uint64
	kept, dropped    atomic.Uint64
	delegated        atomic.Uint64
	expired          atomic.Uint64
	missing, riders  atomic.Uint64
	silly            atomic.Uint64
	pages            atomic.Uint64
	running          atomic.Int64
}

// Stats are counters since the mount, and the present state.
type Stats struct {
	Requests     uint64 // requests of the kernel
	Errors       uint64 // of these, those answered with an error
	BytesRead    uint64 // file data given to the kernel
	BytesWritten uint64 // file data taken from the kernel
	BytesCopied  uint64 // file data copied here on its way to the kernel
	CacheKept    uint64 // opens that kept the kernel's cached data
	OpensAlone   uint64 // opens without asking the server, under a delegation
	CacheDropped uint64 // times that another's change made the kernel drop cached data
	NamesExpired uint64 // names that the kernel was told to ask for again
	NamesMissing uint64 // lookups answered because the name was known not to exist
	AttrsAtHand  uint64 // questions for attributes answered with those that came with something else
	SillyRenames uint64 // files renamed instead of removed, being open
	DirPages     uint64 // READDIR requests to the server

	Running   int // requests being worked on
	Nodes     int // objects that the kernel knows
	OpenFiles int
	OpenDirs  int
}

// Stats returns the counters.
func (f *FS) Stats() Stats {
	b := f.bridge
	files, dirs := b.handles.count()
	return Stats{
		Requests:     b.stats.requests.Load(),
		Errors:       b.stats.errors.Load(),
		BytesRead:    b.stats.bytesRead.Load(),
		BytesWritten: b.stats.bytesWritten.Load(),
		BytesCopied:  b.stats.bytesCopied.Load(),
		CacheKept:    b.stats.kept.Load(),
		OpensAlone:   b.stats.delegated.Load(),
		CacheDropped: b.stats.dropped.Load(),
		NamesExpired: b.stats.expired.Load(),
		NamesMissing: b.stats.missing.Load(),
		AttrsAtHand:  b.stats.riders.Load(),
		SillyRenames: b.stats.silly.Load(),
		DirPages:     b.stats.pages.Load(),
		Running:      int(b.stats.running.Load()),
		Nodes:        b.nodes.count(),
		OpenFiles:    files,
		OpenDirs:     dirs,
	}
}
