package nfsclient

import (
	"encoding/binary"
	"sync"

	"nfsrdma-fuse/xdr/rpc"
)

// Cred says on whose behalf an operation is done (AUTH_SYS).
type Cred struct {
	UID, GID uint32
	// Groups are the supplementary groups. AUTH_SYS carries 16; the first 16
	// are sent.
	Groups []uint32
}

// credential is a Cred as it goes onto the wire. Credentials with the same key
// are the same user to the server, so they share one open owner.
type credential struct {
	key  string // uid, gid and the groups sent
	auth rpc.OpaqueAuth
}

// maxCredentials bounds the number of credentials that are kept encoded.
const maxCredentials = 256

// credentials keeps encoded credentials. It is safe for concurrent use.
type credentials struct {
	machine string

	mu    sync.Mutex
	byKey map[string]*credential
}

// get returns the credential for c. It does not allocate if it is known.
func (t *credentials) get(c Cred) *credential {
	groups := c.Groups[:min(len(c.Groups), rpc.MaxGroups)]
	var buf [8 + 4*rpc.MaxGroups]byte
	key := binary.BigEndian.AppendUint32(buf[:0], c.UID)
	key = binary.BigEndian.AppendUint32(key, c.GID)
	for _, g := range groups {
		key = binary.BigEndian.AppendUint32(key, g)
	}

	t.mu.Lock()
	defer t.mu.Unlock()
	if cr := t.byKey[string(key)]; cr != nil {
		return cr
	}
	sys := rpc.AuthSys{Machine: t.machine, UID: c.UID, GID: c.GID, GIDs: groups}
	auth, err := sys.Auth()
	if err != nil {
		// Both limits of AUTH_SYS are kept above and in newCredentials.
		panic("nfsclient: credential cannot be encoded: " + err.Error())
	}
	if t.byKey == nil || len(t.byKey) >= maxCredentials {
		t.byKey = make(map[string]*credential)
	}
	cr := &credential{key: string(key), auth: auth}
	t.byKey[cr.key] = cr
	return cr
}

// newCredentials returns a table for a machine of that name, cut to what
// AUTH_SYS can carry.
func newCredentials(machine string) *credentials {
	return &credentials{machine: machine[:min(len(machine), rpc.MaxMachineName)]}
}
