package ulb

import (
	"nfsrdma-fuse/xdr/nfs4"
)

// Estimate is how large the reply to a COMPOUND can get (RFC 8267 sections 3
// and 6.2).
type Estimate struct {
	// Max is the largest length in bytes of the whole RPC reply, the result
	// for Sink not counted: Call.ReplyMax.
	Max int
	// Soft says that the reply holds results of which no bound is known, and
	// that the COMPOUND may be sent again if it turns out to be larger:
	// Call.ReplySoft.
	Soft bool
	// Sink is the largest length in bytes of the result that may be placed
	// directly: Call.SinkLen. Zero means that Call.Sink must be nil.
	Sink int
}

// Sizes of results in bytes. Where the protocol sets no limit they are what is
// found in practice, with much to spare.
const (
	replyHeader  = 24                // XID, type, status, empty verifier, accept status
	opHeader     = 8                 // operation number and status
	stateID      = 16                //
	changeInfo   = 20                //
	bitmap       = 4 + 16            // of up to four words
	principal    = 4 + 320           // a user or group name with its domain
	fileHandle   = 4 + nfs4.MaxFH    //
	owner        = 4 + nfs4.MaxOwner // of state, and of a server
	implID       = 2*(4+256) + 12    //
	channelAttrs = 7*4 + 4           //
	delegation   = 4 + stateID + 4 + 12 + 12 + principal
	lockDenied   = 8 + 8 + 4 + 8 + owner
	writeRes     = 4 + stateID + 8 + 4 + 8
	secInfo      = 4 + 64*32

	softACL       = 16 << 10 // more than 300 entries of an ordinary ACL
	softLocations = 8 << 10
	softList      = 4 + 64*4

	// unbounded stands for a result whose size cannot be told at all. Only
	// ca_maxresponsesize bounds it.
	unbounded = 1 << 20
)

// EstimateReply returns the estimate for the reply to a COMPOUND. limit is the
// ca_maxresponsesize of the session's fore channel in bytes, which bounds every
// reply (section 6.2.2); zero means that there is no session yet.
//
// The first READ operation, and only that, can have its result placed: the
// Write list has one chunk, which belongs to the first operation with an
// eligible result (section 6.4.1). READLINK never gets it, because knfsd would
// place its text wrongly; as it would take the chunk of a READ behind it, that
// gets none either.
func EstimateReply(args *nfs4.CompoundArgs, limit int) Estimate {
	e := Estimate{Max: replyHeader + 4 + 4 + padLen(len(args.Tag)) + 4}
	soft, again, first := false, true, true
	for _, a := range args.Ops {
		op := a.Op()
		n, s := resultSize(a)
		e.Max += opHeader + n
		soft = soft || s
		again = again && repeatable(op)
		if read, ok := a.(*nfs4.ReadArgs); ok && first {
			e.Sink = int(read.Count)
			e.Max -= padLen(e.Sink)
		}
		first = first && !EligibleResult(op)
	}
	switch {
	case soft && again:
		e.Soft = true
	case soft:
		// A second attempt could do harm, so that the first has to do.
		e.Max = max(e.Max, unbounded)
	}
	if limit > 0 && e.Max >= limit {
		e.Max, e.Soft = limit, false
	}
	return e
}

// resultSize returns the size of an operation's result behind its status, the
// larger of what success and failure carry, and whether that is a guess.
func resultSize(a nfs4.Args) (n int, soft bool) {
	switch a := a.(type) {
	case *nfs4.GetAttrArgs:
		return attrsSize(a.AttrRequest)
	case *nfs4.ReadArgs:
		return 4 + 4 + padLen(int(a.Count)), false
	case *nfs4.ReadLinkArgs:
		return 4 + nfs4.MaxLinkText, false
	case *nfs4.ReadDirArgs:
		return int(a.MaxCount), false // bounds all of it (RFC 8881 section 18.23.3)
	case *nfs4.SequenceArgs:
		return 16 + 5*4, false
	case *nfs4.AccessArgs:
		return 8, false
	case *nfs4.GetFHArgs:
		return fileHandle, false
	case *nfs4.OpenArgs:
		return stateID + changeInfo + 4 + bitmap + delegation, false
	case *nfs4.CreateArgs:
		return changeInfo + bitmap, false
	case *nfs4.SetAttrArgs:
		return bitmap, false // even if it fails
	case *nfs4.WriteArgs:
		return 4 + 4 + 8, false
	case *nfs4.CommitArgs:
		return 8, false
	case *nfs4.CloseArgs, *nfs4.OpenDowngradeArgs, *nfs4.LockUArgs:
		return stateID, false
	case *nfs4.LockArgs, *nfs4.LockTArgs:
		return lockDenied, false
	case *nfs4.LinkArgs, *nfs4.RemoveArgs, *nfs4.SetXattrArgs, *nfs4.RemoveXattrArgs:
		return changeInfo, false
	case *nfs4.RenameArgs:
		return 2 * changeInfo, false
	case *nfs4.SecInfoArgs, *nfs4.SecInfoNoNameArgs:
		return secInfo, false
	case *nfs4.ExchangeIDArgs:
		n := 8 + 4 + 4 + 4 + 2*bitmap + 8 + 2*owner + 4 + implID
		if a.Protect == nfs4.ProtectSSV {
			return n + 16 + 4 + 8<<10, false
		}
		return n, false
	case *nfs4.CreateSessionArgs:
		return 16 + 4 + 4 + 2*channelAttrs, false
	case *nfs4.BindConnToSessionArgs:
		return 16 + 4 + 4, false
	case *nfs4.SetSSVArgs:
		return 4 + len(a.Digest) + 64, false
	case *nfs4.TestStateIDArgs:
		return 4 + 4*len(a.StateIDs), false
	case *nfs4.WantDelegationArgs:
		return delegation, false
	case *nfs4.GetDirDelegationArgs:
		return 4 + 8 + stateID + 3*bitmap, false
	case *nfs4.GetXattrArgs:
		return 4 + nfs4.MaxXattrValue, false
	case *nfs4.ListXattrsArgs:
		return int(a.MaxCount) + 16, false
	case *nfs4.SeekArgs:
		return 4 + 8, false
	case *nfs4.IOAdviseArgs:
		return bitmap, false
	case *nfs4.CopyArgs:
		return writeRes + 8, false
	case *nfs4.WriteSameArgs:
		return writeRes, false
	case *nfs4.OffloadStatusArgs:
		return 8 + 8, false
	case *nfs4.LayoutGetArgs:
		return int(a.MaxCount) + 64, false
	case *nfs4.LayoutCommitArgs:
		return 4 + 8, false
	case *nfs4.LayoutReturnArgs:
		return 4 + stateID, false
	case *nfs4.GetDeviceInfoArgs:
		return int(a.MaxCount) + bitmap + 16, false
	case *nfs4.GetDeviceListArgs:
		return 8 + 8 + 4 + int(min(a.MaxDevices, 1<<16))*16 + 4, false
	case *nfs4.CopyNotifyArgs, *nfs4.ReadPlusArgs:
		return unbounded, false
	}
	switch a.Op() {
	case nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpPutPubFH, nfs4.OpSaveFH, nfs4.OpRestoreFH, nfs4.OpLookup,
		nfs4.OpLookupP, nfs4.OpVerify, nfs4.OpNVerify, nfs4.OpOpenAttr, nfs4.OpDelegReturn, nfs4.OpDelegPurge,
		nfs4.OpBackchannelCtl, nfs4.OpDestroySession, nfs4.OpDestroyClientID, nfs4.OpFreeStateID,
		nfs4.OpReclaimComplete, nfs4.OpAllocate, nfs4.OpDeallocate, nfs4.OpClone, nfs4.OpOffloadCancel,
		nfs4.OpLayoutError, nfs4.OpLayoutStats:
		return 0, false // nothing but the status
	}
	return unbounded, false
}

// attrsSize returns the size of a fattr4 with the attributes of mask.
func attrsSize(mask nfs4.Bitmap) (n int, soft bool) {
	n = bitmap + 4
	for a := range nfs4.Attr(32 * len(mask)) {
		if !mask.Has(a) {
			continue
		}
		k, s := attrSize(a)
		n += k
		soft = soft || s
	}
	return n, soft
}

// attrSize returns the size of the value of an attribute. It is a guess for
// those that RFC 8267 section 6.2 names: lists that no protocol limit bounds.
func attrSize(a nfs4.Attr) (n int, soft bool) {
	switch a {
	case nfs4.AttrACL:
		return softACL, true
	case nfs4.AttrDACL, nfs4.AttrSACL:
		return softACL + 4, true
	case nfs4.AttrFSLocations, nfs4.AttrFSLocationsInfo:
		return softLocations, true
	case nfs4.AttrFSLayoutTypes, nfs4.AttrLayoutTypes, nfs4.AttrLayoutHint, nfs4.AttrMDSThreshold,
		nfs4.AttrFSStatus:
		return softList, true
	case nfs4.AttrOwner, nfs4.AttrOwnerGroup:
		return principal, false
	case nfs4.AttrMimeType:
		return 4 + nfs4.MaxOwnerString, false
	case nfs4.AttrSecLabel:
		return 4 + 4 + 4 + nfs4.MaxLabel, false
	case nfs4.AttrFileHandle:
		return fileHandle, false
	case nfs4.AttrSupportedAttrs, nfs4.AttrSuppAttrExclCreat:
		return bitmap, false
	}
	return 16, false // no attribute of fixed size is longer
}
