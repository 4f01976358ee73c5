package nfs4

import "nfsrdma-fuse/xdr"

// SecInfoArgs asks which security an entry of the current directory needs; it uses up
// the current filehandle (RFC 8881 section 18.29).
type SecInfoArgs struct {
	Name string
}

// Op implements Args.
func (*SecInfoArgs) Op() OpNum { return OpSecInfo }

// Encode implements Args.
func (a *SecInfoArgs) Encode(e *xdr.Encoder) {
	e.String(a.Name)
}

// Decode implements Args.
func (a *SecInfoArgs) Decode(d *xdr.Decoder) {
	a.Name = d.String(MaxName)
}

// The levels of protection of RPCSEC_GSS (RFC 2203 section 5.3.1).
const (
	GSSServiceNone      uint32 = 1
	GSSServiceIntegrity uint32 = 2
	GSSServicePrivacy   uint32 = 3
)

// SecInfo is one way to secure requests.
type SecInfo struct {
	Flavor  uint32
	OID     OID    // of FlavorGSS: mechanism
	QOP     uint32 // of FlavorGSS
	Service uint32 // of FlavorGSS: GSSServiceNone and the like
}

// Encode appends v.
func (v *SecInfo) Encode(e *xdr.Encoder) {
	e.Uint32(v.Flavor)
	if v.Flavor == FlavorGSS {
		v.OID.Encode(e)
		e.Uint32(v.QOP)
		e.Uint32(v.Service)
	}
}

// Decode takes v.
func (v *SecInfo) Decode(d *xdr.Decoder) {
	*v = SecInfo{Flavor: d.Uint32()}
	if v.Flavor == FlavorGSS {
		v.OID.Decode(d)
		v.QOP = d.Uint32()
		v.Service = enum(d, GSSServiceNone, GSSServicePrivacy)
	}
}

// MaxSecInfo bounds the ways to secure requests in a SECINFO result.
const MaxSecInfo = 64

// SecInfoRes is the result of SECINFO.
type SecInfoRes struct {
	Status  Status
	Flavors []SecInfo // in the server's order of preference
}

// Op implements Res.
func (*SecInfoRes) Op() OpNum { return OpSecInfo }

// Result implements Res.
func (r *SecInfoRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SecInfoRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		encodeList(e, r.Flavors)
	}
}

// Decode implements Res.
func (r *SecInfoRes) Decode(d *xdr.Decoder) {
	*r = SecInfoRes{}
	if decodeStatus(d, &r.Status) {
		r.Flavors = decodeList[SecInfo](d, MaxSecInfo, 4)
	}
}

// SecInfoStyle is what SECINFO_NO_NAME asks about.
type SecInfoStyle uint32

// The objects that SECINFO_NO_NAME can ask about.
const (
	SecInfoCurrentFH SecInfoStyle = 0
	SecInfoParent    SecInfoStyle = 1
)

// SecInfoNoNameArgs asks which security the current object or its parent needs; it uses
// up the current filehandle (RFC 8881 section 18.45).
type SecInfoNoNameArgs struct {
	Style SecInfoStyle
}

// Op implements Args.
func (*SecInfoNoNameArgs) Op() OpNum { return OpSecInfoNoName }

// Encode implements Args.
func (a *SecInfoNoNameArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Style))
}

// Decode implements Args.
func (a *SecInfoNoNameArgs) Decode(d *xdr.Decoder) {
	a.Style = SecInfoStyle(enum(d, uint32(SecInfoCurrentFH), uint32(SecInfoParent)))
}

// SecInfoNoNameRes is the result of SECINFO_NO_NAME.
type SecInfoNoNameRes struct {
	Status  Status
	Flavors []SecInfo // in the server's order of preference
}

// Op implements Res.
func (*SecInfoNoNameRes) Op() OpNum { return OpSecInfoNoName }

// Result implements Res.
func (r *SecInfoNoNameRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *SecInfoNoNameRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		encodeList(e, r.Flavors)
	}
}

// Decode implements Res.
func (r *SecInfoNoNameRes) Decode(d *xdr.Decoder) {
	*r = SecInfoNoNameRes{}
	if decodeStatus(d, &r.Status) {
		r.Flavors = decodeList[SecInfo](d, MaxSecInfo, 4)
	}
}
