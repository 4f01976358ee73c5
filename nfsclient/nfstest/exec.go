package nfstest

import (
	"slices"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// exec carries out an operation other than SEQUENCE.
func (c *compound) exec(args nfs4.Args) nfs4.Res {
	op := args.Op()
	if slices.Contains(c.s.opt.Unsupported, op) {
		return fail(op, nfs4.ErrNotSupp)
	}
	if c.minor < 2 && op >= nfs4.OpAllocate && op != nfs4.OpIllegal {
		return fail(nfs4.OpIllegal, nfs4.ErrOpIllegal)
	}
	switch a := args.(type) { // those that need no current filehandle
	case *nfs4.IllegalArgs:
		return a.Res()
	case *nfs4.SequenceArgs:
		return fail(op, nfs4.ErrSequencePos)
	case *nfs4.BindConnToSessionArgs:
		if c.sess != nil {
			return fail(op, nfs4.ErrNotOnlyOp)
		}
		return c.bindConn(a)
	case *nfs4.ExchangeIDArgs:
		return c.exchangeID(a)
	case *nfs4.CreateSessionArgs:
		return c.createSession(a)
	case *nfs4.DestroySessionArgs:
		return c.destroySession(a)
	case *nfs4.DestroyClientIDArgs:
		return c.destroyClientID(a)
	case *nfs4.ReclaimCompleteArgs:
		return c.reclaimComplete(a)
	case *nfs4.BackchannelCtlArgs:
		return c.backchannelCtl(a)
	case *nfs4.TestStateIDArgs:
		return c.testStateID(a)
	case *nfs4.FreeStateIDArgs:
		return c.freeStateID(a)
	case *nfs4.PutFHArgs:
		return c.putFH(a)
	case *nfs4.PutRootFHArgs:
		c.setCur(c.s.exports.root())
		return &nfs4.PutRootFHRes{}
	case *nfs4.PutPubFHArgs:
		c.setCur(c.s.exports.root())
		return &nfs4.PutPubFHRes{}
	case *nfs4.RestoreFHArgs:
		if !c.saved.valid() {
			return fail(op, nfs4.ErrNoFileHandle)
		}
		c.cur, c.curState, c.hasState = c.saved, c.savedState, c.hasSaved
		return &nfs4.RestoreFHRes{}
	}
	if !c.cur.valid() {
		return fail(op, nfs4.ErrNoFileHandle)
	}
	switch a := args.(type) {
	case *nfs4.GetFHArgs:
		return &nfs4.GetFHRes{FH: c.cur.handle()}
	case *nfs4.SaveFHArgs:
		c.saved, c.savedState, c.hasSaved = c.cur, c.curState, c.hasState
		return &nfs4.SaveFHRes{}
	case *nfs4.LookupArgs:
		return c.lookup(a)
	case *nfs4.LookupPArgs:
		return c.lookupP()
	case *nfs4.GetAttrArgs:
		return c.getAttr(a)
	case *nfs4.SetAttrArgs:
		return c.setAttr(a)
	case *nfs4.VerifyArgs:
		same, status := c.verify(&a.Attrs)
		if status == nfs4.OK && !same {
			status = nfs4.ErrNotSame
		}
		return &nfs4.VerifyRes{Status: status}
	case *nfs4.NVerifyArgs:
		same, status := c.verify(&a.Attrs)
		if status == nfs4.OK && same {
			status = nfs4.ErrSame
		}
		return &nfs4.NVerifyRes{Status: status}
	case *nfs4.AccessArgs:
		return c.access(a)
	case *nfs4.ReadDirArgs:
		return c.readDir(a)
	case *nfs4.ReadLinkArgs:
		return c.readLink()
	case *nfs4.CreateArgs:
		return c.create(a)
	case *nfs4.RemoveArgs:
		return c.remove(a)
	case *nfs4.RenameArgs:
		return c.rename(a)
	case *nfs4.LinkArgs:
		return c.link(a)
	case *nfs4.OpenArgs:
		return c.open(a)
	case *nfs4.OpenDowngradeArgs:
		return c.openDowngrade(a)
	case *nfs4.CloseArgs:
		return c.closeFile(a)
	case *nfs4.ReadArgs:
		return c.read(a)
	case *nfs4.WriteArgs:
		return c.write(a)
	case *nfs4.CommitArgs:
		return c.commit(a)
	case *nfs4.LockArgs:
		return c.lock(a)
	case *nfs4.LockTArgs:
		return c.lockTest(a)
	case *nfs4.LockUArgs:
		return c.unlock(a)
	case *nfs4.DelegReturnArgs:
		return c.delegReturn(a)
	case *nfs4.SecInfoArgs:
		return c.secInfo(a)
	case *nfs4.SecInfoNoNameArgs:
		return c.secInfoNoName(a)
	case *nfs4.SeekArgs:
		return c.seek(a)
	case *nfs4.AllocateArgs:
		return c.allocate(a)
	case *nfs4.DeallocateArgs:
		return c.deallocate(a)
	case *nfs4.CopyArgs:
		return c.copyRange(a)
	case *nfs4.CloneArgs:
		return c.clone(a)
	case *nfs4.IOAdviseArgs:
		return c.ioAdvise(a)
	case *nfs4.GetXattrArgs:
		return c.getXattr(a)
	case *nfs4.SetXattrArgs:
		return c.setXattr(a)
	case *nfs4.ListXattrsArgs:
		return c.listXattrs(a)
	case *nfs4.RemoveXattrArgs:
		return c.removeXattr(a)
	}
	return fail(op, nfs4.ErrNotSupp)
}

// setCur makes o the current object; the current stateid does not belong to it.
func (c *compound) setCur(o object) {
	c.cur, c.hasState = o, false
}

// credFor returns the credentials that count in the file system of o.
func (c *compound) credFor(o object) memfs.Cred {
	if !o.exp.RootSquash || c.cred.UID != 0 && c.cred.GID != 0 && !slices.Contains(c.cred.Groups, 0) {
		return c.cred
	}
	cred := memfs.Cred{UID: c.cred.UID, GID: c.cred.GID}
	if cred.UID == 0 {
		cred.UID = nobody
	}
	if cred.GID == 0 {
		cred.GID = nobody
	}
	for _, g := range c.cred.Groups {
		if g == 0 {
			g = nobody
		}
		cred.Groups = append(cred.Groups, g)
	}
	return cred
}

func changeInfo(d memfs.DirChange) nfs4.ChangeInfo {
	return nfs4.ChangeInfo{Atomic: true, Before: d.Before, After: d.After}
}
