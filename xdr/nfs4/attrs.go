package nfs4

import (
	"errors"
	"math/bits"

	"nfsrdma-fuse/xdr"
)

// ErrUnknownAttr is the cause of a failure to encode or decode an attribute
// that is not in KnownAttrs.
var ErrUnknownAttr = errors.New("nfs4: attribute of an unknown type")

// errAttrLen means that attribute values do not fill their list exactly.
var errAttrLen = errors.New("nfs4: attribute list longer or shorter than its values")

// KnownAttrs are the attributes that Attrs has a field for. No other may be
// asked for, because a reply with a value of unknown type cannot be decoded. Those
// that are missing serve pNFS hints, retention and replicas: fs_status,
// layout_hint, fs_locations_info, mdsthreshold and the retention attributes.
var KnownAttrs = MakeBitmap(
	AttrSupportedAttrs, AttrType, AttrFHExpireType, AttrChange, AttrSize, AttrLinkSupport, AttrSymlinkSupport, AttrNamedAttr, AttrFSID, AttrUniqueHandles, AttrLeaseTime, AttrRDAttrError, AttrACL, AttrACLSupport, AttrArchive, AttrCanSetTime, AttrCaseInsensitive, AttrCasePreserving, AttrChownRestricted, AttrFileHandle, AttrFileID, AttrFilesAvail, AttrFilesFree, AttrFilesTotal, AttrFSLocations, AttrHidden, AttrHomogeneous, AttrMaxFileSize, AttrMaxLink, AttrMaxName, AttrMaxRead, AttrMaxWrite, AttrMimeType, AttrMode, AttrNoTrunc, AttrNumLinks, AttrOwner, AttrOwnerGroup, AttrQuotaAvailHard, AttrQuotaAvailSoft, AttrQuotaUsed, AttrRawDev, AttrSpaceAvail, AttrSpaceFree, AttrSpaceTotal, AttrSpaceUsed, AttrSystem, AttrTimeAccess, AttrTimeAccessSet, AttrTimeBackup, AttrTimeCreate, AttrTimeDelta, AttrTimeMetadata, AttrTimeModify, AttrTimeModifySet, AttrMountedOnFileID, AttrDirNotifDelay, AttrDirentNotifDelay, AttrDACL, AttrSACL, AttrChangePolicy, AttrFSLayoutTypes, AttrLayoutTypes, AttrLayoutBlkSize, AttrLayoutAlignment, AttrModeSetMasked, AttrSuppAttrExclCreat, AttrFSCharsetCap, AttrCloneBlkSize, AttrSpaceFreed, AttrChangeAttrType, AttrSecLabel, AttrModeUmask, AttrXattrSupport,
)

// Attrs are attributes of a file system object or of its file system. Mask
// tells which of the fields have a value; the others are zero after Decode and
// ignored by Encode.
//
// On the wire the values follow the mask in the order of their numbers, packed
// into an opaque (RFC 8881 section 3.3.7):
//
//	+----------+----------------+-----------+------------------------+
//	| words  4 | mask   words*4 | length  4 | values          length |
//	+----------+----------------+-----------+------------------------+
//
// Decoding allocates nothing for attributes of fixed size, and nothing for
// the names of owners and groups once they have been seen.
type Attrs struct {
	Mask Bitmap

	SupportedAttrs    Bitmap // attributes that the server supports for this object
	Type              FileType
	FHExpireType      uint32 // how filehandles expire, FHPersistent if never
	Change            uint64 // changes whenever data, metadata or entries change
	Size              uint64 // bytes
	LinkSupport       bool   // the file system has hard links
	SymlinkSupport    bool   // the file system has symbolic links
	NamedAttr         bool   // the object has named attributes
	FSID              FSID
	UniqueHandles     bool   // two filehandles differ if and only if their objects differ
	LeaseTime         uint32 // seconds
	RDAttrError       Status // why the other attributes of a READDIR entry are missing
	ACL               []ACE
	ACLSupport        uint32 // kinds of ACE that the server supports, a bit each
	Archive           bool
	CanSetTime        bool
	CaseInsensitive   bool
	CasePreserving    bool
	ChownRestricted   bool
	FileHandle        FH // aliases the stream when decoded
	FileID            uint64
	FilesAvail        uint64
	FilesFree         uint64
	FilesTotal        uint64
	FSLocations       FSLocations
	Hidden            bool
	Homogeneous       bool
	MaxFileSize       uint64 // bytes
	MaxLink           uint32
	MaxName           uint32 // bytes
	MaxRead           uint64 // bytes
	MaxWrite          uint64 // bytes
	MimeType          string
	Mode              uint32 // the lower 12 bits of st_mode
	NoTrunc           bool
	NumLinks          uint32
	Owner             string // name@domain, or a number in decimal (RFC 8881 section 5.9)
	OwnerGroup        string // as Owner
	QuotaAvailHard    uint64 // bytes
	QuotaAvailSoft    uint64 // bytes
	QuotaUsed         uint64 // bytes
	RawDev            SpecData
	SpaceAvail        uint64 // bytes that the user can still write
	SpaceFree         uint64 // bytes
	SpaceTotal        uint64 // bytes
	SpaceUsed         uint64 // bytes
	System            bool
	TimeAccess        Time
	TimeAccessSet     SetTime // in SETATTR, OPEN and CREATE only
	TimeBackup        Time
	TimeCreate        Time
	TimeDelta         Time // the smallest step of the server's times
	TimeMetadata      Time
	TimeModify        Time
	TimeModifySet     SetTime // in SETATTR, OPEN and CREATE only
	MountedOnFileID   uint64  // the fileid of the directory below a mount point
	DirNotifDelay     Time
	DirentNotifDelay  Time
	DACL              ACL41
	SACL              ACL41
	ChangePolicy      ChangePolicy
	FSLayoutTypes     []LayoutType // pNFS layout types of the file system
	LayoutTypes       []LayoutType // pNFS layout types of the file
	LayoutBlkSize     uint32       // bytes
	LayoutAlignment   uint32       // bytes
	ModeSetMasked     ModeMasked   // in SETATTR, OPEN and CREATE only
	SuppAttrExclCreat Bitmap       // attributes that OPEN with CreateExclusive41 can set
	FSCharsetCap      uint32
	CloneBlkSize      uint32         // bytes, the granularity of CLONE
	SpaceFreed        uint64         // bytes
	ChangeAttrType    ChangeAttrType // what can be concluded from Change
	SecLabel          SecLabel
	ModeUmask         ModeUmask // in OPEN and CREATE only
	XattrSupport      bool
}

// Has tells whether attribute n has a value.
func (a *Attrs) Has(n Attr) bool { return a.Mask.Has(n) }

// Encode appends the mask and the values.
func (a *Attrs) Encode(e *xdr.Encoder) {
	a.Mask.Encode(e)
	at := e.Len()
	e.Uint32(0)
	for w, word := range a.Mask {
		for ; word != 0; word &= word - 1 {
			a.encodeAttr(e, Attr(w*32+bits.TrailingZeros32(word)))
		}
	}
	if e.Err() == nil {
		e.PutUint32(at, uint32(e.Len()-at-4))
	}
}

// Decode takes the mask and the values. An attribute outside KnownAttrs is an
// error.
func (a *Attrs) Decode(d *xdr.Decoder) {
	*a = Attrs{}
	if a.Mask.decode(d) {
		d.Fail(ErrUnknownAttr)
	}
	n := d.Count(MaxAttrs)
	end := d.Pos() + n
	for w, word := range a.Mask {
		for ; word != 0 && d.Err() == nil; word &= word - 1 {
			a.decodeAttr(d, Attr(w*32+bits.TrailingZeros32(word)))
		}
	}
	if d.Err() == nil && d.Pos() != end {
		d.Fail(errAttrLen)
	}
}
