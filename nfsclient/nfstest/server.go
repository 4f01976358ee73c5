package nfstest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"sync"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// Server is an NFSv4.1 server. It is safe for concurrent use.
type Server struct {
	opt      Options
	exports  *exports
	hashSeed maphash.Seed
	name     []byte // server owner and scope

	ctx    context.Context // done when the server is closed
	cancel context.CancelFunc
	calls  sync.WaitGroup // handlers and callbacks that are running
	net    listeners
	log    eventLog
	hooks  hooks

	mu       sync.Mutex
	serving  bool          // false while the server is down
	boot     uint32        // instance: part of every id
	verifier nfs4.Verifier // of unstable writes
	nextID   uint64
	clients  map[nfs4.ClientID]*client
	owners   map[string]*clientOwner
	sessions map[nfs4.SessionID]*session
	states   map[[12]byte]*state
	files    map[*memfs.Inode]*file
	peers    map[*peer]struct{}
	waiters  []*lockWaiter
	holdOff  map[*memfs.Inode]time.Time // until when no delegation is granted

	lastSweep time.Time

	graceEnd time.Time           // zero if there is no grace period
	stable   map[string]struct{} // owners that may reclaim: what survives a restart
	reclaim  map[string]struct{} // those of them that have not finished reclaiming
}

// NewServer returns a server that serves whoever is connected to it by
// ServeConn, Dial, ListenTCP or ListenRDMA. It panics if the exports contradict
// each other. The caller must Close it.
func NewServer(o Options) *Server {
	o = o.withDefaults()
	x, err := newExports(&o)
	if err != nil {
		panic(err)
	}
	s := &Server{
		opt:      o,
		exports:  x,
		hashSeed: maphash.MakeSeed(),
		peers:    make(map[*peer]struct{}),
		stable:   make(map[string]struct{}),
	}
	var id [8]byte
	rand.Read(id[:])
	s.name = append([]byte("nfstest-"), id[:]...)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.log.init()
	s.resetState()
	s.serving = true
	return s
}

// resetState begins a new instance of the server, which knows of no client.
// s.mu is held, or s is not shared yet.
func (s *Server) resetState() {
	var b [12]byte
	rand.Read(b[:])
	s.boot = binary.BigEndian.Uint32(b[8:])
	copy(s.verifier[:], b[:8])
	s.clients = make(map[nfs4.ClientID]*client)
	s.owners = make(map[string]*clientOwner)
	s.sessions = make(map[nfs4.SessionID]*session)
	s.states = make(map[[12]byte]*state)
	for _, f := range s.files {
		f.release()
	}
	s.files = make(map[*memfs.Inode]*file)
	s.waiters = nil
	s.holdOff = make(map[*memfs.Inode]time.Time)
	s.graceEnd = time.Time{}
	s.reclaim = make(map[string]struct{})
}

// Close ends the server: connections are closed, listeners too, and calls that
// are being carried out are waited for.
func (s *Server) Close() {
	s.setServing(false)
	s.cancel()
	s.net.close()
	s.Disconnect()
	s.calls.Wait()
	s.net.wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resetState()
}

func (s *Server) setServing(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving = on
}

// now returns the server's time.
func (s *Server) now() time.Time { return s.opt.Now() }

// newOther returns an id that no state of the server has or had.
func (s *Server) newOther() (other [12]byte) {
	s.nextID++
	binary.BigEndian.PutUint32(other[:], s.boot|1) // neither all zeros nor all ones
	binary.BigEndian.PutUint64(other[4:], s.nextID)
	return other
}

// RestartOptions say what a restart costs.
type RestartOptions struct {
	// KeepState makes the restart one of the network only: clients, sessions
	// and their reply caches survive.
	KeepState bool
	// KeepUncommitted saves data that was written unstably and not
	// committed; without it, such data is gone, as after a loss of power. It
	// is meaningless with KeepState, which loses nothing.
	KeepUncommitted bool
	// NoGrace leaves out the grace period: clients cannot reclaim.
	NoGrace bool
}

// Restart takes the server down and up again: all connections are cut, calls
// that are being carried out end first. Listeners come back at their addresses.
func (s *Server) Restart(o RestartOptions) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.Start(o)
}

// Stop takes the server down: listeners are closed and connections are cut.
func (s *Server) Stop() error {
	s.setServing(false)
	s.net.pause()
	s.Disconnect()
	s.calls.Wait()
	return nil
}

// Start brings the server up after Stop.
func (s *Server) Start(o RestartOptions) error {
	if !o.KeepState {
		s.mu.Lock()
		if !o.KeepUncommitted {
			for _, e := range s.exports.byID {
				e.fs.DropUncommitted()
			}
		} else {
			for _, e := range s.exports.byID {
				e.fs.CommitAll()
			}
		}
		s.resetState()
		if o.NoGrace {
			clear(s.stable)
		}
		if len(s.stable) > 0 {
			s.graceEnd = s.now().Add(s.opt.Grace)
			s.reclaim = maps.Clone(s.stable)
		}
		s.mu.Unlock()
	}
	s.setServing(true)
	return s.net.resume()
}

// inGrace tells whether only reclaims are allowed. s.mu is held.
func (s *Server) inGrace() bool {
	if s.graceEnd.IsZero() {
		return false
	}
	if len(s.reclaim) == 0 || !s.now().Before(s.graceEnd) {
		s.endGrace()
		return false
	}
	return true
}

// endGrace ends the grace period. Clients that have not finished reclaiming by
// now have lost what they had (RFC 8881 section 8.4.2.1). s.mu is held.
func (s *Server) endGrace() {
	s.graceEnd = time.Time{}
	for owner := range s.reclaim {
		delete(s.stable, owner)
	}
	clear(s.reclaim)
}

// EndGrace ends a grace period at once.
func (s *Server) EndGrace() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endGrace()
}
