package nfs4

import "strconv"

// Attr is the number of a file attribute: its bit in a Bitmap.
type Attr uint32

// The attributes of minor versions 1 and 2 (RFC 8881 section 5, RFC 7862
// section 12), mode_umask (RFC 8275 section 5) and xattr_support (RFC 8276
// section 8.2).
const (
	AttrSupportedAttrs    Attr = 0
	AttrType              Attr = 1
	AttrFHExpireType      Attr = 2
	AttrChange            Attr = 3
	AttrSize              Attr = 4
	AttrLinkSupport       Attr = 5
	AttrSymlinkSupport    Attr = 6
	AttrNamedAttr         Attr = 7
	AttrFSID              Attr = 8
	AttrUniqueHandles     Attr = 9
	AttrLeaseTime         Attr = 10
	AttrRDAttrError       Attr = 11
	AttrACL               Attr = 12
	AttrACLSupport        Attr = 13
	AttrArchive           Attr = 14
	AttrCanSetTime        Attr = 15
	AttrCaseInsensitive   Attr = 16
	AttrCasePreserving    Attr = 17
	AttrChownRestricted   Attr = 18
	AttrFileHandle        Attr = 19
	AttrFileID            Attr = 20
	AttrFilesAvail        Attr = 21
	AttrFilesFree         Attr = 22
	AttrFilesTotal        Attr = 23
	AttrFSLocations       Attr = 24
	AttrHidden            Attr = 25
	AttrHomogeneous       Attr = 26
	AttrMaxFileSize       Attr = 27
	AttrMaxLink           Attr = 28
	AttrMaxName           Attr = 29
	AttrMaxRead           Attr = 30
	AttrMaxWrite          Attr = 31
	AttrMimeType          Attr = 32
	AttrMode              Attr = 33
	AttrNoTrunc           Attr = 34
	AttrNumLinks          Attr = 35
	AttrOwner             Attr = 36
	AttrOwnerGroup        Attr = 37
	AttrQuotaAvailHard    Attr = 38
	AttrQuotaAvailSoft    Attr = 39
	AttrQuotaUsed         Attr = 40
	AttrRawDev            Attr = 41
	AttrSpaceAvail        Attr = 42
	AttrSpaceFree         Attr = 43
	AttrSpaceTotal        Attr = 44
	AttrSpaceUsed         Attr = 45
	AttrSystem            Attr = 46
	AttrTimeAccess        Attr = 47
	AttrTimeAccessSet     Attr = 48
	AttrTimeBackup        Attr = 49
	AttrTimeCreate        Attr = 50
	AttrTimeDelta         Attr = 51
	AttrTimeMetadata      Attr = 52
	AttrTimeModify        Attr = 53
	AttrTimeModifySet     Attr = 54
	AttrMountedOnFileID   Attr = 55
	AttrDirNotifDelay     Attr = 56
	AttrDirentNotifDelay  Attr = 57
	AttrDACL              Attr = 58
	AttrSACL              Attr = 59
	AttrChangePolicy      Attr = 60
	AttrFSStatus          Attr = 61
	AttrFSLayoutTypes     Attr = 62
	AttrLayoutHint        Attr = 63
	AttrLayoutTypes       Attr = 64
	AttrLayoutBlkSize     Attr = 65
	AttrLayoutAlignment   Attr = 66
	AttrFSLocationsInfo   Attr = 67
	AttrMDSThreshold      Attr = 68
	AttrRetentionGet      Attr = 69
	AttrRetentionSet      Attr = 70
	AttrRetentEvtGet      Attr = 71
	AttrRetentEvtSet      Attr = 72
	AttrRetentionHold     Attr = 73
	AttrModeSetMasked     Attr = 74
	AttrSuppAttrExclCreat Attr = 75
	AttrFSCharsetCap      Attr = 76
	AttrCloneBlkSize      Attr = 77
	AttrSpaceFreed        Attr = 78
	AttrChangeAttrType    Attr = 79
	AttrSecLabel          Attr = 80
	AttrModeUmask         Attr = 81
	AttrXattrSupport      Attr = 82
)

// String returns the name that the RFCs use, or "attr" and the number.
func (a Attr) String() string {
	if int(a) < len(attrNames) {
		return attrNames[a]
	}
	return "attr" + strconv.Itoa(int(a))
}

var attrNames = [...]string{
	AttrSupportedAttrs:    "supported_attrs",
	AttrType:              "type",
	AttrFHExpireType:      "fh_expire_type",
	AttrChange:            "change",
	AttrSize:              "size",
	AttrLinkSupport:       "link_support",
	AttrSymlinkSupport:    "symlink_support",
	AttrNamedAttr:         "named_attr",
	AttrFSID:              "fsid",
	AttrUniqueHandles:     "unique_handles",
	AttrLeaseTime:         "lease_time",
	AttrRDAttrError:       "rdattr_error",
	AttrACL:               "acl",
	AttrACLSupport:        "aclsupport",
	AttrArchive:           "archive",
	AttrCanSetTime:        "cansettime",
	AttrCaseInsensitive:   "case_insensitive",
	AttrCasePreserving:    "case_preserving",
	AttrChownRestricted:   "chown_restricted",
	AttrFileHandle:        "filehandle",
	AttrFileID:            "fileid",
	AttrFilesAvail:        "files_avail",
	AttrFilesFree:         "files_free",
	AttrFilesTotal:        "files_total",
	AttrFSLocations:       "fs_locations",
	AttrHidden:            "hidden",
	AttrHomogeneous:       "homogeneous",
	AttrMaxFileSize:       "maxfilesize",
	AttrMaxLink:           "maxlink",
	AttrMaxName:           "maxname",
	AttrMaxRead:           "maxread",
	AttrMaxWrite:          "maxwrite",
	AttrMimeType:          "mimetype",
	AttrMode:              "mode",
	AttrNoTrunc:           "no_trunc",
	AttrNumLinks:          "numlinks",
	AttrOwner:             "owner",
	AttrOwnerGroup:        "owner_group",
	AttrQuotaAvailHard:    "quota_avail_hard",
	AttrQuotaAvailSoft:    "quota_avail_soft",
	AttrQuotaUsed:         "quota_used",
	AttrRawDev:            "rawdev",
	AttrSpaceAvail:        "space_avail",
	AttrSpaceFree:         "space_free",
	AttrSpaceTotal:        "space_total",
	AttrSpaceUsed:         "space_used",
	AttrSystem:            "system",
	AttrTimeAccess:        "time_access",
	AttrTimeAccessSet:     "time_access_set",
	AttrTimeBackup:        "time_backup",
	AttrTimeCreate:        "time_create",
	AttrTimeDelta:         "time_delta",
	AttrTimeMetadata:      "time_metadata",
	AttrTimeModify:        "time_modify",
	AttrTimeModifySet:     "time_modify_set",
	AttrMountedOnFileID:   "mounted_on_fileid",
	AttrDirNotifDelay:     "dir_notif_delay",
	AttrDirentNotifDelay:  "dirent_notif_delay",
	AttrDACL:              "dacl",
	AttrSACL:              "sacl",
	AttrChangePolicy:      "change_policy",
	AttrFSStatus:          "fs_status",
	AttrFSLayoutTypes:     "fs_layout_types",
	AttrLayoutHint:        "layout_hint",
	AttrLayoutTypes:       "layout_types",
	AttrLayoutBlkSize:     "layout_blksize",
	AttrLayoutAlignment:   "layout_alignment",
	AttrFSLocationsInfo:   "fs_locations_info",
	AttrMDSThreshold:      "mdsthreshold",
	AttrRetentionGet:      "retention_get",
	AttrRetentionSet:      "retention_set",
	AttrRetentEvtGet:      "retentevt_get",
	AttrRetentEvtSet:      "retentevt_set",
	AttrRetentionHold:     "retention_hold",
	AttrModeSetMasked:     "mode_set_masked",
	AttrSuppAttrExclCreat: "suppattr_exclcreat",
	AttrFSCharsetCap:      "fs_charset_cap",
	AttrCloneBlkSize:      "clone_blksize",
	AttrSpaceFreed:        "space_freed",
	AttrChangeAttrType:    "change_attr_type",
	AttrSecLabel:          "sec_label",
	AttrModeUmask:         "mode_umask",
	AttrXattrSupport:      "xattr_support",
}
