package nfs4

import "nfsrdma-fuse/xdr"

// CreateArgs makes an object that is not a regular file in the current
// directory, and makes it the current filehandle (RFC 8881 section 18.4). The
// text of a symbolic link is DDP-eligible (RFC 8267 section 6.1).
type CreateArgs struct {
	Type     FileType
	LinkText []byte   // of a TypeLnk
	RawDev   SpecData // of a TypeBlk or TypeChr
	Name     string
	Attrs    Attrs
}

// Op implements Args.
func (*CreateArgs) Op() OpNum { return OpCreate }

// Encode implements Args.
func (a *CreateArgs) Encode(e *xdr.Encoder) {
	e.Uint32(uint32(a.Type))
	switch a.Type {
	case TypeLnk:
		e.Bulk(a.LinkText)
	case TypeBlk, TypeChr:
		a.RawDev.Encode(e)
	}
	e.String(a.Name)
	a.Attrs.Encode(e)
}

// Decode implements Args.
func (a *CreateArgs) Decode(d *xdr.Decoder) {
	*a = CreateArgs{Type: FileType(d.Uint32())}
	switch a.Type {
	case TypeLnk:
		a.LinkText, _ = d.Bulk(MaxLinkText)
	case TypeBlk, TypeChr:
		a.RawDev.Decode(d)
	}
	a.Name = d.String(MaxName)
	a.Attrs.Decode(d)
}

// CreateRes is the result of CREATE.
type CreateRes struct {
	Status   Status
	Change   ChangeInfo // of the directory
	AttrsSet Bitmap     // attributes that were set
}

// Op implements Res.
func (*CreateRes) Op() OpNum { return OpCreate }

// Result implements Res.
func (r *CreateRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *CreateRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Change.Encode(e)
		r.AttrsSet.Encode(e)
	}
}

// Decode implements Res.
func (r *CreateRes) Decode(d *xdr.Decoder) {
	*r = CreateRes{}
	if decodeStatus(d, &r.Status) {
		r.Change.Decode(d)
		r.AttrsSet.Decode(d)
	}
}

// RemoveArgs removes an entry of the current directory, which may be a directory
// itself (RFC 8881 section 18.25).
type RemoveArgs struct {
	Name string
}

// Op implements Args.
func (*RemoveArgs) Op() OpNum { return OpRemove }

// Encode implements Args.
func (a *RemoveArgs) Encode(e *xdr.Encoder) {
	e.String(a.Name)
}

// Decode implements Args.
func (a *RemoveArgs) Decode(d *xdr.Decoder) {
	a.Name = d.String(MaxName)
}

// RemoveRes is the result of REMOVE.
type RemoveRes struct {
	Status Status
	Change ChangeInfo // of the directory
}

// Op implements Res.
func (*RemoveRes) Op() OpNum { return OpRemove }

// Result implements Res.
func (r *RemoveRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *RemoveRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Change.Encode(e)
	}
}

// Decode implements Res.
func (r *RemoveRes) Decode(d *xdr.Decoder) {
	*r = RemoveRes{}
	if decodeStatus(d, &r.Status) {
		r.Change.Decode(d)
	}
}

// RenameArgs moves an entry of the saved directory into the current one
// (RFC 8881 section 18.26).
type RenameArgs struct {
	OldName string // in the saved directory
	NewName string // in the current directory
}

// Op implements Args.
func (*RenameArgs) Op() OpNum { return OpRename }

// Encode implements Args.
func (a *RenameArgs) Encode(e *xdr.Encoder) {
	e.String(a.OldName)
	e.String(a.NewName)
}

// Decode implements Args.
func (a *RenameArgs) Decode(d *xdr.Decoder) {
	a.OldName = d.String(MaxName)
	a.NewName = d.String(MaxName)
}

// RenameRes is the result of RENAME.
type RenameRes struct {
	Status Status
	Source ChangeInfo // of the saved directory
	Target ChangeInfo // of the current directory
}

// Op implements Res.
func (*RenameRes) Op() OpNum { return OpRename }

// Result implements Res.
func (r *RenameRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *RenameRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Source.Encode(e)
		r.Target.Encode(e)
	}
}

// Decode implements Res.
func (r *RenameRes) Decode(d *xdr.Decoder) {
	*r = RenameRes{}
	if decodeStatus(d, &r.Status) {
		r.Source.Decode(d)
		r.Target.Decode(d)
	}
}

// LinkArgs makes an entry for the saved object in the current directory
// (RFC 8881 section 18.9).
type LinkArgs struct {
	Name string
}

// Op implements Args.
func (*LinkArgs) Op() OpNum { return OpLink }

// Encode implements Args.
func (a *LinkArgs) Encode(e *xdr.Encoder) {
	e.String(a.Name)
}

// Decode implements Args.
func (a *LinkArgs) Decode(d *xdr.Decoder) {
	a.Name = d.String(MaxName)
}

// LinkRes is the result of LINK.
type LinkRes struct {
	Status Status
	Change ChangeInfo // of the directory
}

// Op implements Res.
func (*LinkRes) Op() OpNum { return OpLink }

// Result implements Res.
func (r *LinkRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *LinkRes) Encode(e *xdr.Encoder) {
	if encodeStatus(e, r.Status) {
		r.Change.Encode(e)
	}
}

// Decode implements Res.
func (r *LinkRes) Decode(d *xdr.Decoder) {
	*r = LinkRes{}
	if decodeStatus(d, &r.Status) {
		r.Change.Decode(d)
	}
}

// OpenAttrArgs makes the named attribute directory of the current object the current
// filehandle (RFC 8881 section 18.17).
type OpenAttrArgs struct {
	Create bool // make one if there is none
}

// Op implements Args.
func (*OpenAttrArgs) Op() OpNum { return OpOpenAttr }

// Encode implements Args.
func (a *OpenAttrArgs) Encode(e *xdr.Encoder) {
	e.Bool(a.Create)
}

// Decode implements Args.
func (a *OpenAttrArgs) Decode(d *xdr.Decoder) {
	a.Create = d.Bool()
}

// OpenAttrRes is the result of OPENATTR.
type OpenAttrRes struct {
	Status Status
}

// Op implements Res.
func (*OpenAttrRes) Op() OpNum { return OpOpenAttr }

// Result implements Res.
func (r *OpenAttrRes) Result() Status { return r.Status }

// Encode implements Res.
func (r *OpenAttrRes) Encode(e *xdr.Encoder) { e.Uint32(uint32(r.Status)) }

// Decode implements Res.
func (r *OpenAttrRes) Decode(d *xdr.Decoder) { r.Status = Status(d.Uint32()) }
