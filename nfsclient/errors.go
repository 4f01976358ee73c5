package nfsclient

import (
	"context"
	"errors"
	"syscall"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

// Error is a failed operation.
type Error struct {
	Op string // the operation, for example "LOOKUP"
	// Err is the cause: an nfs4.Status, an RPC or transport error, or the
	// error of a context.
	Err error
}

func (e *Error) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Causes of errors that are the client's own.
var (
	// ErrClosed means that the client has been closed.
	ErrClosed = errors.New("nfsclient: client closed")
	// ErrUnknownOutcome means that the connection and the session were lost
	// while a request was outstanding which must not be carried out twice:
	// nobody can tell whether the server has done it.
	ErrUnknownOutcome = errors.New("nfsclient: session lost, outcome of the request unknown")
	// ErrStateLost means that the server has dropped the state behind an open
	// file, and it could not be had again.
	ErrStateLost = errors.New("nfsclient: open state lost at the server")
	// ErrLocksLost means that the server has dropped locks that were made
	// through the file, so that somebody else may have had them since.
	ErrLocksLost = errors.New("nfsclient: locks lost at the server")
	// ErrProtocol means that the server broke the protocol.
	ErrProtocol = errors.New("nfsclient: malformed reply")
)

// Errno returns the errno that an application gets for an error of this
// package: the one that Linux's NFS client would give. It is 0 for nil.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var status nfs4.Status
	if errors.As(err, &status) {
		if status == nfs4.OK {
			return 0
		}
		if n, ok := statusErrno[status]; ok {
			return n
		}
		if status > lastStatus || status < firstStatus {
			return syscall.EREMOTEIO // no status of NFS at all
		}
		return syscall.EIO
	}
	for _, e := range causeErrno {
		if errors.Is(err, e.cause) {
			return e.errno
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return syscall.EIO
}

// statusErrno is the errno of every NFS status. Linux hands some kernel-internal numbers (above 511) through
// to applications; those are replaced by the errno they stand for.
var statusErrno = map[nfs4.Status]syscall.Errno{
	nfs4.ErrPerm:        syscall.EPERM,
	nfs4.ErrNoEnt:       syscall.ENOENT,
	nfs4.ErrIO:          syscall.EIO,
	nfs4.ErrNXIO:        syscall.ENXIO,
	nfs4.ErrAccess:      syscall.EACCES,
	nfs4.ErrExist:       syscall.EEXIST,
	nfs4.ErrXDev:        syscall.EXDEV,
	nfs4.ErrNotDir:      syscall.ENOTDIR,
	nfs4.ErrIsDir:       syscall.EISDIR,
	nfs4.ErrInval:       syscall.EINVAL,
	nfs4.ErrFBig:        syscall.EFBIG,
	nfs4.ErrNoSpc:       syscall.ENOSPC,
	nfs4.ErrROFS:        syscall.EROFS,
	nfs4.ErrMLink:       syscall.EMLINK,
	nfs4.ErrNameTooLong: syscall.ENAMETOOLONG,
	nfs4.ErrNotEmpty:    syscall.ENOTEMPTY,
	nfs4.ErrDQuot:       syscall.EDQUOT,
	nfs4.ErrStale:       syscall.ESTALE,
	nfs4.ErrBadHandle:   syscall.ESTALE,  // EBADHANDLE
	nfs4.ErrNotSupp:     syscall.ENOTSUP, // ENOTSUPP
	nfs4.ErrServerFault: syscall.EREMOTEIO,
	nfs4.ErrBadType:     syscall.EINVAL, // EBADTYPE

	nfs4.ErrLocked:      syscall.EAGAIN,
	nfs4.ErrDenied:      syscall.EAGAIN,
	nfs4.ErrDeadlock:    syscall.EDEADLK,
	nfs4.ErrSymlink:     syscall.ELOOP,
	nfs4.ErrShareDenied: syscall.EACCES,
	nfs4.ErrFileOpen:    syscall.EBUSY,
	nfs4.ErrBadOwner:    syscall.EINVAL,
	nfs4.ErrBadName:     syscall.EINVAL,
	nfs4.ErrWrongSec:    syscall.EPERM,
	nfs4.ErrWrongCred:   syscall.EPERM,

	nfs4.ErrMinorVersMismatch: syscall.EPROTONOSUPPORT,
	nfs4.ErrOpIllegal:         syscall.EOPNOTSUPP,
	nfs4.ErrResource:          syscall.EREMOTEIO,
	nfs4.ErrLayoutTryLater:    syscall.EREMOTEIO,
	nfs4.ErrRecallConflict:    syscall.EREMOTEIO,
	nfs4.ErrReturnConflict:    syscall.EREMOTEIO,
	nfs4.ErrNoXattr:           syscall.ENODATA,
	nfs4.ErrXattr2Big:         syscall.E2BIG,

	// Linux gives EIO for an expired filehandle; as the object has to be
	// looked up again, ESTALE says more.
	nfs4.ErrFHExpired: syscall.ESTALE,

	// These are waited out; an application sees them only when the wait was
	// given up.
	nfs4.ErrDelay: syscall.EAGAIN,
	nfs4.ErrGrace: syscall.EAGAIN,

	// The rest has nothing to say to an application: what is wrong lies between
	// client and server, and is dealt with there as far as it can be.
	nfs4.ErrBadCookie:             syscall.EIO,
	nfs4.ErrTooSmall:              syscall.EIO,
	nfs4.ErrSame:                  syscall.EIO,
	nfs4.ErrExpired:               syscall.EIO,
	nfs4.ErrClientIDInUse:         syscall.EIO,
	nfs4.ErrMoved:                 syscall.EIO,
	nfs4.ErrNoFileHandle:          syscall.EIO,
	nfs4.ErrStaleClientID:         syscall.EIO,
	nfs4.ErrStaleStateID:          syscall.EIO,
	nfs4.ErrOldStateID:            syscall.EIO,
	nfs4.ErrBadStateID:            syscall.EIO,
	nfs4.ErrBadSeqID:              syscall.EIO,
	nfs4.ErrNotSame:               syscall.EIO,
	nfs4.ErrLockRange:             syscall.EIO,
	nfs4.ErrRestoreFH:             syscall.EIO,
	nfs4.ErrLeaseMoved:            syscall.EIO,
	nfs4.ErrAttrNotSupp:           syscall.EIO,
	nfs4.ErrNoGrace:               syscall.EIO,
	nfs4.ErrReclaimBad:            syscall.EIO,
	nfs4.ErrReclaimConflict:       syscall.EIO,
	nfs4.ErrBadXDR:                syscall.EIO,
	nfs4.ErrLocksHeld:             syscall.EIO,
	nfs4.ErrOpenMode:              syscall.EIO,
	nfs4.ErrBadChar:               syscall.EIO,
	nfs4.ErrBadRange:              syscall.EIO,
	nfs4.ErrLockNotSupp:           syscall.EIO,
	nfs4.ErrAdminRevoked:          syscall.EIO,
	nfs4.ErrCBPathDown:            syscall.EIO,
	nfs4.ErrBadIOMode:             syscall.EIO,
	nfs4.ErrBadLayout:             syscall.EIO,
	nfs4.ErrBadSessionDigest:      syscall.EIO,
	nfs4.ErrBadSession:            syscall.EIO,
	nfs4.ErrBadSlot:               syscall.EIO,
	nfs4.ErrCompleteAlready:       syscall.EIO,
	nfs4.ErrConnNotBoundToSession: syscall.EIO,
	nfs4.ErrDelegAlreadyWanted:    syscall.EIO,
	nfs4.ErrBackChanBusy:          syscall.EIO,
	nfs4.ErrLayoutUnavailable:     syscall.EIO,
	nfs4.ErrNoMatchingLayout:      syscall.EIO,
	nfs4.ErrUnknownLayoutType:     syscall.EIO,
	nfs4.ErrSeqMisordered:         syscall.EIO,
	nfs4.ErrSequencePos:           syscall.EIO,
	nfs4.ErrReqTooBig:             syscall.EIO,
	nfs4.ErrRepTooBig:             syscall.EIO,
	nfs4.ErrRepTooBigToCache:      syscall.EIO,
	nfs4.ErrRetryUncachedRep:      syscall.EIO,
	nfs4.ErrUnsafeCompound:        syscall.EIO,
	nfs4.ErrTooManyOps:            syscall.EIO,
	nfs4.ErrOpNotInSession:        syscall.EIO,
	nfs4.ErrHashAlgUnsupp:         syscall.EIO,
	nfs4.ErrClientIDBusy:          syscall.EIO,
	nfs4.ErrPNFSIOHole:            syscall.EIO,
	nfs4.ErrSeqFalseRetry:         syscall.EIO,
	nfs4.ErrBadHighSlot:           syscall.EIO,
	nfs4.ErrDeadSession:           syscall.EIO,
	nfs4.ErrEncrAlgUnsupp:         syscall.EIO,
	nfs4.ErrPNFSNoLayout:          syscall.EIO,
	nfs4.ErrNotOnlyOp:             syscall.EIO,
	nfs4.ErrWrongType:             syscall.EIO,
	nfs4.ErrDirDelegUnavail:       syscall.EIO,
	nfs4.ErrRejectDeleg:           syscall.EIO,
	nfs4.ErrDelegRevoked:          syscall.EIO,
	nfs4.ErrPartnerNotSupp:        syscall.EIO,
	nfs4.ErrPartnerNoAuth:         syscall.EIO,
	nfs4.ErrUnionNotSupp:          syscall.EIO,
	nfs4.ErrOffloadDenied:         syscall.EIO,
	nfs4.ErrWrongLFS:              syscall.EIO,
	nfs4.ErrBadLabel:              syscall.EIO,
	nfs4.ErrOffloadNoReqs:         syscall.EIO,
}

// Between these lie the statuses that NFSv4 has of its own, those included that
// are still to be defined.
const (
	firstStatus nfs4.Status = 10001
	lastStatus  nfs4.Status = 10100
)

// causeErrno is the errno of causes that are no NFS status.
var causeErrno = []struct {
	cause error
	errno syscall.Errno
}{
	{context.Canceled, syscall.EINTR},
	{context.DeadlineExceeded, syscall.ETIMEDOUT},
	{ErrClosed, syscall.EIO},
	{ErrUnknownOutcome, syscall.EIO},
	{ErrStateLost, syscall.EIO},
	{ErrLocksLost, syscall.EIO},
	{ErrProtocol, syscall.EIO},
	{ulb.ErrReplyTooLarge, syscall.EIO},
	{ulb.ErrChunk, syscall.EIO},
	{ulb.ErrVersion, syscall.EPROTONOSUPPORT},
	{rpc.AuthError, syscall.EACCES},
	{rpc.ProgMismatch, syscall.EPROTONOSUPPORT},
	{rpc.ProgUnavail, syscall.EPFNOSUPPORT},
	{rpc.ProcUnavail, syscall.EOPNOTSUPP},
	{rpc.RPCMismatch, syscall.EPROTONOSUPPORT},
	{rpc.GarbageArgs, syscall.EIO},
	{rpc.SystemErr, syscall.EIO},
}

// statusOf returns the NFS status that err is or wraps, and whether it does.
func statusOf(err error) (nfs4.Status, bool) {
	var status nfs4.Status
	ok := errors.As(err, &status)
	return status, ok
}

// opError makes the error of a failed operation.
func opError(op nfs4.OpNum, err error) error { return &Error{Op: op.String(), Err: err} }
