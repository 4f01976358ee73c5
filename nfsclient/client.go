package nfsclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
)

// FH is a filehandle. Those that this package returns are the caller's.
type FH = nfs4.FH

// Client is a client of one server. It is safe for concurrent use.
type Client struct {
	opt   Options // with defaults filled in
	log   logrus.FieldLogger
	creds *credentials
	self  *credential // for the session's own operations
	owner []byte      // client owner
	minor atomic.Uint32
	xid   atomic.Uint32
	pool  atomic.Pointer[ulb.Pool]
	live  atomic.Int64 // requests not freed

	requests sync.Pool

	renewing    atomic.Bool // a renewal of the lease is under way
	watchDirs   atomic.Pointer[func(dir FH, ci nfs4.ChangeInfo, attrs *nfs4.Attrs)]
	watchDelegs atomic.Pointer[func(fh FH)]

	stats counters
	sizes struct{ read, write, reply atomic.Int64 } // bytes

	root      FH
	rootAttrs nfs4.Attrs
	limits    Limits
	features  features

	ctx    context.Context // ends with the client; background work runs under it
	cancel context.CancelFunc
	wg     sync.WaitGroup // manager, resender, watchers
	jobs   jobs

	mu       sync.Mutex // guards what follows; nothing is waited for while it is held
	rec      recovery
	closed   bool
	tr       Transport
	connCtx  context.Context // ends with the connection
	connEnd  context.CancelFunc
	lostErr  error // why the last connection ended
	verf     nfs4.Verifier
	clientID nfs4.ClientID
	nextSeq  uint32 // sequence id of the next CREATE_SESSION
	sess     *session
	old      []*session // replaced ones, to be destroyed
	queue    requestQueue
	doubtful []doubtfulSlot
	maxRead  int // what the server says, bytes
	maxWrite int
	lease    lease
	renewed  time.Time // when a renewal was last sent
	health   health
	boundAt  time.Time     // when the back channel was last bound
	checked  time.Time     // when state was last verified
	newPool  chan struct{} // closed and replaced when there is a new connection
	poke     chan struct{}
	repoke   chan struct{}

	cbMu sync.Mutex // guards the back channels' slot tables

	state state
}

type doubtfulSlot struct {
	sess *session
	slot int
	seq  uint32
}

// Limits are what server, session and transport have agreed on.
type Limits struct {
	MinorVersion uint32        // NFSv4 minor version in use
	RSize, WSize int           // largest READ and WRITE, bytes
	Slots        int           // requests outstanding at once
	Lease        time.Duration // lease time of the server
	MaxName      int           // bytes of a name, 0 if unknown
	MaxLink      int           // links of an object, 0 if unknown
	MaxFileSize  uint64        // bytes, 0 if unknown
	Supported    nfs4.Bitmap   // attributes that the server supports
}

// New connects to a server, becomes its client (EXCHANGE_ID, CREATE_SESSION,
// RECLAIM_COMPLETE) and looks at the root of its name space. ctx bounds New
// only.
func New(ctx context.Context, o Options) (*Client, error) {
	c, err := newClient(o)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, c.cancel)
	err = c.establish(ctx)
	if err == nil {
		err = c.readRoot(ctx)
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		c.abort(err)
		return nil, err
	}
	c.wg.Go(func() { c.manage(c.ctx) })
	c.wg.Go(func() { c.resend(c.ctx) })
	return c, nil
}

// newClient checks the options and returns a client that is not connected.
func newClient(o Options) (*Client, error) {
	if o.Dial == nil {
		return nil, errors.New("nfsclient: Options.Dial is missing")
	}
	if o.MinorVersion > 2 {
		return nil, fmt.Errorf("nfsclient: NFSv4.%d is not supported", o.MinorVersion)
	}
	if err := o.fill(); err != nil {
		return nil, err
	}
	c := &Client{
		opt:    o,
		log:    o.Log.WithField("server", o.Server),
		creds:  newCredentials(o.HostName),
		poke:   make(chan struct{}, 1),
		repoke: make(chan struct{}, 1),

		newPool: make(chan struct{}),
	}
	c.self = c.creds.get(Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	c.owner = fmt.Appendf(nil, "nfsrdma-fuse %s %s %s", o.HostName, o.Server, o.Unique)
	c.owner = c.owner[:min(len(c.owner), nfs4.MaxOwner)]
	c.verf = newVerifier()
	c.minor.Store(2)
	if o.MinorVersion != 0 {
		c.minor.Store(o.MinorVersion)
	}
	var x [4]byte
	_, _ = rand.Read(x[:])
	c.xid.Store(uint32(x[0])<<24 | uint32(x[1])<<16 | uint32(x[2])<<8 | uint32(x[3]))
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.lease = *newLease(defaultLease, time.Now())
	c.health.timeout = o.Timeout
	c.state.init()
	c.jobs.init(c.ctx, maxJobs)
	return c, nil
}

// fill replaces zero values by their defaults.
func (o *Options) fill() error {
	if o.Server == "" {
		o.Server = "server"
	}
	if o.HostName == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("nfsclient: name of this host: %w", err)
		}
		o.HostName = name
	}
	if o.Unique == "" {
		var id [12]byte
		_, _ = rand.Read(id[:]) // never fails
		o.Unique = fmt.Sprintf("%x", id)
	}
	if o.Slots <= 0 {
		o.Slots = defaultSlots
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Retrans <= 0 {
		o.Retrans = defaultRetrans
	}
	if o.MaxUncommitted <= 0 {
		o.MaxUncommitted = defaultMaxUncommitted
	}
	if o.MaxDelegations <= 0 {
		o.MaxDelegations = defaultMaxDelegations
	}
	if o.Log == nil {
		l := logrus.New()
		l.SetOutput(io.Discard)
		l.SetLevel(logrus.PanicLevel)
		o.Log = l
	}
	return nil
}

// newVerifier returns a verifier that has not been used before.
func newVerifier() nfs4.Verifier {
	var v nfs4.Verifier
	_, _ = rand.Read(v[:])
	return v
}

// Limits returns what is in force. The transfer sizes can become smaller when
// the server has restarted.
func (c *Client) Limits() Limits {
	l := c.limits
	l.RSize, l.WSize = c.rsize(), c.wsize()
	return l
}

// Root returns the root of the server's name space (the pseudo root) and the
// attributes it had when the client was made.
func (c *Client) Root() (FH, *nfs4.Attrs) {
	attrs := c.rootAttrs
	return c.root.Clone(), &attrs
}

// Close commits and closes what is open, returns delegations, destroys session
// and client id and closes the connection. It does as much of that as ctx
// leaves time for; the connection is closed in any case. No other method may be
// in progress or be called afterwards.
func (c *Client) Close(ctx context.Context) error {
	err := c.closeState(ctx)
	if e := c.jobs.drain(ctx); err == nil {
		err = e
	}
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.jobs.wait()
	c.wg.Wait()
	if e := c.destroy(ctx); err == nil {
		err = e
	}
	c.hangUp(ErrClosed)
	c.jobs.wait() // what the last replies have given rise to
	if n := c.state.abandon(); n > 0 {
		c.log.WithField("bytes", n).Warn("closed with data that may not be on stable storage")
	}
	return err
}

// abort ends a client that never came up.
func (c *Client) abort(err error) {
	c.cancel()
	c.jobs.wait()
	c.wg.Wait()
	c.hangUp(err)
}

// destroyTries is how often a lost connection is made again to take leave.
const destroyTries = 3

// destroy gives sessions and client id back to the server.
func (c *Client) destroy(ctx context.Context) (err error) {
	c.mu.Lock()
	known := c.rec.identified
	sessions := c.old
	if c.sess != nil && !c.sess.gone {
		sessions = append(sessions, c.sess)
	}
	c.old = nil
	c.mu.Unlock()
	if !known {
		return nil
	}
	for range destroyTries {
		if err = c.reattach(ctx); err == nil {
			sessions, err = c.takeLeave(ctx, sessions)
		}
		if _, final := statusOf(err); err == nil || final || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// reattach makes a new connection if the last was lost, and binds it.
func (c *Client) reattach(ctx context.Context) error {
	c.mu.Lock()
	up := c.rec.connected
	c.mu.Unlock()
	if up {
		return nil
	}
	if err := c.connect(ctx); err != nil {
		return err
	}
	c.mu.Lock()
	bind := c.sess != nil && !c.sess.gone
	c.mu.Unlock()
	if bind {
		if err := c.bind(ctx); err != nil && !errors.Is(err, errTryAgain) {
			if _, gone := statusOf(err); !gone {
				return err
			}
		}
	}
	return nil
}

// takeLeave destroys sessions and client id. It returns the sessions that are
// left.
func (c *Client) takeLeave(ctx context.Context, sessions []*session) ([]*session, error) {
	for len(sessions) > 0 {
		if err := c.destroySession(ctx, sessions[0]); err != nil {
			return sessions, err
		}
		sessions = sessions[1:]
	}
	r := c.newRequest(c.self)
	r.bypass = true
	r.add(&nfs4.DestroyClientIDArgs{ClientID: c.clientID}, new(nfs4.DestroyClientIDRes))
	err := c.do(ctx, r)
	if err == nil {
		r.free()
	} else if errors.Is(err, nfs4.ErrStaleClientID) {
		err = nil
	}
	return nil, err
}

// destroySession ends a session at the server.
func (c *Client) destroySession(ctx context.Context, s *session) error {
	r := c.newRequest(c.self)
	r.bypass = true
	r.add(&nfs4.DestroySessionArgs{SessionID: s.id}, new(nfs4.DestroySessionRes))
	if err := c.do(ctx, r); err != nil {
		if errors.Is(err, nfs4.ErrBadSession) {
			return nil
		}
		return err
	}
	r.free()
	return nil
}

// hangUp closes the connection and completes whatever is still waiting.
func (c *Client) hangUp(why error) {
	c.mu.Lock()
	tr := c.tr
	if c.sess != nil {
		c.sessionLost(c.sess, why)
	}
	for _, s := range c.old {
		c.sessionLost(s, why)
	}
	for r := c.queue.head; r != nil; r = c.queue.head {
		c.queue.remove(r)
		r.err = ErrClosed
		r.wake <- struct{}{}
	}
	if c.connEnd != nil {
		c.connEnd()
	}
	c.tr = nil
	c.mu.Unlock()
	if tr != nil {
		tr.Close()
	}
}
