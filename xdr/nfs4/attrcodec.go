package nfs4

import "nfsrdma-fuse/xdr"

// encodeAttr appends the value of attribute n.
func (a *Attrs) encodeAttr(e *xdr.Encoder, n Attr) {
	switch n {
	case AttrSupportedAttrs:
		a.SupportedAttrs.Encode(e)
	case AttrType:
		e.Uint32(uint32(a.Type))
	case AttrFHExpireType:
		e.Uint32(a.FHExpireType)
	case AttrChange:
		e.Uint64(a.Change)
	case AttrSize:
		e.Uint64(a.Size)
	case AttrLinkSupport:
		e.Bool(a.LinkSupport)
	case AttrSymlinkSupport:
		e.Bool(a.SymlinkSupport)
	case AttrNamedAttr:
		e.Bool(a.NamedAttr)
	case AttrFSID:
		a.FSID.Encode(e)
	case AttrUniqueHandles:
		e.Bool(a.UniqueHandles)
	case AttrLeaseTime:
		e.Uint32(a.LeaseTime)
	case AttrRDAttrError:
		e.Uint32(uint32(a.RDAttrError))
	case AttrACL:
		encodeList(e, a.ACL)
	case AttrACLSupport:
		e.Uint32(a.ACLSupport)
	case AttrArchive:
		e.Bool(a.Archive)
	case AttrCanSetTime:
		e.Bool(a.CanSetTime)
	case AttrCaseInsensitive:
		e.Bool(a.CaseInsensitive)
	case AttrCasePreserving:
		e.Bool(a.CasePreserving)
	case AttrChownRestricted:
		e.Bool(a.ChownRestricted)
	case AttrFileHandle:
		a.FileHandle.Encode(e)
	case AttrFileID:
		e.Uint64(a.FileID)
	case AttrFilesAvail:
		e.Uint64(a.FilesAvail)
	case AttrFilesFree:
		e.Uint64(a.FilesFree)
	case AttrFilesTotal:
		e.Uint64(a.FilesTotal)
	case AttrFSLocations:
		a.FSLocations.Encode(e)
	case AttrHidden:
		e.Bool(a.Hidden)
	case AttrHomogeneous:
		e.Bool(a.Homogeneous)
	case AttrMaxFileSize:
		e.Uint64(a.MaxFileSize)
	case AttrMaxLink:
		e.Uint32(a.MaxLink)
	case AttrMaxName:
		e.Uint32(a.MaxName)
	case AttrMaxRead:
		e.Uint64(a.MaxRead)
	case AttrMaxWrite:
		e.Uint64(a.MaxWrite)
	case AttrMimeType:
		e.String(a.MimeType)
	case AttrMode:
		e.Uint32(a.Mode)
	case AttrNoTrunc:
		e.Bool(a.NoTrunc)
	case AttrNumLinks:
		e.Uint32(a.NumLinks)
	case AttrOwner:
		e.String(a.Owner)
	case AttrOwnerGroup:
		e.String(a.OwnerGroup)
	case AttrQuotaAvailHard:
		e.Uint64(a.QuotaAvailHard)
	case AttrQuotaAvailSoft:
		e.Uint64(a.QuotaAvailSoft)
	case AttrQuotaUsed:
		e.Uint64(a.QuotaUsed)
	case AttrRawDev:
		a.RawDev.Encode(e)
	case AttrSpaceAvail:
		e.Uint64(a.SpaceAvail)
	case AttrSpaceFree:
		e.Uint64(a.SpaceFree)
	case AttrSpaceTotal:
		e.Uint64(a.SpaceTotal)
	case AttrSpaceUsed:
		e.Uint64(a.SpaceUsed)
	case AttrSystem:
		e.Bool(a.System)
	case AttrTimeAccess:
		a.TimeAccess.Encode(e)
	case AttrTimeAccessSet:
		a.TimeAccessSet.Encode(e)
	case AttrTimeBackup:
		a.TimeBackup.Encode(e)
	case AttrTimeCreate:
		a.TimeCreate.Encode(e)
	case AttrTimeDelta:
		a.TimeDelta.Encode(e)
	case AttrTimeMetadata:
		a.TimeMetadata.Encode(e)
	case AttrTimeModify:
		a.TimeModify.Encode(e)
	case AttrTimeModifySet:
		a.TimeModifySet.Encode(e)
	case AttrMountedOnFileID:
		e.Uint64(a.MountedOnFileID)
	case AttrDirNotifDelay:
		a.DirNotifDelay.Encode(e)
	case AttrDirentNotifDelay:
		a.DirentNotifDelay.Encode(e)
	case AttrDACL:
		a.DACL.Encode(e)
	case AttrSACL:
		a.SACL.Encode(e)
	case AttrChangePolicy:
		a.ChangePolicy.Encode(e)
	case AttrFSLayoutTypes:
		encodeList(e, a.FSLayoutTypes)
	case AttrLayoutTypes:
		encodeList(e, a.LayoutTypes)
	case AttrLayoutBlkSize:
		e.Uint32(a.LayoutBlkSize)
	case AttrLayoutAlignment:
		e.Uint32(a.LayoutAlignment)
	case AttrModeSetMasked:
		a.ModeSetMasked.Encode(e)
	case AttrSuppAttrExclCreat:
		a.SuppAttrExclCreat.Encode(e)
	case AttrFSCharsetCap:
		e.Uint32(a.FSCharsetCap)
	case AttrCloneBlkSize:
		e.Uint32(a.CloneBlkSize)
	case AttrSpaceFreed:
		e.Uint64(a.SpaceFreed)
	case AttrChangeAttrType:
		e.Uint32(uint32(a.ChangeAttrType))
	case AttrSecLabel:
		a.SecLabel.Encode(e)
	case AttrModeUmask:
		a.ModeUmask.Encode(e)
	case AttrXattrSupport:
		e.Bool(a.XattrSupport)
	default:
		e.Fail(ErrUnknownAttr)
	}
}

// decodeAttr takes the value of attribute n. Without knowing the type of an
// attribute its length is not known either, so one of an unknown number ends
// the decoding.
func (a *Attrs) decodeAttr(d *xdr.Decoder, n Attr) {
	switch n {
	case AttrSupportedAttrs:
		a.SupportedAttrs.Decode(d)
	case AttrType:
		a.Type = FileType(d.Uint32())
	case AttrFHExpireType:
		a.FHExpireType = d.Uint32()
	case AttrChange:
		a.Change = d.Uint64()
	case AttrSize:
		a.Size = d.Uint64()
	case AttrLinkSupport:
		a.LinkSupport = d.Bool()
	case AttrSymlinkSupport:
		a.SymlinkSupport = d.Bool()
	case AttrNamedAttr:
		a.NamedAttr = d.Bool()
	case AttrFSID:
		a.FSID.Decode(d)
	case AttrUniqueHandles:
		a.UniqueHandles = d.Bool()
	case AttrLeaseTime:
		a.LeaseTime = d.Uint32()
	case AttrRDAttrError:
		a.RDAttrError = Status(d.Uint32())
	case AttrACL:
		a.ACL = decodeList[ACE](d, MaxACEs, 16)
	case AttrACLSupport:
		a.ACLSupport = d.Uint32()
	case AttrArchive:
		a.Archive = d.Bool()
	case AttrCanSetTime:
		a.CanSetTime = d.Bool()
	case AttrCaseInsensitive:
		a.CaseInsensitive = d.Bool()
	case AttrCasePreserving:
		a.CasePreserving = d.Bool()
	case AttrChownRestricted:
		a.ChownRestricted = d.Bool()
	case AttrFileHandle:
		a.FileHandle.Decode(d)
	case AttrFileID:
		a.FileID = d.Uint64()
	case AttrFilesAvail:
		a.FilesAvail = d.Uint64()
	case AttrFilesFree:
		a.FilesFree = d.Uint64()
	case AttrFilesTotal:
		a.FilesTotal = d.Uint64()
	case AttrFSLocations:
		a.FSLocations.Decode(d)
	case AttrHidden:
		a.Hidden = d.Bool()
	case AttrHomogeneous:
		a.Homogeneous = d.Bool()
	case AttrMaxFileSize:
		a.MaxFileSize = d.Uint64()
	case AttrMaxLink:
		a.MaxLink = d.Uint32()
	case AttrMaxName:
		a.MaxName = d.Uint32()
	case AttrMaxRead:
		a.MaxRead = d.Uint64()
	case AttrMaxWrite:
		a.MaxWrite = d.Uint64()
	case AttrMimeType:
		a.MimeType = d.String(MaxOwnerString)
	case AttrMode:
		a.Mode = d.Uint32()
	case AttrNoTrunc:
		a.NoTrunc = d.Bool()
	case AttrNumLinks:
		a.NumLinks = d.Uint32()
	case AttrOwner:
		a.Owner = owners.get(d.Opaque(MaxOwnerString))
	case AttrOwnerGroup:
		a.OwnerGroup = owners.get(d.Opaque(MaxOwnerString))
	case AttrQuotaAvailHard:
		a.QuotaAvailHard = d.Uint64()
	case AttrQuotaAvailSoft:
		a.QuotaAvailSoft = d.Uint64()
	case AttrQuotaUsed:
		a.QuotaUsed = d.Uint64()
	case AttrRawDev:
		a.RawDev.Decode(d)
	case AttrSpaceAvail:
		a.SpaceAvail = d.Uint64()
	case AttrSpaceFree:
		a.SpaceFree = d.Uint64()
	case AttrSpaceTotal:
		a.SpaceTotal = d.Uint64()
	case AttrSpaceUsed:
		a.SpaceUsed = d.Uint64()
	case AttrSystem:
		a.System = d.Bool()
	case AttrTimeAccess:
		a.TimeAccess.Decode(d)
	case AttrTimeAccessSet:
		a.TimeAccessSet.Decode(d)
	case AttrTimeBackup:
		a.TimeBackup.Decode(d)
	case AttrTimeCreate:
		a.TimeCreate.Decode(d)
	case AttrTimeDelta:
		a.TimeDelta.Decode(d)
	case AttrTimeMetadata:
		a.TimeMetadata.Decode(d)
	case AttrTimeModify:
		a.TimeModify.Decode(d)
	case AttrTimeModifySet:
		a.TimeModifySet.Decode(d)
	case AttrMountedOnFileID:
		a.MountedOnFileID = d.Uint64()
	case AttrDirNotifDelay:
		a.DirNotifDelay.Decode(d)
	case AttrDirentNotifDelay:
		a.DirentNotifDelay.Decode(d)
	case AttrDACL:
		a.DACL.Decode(d)
	case AttrSACL:
		a.SACL.Decode(d)
	case AttrChangePolicy:
		a.ChangePolicy.Decode(d)
	case AttrFSLayoutTypes:
		a.FSLayoutTypes = decodeList[LayoutType](d, MaxLayoutTypes, 4)
	case AttrLayoutTypes:
		a.LayoutTypes = decodeList[LayoutType](d, MaxLayoutTypes, 4)
	case AttrLayoutBlkSize:
		a.LayoutBlkSize = d.Uint32()
	case AttrLayoutAlignment:
		a.LayoutAlignment = d.Uint32()
	case AttrModeSetMasked:
		a.ModeSetMasked.Decode(d)
	case AttrSuppAttrExclCreat:
		a.SuppAttrExclCreat.Decode(d)
	case AttrFSCharsetCap:
		a.FSCharsetCap = d.Uint32()
	case AttrCloneBlkSize:
		a.CloneBlkSize = d.Uint32()
	case AttrSpaceFreed:
		a.SpaceFreed = d.Uint64()
	case AttrChangeAttrType:
		a.ChangeAttrType = ChangeAttrType(d.Uint32())
	case AttrSecLabel:
		a.SecLabel.Decode(d)
	case AttrModeUmask:
		a.ModeUmask.Decode(d)
	case AttrXattrSupport:
		a.XattrSupport = d.Bool()
	default:
		d.Fail(ErrUnknownAttr)
	}
}
