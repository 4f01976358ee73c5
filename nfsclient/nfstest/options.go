package nfstest

import (
	"time"

	"nfsrdma-fuse/xdr/nfs4"
)

// Options of a server. The zero value is a server with one empty file system,
// exported read and write as "/", whose root everybody may write to.
type Options struct {
	// Exports are the file systems; nil means one Export{Path: "/"}. If none
	// has the path "/", the root and the directories on the way to the
	// exports form a read-only pseudo file system.
	Exports []Export

	// Lease is the lease time; zero means 90 s.
	Lease time.Duration
	// Grace is the length of the grace period after a restart that lost the
	// state; zero means Lease. It ends early when all clients that the server
	// remembers have reclaimed.
	Grace time.Duration
	// Expiry says what becomes of a client that has not renewed its lease.
	Expiry ExpiryPolicy
	// RecallTimeout is the time after which a delegation that was recalled
	// and not returned is revoked; zero means Lease.
	RecallTimeout time.Duration

	// MaxPayload is the largest READ and WRITE in bytes; zero means 1 MiB.
	MaxPayload int
	// MaxCached is the largest reply in bytes that is kept for a retry; zero
	// means 2128, which is what the Linux server grants.
	MaxCached int
	// MaxOps is the largest number of operations in a COMPOUND; zero means 50.
	MaxOps int
	// Slots is the largest number of slots of a session; zero means 64.
	Slots int
	// MaxMinor is the highest minor version: 1 or 2; zero means 2.
	MaxMinor uint32

	// Delegations says which delegations are granted.
	Delegations DelegationPolicy
	// DelegationHoldOff is the time for which no delegation of a file is
	// granted after one was recalled; zero means 1 s.
	DelegationHoldOff time.Duration
	// PreserveUnlinked makes OPEN promise that an open file stays usable
	// when its last name is removed. It does in any case.
	PreserveUnlinked bool
	// NoNotifyLock leaves clients to find out by themselves when a lock that
	// they were refused has become free.
	NoNotifyLock bool
	// NoXattrs, NoACLs turn the optional features of these names off.
	NoXattrs, NoACLs bool
	// Unsupported are operations that the server answers with
	// NFS4ERR_NOTSUPP.
	Unsupported []nfs4.OpNum

	// OwnerName and OwnerID translate between ids and the names of users
	// and groups on the wire; nil means decimal numbers. OwnerID also gets
	// to see only what is not a decimal number.
	OwnerName func(id uint32, group bool) string
	OwnerID   func(name string, group bool) (id uint32, ok bool)

	// Now is the server's clock; nil means time.Now.
	Now func() time.Time
}

// Export is a file system that a server exports.
type Export struct {
	// Path is where it is found: "/", or a path from the root such as
	// "/data/a".
	Path string
	// ReadOnly makes every change fail with NFS4ERR_ROFS.
	ReadOnly bool
	// RootSquash makes user and group 0 nobody (65534).
	RootSquash bool
	// Mode of the root directory; zero means 01777.
	Mode uint32
	// Bytes is the space for data; zero means 64 GiB. Memory is taken as
	// data is written.
	Bytes int64
	// Inodes is the largest number of objects; zero means 4 Mi.
	Inodes int64
	// Quota is the number of bytes that the files of one user may occupy;
	// zero means no quota.
	Quota int64
}

// ExpiryPolicy says what becomes of a client whose lease has expired.
type ExpiryPolicy uint8

const (
	// ExpireClient forgets the client with all its sessions and state.
	ExpireClient ExpiryPolicy = iota
	// ExpireState revokes the state; the client and its sessions stay, and
	// SEQUENCE tells so until it has freed the stateids.
	ExpireState
	// ExpireOnConflict keeps everything until it is in the way of another
	// client; then the client is forgotten.
	ExpireOnConflict
)

// DelegationPolicy says which delegations a server grants.
type DelegationPolicy uint8

const (
	// DelegateAny grants read and write delegations wherever it can.
	DelegateAny DelegationPolicy = iota
	// DelegateReads grants read delegations only.
	DelegateReads
	// DelegateNever grants none.
	DelegateNever
)

func (o Options) withDefaults() Options {
	set := func(v *time.Duration, d time.Duration) {
		if *v == 0 {
			*v = d
		}
	}
	seti := func(v *int, d int) {
		if *v == 0 {
			*v = d
		}
	}
	if o.Exports == nil {
		o.Exports = []Export{{Path: "/"}}
	}
	set(&o.Lease, 90*time.Second)
	set(&o.Grace, o.Lease)
	set(&o.RecallTimeout, o.Lease)
	set(&o.DelegationHoldOff, time.Second)
	seti(&o.MaxPayload, 1<<20)
	o.MaxPayload = min(o.MaxPayload, nfs4.MaxData)
	seti(&o.MaxCached, 2128)
	seti(&o.MaxOps, 50)
	o.MaxOps = min(o.MaxOps, nfs4.MaxOps)
	seti(&o.Slots, 64)
	if o.MaxMinor == 0 {
		o.MaxMinor = 2
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Limits that are not options: they keep a bad peer from using up memory.
const (
	maxClients        = 1024
	maxSessions       = 64      // of one client
	maxStates         = 1 << 20 // of all clients
	maxRanges         = 1 << 16 // byte ranges locked in one file
	maxSlots          = 1024
	maxConns          = 1024
	maxCallbackSlots  = 16
	headerRoom        = 4096 // bytes of a message besides its payload
	minResponse       = 512  // bytes, the smallest reply size that a session may have
	minCallback       = 512  // bytes, the same for callbacks
	callbackTimeout   = 10 * time.Second
	callbackRetryWait = 50 * time.Millisecond
)
