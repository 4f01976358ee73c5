package nfsclient

import (
	"context"
	"errors"
	"fmt"

	"nfsrdma-fuse/xdr/nfs4"
)

// use is an open file in an operation that names its stateid, and the access
// that the operation needs.
type use struct {
	f      *File
	access uint32
	sid    nfs4.StateID // to be put into the request
}

// stated carries out a request that names the stateids of open files, again with
// others if the server does not take them. build makes the request, with the
// stateids that stand in uses. If the error is nil the request is the caller's,
// to use its results and free it.
func (c *Client) stated(ctx context.Context, op nfs4.OpNum, uses []*use, build func() (*request, error)) (*request, error) {
	for try := 0; ; try++ {
		for _, u := range uses {
			var err error
			if u.sid, err = c.pickIO(u.f, u.access); err != nil {
				return nil, opError(op, err)
			}
		}
		r, err := build()
		if err != nil {
			return nil, opError(op, err)
		}
		w, order := r.writes, r.order
		err = c.do(ctx, r)
		if err == nil {
			return r, nil
		}
		if w != nil {
			w.abandon(order) // unless it has ended already
		}
		status, _ := statusOf(err)
		if !stateTrouble(status) || try == maxStateTries {
			return nil, err
		}
		if err := c.restateAll(ctx, uses, status); err != nil {
			return nil, opError(op, err)
		}
	}
}

// restateAll gets new stateids for those that the server has refused. With two
// of them its answer does not say which it was; so it is asked.
func (c *Client) restateAll(ctx context.Context, uses []*use, status nfs4.Status) error {
	bad := uses
	if len(uses) > 1 {
		each, err := c.askStateIDs(ctx, uses)
		if err != nil && !errors.Is(err, nfs4.ErrNotSupp) {
			return err
		}
		if err == nil {
			bad = nil
			for i, u := range uses {
				if each[i] != nfs4.OK {
					bad = append(bad, u)
					status = each[i]
				}
			}
		}
	}
	for _, u := range bad {
		if err := c.restateIO(ctx, u.f, u.access, u.sid, status); err != nil {
			return err
		}
	}
	return nil
}

// askStateIDs asks the server for the status of every stateid in uses.
func (c *Client) askStateIDs(ctx context.Context, uses []*use) ([]nfs4.Status, error) {
	args, res := new(nfs4.TestStateIDArgs), new(nfs4.TestStateIDRes)
	for _, u := range uses {
		args.StateIDs = append(args.StateIDs, u.sid)
	}
	r := c.newRequest(c.self)
	r.add(args, res)
	if err := c.do(ctx, r); err != nil {
		return nil, err
	}
	r.free()
	if len(res.Statuses) != len(uses) {
		return nil, opError(nfs4.OpTestStateID, fmt.Errorf("%w: %d statuses for %d stateids", ErrProtocol, len(res.Statuses), len(uses)))
	}
	return res.Statuses, nil
}

// readUse is the use of a file by an operation that reads. Of a file that is
// open for writing only, the stateid for writing will do: servers let it pass,
// since a client may have to read around what it writes (RFC 8881 section
// 18.22.3).
func readUse(f *File) *use {
	if f.access&nfs4.ShareAccessRead == 0 {
		return &use{f: f, access: nfs4.ShareAccessWrite}
	}
	return &use{f: f, access: nfs4.ShareAccessRead}
}
