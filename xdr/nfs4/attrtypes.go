package nfs4

import "nfsrdma-fuse/xdr"

// How filehandles expire (RFC 8881 section 5.8.1.3).
const (
	FHPersistent       uint32 = 0
	FHNoExpireWithOpen uint32 = 1
	FHVolatileAny      uint32 = 2
	FHVolMigration     uint32 = 4
	FHVolRename        uint32 = 8
)

// Kinds of ACE in Attrs.ACLSupport (RFC 8881 section 6.2.1.2).
const (
	ACLSupportAllow uint32 = 1
	ACLSupportDeny  uint32 = 2
	ACLSupportAudit uint32 = 4
	ACLSupportAlarm uint32 = 8
)

// Character sets in Attrs.FSCharsetCap (RFC 8881 section 14.4).
const (
	FSCharsetContainsNonUTF8 uint32 = 1
	FSCharsetAllowsOnlyUTF8  uint32 = 2
)

// ChangeAttrType tells what can be concluded from the change attribute
// (RFC 7862 section 12.2.3).
type ChangeAttrType uint32

// The kinds of change attribute.
const (
	ChangeMonotonic            ChangeAttrType = 0
	ChangeVersionCounter       ChangeAttrType = 1
	ChangeVersionCounterNoPNFS ChangeAttrType = 2
	ChangeTimeMetadata         ChangeAttrType = 3
	ChangeUndefined            ChangeAttrType = 4
)

// SetTime is a time to set: the server's clock, or Time if Client is set
// (RFC 8881 section 3.3.3).
type SetTime struct {
	Client bool
	Time   Time // meaningful if Client is set
}

// Encode appends v.
func (v *SetTime) Encode(e *xdr.Encoder) {
	e.Bool(v.Client)
	if v.Client {
		v.Time.Encode(e)
	}
}

// Decode takes v.
func (v *SetTime) Decode(d *xdr.Decoder) {
	*v = SetTime{Client: d.Bool()}
	if v.Client {
		v.Time.Decode(d)
	}
}

// ACE is an entry of an access control list (RFC 8881 section 6.2.1).
type ACE struct {
	Type uint32
	Flag uint32
	Mask uint32
	Who  string
}

// Encode appends v.
func (v *ACE) Encode(e *xdr.Encoder) {
	e.Uint32(v.Type)
	e.Uint32(v.Flag)
	e.Uint32(v.Mask)
	e.String(v.Who)
}

// Decode takes v.
func (v *ACE) Decode(d *xdr.Decoder) {
	v.Type = d.Uint32()
	v.Flag = d.Uint32()
	v.Mask = d.Uint32()
	v.Who = d.String(MaxOwnerString)
}

// Types of ACE (RFC 8881 section 6.2.1.1).
const (
	ACEAllow uint32 = 0
	ACEDeny  uint32 = 1
	ACEAudit uint32 = 2
	ACEAlarm uint32 = 3
)

// Flags of an ACE (RFC 8881 section 6.2.1.4).
const (
	ACEFileInherit      uint32 = 0x01
	ACEDirectoryInherit uint32 = 0x02
	ACENoPropagate      uint32 = 0x04
	ACEInheritOnly      uint32 = 0x08
	ACESuccessful       uint32 = 0x10
	ACEFailed           uint32 = 0x20
	ACEIdentifierGroup  uint32 = 0x40
	ACEInherited        uint32 = 0x80
)

// Bits of the mask of an ACE (RFC 8881 section 6.2.1.3).
const (
	ACEReadData          uint32 = 0x00000001 // of a directory: list it
	ACEWriteData         uint32 = 0x00000002 // of a directory: add a file
	ACEAppendData        uint32 = 0x00000004 // of a directory: add a directory
	ACEReadNamedAttrs    uint32 = 0x00000008
	ACEWriteNamedAttrs   uint32 = 0x00000010
	ACEExecute           uint32 = 0x00000020
	ACEDeleteChild       uint32 = 0x00000040
	ACEReadAttributes    uint32 = 0x00000080
	ACEWriteAttributes   uint32 = 0x00000100
	ACEWriteRetention    uint32 = 0x00000200
	ACEWriteRetentionHld uint32 = 0x00000400
	ACEDelete            uint32 = 0x00010000
	ACEReadACL           uint32 = 0x00020000
	ACEWriteACL          uint32 = 0x00040000
	ACEWriteOwner        uint32 = 0x00080000
	ACESynchronize       uint32 = 0x00100000
)

// ACL41 is the value of the dacl and sacl attributes (RFC 8881 section 6.2.2).
type ACL41 struct {
	Flag uint32 // inheritance: ACLAutoInherit and the like
	ACEs []ACE
}

// Encode appends v.
func (v *ACL41) Encode(e *xdr.Encoder) {
	e.Uint32(v.Flag)
	encodeList(e, v.ACEs)
}

// Decode takes v.
func (v *ACL41) Decode(d *xdr.Decoder) {
	v.Flag = d.Uint32()
	v.ACEs = decodeList[ACE](d, MaxACEs, 16)
}

// Flags of an ACL41 (RFC 8881 section 6.4.3.2).
const (
	ACLAutoInherit uint32 = 1
	ACLProtected   uint32 = 2
	ACLDefaulted   uint32 = 4
)

// ChangePolicy changes when the policy of a file system does
// (RFC 8881 section 3.3.6).
type ChangePolicy struct {
	Major uint64
	Minor uint64
}

// Encode appends v.
func (v *ChangePolicy) Encode(e *xdr.Encoder) {
	e.Uint64(v.Major)
	e.Uint64(v.Minor)
}

// Decode takes v.
func (v *ChangePolicy) Decode(d *xdr.Decoder) {
	v.Major = d.Uint64()
	v.Minor = d.Uint64()
}

// ModeMasked sets some of the mode bits (RFC 8881 section 6.2.5).
type ModeMasked struct {
	Value uint32
	Mask  uint32
}

// Encode appends v.
func (v *ModeMasked) Encode(e *xdr.Encoder) {
	e.Uint32(v.Value)
	e.Uint32(v.Mask)
}

// Decode takes v.
func (v *ModeMasked) Decode(d *xdr.Decoder) {
	v.Value = d.Uint32()
	v.Mask = d.Uint32()
}

// ModeUmask is the mode and the umask of a process that creates an object; the
// server applies the umask unless it inherits an ACL (RFC 8275 section 5).
type ModeUmask struct {
	Mode  uint32
	Umask uint32
}

// Encode appends v.
func (v *ModeUmask) Encode(e *xdr.Encoder) {
	e.Uint32(v.Mode)
	e.Uint32(v.Umask)
}

// Decode takes v.
func (v *ModeUmask) Decode(d *xdr.Decoder) {
	v.Mode = d.Uint32()
	v.Umask = d.Uint32()
}

// SecLabel is a label for mandatory access control (RFC 7862 section 12.2.4).
type SecLabel struct {
	LFS  uint32 // label format
	PI   uint32 // policy identifier
	Data []byte // aliases the stream when decoded
}

// Encode appends v.
func (v *SecLabel) Encode(e *xdr.Encoder) {
	e.Uint32(v.LFS)
	e.Uint32(v.PI)
	e.Opaque(v.Data)
}

// Decode takes v.
func (v *SecLabel) Decode(d *xdr.Decoder) {
	v.LFS = d.Uint32()
	v.PI = d.Uint32()
	v.Data = d.Opaque(MaxLabel)
}

// LayoutType is the type of a pNFS layout.
type LayoutType uint32

// The layout types of RFC 8881 section 3.3.13 and RFC 8435.
const (
	LayoutFiles     LayoutType = 1
	LayoutObjects   LayoutType = 2
	LayoutBlocks    LayoutType = 3
	LayoutFlexFiles LayoutType = 4
)

// MaxLayoutTypes bounds the list of layout types of a file system.
const MaxLayoutTypes = 64

// Encode appends v.
func (v *LayoutType) Encode(e *xdr.Encoder) { e.Uint32(uint32(*v)) }

// Decode takes v.
func (v *LayoutType) Decode(d *xdr.Decoder) { *v = LayoutType(d.Uint32()) }

// Component is a name within a path, at most MaxName bytes.
type Component string

// Encode appends v.
func (v *Component) Encode(e *xdr.Encoder) { e.String(string(*v)) }

// Decode takes v.
func (v *Component) Decode(d *xdr.Decoder) { *v = Component(d.String(MaxName)) }

// Bounds of FSLocations.
const (
	MaxPathDepth = 256 // components
	MaxLocations = 256 // locations, and servers of one location
)

// FSLocation is a place where a file system can be found.
type FSLocation struct {
	Servers  []Component // host names or addresses
	RootPath []Component // from the server's root
}

// Encode appends v.
func (v *FSLocation) Encode(e *xdr.Encoder) {
	encodeList(e, v.Servers)
	encodeList(e, v.RootPath)
}

// Decode takes v.
func (v *FSLocation) Decode(d *xdr.Decoder) {
	v.Servers = decodeList[Component](d, MaxLocations, 4)
	v.RootPath = decodeList[Component](d, MaxPathDepth, 4)
}

// FSLocations tells where a file system is or has gone to (RFC 8881 section 11.16).
type FSLocations struct {
	Root      []Component // path of the file system at this server
	Locations []FSLocation
}

// Encode appends v.
func (v *FSLocations) Encode(e *xdr.Encoder) {
	encodeList(e, v.Root)
	encodeList(e, v.Locations)
}

// Decode takes v.
func (v *FSLocations) Decode(d *xdr.Decoder) {
	v.Root = decodeList[Component](d, MaxPathDepth, 4)
	v.Locations = decodeList[FSLocation](d, MaxLocations, 8)
}
