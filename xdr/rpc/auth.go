package rpc

import (
	"fmt"

	"nfsrdma-fuse/xdr"
)

// Flavors of credentials and verifiers. This package knows the contents of the
// first two; bodies of the others pass through it as they are.
const (
	FlavorNone  = 0
	FlavorSys   = 1
	FlavorShort = 2
	FlavorDH    = 3
	FlavorGSS   = 6 // RFC 2203
	FlavorTLS   = 7 // RFC 9289: asks whether TLS can be started
)

// MaxAuthBody is the largest body of a credential or verifier in bytes
// (RFC 5531 section 8.2).
const MaxAuthBody = 400

// OpaqueAuth is a credential or a verifier. Its zero value is AUTH_NONE.
//
//	+--------+--------+----------------------+
//	| flavor | length | body, at most 400 bytes
//	+--------+--------+----------------------+
type OpaqueAuth struct {
	Flavor uint32
	Body   []byte
}

// Encode appends a to e; a body that is too long fails with xdr.ErrRange.
func (a *OpaqueAuth) Encode(e *xdr.Encoder) {
	if len(a.Body) > MaxAuthBody {
		e.Fail(fmt.Errorf("rpc: credential of %d bytes: %w", len(a.Body), xdr.ErrRange))
	}
	e.Uint32(a.Flavor)
	e.Opaque(a.Body)
}

// Decode takes a from d. The body aliases the stream.
func (a *OpaqueAuth) Decode(d *xdr.Decoder) {
	a.Flavor = d.Uint32()
	a.Body = d.Opaque(MaxAuthBody)
}

// Limits of AUTH_SYS (RFC 5531 appendix A).
const (
	MaxMachineName = 255 // bytes
	MaxGroups      = 16
)

// AuthSys is the body of an AUTH_SYS credential: who the caller says it is.
//
//	+-------+-------------+-----+-----+-------+-------+--
//	| stamp | machine name | uid | gid | count | gid 1 | ...
//	+-------+-------------+-----+-----+-------+-------+--
type AuthSys struct {
	Stamp   uint32 // any number; told apart by some responders
	Machine string // at most MaxMachineName bytes
	UID     uint32
	GID     uint32
	// GIDs are the supplementary groups, at most MaxGroups. A caller that is
	// in more has to choose: encoding more is an error here, because which
	// ones to leave out decides what it will be allowed to do.
	GIDs []uint32
}

// Encode appends the body to e, without the flavor and length before it.
func (a *AuthSys) Encode(e *xdr.Encoder) {
	if len(a.GIDs) > MaxGroups {
		e.Fail(fmt.Errorf("rpc: %d groups in AUTH_SYS, %d are possible: %w", len(a.GIDs), MaxGroups, xdr.ErrRange))
	}
	if len(a.Machine) > MaxMachineName {
		e.Fail(fmt.Errorf("rpc: machine name of %d bytes in AUTH_SYS: %w", len(a.Machine), xdr.ErrRange))
	}
	e.Uint32(a.Stamp)
	e.String(a.Machine)
	e.Uint32(a.UID)
	e.Uint32(a.GID)
	e.Uint32(uint32(len(a.GIDs)))
	for _, g := range a.GIDs {
		e.Uint32(g)
	}
}

// Decode takes a body from d. The memory of GIDs is used again, and so is the
// machine name if it is the same.
func (a *AuthSys) Decode(d *xdr.Decoder) {
	a.Stamp = d.Uint32()
	if name := d.Opaque(MaxMachineName); string(name) != a.Machine {
		a.Machine = string(name)
	}
	a.UID = d.Uint32()
	a.GID = d.Uint32()
	a.GIDs = a.GIDs[:0]
	for range d.CountOf(MaxGroups, 4) {
		a.GIDs = append(a.GIDs, d.Uint32())
	}
}

// Auth returns the credential. It is worth keeping: one serves all calls made
// in the same name.
func (a *AuthSys) Auth() (OpaqueAuth, error) {
	var e xdr.Encoder
	a.Encode(&e)
	if err := e.Err(); err != nil {
		return OpaqueAuth{}, err
	}
	return OpaqueAuth{Flavor: FlavorSys, Body: e.Bytes()}, nil
}

// SetAuth decodes the credential into a. A malformed body or one of another
// flavor is an error; a responder answers with AuthBadCred.
func (a *AuthSys) SetAuth(cred OpaqueAuth) error {
	if cred.Flavor != FlavorSys {
		return fmt.Errorf("rpc: credential of flavor %d, not AUTH_SYS: %w", cred.Flavor, xdr.ErrRange)
	}
	d := xdr.NewDecoder(cred.Body)
	a.Decode(d)
	d.End()
	return d.Err()
}
