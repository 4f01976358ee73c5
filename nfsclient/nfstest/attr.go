package nfstest

import (
	"strconv"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest/memfs"
	"nfsrdma-fuse/xdr/nfs4"
)

// The attributes of every object, of minor version 1.
var attrs41 = nfs4.MakeBitmap(
	nfs4.AttrSupportedAttrs, nfs4.AttrType, nfs4.AttrFHExpireType, nfs4.AttrChange, nfs4.AttrSize,
	nfs4.AttrLinkSupport, nfs4.AttrSymlinkSupport, nfs4.AttrNamedAttr, nfs4.AttrFSID, nfs4.AttrUniqueHandles,
	nfs4.AttrLeaseTime, nfs4.AttrRDAttrError, nfs4.AttrACL, nfs4.AttrACLSupport, nfs4.AttrCanSetTime,
	nfs4.AttrCaseInsensitive, nfs4.AttrCasePreserving, nfs4.AttrChownRestricted, nfs4.AttrFileHandle,
	nfs4.AttrFileID, nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal, nfs4.AttrHomogeneous,
	nfs4.AttrMaxFileSize, nfs4.AttrMaxLink, nfs4.AttrMaxName, nfs4.AttrMaxRead, nfs4.AttrMaxWrite,
	nfs4.AttrMode, nfs4.AttrNoTrunc, nfs4.AttrNumLinks, nfs4.AttrOwner, nfs4.AttrOwnerGroup,
	nfs4.AttrQuotaAvailHard, nfs4.AttrQuotaAvailSoft, nfs4.AttrQuotaUsed, nfs4.AttrRawDev,
	nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal, nfs4.AttrSpaceUsed,
	nfs4.AttrTimeAccess, nfs4.AttrTimeAccessSet, nfs4.AttrTimeCreate, nfs4.AttrTimeDelta,
	nfs4.AttrTimeMetadata, nfs4.AttrTimeModify, nfs4.AttrTimeModifySet, nfs4.AttrMountedOnFileID,
	nfs4.AttrModeSetMasked, nfs4.AttrSuppAttrExclCreat,
)

// Those that minor version 2 adds.
var attrs42 = nfs4.MakeBitmap(nfs4.AttrCloneBlkSize, nfs4.AttrChangeAttrType, nfs4.AttrSecLabel,
	nfs4.AttrModeUmask, nfs4.AttrXattrSupport)

// Those that can be set, and of them those that cannot be read.
var (
	settable = nfs4.MakeBitmap(nfs4.AttrSize, nfs4.AttrACL, nfs4.AttrMode, nfs4.AttrOwner, nfs4.AttrOwnerGroup,
		nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeSetMasked, nfs4.AttrSecLabel, nfs4.AttrModeUmask)
	writeOnly = nfs4.MakeBitmap(nfs4.AttrTimeAccessSet, nfs4.AttrTimeModifySet, nfs4.AttrModeSetMasked, nfs4.AttrModeUmask)
)

// suppAttrExclCreat are those that an exclusive create can set: the verifier is
// kept beside the attributes and so occupies none.
var suppAttrExclCreat = settable

var quotaAttrs = nfs4.MakeBitmap(nfs4.AttrQuotaAvailHard, nfs4.AttrQuotaAvailSoft, nfs4.AttrQuotaUsed)

// Keys under which objects keep what file systems know nothing about.
const (
	aclTag   = "acl"
	labelTag = "label"
)

// supported returns the attributes that o has.
func (c *compound) supported(o object) nfs4.Bitmap {
	b := attrs41
	if c.minor >= 2 {
		b = b.Or(attrs42)
	}
	if c.s.opt.NoACLs {
		b.Clear(nfs4.AttrACL)
		b.Clear(nfs4.AttrACLSupport)
	}
	if o.exp.Quota == 0 {
		b = b.AndNot(quotaAttrs)
	}
	return b
}

var fileTypes = map[memfs.Kind]nfs4.FileType{
	memfs.Regular: nfs4.TypeReg, memfs.Directory: nfs4.TypeDir, memfs.Symlink: nfs4.TypeLnk,
	memfs.BlockDevice: nfs4.TypeBlk, memfs.CharDevice: nfs4.TypeChr,
	memfs.FIFO: nfs4.TypeFifo, memfs.Socket: nfs4.TypeSock,
}

func wireTime(t time.Time) nfs4.Time { return nfs4.Time{Sec: t.Unix(), Nsec: uint32(t.Nanosecond())} }

func (s *Server) ownerName(id uint32, group bool) string {
	if s.opt.OwnerName != nil {
		return s.opt.OwnerName(id, group)
	}
	return strconv.FormatUint(uint64(id), 10)
}

func (s *Server) ownerID(name string, group bool) (uint32, nfs4.Status) {
	if id, err := strconv.ParseUint(name, 10, 32); err == nil {
		return uint32(id), nfs4.OK
	}
	if s.opt.OwnerID != nil {
		if id, ok := s.opt.OwnerID(name, group); ok {
			return id, nfs4.OK
		}
	}
	return 0, nfs4.ErrBadOwner
}

// attributes returns those of the attributes in want that o has; a are what its
// file system says of it.
func (c *compound) attributes(o object, a memfs.Attr, want nfs4.Bitmap) nfs4.Attrs {
	s := c.s
	sup := c.supported(o)
	v := nfs4.Attrs{
		Mask:              want.And(sup).AndNot(writeOnly),
		SupportedAttrs:    sup,
		Type:              fileTypes[a.Kind],
		FHExpireType:      nfs4.FHPersistent,
		Change:            a.Change,
		Size:              uint64(a.Size),
		LinkSupport:       true,
		SymlinkSupport:    true,
		FSID:              nfs4.FSID{Major: uint64(o.exp.id)},
		UniqueHandles:     true,
		LeaseTime:         uint32((s.opt.Lease + time.Second - 1) / time.Second),
		ACLSupport:        nfs4.ACLSupportAllow | nfs4.ACLSupportDeny,
		CanSetTime:        true,
		CasePreserving:    true,
		ChownRestricted:   true,
		FileID:            a.Ino,
		Homogeneous:       true,
		MaxFileSize:       memfs.MaxSize,
		MaxLink:           memfs.MaxLink,
		MaxName:           memfs.MaxName,
		MaxRead:           uint64(s.opt.MaxPayload),
		MaxWrite:          uint64(s.opt.MaxPayload),
		Mode:              a.Mode,
		NoTrunc:           true,
		NumLinks:          a.Nlink,
		Owner:             s.ownerName(a.UID, false),
		OwnerGroup:        s.ownerName(a.GID, true),
		RawDev:            nfs4.SpecData{Major: a.Major, Minor: a.Minor},
		SpaceUsed:         uint64(a.Used),
		TimeAccess:        wireTime(a.Atime),
		TimeCreate:        wireTime(a.Btime),
		TimeDelta:         nfs4.Time{Nsec: 1},
		TimeMetadata:      wireTime(a.Ctime),
		TimeModify:        wireTime(a.Mtime),
		MountedOnFileID:   s.exports.mountedOn(o),
		SuppAttrExclCreat: suppAttrExclCreat.And(sup),
		CloneBlkSize:      1,
		ChangeAttrType:    nfs4.ChangeVersionCounterNoPNFS,
		XattrSupport:      !s.opt.NoXattrs,
	}
	if v.Has(nfs4.AttrFileHandle) {
		v.FileHandle = o.handle()
	}
	if v.Has(nfs4.AttrACL) {
		v.ACL = aclOf(o, a)
	}
	if v.Has(nfs4.AttrSecLabel) {
		v.SecLabel, _ = o.n.Tag(labelTag).(nfs4.SecLabel)
	}
	c.statAttributes(o, &v)
	return v
}

var statAttrs = nfs4.MakeBitmap(nfs4.AttrFilesAvail, nfs4.AttrFilesFree, nfs4.AttrFilesTotal,
	nfs4.AttrSpaceAvail, nfs4.AttrSpaceFree, nfs4.AttrSpaceTotal).Or(quotaAttrs)

// statAttributes fills in the attributes of the file system.
func (c *compound) statAttributes(o object, v *nfs4.Attrs) {
	if v.Mask.And(statAttrs).IsZero() {
		return
	}
	st := o.exp.fs.Statfs(c.credFor(o))
	v.FilesTotal, v.FilesFree, v.FilesAvail = uint64(st.Inodes), uint64(st.InodesFree), uint64(st.InodesFree)
	v.SpaceTotal, v.SpaceFree, v.SpaceAvail = uint64(st.Bytes), uint64(st.BytesFree), uint64(st.BytesFree)
	v.QuotaUsed = uint64(st.QuotaUsed)
	v.QuotaAvailHard = uint64(min(max(0, st.Quota-st.QuotaUsed), st.BytesFree))
	v.QuotaAvailSoft = v.QuotaAvailHard
}

// newAttrs are attributes to be set, checked and translated.
type newAttrs struct {
	mask  nfs4.Bitmap
	set   memfs.SetAttr
	acl   []nfs4.ACE
	label *nfs4.SecLabel
}

// createMode returns the mode that an object is made with.
func (a *newAttrs) createMode(otherwise uint32) uint32 {
	if a.set.Mode != nil {
		return *a.set.Mode
	}
	return otherwise
}

// decodeAttrs checks attributes that shall be set on o, or on an object that is
// made in it.
func (c *compound) decodeAttrs(o object, a *nfs4.Attrs, create bool) (n newAttrs, status nfs4.Status) {
	sup := c.supported(o)
	switch {
	case !sup.Contains(a.Mask):
		return n, nfs4.ErrAttrNotSupp
	case !settable.Contains(a.Mask):
		return n, nfs4.ErrInval
	case a.Has(nfs4.AttrModeUmask) && (!create || a.Has(nfs4.AttrMode)):
		return n, nfs4.ErrInval
	case a.Has(nfs4.AttrMode) && a.Has(nfs4.AttrModeSetMasked):
		return n, nfs4.ErrInval
	}
	n.mask = a.Mask
	mode := func(m uint32) { n.set.Mode = &m }
	if a.Has(nfs4.AttrACL) {
		if len(a.ACL) == 0 || len(a.ACL) > maxACEs {
			return n, nfs4.ErrInval
		}
		n.acl = cloneACL(a.ACL)
		var old uint32
		if !create {
			old = o.n.Attr().Mode
		}
		mode(old&^0o777 | aclMode(a.ACL))
	}
	switch {
	case a.Has(nfs4.AttrMode):
		if a.Mode&^0o7777 != 0 {
			return n, nfs4.ErrInval
		}
		mode(a.Mode)
	case a.Has(nfs4.AttrModeUmask):
		mode(a.ModeUmask.Mode & 0o7777 &^ (a.ModeUmask.Umask & 0o777))
	case a.Has(nfs4.AttrModeSetMasked):
		if (a.ModeSetMasked.Value|a.ModeSetMasked.Mask)&^0o7777 != 0 || a.ModeSetMasked.Value&^a.ModeSetMasked.Mask != 0 {
			return n, nfs4.ErrInval
		}
		var old uint32
		if !create {
			old = o.n.Attr().Mode
		}
		mode(old&^a.ModeSetMasked.Mask | a.ModeSetMasked.Value)
	}
	if a.Has(nfs4.AttrSize) {
		if a.Size > memfs.MaxSize {
			return n, nfs4.ErrFBig
		}
		size := int64(a.Size)
		n.set.Size = &size
	}
	for _, w := range []struct {
		attr  nfs4.Attr
		name  string
		group bool
		id    **uint32
	}{{nfs4.AttrOwner, a.Owner, false, &n.set.UID}, {nfs4.AttrOwnerGroup, a.OwnerGroup, true, &n.set.GID}} {
		if a.Has(w.attr) {
			id, status := c.s.ownerID(w.name, w.group)
			if status != nfs4.OK {
				return n, status
			}
			*w.id = &id
		}
	}
	ok := setTime(a.Has(nfs4.AttrTimeAccessSet), a.TimeAccessSet, &n.set.Atime, &n.set.AtimeNow) &&
		setTime(a.Has(nfs4.AttrTimeModifySet), a.TimeModifySet, &n.set.Mtime, &n.set.MtimeNow)
	if !ok {
		return n, nfs4.ErrInval
	}
	if a.Has(nfs4.AttrSecLabel) {
		label := a.SecLabel
		label.Data = append([]byte(nil), label.Data...)
		n.label = &label
	}
	return n, nfs4.OK
}

func setTime(has bool, t nfs4.SetTime, at **time.Time, now *bool) bool {
	switch {
	case !has:
	case !t.Client:
		*now = true
	case t.Time.Nsec >= 1e9:
		return false
	default:
		v := time.Unix(t.Time.Sec, int64(t.Time.Nsec))
		*at = &v
	}
	return true
}

// applyNew sets the attributes of an object that was just made with the mode in
// them, in the name of whoever made it.
func (c *compound) applyNew(o object, cred memfs.Cred, a *newAttrs) (set nfs4.Bitmap, status nfs4.Status) {
	s := a.set
	s.Opened, s.Mode = true, nil
	attr := o.n.Attr()
	if s.UID != nil && *s.UID == attr.UID {
		s.UID = nil
	}
	if s.GID != nil && *s.GID == attr.GID {
		s.GID = nil
	}
	if s.UID != nil || s.GID != nil {
		s.Mode = &attr.Mode // a change of owner drops bits of it
	}
	if s.Size != nil && (*s.Size == 0 || attr.Kind != memfs.Regular) {
		s.Size = nil
	}
	if s != (memfs.SetAttr{Opened: true}) {
		if err := o.exp.fs.SetAttr(cred, o.n, s); err != nil {
			return set, statusOf(err)
		}
	}
	a.tag(o)
	return a.mask, nfs4.OK
}

// tag keeps with o what its file system knows nothing about.
func (a *newAttrs) tag(o object) {
	if a.acl != nil {
		o.n.SetTag(aclTag, storedACL{a.acl, o.n.Attr().Mode & 0o777})
	}
	if a.label != nil {
		o.n.SetTag(labelTag, *a.label)
	}
}

// getAttr carries out GETATTR (RFC 8881 section 18.7).
func (c *compound) getAttr(a *nfs4.GetAttrArgs) nfs4.Res {
	if !a.AttrRequest.And(writeOnly).IsZero() {
		return fail(nfs4.OpGetAttr, nfs4.ErrInval)
	}
	attr := c.cur.n.Attr()
	if attr.Kind == memfs.Regular && !a.AttrRequest.And(heldAttrs).IsZero() {
		if status := c.askHolder(&attr); status != nfs4.OK {
			return fail(nfs4.OpGetAttr, status)
		}
	}
	res := &nfs4.GetAttrRes{Attrs: c.attributes(c.cur, attr, a.AttrRequest)}
	return res
}

// setAttr carries out SETATTR (RFC 8881 section 18.30).
func (c *compound) setAttr(a *nfs4.SetAttrArgs) nfs4.Res {
	res := &nfs4.SetAttrRes{}
	if c.cur.exp.ReadOnly {
		res.Status = nfs4.ErrROFS
		return res
	}
	attrs, status := c.decodeAttrs(c.cur, &a.Attrs, false)
	if res.Status = status; status != nfs4.OK {
		return res
	}
	if attrs.set.Size != nil {
		switch c.cur.n.Kind() {
		case memfs.Regular:
		case memfs.Directory:
			res.Status = nfs4.ErrIsDir
			return res
		default:
			res.Status = nfs4.ErrInval
			return res
		}
		attrs.set.Opened, res.Status = c.forIO(a.StateID, true)
	} else {
		res.Status = c.breakFor(c.cur, true)
	}
	if res.Status != nfs4.OK {
		return res
	}
	if err := c.cur.exp.fs.SetAttr(c.credFor(c.cur), c.cur.n, attrs.set); err != nil {
		res.Status = statusOf(err)
		return res
	}
	attrs.tag(c.cur)
	res.AttrsSet = a.Attrs.Mask
	return res
}

// verify tells whether the current object has the attributes given (RFC 8881
// sections 18.15 and 18.31).
func (c *compound) verify(a *nfs4.Attrs) (same bool, status nfs4.Status) {
	switch {
	case !c.supported(c.cur).Contains(a.Mask):
		return false, nfs4.ErrAttrNotSupp
	case !a.Mask.And(writeOnly).IsZero() || a.Mask.Has(nfs4.AttrRDAttrError):
		return false, nfs4.ErrInval
	}
	have := c.attributes(c.cur, c.cur.n.Attr(), a.Mask)
	return encoded(&have) == encoded(a), nfs4.OK
}
