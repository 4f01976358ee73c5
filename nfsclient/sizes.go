package nfsclient

import (
	"context"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// payloadLimits returns the largest READ and WRITE whose messages fit into a
// session: what is left of its message sizes, which count everything from the
// RPC header on (RFC 8881 section 18.36.3), with what goes around the data taken
// off. That is found by encoding the largest such messages.
func payloadLimits(f nfs4.ChannelAttrs) (read, write int) {
	fh := make(FH, nfs4.MaxFH)
	call := func(op nfs4.Args) *xdr.Encoder {
		e := new(xdr.Encoder)
		auth := rpc.OpaqueAuth{Flavor: rpc.FlavorSys, Body: make([]byte, rpc.MaxAuthBody)}
		h := rpc.CallHeader{Cred: auth}
		h.Encode(e)
		a := nfs4.CompoundArgs{Ops: []nfs4.Args{new(nfs4.SequenceArgs), &nfs4.PutFHArgs{FH: fh}, op}}
		a.Encode(e)
		return e
	}
	reply := func(op nfs4.Res) *xdr.Encoder {
		e := new(xdr.Encoder)
		h := rpc.ReplyHeader{Verf: rpc.OpaqueAuth{Body: make([]byte, rpc.MaxAuthBody)}}
		h.Encode(e)
		r := nfs4.CompoundRes{Ops: []nfs4.Res{new(nfs4.SequenceRes), new(nfs4.PutFHRes), op}}
		r.Encode(e)
		return e
	}
	write = int(f.MaxRequestSize) - call(new(nfs4.WriteArgs)).Len()
	read = int(f.MaxResponseSize) - reply(new(nfs4.ReadRes)).Len()
	return read, write
}

// wholePages cuts a transfer size down to whole pages if it has any: that is
// what page caches on both ends work with.
func wholePages(n int) int {
	const page = 4096
	if n > page {
		return n &^ (page - 1)
	}
	return n &^ 3
}

// smallest returns the smallest of the limits that are set.
func smallest(limits ...int) int {
	n := 0
	for _, l := range limits {
		if l > 0 && (n == 0 || l < n) {
			n = l
		}
	}
	return n
}

// setSizes works out the transfer sizes of a new session. Called with mu held.
func (c *Client) setSizes(s *session, l ulb.Limits) {
	read, write := payloadLimits(s.fore)
	c.sizes.read.Store(int64(wholePages(smallest(c.opt.RSize, read, l.MaxPayload, int(c.maxRead), ulb.MaxBuffer))))
	c.sizes.write.Store(int64(wholePages(smallest(c.opt.WSize, write, l.MaxPayload, int(c.maxWrite), ulb.MaxBuffer))))
	c.sizes.reply.Store(int64(read))
}

func (c *Client) rsize() int    { return int(c.sizes.read.Load()) }
func (c *Client) wsize() int    { return int(c.sizes.write.Load()) }
func (c *Client) maxReply() int { return int(c.sizes.reply.Load()) }

// readRoot looks at the root of the name space, and learns there what the
// server's limits are.
func (c *Client) readRoot(ctx context.Context) error {
	ctx, cancel := c.tied(ctx)
	defer cancel()
	r := c.newRequest(c.self)
	r.add(new(nfs4.PutRootFHArgs), new(nfs4.PutRootFHRes))
	r.addGetFH()
	r.addGetAttr(ObjectAttrs.Or(rootAttrs))
	if err := c.do(ctx, r); err != nil {
		return err
	}
	defer r.free()
	a := &r.getAttrRes.Attrs
	c.root = r.getFHRes.FH.Clone()
	c.rootAttrs = *keepAttrs(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.LeaseTime > 0 {
		c.lease.period = time.Duration(a.LeaseTime) * time.Second
		// A connection that has gone dead has to be noticed while the lease
		// can still be renewed on another one.
		c.health.timeout = min(c.opt.Timeout, max(c.lease.period*3/4, minTimeout))
	}
	c.maxRead, c.maxWrite = clampSize(a.MaxRead), clampSize(a.MaxWrite)
	c.setSizes(c.sess, c.tr.Limits())
	c.limits = Limits{
		MinorVersion: c.minor.Load(),
		RSize:        c.rsize(),
		WSize:        c.wsize(),
		Slots:        len(c.sess.table.slots),
		Lease:        c.lease.period,
		MaxName:      int(a.MaxName),
		MaxLink:      int(a.MaxLink),
		MaxFileSize:  a.MaxFileSize,
		Supported:    a.SupportedAttrs,
	}
	c.log.WithFields(map[string]any{
		"minorversion": c.limits.MinorVersion, "rsize": c.limits.RSize, "wsize": c.limits.WSize,
		"slots": c.limits.Slots, "lease": c.limits.Lease,
	}).Info("session established")
	return nil
}

// minTimeout is the shortest silence after which a connection is given up: a
// server may have all its threads busy with slow disks for a while.
const minTimeout = 10 * time.Second

// clampSize makes an int of a size that a server has named; zero means that it
// has named none.
func clampSize(n uint64) int { return int(min(n, nfs4.MaxData)) }

// tied returns a context that also ends with the present connection: for what
// nobody would do again after its loss.
func (c *Client) tied(ctx context.Context) (context.Context, context.CancelFunc) {
	c.mu.Lock()
	conn := c.connCtx
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(conn, cancel)
	return ctx, func() { stop(); cancel() }
}
