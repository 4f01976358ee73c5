package nfs4

import "nfsrdma-fuse/xdr"

// NetLocType is the way in which a NetLoc names a server.
type NetLocType uint32

// The ways to name a server.
const (
	NetLocName NetLocType = 1
	NetLocURL  NetLocType = 2
	NetLocAddr NetLocType = 3
)

// NetLoc names a server for copies between servers (RFC 7862 section 4.7).
type NetLoc struct {
	Type NetLocType
	Name string  // of NetLocName and NetLocURL
	Addr NetAddr // of NetLocAddr
}

// Bounds of copies between servers.
const (
	MaxNetLoc  = 4096 // bytes of a name or URL
	MaxNetLocs = 64
)

// Encode appends v.
func (v *NetLoc) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(v.Type))
	switch v.Type {
	case NetLocName, NetLocURL:
		e.String(v.Name)
	case NetLocAddr:
		v.Addr.Encode(e)
	default:
		e.Fail(xdr.ErrRange)
	}
}

// Decode takes v.
func (v *NetLoc) Decode(d *xdr.Decoder) {
	*v = NetLoc{Type: NetLocType(enum(d, uint32(NetLocName), uint32(NetLocAddr)))}
	if v.Type == NetLocAddr {
		v.Addr.Decode(d)
	} else {
		v.Name = d.String(MaxNetLoc)
	}
}

// WriteResponse tells what a copy or WRITE_SAME has written (RFC 7862 section
// 15.2.2).
type WriteResponse struct {
	Async      bool    // the server goes on; CB_OFFLOAD will tell the end
	CallbackID StateID // if Async
	Count      uint64  // bytes
	Committed  StableHow
	Verf       Verifier
}

// Encode appends v.
func (v *WriteResponse) Encode(e *xdr.Encoder) {
	e.Bool(v.Async)
	if v.Async {
		v.CallbackID.Encode(e)
	}
	e.Uint64(v.Count)
	e.Uint32(uint32(v.Committed))
	v.Verf.Encode(e)
}

// Decode takes v.
func (v *WriteResponse) Decode(d *xdr.Decoder) {
	*v = WriteResponse{Async: d.Count(1) == 1}
	if v.Async {
		v.CallbackID.Decode(d)
	}
	v.Count = d.Uint64()
	v.Committed = StableHow(enum(d, uint32(Unstable), uint32(FileSync)))
	v.Verf.Decode(d)
}

// CopyArgs copies bytes of the saved file to the current file (RFC 7862 section 15.2).
type CopyArgs struct {
	SrcStateID    StateID
	DstStateID    StateID
	SrcOffset     uint64   // bytes
	DstOffset     uint64   // bytes
	Count         uint64   // bytes; 0 means to the end of the source
	Consecutive   bool     // copy in ascending order
	Synchronous   bool     // answer when all is copied
	SourceServers []NetLoc // none if both files are on this server
}

// Op implements Args.
func (*CopyArgs) Op() OpNum { return OpCopy }

// Encode implements Args.
func (a *CopyArgs) Encode(e *xdr.Encoder) {
	a.SrcStateID.Encode(e)
	a.DstStateID.Encode(e)
	e.Uint64(a.SrcOffset)
	e.Uint64(a.DstOffset)
	e.Uint64(a.Count)
	e.Bool(a.Consecutive)
	e.Bool(a.Synchronous)
	encodeList(e, a.SourceServers)
}

// Decode implements Args.
func (a *CopyArgs) Decode(d *xdr.Decoder) {
	a.SrcStateID.Decode(d)
	a.DstStateID.Decode(d)
	a.SrcOffset = d.Uint64()
	a.DstOffset = d.Uint64()
	a.Count = d.Uint64()
	a.Consecutive = d.Bool()
	a.Synchronous = d.Bool()
	a.SourceServers = decodeList[NetLoc](d, MaxNetLocs, 8)
}

// CopyRes is the result of COPY.
type CopyRes struct {
	Status   Status
	Response WriteResponse // of OK
	// Consecutive and Synchronous tell, with OK and ErrOffloadNoReqs, how the
	// server copies or could copy.
	Consecutive, Synchronous bool
}

// Op implements Res.
func (*CopyRes) Op() OpNum { return OpCopy }

// Result implements Res.
func (r *CopyRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *CopyRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Response.Encode(e)
	}
	if r.Status == OK || r.Status == ErrOffloadNoReqs {
		e.Bool(r.Consecutive)
		e.Bool(r.Synchronous)
	}
}

// Decode implements Res.
func (r *CopyRes) Decode(d *xdr.Decoder) {
	*r = CopyRes{}
	if decodeStatus(d, &r.Status) {
		r.Response.Decode(d)
	}
	if r.Status == OK || r.Status == ErrOffloadNoReqs {
		r.Consecutive = d.Bool()
		r.Synchronous = d.Bool()
	}
}

// CopyNotifyArgs tells the source of a copy between servers who will fetch the data
// (RFC 7862 section 15.3).
type CopyNotifyArgs struct {
	SrcStateID  StateID
	Destination NetLoc
}

// Op implements Args.
func (*CopyNotifyArgs) Op() OpNum { return OpCopyNotify }

// Encode implements Args.
func (a *CopyNotifyArgs) Encode(e *xdr.Encoder) {
	a.SrcStateID.Encode(e)
	a.Destination.Encode(e)
}

// Decode implements Args.
func (a *CopyNotifyArgs) Decode(d *xdr.Decoder) {
	a.SrcStateID.Decode(d)
	a.Destination.Decode(d)
}

// CopyNotifyRes is the result of COPY_NOTIFY.
type CopyNotifyRes struct {
	Status        Status
	LeaseTime     Time    // span in which the copy must begin
	StateID       StateID // for the COPY
	SourceServers []NetLoc
}

// Op implements Res.
func (*CopyNotifyRes) Op() OpNum { return OpCopyNotify }

// Result implements Res.
func (r *CopyNotifyRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *CopyNotifyRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.LeaseTime.Encode(e)
		r.StateID.Encode(e)
		encodeList(e, r.SourceServers)
	}
}

// Decode implements Res.
func (r *CopyNotifyRes) Decode(d *xdr.Decoder) {
	*r = CopyNotifyRes{}
	if decodeStatus(d, &r.Status) {
		r.LeaseTime.Decode(d)
		r.StateID.Decode(d)
		r.SourceServers = decodeList[NetLoc](d, MaxNetLocs, 8)
	}
}

// OffloadCancelArgs ends an asynchronous copy to the current file (RFC 7862 section
// 15.8).
type OffloadCancelArgs struct {
	StateID StateID // WriteResponse.CallbackID
}

// Op implements Args.
func (*OffloadCancelArgs) Op() OpNum { return OpOffloadCancel }

// Encode implements Args.
func (a *OffloadCancelArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
}

// Decode implements Args.
func (a *OffloadCancelArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
}

// OffloadCancelRes is the result of OFFLOAD_CANCEL.
type OffloadCancelRes struct {
	Status Status
}

// Op implements Res.
func (*OffloadCancelRes) Op() OpNum { return OpOffloadCancel }

// Result implements Res.
func (r *OffloadCancelRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *OffloadCancelRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *OffloadCancelRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// OffloadStatusArgs asks how far an asynchronous copy to the current file is (RFC 7862
// section 15.9).
type OffloadStatusArgs struct {
	StateID StateID // WriteResponse.CallbackID
}

// Op implements Args.
func (*OffloadStatusArgs) Op() OpNum { return OpOffloadStatus }

// Encode implements Args.
func (a *OffloadStatusArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
}

// Decode implements Args.
func (a *OffloadStatusArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
}

// OffloadStatusRes is the result of OFFLOAD_STATUS.
type OffloadStatusRes struct {
	Status   Status
	Count    uint64 // bytes copied so far
	Done     bool
	Complete Status // if Done: how the copy ended
}

// Op implements Res.
func (*OffloadStatusRes) Op() OpNum { return OpOffloadStatus }

// Result implements Res.
func (r *OffloadStatusRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *OffloadStatusRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		e.Uint64(r.Count)
		e.Bool(r.Done)
		if r.Done {
			e.Uint32(uint32(r.Complete))
		}
	}
}

// Decode implements Res.
func (r *OffloadStatusRes) Decode(d *xdr.Decoder) {
	*r = OffloadStatusRes{}
	if decodeStatus(d, &r.Status) {
		r.Count = d.Uint64()
		if r.Done = d.Count(1) == 1; r.Done {
			r.Complete = Status(d.Uint32())
		}
	}
}
