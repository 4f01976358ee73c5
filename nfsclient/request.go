package nfsclient

import (
	"sync/atomic"
	"time"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// request is one COMPOUND, from when it is built until its results have been
// used. Requests are pooled together with everything that a READ or a WRITE
// needs, so that these allocate nothing.
//
// Its life:
//
//	newRequest -> operations added -> Client.exec -> results read -> free
//	                                    |
//	                                    +-- context done: abandoned
//
// An abandoned request belongs to the channel, together with its slot and its
// buffers, until it is answered or its session is lost; then the channel frees
// it. Its former owner must not touch it any more.
type request struct {
	// Kept from one use to the next.

	args     []nfs4.Args
	res      []nfs4.Res
	call     ulb.Call
	enc      xdr.Encoder
	dec      xdr.Decoder
	compound nfs4.CompoundArgs
	phase    atomic.Uint32
	wake     chan struct{} // a token when the slot is assigned, and when the request is complete

	life
	hot
}

// life is what a request begins anew with.
type life struct {
	c    *Client
	cred *credential

	// bypass says that the request is not part of a session: no SEQUENCE, no
	// slot, and no second sending.
	bypass bool
	null   bool // the NULL procedure instead of a COMPOUND; implies bypass
	// firstOnly says that only the first result matters: the reply may be that
	// to another request.
	firstOnly bool
	// urgent requests go ahead of others and while the session is being
	// recovered.
	urgent bool
	// cache asks the server to keep the reply for a resend.
	cache bool
	// unsafe says that the request must not be carried out twice.
	unsafe bool
	// modify is the index in args of the operation that changes something, or
	// -1. A transient failure of an operation behind it does not make the
	// request start over.
	modify int
	// replyMin is a lower bound for call.ReplyMax, raised when an estimate
	// turned out too small.
	replyMin int

	buf *ulb.Buffer // payload buffer that goes with the request; free releases it

	// orphaned, if set, is called when the request was abandoned and has been
	// answered all the same: to undo what nobody knows of. It runs on a
	// goroutine that may wait; r is freed afterwards.
	orphaned func(r *request)

	// opening says that the request is an OPEN, to be counted by its owner.
	opening bool
	renewal bool // renews the lease and does nothing else

	// writes and order are those of a WRITE that is in flight: free takes it
	// out of them.
	writes *writes
	order  uint64
	// atEnd makes a WRITE depend on the file ending where it begins.
	atEnd bool

	// The following are set while the request is carried out.

	seq      nfs4.SequenceArgs
	reply    ulb.Reply
	header   rpc.CallHeader
	replyHdr rpc.ReplyHeader
	seqRes   nfs4.SequenceRes
	n        int         // results in the reply, SEQUENCE included
	cstatus  nfs4.Status // of the COMPOUND
	outcome  outcome
	err      error
	at       time.Time // when it was last sent

	// The following are guarded by Client.mu.

	queued     bool
	prev, next *request // in the queue for slots
	sess       *session
	slot       int
	tr         Transport // the connection that it was last given to
	sent       bool      // has ever been given to a connection
	again      int       // times that it was sent again in its slot
	notBefore  time.Time // when it may be sent again
}

// hot are the operations of the data path and other frequent ones, so that
// requests of these kinds need no memory of their own.
type hot struct {
	putFH, putFH2 nfs4.PutFHArgs
	putFHRes      nfs4.PutFHRes
	putFH2Res     nfs4.PutFHRes
	read          nfs4.ReadArgs
	readRes       nfs4.ReadRes
	write         nfs4.WriteArgs
	writeRes      nfs4.WriteRes
	commit        nfs4.CommitArgs
	commitRes     nfs4.CommitRes
	lookup        nfs4.LookupArgs
	lookupRes     nfs4.LookupRes
	getFH         nfs4.GetFHArgs
	getFHRes      nfs4.GetFHRes
	getAttr       nfs4.GetAttrArgs
	getAttrRes    nfs4.GetAttrRes
	access        nfs4.AccessArgs
	accessRes     nfs4.AccessRes
	readDir       nfs4.ReadDirArgs
	readDirRes    nfs4.ReadDirRes
	saveFH        nfs4.SaveFHArgs
	saveFHRes     nfs4.SaveFHRes
	open          nfs4.OpenArgs
	openRes       nfs4.OpenRes
	closeArgs     nfs4.CloseArgs
	closeRes      nfs4.CloseRes
	setAttr       nfs4.SetAttrArgs
	setAttrRes    nfs4.SetAttrRes
}

// outcome says how the attempt to carry out a request ended.
type outcome uint8

const (
	// outcomeReply: the results stand in r.dec (behind SEQUENCE).
	outcomeReply outcome = iota
	// outcomeAgain: the request was not carried out and can be issued anew.
	outcomeAgain
	// outcomeLost: the session was lost; nobody knows whether the request was
	// carried out.
	outcomeLost
	// outcomeError: see r.err.
	outcomeError
)

// Values of request.phase.
const (
	phaseWaiting uint32 = iota
	phaseComplete
	phaseAbandoned
)

// newRequest returns an empty request.
func (c *Client) newRequest(cred *credential) *request {
	r, _ := c.requests.Get().(*request)
	if r == nil {
		r = &request{wake: make(chan struct{}, 1)}
		r.call.Done = r.done
	}
	r.c = c
	r.cred = cred
	r.modify = -1
	c.live.Add(1)
	return r
}

// free gives the request, its reply and its buffer back. Filehandles and names
// decoded from the reply become invalid.
func (r *request) free() {
	r.reply.Release()
	r.buf.Release()
	if r.writes != nil {
		r.writes.end(r.order)
	}
	if r.opening {
		r.c.state.endOpen(r.cred.key)
	}
	if r.renewal {
		r.c.renewing.Store(false)
	}
	clear(r.args)
	clear(r.res)
	clear(r.compound.Ops)
	r.args, r.res, r.compound.Ops = r.args[:0], r.res[:0], r.compound.Ops[:0]
	r.enc.Reset(nil)
	r.dec.Reset(xdr.Message{})
	r.call = ulb.Call{Done: r.call.Done}
	r.write.Data = nil
	r.readRes.Data = nil
	c := r.c
	r.life = life{}
	c.requests.Put(r)
	c.live.Add(-1)
}

// add appends an operation and where its result goes.
func (r *request) add(args nfs4.Args, res nfs4.Res) {
	r.args = append(r.args, args)
	r.res = append(r.res, res)
}

// change appends the operation that changes something. The reply is to be
// kept for a resend.
func (r *request) change(args nfs4.Args, res nfs4.Res) {
	r.modify = len(r.args)
	r.cache = true
	r.add(args, res)
}

// main appends the operation that the request is about: what fails behind it
// does not make the request fail.
func (r *request) main(args nfs4.Args, res nfs4.Res) {
	r.modify = len(r.args)
	r.add(args, res)
}

// attrsBehind returns a copy of the attributes that were asked for behind the
// main operation, or nil if the server did not return them.
func (r *request) attrsBehind() *nfs4.Attrs {
	if r.cstatus != nfs4.OK {
		return nil
	}
	return keepAttrs(&r.getAttrRes.Attrs)
}

// addPutFH makes fh the current filehandle.
func (r *request) addPutFH(fh FH) {
	r.putFH.FH = fh
	r.add(&r.putFH, &r.putFHRes)
}

// addPutFH2 makes a second filehandle the current one.
func (r *request) addPutFH2(fh FH) {
	r.putFH2.FH = fh
	r.add(&r.putFH2, &r.putFH2Res)
}

// addGetFH asks for the current filehandle.
func (r *request) addGetFH() { r.add(&r.getFH, &r.getFHRes) }

// addGetAttr asks for attributes of the current object.
func (r *request) addGetAttr(mask nfs4.Bitmap) {
	r.getAttr.AttrRequest = mask
	r.add(&r.getAttr, &r.getAttrRes)
}

// encode writes the whole RPC call into the request's encoder.
func (r *request) encode() error {
	c := r.c
	e := &r.enc
	e.Reset(nil)
	r.header = rpc.CallHeader{XID: c.xid.Add(1), Prog: rpc.ProgramNFS, Vers: rpc.VersionNFS4, Proc: rpc.ProcCompound, Cred: r.cred.auth}
	if r.null {
		r.header.Proc = rpc.ProcNull
		r.header.Cred = rpc.OpaqueAuth{}
	}
	r.header.Encode(e)
	if !r.null {
		r.compound.Minor = c.minor.Load()
		r.compound.Ops = r.compound.Ops[:0]
		if !r.bypass {
			r.compound.Ops = append(r.compound.Ops, &r.seq)
		}
		r.compound.Ops = append(r.compound.Ops, r.args...)
		r.compound.Encode(e)
	}
	r.call.Msg = e.Message()
	r.sizeReply()
	return e.Err()
}

// sizeReply estimates how large the reply can get (RFC 8267 section 6.2).
func (r *request) sizeReply() {
	if r.null {
		r.call.ReplyMax, r.call.ReplySoft = rpc.MaxReplyHeaderLen, false
		return
	}
	limit := 0
	if !r.bypass {
		limit = int(r.sess.fore.MaxResponseSize)
	}
	est := ulb.EstimateReply(&r.compound, limit)
	r.call.ReplyMax, r.call.ReplySoft = est.Max, est.Soft
	if r.replyMin > est.Max {
		r.call.ReplyMax = r.replyMin
	}
}

// growReply makes room for a larger reply, after an estimate turned out too
// small. It returns false if there can be no more.
func (r *request) growReply() bool {
	limit := maxReply
	if !r.bypass {
		limit = int(r.sess.fore.MaxResponseSize)
	}
	if r.call.ReplyMax >= limit {
		return false
	}
	r.replyMin = min(8*r.call.ReplyMax, limit)
	return true
}

// maxReply bounds a reply that no session bounds, bytes.
const maxReply = 1 << 20

// parse takes the reply up to and including the result of SEQUENCE. It returns
// an error if the reply is malformed.
func (r *request) parse() error {
	d := &r.dec
	d.Reset(r.reply.Msg)
	r.replyHdr.Decode(d)
	if d.Err() != nil || r.replyHdr.Status.Stat != rpc.Success || r.null {
		return d.Err()
	}
	r.cstatus, _, r.n = nfs4.DecodeCompoundHeader(d)
	most := len(r.args)
	if !r.bypass {
		most++
	}
	if r.n > most && !r.firstOnly {
		d.Fail(nfs4.ErrResultCount)
	}
	if r.bypass || r.n == 0 {
		return d.Err()
	}
	nfs4.DecodeRes(d, &r.seqRes)
	if q := &r.seqRes; q.Status == nfs4.OK && d.Err() == nil &&
		(q.SessionID != r.seq.SessionID || q.SlotID != r.seq.SlotID || q.SequenceID != r.seq.SequenceID) {
		d.Fail(errWrongSlot)
	}
	return d.Err()
}

// results takes the results behind SEQUENCE. It returns the number of
// operations that succeeded, and the status of the one behind them if there is
// one that failed.
func (r *request) results() (done int, status nfs4.Status, err error) {
	n := r.n
	if n == 0 && r.cstatus != nfs4.OK {
		return 0, r.cstatus, nil // refused as a whole
	}
	if !r.bypass {
		n--
	}
	if r.firstOnly && n > 0 {
		status = nfs4.DecodeRes(&r.dec, r.res[0])
		return 1, status, r.dec.Err()
	}
	for done < n {
		status = nfs4.DecodeRes(&r.dec, r.res[done])
		if err := r.dec.Err(); err != nil {
			return done, 0, err
		}
		if status != nfs4.OK {
			break
		}
		done++
	}
	switch {
	case status != r.cstatus,
		status != nfs4.OK && done != n-1,
		status == nfs4.OK && done != len(r.args):
		r.dec.Fail(nfs4.ErrResultCount)
	}
	r.dec.End()
	return done, status, r.dec.Err()
}
