package nfstest

import (
	"errors"
	"syscall"

	"nfsrdma-fuse/xdr/nfs4"
)

var statuses = map[syscall.Errno]nfs4.Status{
	syscall.EPERM:        nfs4.ErrPerm,
	syscall.ENOENT:       nfs4.ErrNoEnt,
	syscall.ENXIO:        nfs4.ErrNXIO,
	syscall.EACCES:       nfs4.ErrAccess,
	syscall.EEXIST:       nfs4.ErrExist,
	syscall.EXDEV:        nfs4.ErrXDev,
	syscall.ENOTDIR:      nfs4.ErrNotDir,
	syscall.EISDIR:       nfs4.ErrIsDir,
	syscall.EINVAL:       nfs4.ErrInval,
	syscall.EFBIG:        nfs4.ErrFBig,
	syscall.ENOSPC:       nfs4.ErrNoSpc,
	syscall.EROFS:        nfs4.ErrROFS,
	syscall.EMLINK:       nfs4.ErrMLink,
	syscall.ENAMETOOLONG: nfs4.ErrNameTooLong,
	syscall.ENOTEMPTY:    nfs4.ErrNotEmpty,
	syscall.EDQUOT:       nfs4.ErrDQuot,
	syscall.ESTALE:       nfs4.ErrStale,
	syscall.ENODATA:      nfs4.ErrNoXattr,
	syscall.E2BIG:        nfs4.ErrXattr2Big,
}

// statusOf translates an error of a file system.
func statusOf(err error) nfs4.Status {
	if err == nil {
		return nfs4.OK
	}
	var status nfs4.Status
	if errors.As(err, &status) {
		return status
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if s, ok := statuses[errno]; ok {
			return s
		}
	}
	return nfs4.ErrServerFault
}
