package nfs4

import "nfsrdma-fuse/xdr"

// Kinds of notification about a directory: bits of Notify.Mask and of
// GetDirDelegationArgs.NotifyTypes (RFC 8881 section 20.4).
const (
	NotifyChangeChildAttrs     uint32 = 0
	NotifyChangeDirAttrs       uint32 = 1
	NotifyRemoveEntry          uint32 = 2
	NotifyAddEntry             uint32 = 3
	NotifyRenameEntry          uint32 = 4
	NotifyChangeCookieVerifier uint32 = 5
)

// Kinds of notification about a device: bits of Notify.Mask (RFC 8881 section
// 20.12).
const (
	NotifyDeviceIDChange uint32 = 1
	NotifyDeviceIDDelete uint32 = 2
)

// Bounds of CB_NOTIFY and CB_NOTIFY_DEVICEID.
const (
	MaxNotifies     = 256
	MaxNotifyValues = 64 << 10 // bytes
)

// Notify are notifications of the kinds in Mask, packed one behind the other in
// the order of the bits.
type Notify struct {
	Mask   Bitmap
	Values []byte // aliases the stream when decoded
}

// Encode appends v.
func (v *Notify) Encode(e *xdr.Encoder) {
	v.Mask.Encode(e)
	e.Opaque(v.Values)
}

// Decode takes v.
func (v *Notify) Decode(d *xdr.Decoder) {
	v.Mask.Decode(d)
	v.Values = d.Opaque(MaxNotifyValues)
}

// CBNotifyArgs tells the holder of a directory delegation what has changed
// (RFC 8881 section 20.4).
type CBNotifyArgs struct {
	StateID StateID
	FH      FH
	Changes []Notify
}

// Op implements CBArgs.
func (*CBNotifyArgs) Op() CBOpNum { return CBOpNotify }

// Encode implements CBArgs.
func (a *CBNotifyArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	a.FH.Encode(e)
	encodeList(e, a.Changes)
}

// Decode implements CBArgs.
func (a *CBNotifyArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.FH.Decode(d)
	a.Changes = decodeList[Notify](d, MaxNotifies, 8)
}

// CBNotifyRes is the result of CB_NOTIFY.
type CBNotifyRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBNotifyRes) Op() CBOpNum { return CBOpNotify }

// Result implements CBRes.
func (r *CBNotifyRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBNotifyRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBNotifyRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBNotifyLockArgs says that a lock waited for may have become free
// (RFC 8881 section 20.11).
type CBNotifyLockArgs struct {
	FH    FH
	Owner LockOwner
}

// Op implements CBArgs.
func (*CBNotifyLockArgs) Op() CBOpNum { return CBOpNotifyLock }

// Encode implements CBArgs.
func (a *CBNotifyLockArgs) Encode(e *xdr.Encoder) {
	a.FH.Encode(e)
	a.Owner.Encode(e)
}

// Decode implements CBArgs.
func (a *CBNotifyLockArgs) Decode(d *xdr.Decoder) {
	a.FH.Decode(d)
	a.Owner.Decode(d)
}

// CBNotifyLockRes is the result of CB_NOTIFY_LOCK.
type CBNotifyLockRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBNotifyLockRes) Op() CBOpNum { return CBOpNotifyLock }

// Result implements CBRes.
func (r *CBNotifyLockRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBNotifyLockRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBNotifyLockRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBNotifyDeviceIDArgs tells about changed or deleted devices (RFC 8881 section 20.12).
type CBNotifyDeviceIDArgs struct {
	Changes []Notify
}

// Op implements CBArgs.
func (*CBNotifyDeviceIDArgs) Op() CBOpNum { return CBOpNotifyDeviceID }

// Encode implements CBArgs.
func (a *CBNotifyDeviceIDArgs) Encode(e *xdr.Encoder) {
	encodeList(e, a.Changes)
}

// Decode implements CBArgs.
func (a *CBNotifyDeviceIDArgs) Decode(d *xdr.Decoder) {
	a.Changes = decodeList[Notify](d, MaxNotifies, 8)
}

// CBNotifyDeviceIDRes is the result of CB_NOTIFY_DEVICEID.
type CBNotifyDeviceIDRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBNotifyDeviceIDRes) Op() CBOpNum { return CBOpNotifyDeviceID }

// Result implements CBRes.
func (r *CBNotifyDeviceIDRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBNotifyDeviceIDRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBNotifyDeviceIDRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }
