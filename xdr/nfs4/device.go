package nfs4

import "nfsrdma-fuse/xdr"

// GetDeviceInfoArgs asks for the address of a data device (RFC 8881 section 18.40).
type GetDeviceInfoArgs struct {
	DeviceID    DeviceID
	Type        LayoutType
	MaxCount    uint32 // bytes of the result
	NotifyTypes Bitmap // NotifyDeviceIDChange and the like
}

// Op implements Args.
func (*GetDeviceInfoArgs) Op() OpNum { return OpGetDeviceInfo }

// Encode implements Args.
func (a *GetDeviceInfoArgs) Encode(e *xdr.Encoder) {
	a.DeviceID.Encode(e)
	e.Uint32(uint32(a.Type))
	e.Uint32(a.MaxCount)
	a.NotifyTypes.Encode(e)
}

// Decode implements Args.
func (a *GetDeviceInfoArgs) Decode(d *xdr.Decoder) {
	a.DeviceID.Decode(d)
	a.Type = LayoutType(d.Uint32())
	a.MaxCount = d.Uint32()
	a.NotifyTypes.Decode(d)
}

// GetDeviceInfoRes is the result of GETDEVICEINFO.
type GetDeviceInfoRes struct {
	Status      Status
	Type        LayoutType // of OK
	Addr        []byte     // of OK; its meaning depends on Type; aliases the stream when decoded
	NotifyTypes Bitmap     // of OK
	MinCount    uint32     // of ErrTooSmall: bytes needed
}

// Op implements Res.
func (*GetDeviceInfoRes) Op() OpNum { return OpGetDeviceInfo }

// Result implements Res.
func (r *GetDeviceInfoRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *GetDeviceInfoRes) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	switch r.Status {
	case OK:
		e.Uint32(uint32(r.Type))
		e.Opaque(r.Addr)
		r.NotifyTypes.Encode(e)
	case ErrTooSmall:
		e.Uint32(r.MinCount)
	}
}

// Decode implements Res.
func (r *GetDeviceInfoRes) Decode(d *xdr.Decoder) {
	*r = GetDeviceInfoRes{Status: Status(d.Uint32())}
	switch r.Status {
	case OK:
		r.Type = LayoutType(d.Uint32())
		r.Addr = d.Opaque(MaxLayoutBody)
		r.NotifyTypes.Decode(d)
	case ErrTooSmall:
		r.MinCount = d.Uint32()
	}
}

// MaxDevices bounds the devices in a GETDEVICELIST result.
const MaxDevices = 4096

// GetDeviceListArgs asks for the devices of the current object's file system
// (RFC 8881 section 18.41).
type GetDeviceListArgs struct {
	Type       LayoutType
	MaxDevices uint32
	Cookie     uint64
	CookieVerf Verifier
}

// Op implements Args.
func (*GetDeviceListArgs) Op() OpNum { return OpGetDeviceList }

// Encode implements Args.
func (a *GetDeviceListArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Type))
	e.Uint32(a.MaxDevices)
	e.Uint64(a.Cookie)
	a.CookieVerf.Encode(e)
}

// Decode implements Args.
func (a *GetDeviceListArgs) Decode(d *xdr.Decoder) {
	a.Type = LayoutType(d.Uint32())
	a.MaxDevices = d.Uint32()
	a.Cookie = d.Uint64()
	a.CookieVerf.Decode(d)
}

// GetDeviceListRes is the result of GETDEVICELIST.
type GetDeviceListRes struct {
	Status     Status
	Cookie     uint64
	CookieVerf Verifier
	DeviceIDs  []DeviceID
	EOF        bool
}

// Op implements Res.
func (*GetDeviceListRes) Op() OpNum { return OpGetDeviceList }

// Result implements Res.
func (r *GetDeviceListRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *GetDeviceListRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Uint64(r.Cookie)
		r.CookieVerf.Encode(e)
		encodeList(e, r.DeviceIDs)
		e.Bool(r.EOF)
	}
}

// Decode implements Res.
func (r *GetDeviceListRes) Decode(d *xdr.Decoder) {
	*r = GetDeviceListRes{}
	if decodeStatus(d, &r.Status) {
		r.Cookie = d.Uint64()
		r.CookieVerf.Decode(d)
		r.DeviceIDs = decodeList[DeviceID](d, MaxDevices, 16)
		r.EOF = d.Bool()
	}
}

// DeviceError is a failure of a device that a client met.
type DeviceError struct {
	DeviceID DeviceID
	Status   Status
	Op       OpNum
}

// Encode appends v.
func (v *DeviceError) Encode(e *xdr.Encoder) {
	v.DeviceID.Encode(e)
	e.Uint32(uint32(v.Status))
	e.Uint32(uint32(v.Op))
}

// Decode takes v.
func (v *DeviceError) Decode(d *xdr.Decoder) {
	v.DeviceID.Decode(d)
	v.Status = Status(d.Uint32())
	v.Op = OpNum(d.Uint32())
}

// MaxDeviceErrors bounds the failures in a LAYOUTERROR.
const MaxDeviceErrors = 256

// LayoutErrorArgs tells about failures of devices of the current file's layout
// (RFC 7862 section 15.6).
type LayoutErrorArgs struct {
	Offset  uint64 // bytes
	Length  uint64 // bytes
	StateID StateID
	Errors  []DeviceError
}

// Op implements Args.
func (*LayoutErrorArgs) Op() OpNum { return OpLayoutError }

// Encode implements Args.
func (a *LayoutErrorArgs) Encode(e *xdr.Encoder) {
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
	a.StateID.Encode(e)
	encodeList(e, a.Errors)
}

// Decode implements Args.
func (a *LayoutErrorArgs) Decode(d *xdr.Decoder) {
	a.Offset = d.Uint64()
	a.Length = d.Uint64()
	a.StateID.Decode(d)
	a.Errors = decodeList[DeviceError](d, MaxDeviceErrors, 24)
}

// LayoutErrorRes is the result of LAYOUTERROR.
type LayoutErrorRes struct {
	Status Status
}

// Op implements Res.
func (*LayoutErrorRes) Op() OpNum { return OpLayoutError }

// Result implements Res.
func (r *LayoutErrorRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LayoutErrorRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *LayoutErrorRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// IOInfo counts reads or writes.
type IOInfo struct {
	Count uint64 // operations
	Bytes uint64
}

// Encode appends v.
func (v *IOInfo) Encode(e *xdr.Encoder) {
	e.Uint64(v.Count)
	e.Uint64(v.Bytes)
}

// Decode takes v.
func (v *IOInfo) Decode(d *xdr.Decoder) {
	v.Count = d.Uint64()
	v.Bytes = d.Uint64()
}

// LayoutStatsArgs tells how a device of the current file's layout was used
// (RFC 7862 section 15.7).
type LayoutStatsArgs struct {
	Offset   uint64 // bytes
	Length   uint64 // bytes
	StateID  StateID
	Read     IOInfo
	Write    IOInfo
	DeviceID DeviceID
	Type     LayoutType
	Body     []byte
}

// Op implements Args.
func (*LayoutStatsArgs) Op() OpNum { return OpLayoutStats }

// Encode implements Args.
func (a *LayoutStatsArgs) Encode(e *xdr.Encoder) {
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
	a.StateID.Encode(e)
	a.Read.Encode(e)
	a.Write.Encode(e)
	a.DeviceID.Encode(e)
	e.Uint32(uint32(a.Type))
	e.Opaque(a.Body)
}

// Decode implements Args.
func (a *LayoutStatsArgs) Decode(d *xdr.Decoder) {
	a.Offset = d.Uint64()
	a.Length = d.Uint64()
	a.StateID.Decode(d)
	a.Read.Decode(d)
	a.Write.Decode(d)
	a.DeviceID.Decode(d)
	a.Type = LayoutType(d.Uint32())
	a.Body = d.Opaque(MaxLayoutBody)
}

// LayoutStatsRes is the result of LAYOUTSTATS.
type LayoutStatsRes struct {
	Status Status
}

// Op implements Res.
func (*LayoutStatsRes) Op() OpNum { return OpLayoutStats }

// Result implements Res.
func (r *LayoutStatsRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LayoutStatsRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *LayoutStatsRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }
