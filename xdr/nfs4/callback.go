package nfs4

import "nfsrdma-fuse/xdr"

// CBGetAttrArgs asks the holder of a write delegation for the attributes that it knows
// better than the server (RFC 8881 section 20.1).
type CBGetAttrArgs struct {
	FH          FH
	AttrRequest Bitmap
}

// Op implements CBArgs.
func (*CBGetAttrArgs) Op() CBOpNum { return CBOpGetAttr }

// Encode implements CBArgs.
func (a *CBGetAttrArgs) Encode(e *xdr.Encoder) {
	a.FH.Encode(e)
	a.AttrRequest.Encode(e)
}

// Decode implements CBArgs.
func (a *CBGetAttrArgs) Decode(d *xdr.Decoder) {
	a.FH.Decode(d)
	a.AttrRequest.Decode(d)
}

// CBGetAttrRes is the result of CB_GETATTR.
type CBGetAttrRes struct {
	Status Status
	Attrs  Attrs
}

// Op implements CBRes.
func (*CBGetAttrRes) Op() CBOpNum { return CBOpGetAttr }

// Result implements CBRes.
func (r *CBGetAttrRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBGetAttrRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Attrs.Encode(e)
	}
}

// Decode implements CBRes.
func (r *CBGetAttrRes) Decode(d *xdr.Decoder) {
	*r = CBGetAttrRes{}
	if decodeStatus(d, &r.Status) {
		r.Attrs.Decode(d)
	}
}

// CBRecallArgs recalls a delegation (RFC 8881 section 20.2).
type CBRecallArgs struct {
	StateID  StateID
	Truncate bool // the file is about to be truncated: data need not be written back
	FH       FH   // aliases the stream when decoded
}

// Op implements CBArgs.
func (*CBRecallArgs) Op() CBOpNum { return CBOpRecall }

// Encode implements CBArgs.
func (a *CBRecallArgs) Encode(e *xdr.Encoder) {
	a.StateID.Encode(e)
	e.Bool(a.Truncate)
	a.FH.Encode(e)
}

// Decode implements CBArgs.
func (a *CBRecallArgs) Decode(d *xdr.Decoder) {
	a.StateID.Decode(d)
	a.Truncate = d.Bool()
	a.FH.Decode(d)
}

// CBRecallRes is the result of CB_RECALL.
type CBRecallRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBRecallRes) Op() CBOpNum { return CBOpRecall }

// Result implements CBRes.
func (r *CBRecallRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBRecallRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBRecallRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBLayoutRecallArgs recall layouts (RFC 8881 section 20.3).
type CBLayoutRecallArgs struct {
	Type    LayoutType
	IOMode  LayoutIOMode
	Changed bool // the file must be written elsewhere from now on
	Recall  LayoutReturnType
	FH      FH      // of LayoutReturnFile
	Offset  uint64  // of LayoutReturnFile, bytes
	Length  uint64  // of LayoutReturnFile, bytes
	StateID StateID // of LayoutReturnFile
	FSID    FSID    // of LayoutReturnFSID
}

// Op implements CBArgs.
func (*CBLayoutRecallArgs) Op() CBOpNum { return CBOpLayoutRecall }

// Encode implements CBArgs.
func (a *CBLayoutRecallArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Type))
	e.Uint32(uint32(a.IOMode))
	e.Bool(a.Changed)
	e.Uint32(uint32(a.Recall))
	switch a.Recall {
	case LayoutReturnFile:
		a.FH.Encode(e)
		e.Uint64(a.Offset)
		e.Uint64(a.Length)
		a.StateID.Encode(e)
	case LayoutReturnFSID:
		a.FSID.Encode(e)
	case LayoutReturnAll:
	default:
		e.Fail(xdr.ErrRange)
	}
}

// Decode implements CBArgs.
func (a *CBLayoutRecallArgs) Decode(d *xdr.Decoder) {
	*a = CBLayoutRecallArgs{
		Type:    LayoutType(d.Uint32()),
		IOMode:  LayoutIOMode(enum(d, uint32(LayoutIORead), uint32(LayoutIOAny))),
		Changed: d.Bool(),
		Recall:  LayoutReturnType(enum(d, uint32(LayoutReturnFile), uint32(LayoutReturnAll))),
	}
	switch a.Recall {
	case LayoutReturnFile:
		a.FH.Decode(d)
		a.Offset = d.Uint64()
		a.Length = d.Uint64()
		a.StateID.Decode(d)
	case LayoutReturnFSID:
		a.FSID.Decode(d)
	}
}

// CBLayoutRecallRes is the result of CB_LAYOUTRECALL.
type CBLayoutRecallRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBLayoutRecallRes) Op() CBOpNum { return CBOpLayoutRecall }

// Result implements CBRes.
func (r *CBLayoutRecallRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBLayoutRecallRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBLayoutRecallRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBPushDelegArgs offers a delegation that was wanted earlier (RFC 8881 section 20.5).
type CBPushDelegArgs struct {
	FH         FH
	Delegation Delegation
}

// Op implements CBArgs.
func (*CBPushDelegArgs) Op() CBOpNum { return CBOpPushDeleg }

// Encode implements CBArgs.
func (a *CBPushDelegArgs) Encode(e *xdr.Encoder) {
	a.FH.Encode(e)
	a.Delegation.Encode(e)
}

// Decode implements CBArgs.
func (a *CBPushDelegArgs) Decode(d *xdr.Decoder) {
	a.FH.Decode(d)
	a.Delegation.Decode(d)
}

// CBPushDelegRes is the result of CB_PUSH_DELEG.
type CBPushDelegRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBPushDelegRes) Op() CBOpNum { return CBOpPushDeleg }

// Result implements CBRes.
func (r *CBPushDelegRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBPushDelegRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBPushDelegRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// Kinds of recallable objects: bits of TypeMask in CBRecallAnyArgs (RFC 8881
// section 20.6.3).
const (
	RecallReadDeleg      uint32 = 0
	RecallWriteDeleg     uint32 = 1
	RecallDirDeleg       uint32 = 2
	RecallFileLayout     uint32 = 3
	RecallBlockLayout    uint32 = 4
	RecallObjLayoutMin   uint32 = 8
	RecallObjLayoutMax   uint32 = 9
	RecallOtherLayoutMin uint32 = 12
	RecallOtherLayoutMax uint32 = 15
)

// CBRecallAnyArgs asks the client to return delegations or layouts of its own choice
// (RFC 8881 section 20.6).
type CBRecallAnyArgs struct {
	ObjectsToKeep uint32
	TypeMask      Bitmap // RecallReadDeleg and the like
}

// Op implements CBArgs.
func (*CBRecallAnyArgs) Op() CBOpNum { return CBOpRecallAny }

// Encode implements CBArgs.
func (a *CBRecallAnyArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.ObjectsToKeep)
	a.TypeMask.Encode(e)
}

// Decode implements CBArgs.
func (a *CBRecallAnyArgs) Decode(d *xdr.Decoder) {
	a.ObjectsToKeep = d.Uint32()
	a.TypeMask.Decode(d)
}

// CBRecallAnyRes is the result of CB_RECALL_ANY.
type CBRecallAnyRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBRecallAnyRes) Op() CBOpNum { return CBOpRecallAny }

// Result implements CBRes.
func (r *CBRecallAnyRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBRecallAnyRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBRecallAnyRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBRecallableObjAvailArgs says that delegations or layouts can be had again
// (RFC 8881 section 20.7).
type CBRecallableObjAvailArgs struct {
	ObjectsToKeep uint32
	TypeMask      Bitmap // RecallReadDeleg and the like
}

// Op implements CBArgs.
func (*CBRecallableObjAvailArgs) Op() CBOpNum { return CBOpRecallableObjAvail }

// Encode implements CBArgs.
func (a *CBRecallableObjAvailArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.ObjectsToKeep)
	a.TypeMask.Encode(e)
}

// Decode implements CBArgs.
func (a *CBRecallableObjAvailArgs) Decode(d *xdr.Decoder) {
	a.ObjectsToKeep = d.Uint32()
	a.TypeMask.Decode(d)
}

// CBRecallableObjAvailRes is the result of CB_RECALLABLE_OBJ_AVAIL.
type CBRecallableObjAvailRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBRecallableObjAvailRes) Op() CBOpNum { return CBOpRecallableObjAvail }

// Result implements CBRes.
func (r *CBRecallableObjAvailRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBRecallableObjAvailRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBRecallableObjAvailRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBRecallSlotArgs asks the client to use fewer slots (RFC 8881 section 20.8).
type CBRecallSlotArgs struct {
	TargetHighestSlotID uint32
}

// Op implements CBArgs.
func (*CBRecallSlotArgs) Op() CBOpNum { return CBOpRecallSlot }

// Encode implements CBArgs.
func (a *CBRecallSlotArgs) Encode(e *xdr.Encoder) {
	e.Uint32(a.TargetHighestSlotID)
}

// Decode implements CBArgs.
func (a *CBRecallSlotArgs) Decode(d *xdr.Decoder) {
	a.TargetHighestSlotID = d.Uint32()
}

// CBRecallSlotRes is the result of CB_RECALL_SLOT.
type CBRecallSlotRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBRecallSlotRes) Op() CBOpNum { return CBOpRecallSlot }

// Result implements CBRes.
func (r *CBRecallSlotRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBRecallSlotRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBRecallSlotRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBWantsCancelledArgs says that wishes for delegations are forgotten
// (RFC 8881 section 20.10).
type CBWantsCancelledArgs struct {
	Contended bool // those refused for contention
	Resourced bool // those refused for lack of resources
}

// Op implements CBArgs.
func (*CBWantsCancelledArgs) Op() CBOpNum { return CBOpWantsCancelled }

// Encode implements CBArgs.
func (a *CBWantsCancelledArgs) Encode(e *xdr.Encoder) {
	e.Bool(a.Contended)
	e.Bool(a.Resourced)
}

// Decode implements CBArgs.
func (a *CBWantsCancelledArgs) Decode(d *xdr.Decoder) {
	a.Contended = d.Bool()
	a.Resourced = d.Bool()
}

// CBWantsCancelledRes is the result of CB_WANTS_CANCELLED.
type CBWantsCancelledRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBWantsCancelledRes) Op() CBOpNum { return CBOpWantsCancelled }

// Result implements CBRes.
func (r *CBWantsCancelledRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBWantsCancelledRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBWantsCancelledRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }

// CBOffloadArgs tell that an asynchronous copy has ended (RFC 7862 section
// 16.1).
type CBOffloadArgs struct {
	FH       FH
	StateID  StateID
	Status   Status
	Response WriteResponse // of OK
	Copied   uint64        // of a failure: bytes copied before it
}

// Op implements CBArgs.
func (*CBOffloadArgs) Op() CBOpNum { return CBOpOffload }

// Encode implements CBArgs.
func (a *CBOffloadArgs) Encode(e *xdr.Encoder) {
	a.FH.Encode(e)
	a.StateID.Encode(e)
	if encodeStatus(e, a.Status) {
		a.Response.Encode(e)
	} else {
		e.Uint64(a.Copied)
	}
}

// Decode implements CBArgs.
func (a *CBOffloadArgs) Decode(d *xdr.Decoder) {
	*a = CBOffloadArgs{}
	a.FH.Decode(d)
	a.StateID.Decode(d)
	if decodeStatus(d, &a.Status) {
		a.Response.Decode(d)
	} else {
		a.Copied = d.Uint64()
	}
}

// CBOffloadRes is the result of CB_OFFLOAD.
type CBOffloadRes struct {
	Status Status
}

// Op implements CBRes.
func (*CBOffloadRes) Op() CBOpNum { return CBOpOffload }

// Result implements CBRes.
func (r *CBOffloadRes) Result() Status { return r.Status }

// Encode implements CBRes.
func (r *CBOffloadRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements CBRes.
func (r *CBOffloadRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }
