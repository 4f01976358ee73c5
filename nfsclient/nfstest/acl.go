package nfstest

import (
	"slices"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr"
	"nfsrdma-fuse/xdr/nfs4"
)

// An ACL is kept as it was set, and the mode is made to agree with it (RFC 8881
// section 6.3.2). Access is decided by the mode alone: entries for single users
// and groups are reported but not obeyed.

const maxACEs = 256

// storedACL is an ACL and the permissions that follow from it: when the mode has
// become another since, the ACL does not count any more.
type storedACL struct {
	aces []nfs4.ACE
	mode uint32
}

func cloneACL(aces []nfs4.ACE) []nfs4.ACE { return slices.Clone(aces) }

// The parts of an ACE mask that stand for the permissions of a mode.
const (
	aceRead  = nfs4.ACEReadData
	aceWrite = nfs4.ACEWriteData | nfs4.ACEAppendData
	aceExec  = nfs4.ACEExecute

	aceAlways = nfs4.ACEReadAttributes | nfs4.ACEReadACL | nfs4.ACESynchronize
	aceOwner  = nfs4.ACEWriteAttributes | nfs4.ACEWriteACL | nfs4.ACEWriteOwner
)

// aclMode returns the permissions of a mode that an ACL amounts to: for each
// class of users the first entry that speaks of a permission decides.
func aclMode(aces []nfs4.ACE) (mode uint32) {
	for shift, who := range map[uint32]string{6: "OWNER@", 3: "GROUP@", 0: "EVERYONE@"} {
		var decided, allowed uint32
		for _, e := range aces {
			if e.Who != who && e.Who != "EVERYONE@" || e.Type > nfs4.ACEDeny || e.Flag&nfs4.ACEInheritOnly != 0 {
				continue
			}
			fresh := e.Mask &^ decided
			decided |= e.Mask
			if e.Type == nfs4.ACEAllow {
				allowed |= fresh
			}
		}
		if allowed&aceRead != 0 {
			mode |= 4 << shift
		}
		if allowed&aceWrite == aceWrite {
			mode |= 2 << shift
		}
		if allowed&aceExec != 0 {
			mode |= 1 << shift
		}
	}
	return mode
}

// aclOf returns the ACL of an object: the one that was set, or one that says the
// same as its mode.
func aclOf(o object, a memfs.Attr) []nfs4.ACE {
	if acl, ok := o.n.Tag(aclTag).(storedACL); ok && acl.mode == a.Mode&0o777 {
		return acl.aces
	}
	var aces []nfs4.ACE
	var above uint32 // what classes further down have and this one must be denied
	add := func(who string, flag, bits, extra, lower uint32) {
		mask := permMask(bits, a.Kind)
		if deny := permMask(lower&^bits, a.Kind); deny != 0 {
			aces = append(aces, nfs4.ACE{Type: nfs4.ACEDeny, Flag: flag, Mask: deny, Who: who})
		}
		aces = append(aces, nfs4.ACE{Type: nfs4.ACEAllow, Flag: flag, Mask: mask | aceAlways | extra, Who: who})
	}
	u, g, e := a.Mode>>6&7, a.Mode>>3&7, a.Mode&7
	above = g | e
	add("OWNER@", 0, u, aceOwner, above)
	add("GROUP@", nfs4.ACEIdentifierGroup, g, 0, e)
	add("EVERYONE@", 0, e, 0, 0)
	return aces
}

func permMask(bits uint32, kind memfs.Kind) (mask uint32) {
	if bits&4 != 0 {
		mask |= aceRead
	}
	if bits&2 != 0 {
		mask |= aceWrite
		if kind == memfs.Directory {
			mask |= nfs4.ACEDeleteChild
		}
	}
	if bits&1 != 0 {
		mask |= aceExec
	}
	return mask
}

// encoded returns the wire form of attributes, for comparison.
func encoded(a *nfs4.Attrs) string {
	var e xdr.Encoder
	a.Encode(&e)
	return string(e.Bytes())
}
