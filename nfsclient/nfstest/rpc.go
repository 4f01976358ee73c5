package nfstest

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// nobody is the user of calls without credentials, and of squashed ones.
const nobody = 65534

// scratch is the memory of one call.
type scratch struct {
	enc  xdr.Encoder
	dec  xdr.Decoder
	data []byte // READ result
	list nfs4.EntryList
	ents []memfs.Entry
	dirb []byte
	ent  nfs4.Entry
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// handle answers one RPC call: it is the ulb.Handler of the connection.
func (p *peer) handle(ctx context.Context, req *ulb.Request, respond func(xdr.Message) error) {
	s := p.s
	if !s.begin() {
		return // the call is lost with the server
	}
	defer s.calls.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()

	m := scratches.Get().(*scratch)
	defer scratches.Put(m)
	m.enc.Reset(nil)
	m.dec.Reset(req.Msg)

	var call rpc.CallHeader
	call.Decode(&m.dec)
	reply := rpc.ReplyHeader{XID: call.XID}
	switch err := m.dec.Err(); {
	case errors.As(err, new(*rpc.Error)):
		var refusal *rpc.Error
		errors.As(err, &refusal)
		reply.Status = *refusal
	case err != nil:
		return // not a call: there is nothing to answer to
	case call.Prog != nfs4.Program:
		reply.Status = rpc.Error{Stat: rpc.ProgUnavail}
	case call.Vers != nfs4.Version:
		reply.Status = rpc.Error{Stat: rpc.ProgMismatch, Low: nfs4.Version, High: nfs4.Version}
	case call.Proc == nfs4.ProcNull:
	case call.Proc != nfs4.ProcCompound:
		reply.Status = rpc.Error{Stat: rpc.ProcUnavail}
	default:
		cred, principal, refusal := credentials(&call)
		if refusal != nil {
			reply.Status = *refusal
			break
		}
		c := compound{s: s, p: p, ctx: ctx, req: req, m: m, xid: call.XID, cred: cred, principal: principal}
		c.serve(respond)
		return
	}
	reply.Encode(&m.enc)
	_ = respond(m.enc.Message()) // the connection's end is seen elsewhere
}

// begin counts a call that is being carried out, unless the server is down.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.serving {
		return false
	}
	s.calls.Add(1)
	return true
}

// credentials tells whose call it is.
func credentials(call *rpc.CallHeader) (memfs.Cred, string, *rpc.Error) {
	switch call.Cred.Flavor {
	case rpc.FlavorNone:
		return memfs.Cred{UID: nobody, GID: nobody}, "none", nil
	case rpc.FlavorSys:
		var sys rpc.AuthSys
		if err := sys.SetAuth(call.Cred); err != nil {
			return memfs.Cred{}, "", &rpc.Error{Stat: rpc.AuthError, Auth: rpc.AuthBadCred}
		}
		return memfs.Cred{UID: sys.UID, GID: sys.GID, Groups: sys.GIDs}, "sys:" + strconv.Itoa(int(sys.UID)), nil
	}
	return memfs.Cred{}, "", &rpc.Error{Stat: rpc.AuthError, Auth: rpc.AuthTooWeak}
}
