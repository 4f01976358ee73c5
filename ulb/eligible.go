package ulb

import "nfsrdma-fuse/xdr/nfs4"

// EligibleArgument reports whether an argument of the operation may leave the
// XDR stream and be moved directly. No others may (RFC 8267 section 6.1): the
// data of WRITE, and the text of a symbolic link in CREATE. None of the callback
// operations has one (section 6.5.2).
func EligibleArgument(op nfs4.OpNum) bool {
	return op == nfs4.OpWrite || op == nfs4.OpCreate
}

// EligibleResult reports whether a result of the operation may be moved
// directly: the data of READ, and the text of READLINK. What section 6.4.1 of
// RFC 8267 calls "READ operations" are these two. READ_PLUS is not among them,
// although it carries data.
func EligibleResult(op nfs4.OpNum) bool {
	return op == nfs4.OpRead || op == nfs4.OpReadLink
}

// repeatable reports whether an operation can be carried out twice without
// harm, so that a COMPOUND may be sent anew with more room for its reply
// (RFC 8267 sections 3.1 and 6.2.1).
func repeatable(op nfs4.OpNum) bool {
	switch op {
	case nfs4.OpSequence, nfs4.OpPutFH, nfs4.OpPutRootFH, nfs4.OpPutPubFH, nfs4.OpSaveFH, nfs4.OpRestoreFH,
		nfs4.OpLookup, nfs4.OpLookupP, nfs4.OpGetFH, nfs4.OpGetAttr, nfs4.OpAccess, nfs4.OpVerify, nfs4.OpNVerify,
		nfs4.OpRead, nfs4.OpReadLink, nfs4.OpReadDir, nfs4.OpSeek, nfs4.OpLockT, nfs4.OpTestStateID,
		nfs4.OpSecInfo, nfs4.OpSecInfoNoName, nfs4.OpGetXattr, nfs4.OpListXattrs,
		nfs4.OpGetDeviceInfo, nfs4.OpGetDeviceList, nfs4.OpOffloadStatus:
		return true
	}
	return false
}
