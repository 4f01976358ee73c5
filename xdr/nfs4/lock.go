package nfs4

import "nfsrdma-fuse/xdr"

// LockType is the type of a byte-range lock (RFC 8881 section 18.10).
type LockType uint32

// The types of lock. The server may tell a client that asked for one of the
// last two when the lock has become free (CB_NOTIFY_LOCK).
const (
	ReadLock      LockType = 1
	WriteLock     LockType = 2
	ReadWaitLock  LockType = 3
	WriteWaitLock LockType = 4
)

// MaxLength as the length of a lock means up to the largest offset.
const MaxLength = ^uint64(0)

// LockArgs locks bytes of the current file (RFC 8881 section 18.10).
type LockArgs struct {
	Type    LockType
	Reclaim bool
	Offset  uint64 // bytes
	Length  uint64 // bytes, not 0; MaxLength means to the end
	// NewOwner tells that the owner has no lock stateid for this open yet.
	NewOwner    bool
	OpenSeqid   uint32    // if NewOwner; not used in minor version 1
	OpenStateID StateID   // if NewOwner
	Owner       LockOwner // if NewOwner
	LockSeqid   uint32    // not used in minor version 1
	LockStateID StateID   // unless NewOwner
}

// Op implements Args.
func (*LockArgs) Op() OpNum { return OpLock }

// Encode implements Args.
func (a *LockArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Type))
	e.Bool(a.Reclaim)
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
	e.Bool(a.NewOwner)
	if a.NewOwner {
		e.Uint32(a.OpenSeqid)
		a.OpenStateID.Encode(e)
		e.Uint32(a.LockSeqid)
		a.Owner.Encode(e)
	} else {
		a.LockStateID.Encode(e)
		e.Uint32(a.LockSeqid)
	}
}

// Decode implements Args.
func (a *LockArgs) Decode(d *xdr.Decoder) {
	*a = LockArgs{
		Type:     LockType(enum(d, uint32(ReadLock), uint32(WriteWaitLock))),
		Reclaim:  d.Bool(),
		Offset:   d.Uint64(),
		Length:   d.Uint64(),
		NewOwner: d.Bool(),
	}
	if a.NewOwner {
		a.OpenSeqid = d.Uint32()
		a.OpenStateID.Decode(d)
		a.LockSeqid = d.Uint32()
		a.Owner.Decode(d)
	} else {
		a.LockStateID.Decode(d)
		a.LockSeqid = d.Uint32()
	}
}

// LockDenied describes a lock that is in the way.
type LockDenied struct {
	Offset uint64 // bytes
	Length uint64 // bytes
	Type   LockType
	Owner  LockOwner
}

// Encode appends v.
func (v *LockDenied) Encode(e *xdr.Encoder) {
	e.Uint64(v.Offset)
	e.Uint64(v.Length)
	e.Uint32(uint32(v.Type))
	v.Owner.Encode(e)
}

// Decode takes v.
func (v *LockDenied) Decode(d *xdr.Decoder) {
	v.Offset = d.Uint64()
	v.Length = d.Uint64()
	v.Type = LockType(enum(d, uint32(ReadLock), uint32(WriteWaitLock)))
	v.Owner.Decode(d)
}

// LockRes is the result of LOCK.
type LockRes struct {
	Status  Status
	StateID StateID    // of OK
	Denied  LockDenied // of ErrDenied
}

// Op implements Res.
func (*LockRes) Op() OpNum { return OpLock }

// Result implements Res.
func (r *LockRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LockRes) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	switch r.Status {
	case OK:
		r.StateID.Encode(e)
	case ErrDenied:
		r.Denied.Encode(e)
	}
}

// Decode implements Res.
func (r *LockRes) Decode(d *xdr.Decoder) {
	*r = LockRes{Status: Status(d.Uint32())}
	switch r.Status {
	case OK:
		r.StateID.Decode(d)
	case ErrDenied:
		r.Denied.Decode(d)
	}
}

// LockTArgs asks whether a lock could be had (RFC 8881 section 18.11).
type LockTArgs struct {
	Type   LockType
	Offset uint64 // bytes
	Length uint64 // bytes, not 0; MaxLength means to the end
	Owner  LockOwner
}

// Op implements Args.
func (*LockTArgs) Op() OpNum { return OpLockT }

// Encode implements Args.
func (a *LockTArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Type))
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
	a.Owner.Encode(e)
}

// Decode implements Args.
func (a *LockTArgs) Decode(d *xdr.Decoder) {
	a.Type = LockType(enum(d, uint32(ReadLock), uint32(WriteWaitLock)))
	a.Offset = d.Uint64()
	a.Length = d.Uint64()
	a.Owner.Decode(d)
}

// LockTRes is the result of LOCKT: OK if the lock could be had.
type LockTRes struct {
	Status Status
	Denied LockDenied // of ErrDenied
}

// Op implements Res.
func (*LockTRes) Op() OpNum { return OpLockT }

// Result implements Res.
func (r *LockTRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LockTRes) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(r.Status))
	if r.Status == ErrDenied {
		r.Denied.Encode(e)
	}
}

// Decode implements Res.
func (r *LockTRes) Decode(d *xdr.Decoder) {
	*r = LockTRes{Status: Status(d.Uint32())}
	if r.Status == ErrDenied {
		r.Denied.Decode(d)
	}
}

// LockUArgs unlocks bytes of the current file (RFC 8881 section 18.12).
type LockUArgs struct {
	Type    LockType
	Seqid   uint32 // not used in minor version 1
	StateID StateID
	Offset  uint64 // bytes
	Length  uint64 // bytes, not 0; MaxLength means to the end
}

// Op implements Args.
func (*LockUArgs) Op() OpNum { return OpLockU }

// Encode implements Args.
func (a *LockUArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Type))
	e.Uint32(a.Seqid)
	a.StateID.Encode(e)
	e.Uint64(a.Offset)
	e.Uint64(a.Length)
}

// Decode implements Args.
func (a *LockUArgs) Decode(d *xdr.Decoder) {
	a.Type = LockType(enum(d, uint32(ReadLock), uint32(WriteWaitLock)))
	a.Seqid = d.Uint32()
	a.StateID.Decode(d)
	a.Offset = d.Uint64()
	a.Length = d.Uint64()
}

// LockURes is the result of LOCKU.
type LockURes struct {
	Status  Status
	StateID StateID
}

// Op implements Res.
func (*LockURes) Op() OpNum { return OpLockU }

// Result implements Res.
func (r *LockURes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LockURes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.StateID.Encode(e)
	}
}

// Decode implements Res.
func (r *LockURes) Decode(d *xdr.Decoder) {
	*r = LockURes{}
	if decodeStatus(d, &r.Status) {
		r.StateID.Decode(d)
	}
}
