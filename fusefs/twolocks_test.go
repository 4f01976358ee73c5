package fusefs

import (
	"testing"

	"nfsrdma-fuse/fusefs/conformance"
	"nfsrdma-fuse/nfsclient/nfstest"
)

// lockCases are the cases about locks.
var lockCases = []string{
	"LocksBetweenProcesses", "LockSplitAndMerge", "LockUpgradeDowngrade", "LockQuery", "LockBeyond4GiB", "LockAccessModes",
	"LockWait", "LockInterrupted", "LockReleasedOnClose", "LockReleasedOnKill", "LockDeadlock", "FlockShared",
	"FlockDupAndFork", "FlockReleasedOnClose", "OFDLocks", "LockedCounter",
}

// TestLocksOfTwoClients runs the cases about locks on two mounts of one server,
// one that tells when a lock has become free and one that does not.
func TestLocksOfTwoClients(t *testing.T) {
	for name, so := range map[string]nfstest.Options{
		"told":    {},
		"polling": {NoNotifyLock: true, Delegations: nfstest.DelegateNever},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mountPairOf(t, so, Options{AllowOther: true})
			o := small
			o.Second, o.Only = p.b, lockCases
			conformance.Run(t, p.a, o)
		})
	}
}

// TestLocalLocks: locks that are left to the kernel are as good as others between
// the processes of a mount, and the other one does not see them.
func TestLocalLocks(t *testing.T) {
	p := mountPair(t, Options{AllowOther: true, LocalFlock: true, LocalPOSIX: true})
	o := small
	o.Only = []string{"LocksBetweenProcesses", "LockReleasedOnClose", "FlockShared", "FlockReleasedOnClose", "OFDLocks"}
	conformance.Run(t, p.a, o)
	p.sh(t, `: >$1/f; exec 5>$1/f 6>$2/f; flock -n 5; flock -n 6`)
	if u := p.server.Usage(); u.Locks != 0 {
		t.Errorf("locks at the server: %v", u)
	}
}

// TestLocalFlock: only flock(2) is left to the kernel, and gets out of the way of
// byte ranges.
func TestLocalFlock(t *testing.T) {
	p := mountPair(t, Options{AllowOther: true, LocalFlock: true})
	o := small
	o.Second, o.Only = p.b, []string{"LocksBetweenProcesses", "OFDLocks"}
	conformance.Run(t, p.a, o)
	p.sh(t, `: >$1/f; exec 5>$1/f 6>$2/f; flock -n 5; flock -n 6`)
}
