package nfs4

import (
	"math/rand/v2"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"nfsrdma-fuse/xdr"
)

// checkRandom runs check with a filler of many seeds; rapid logs the one that
// failed and takes it back (-rapid.seed, -rapid.failfile).
func checkRandom(t *testing.T, check func(t *rapid.T, f *filler)) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		check(t, newFiller(seed))
	})
}

// filler sets structs of this package to random values that can be encoded.
type filler struct{ r *rand.Rand }

func newFiller(seed uint64) *filler { return &filler{rand.New(rand.NewPCG(seed, 1))} }

// between are the values that a discriminant can take, both ends included.
var between = map[reflect.Type][2]uint64{
	reflect.TypeFor[StableHow]():        {0, 2},
	reflect.TypeFor[CreateMode]():       {0, 3},
	reflect.TypeFor[ClaimType]():        {0, 6},
	reflect.TypeFor[DelegationType]():   {0, 3},
	reflect.TypeFor[WhyNoDelegation]():  {0, 8},
	reflect.TypeFor[StateProtect]():     {0, 2},
	reflect.TypeFor[FileType]():         {1, 9},
	reflect.TypeFor[LockType]():         {1, 4},
	reflect.TypeFor[NetLocType]():       {1, 3},
	reflect.TypeFor[SecInfoStyle]():     {0, 1},
	reflect.TypeFor[SetXattrOption]():   {0, 2},
	reflect.TypeFor[LayoutIOMode]():     {1, 3},
	reflect.TypeFor[LayoutReturnType](): {1, 3},
	reflect.TypeFor[ConnDir]():          {1, 3},
	reflect.TypeFor[LayoutType]():       {1, 3},
	reflect.TypeFor[ChangeAttrType]():   {0, 4},
}

// oneOf are the values that a field of some name can take.
var oneOf = map[string][]uint64{
	"LimitBy":    {1, 2},
	"Flavor":     {0, 1, 6},
	"GSSService": {1, 2, 3},
	"Service":    {1, 2, 3},
	"What":       {0, 1},
}

// statuses are those with a meaning for some union, and another one.
var statuses = []Status{OK, OK, OK, OK, OK, ErrDenied, ErrTooSmall, ErrLayoutTryLater, ErrOffloadNoReqs, ErrStale}

// fill sets what p points to.
func (f *filler) fill(p any) { f.value(reflect.ValueOf(p).Elem(), "") }

func (f *filler) value(v reflect.Value, name string) {
	switch p := v.Addr().Interface().(type) {
	case *Attrs:
		f.attrs(p)
		return
	case *ReadDirRes:
		f.readDir(p)
		return
	case *Status:
		*p = statuses[f.r.IntN(len(statuses))]
		return
	case *SetTime:
		f.fields(v)
		if !p.Client {
			p.Time = Time{}
		}
		return
	case *Content:
		f.fields(v)
		if p.Hole {
			p.Data = nil
		}
		return
	case *CallbackSec:
		f.fields(v)
		switch p.Flavor {
		case FlavorNone:
			*p = CallbackSec{}
		case FlavorSys:
			p.GSSService, p.GSSServerHandle, p.GSSClientHandle = 0, nil, nil
		case FlavorGSS:
			*p = CallbackSec{Flavor: FlavorGSS, GSSService: p.GSSService,
				GSSServerHandle: p.GSSServerHandle, GSSClientHandle: p.GSSClientHandle}
		}
		return
	case *WantDelegationArgs:
		f.fields(v)
		p.Claim = []ClaimType{ClaimFH, ClaimDelegPrevFH, ClaimPrevious}[f.r.IntN(3)]
		return
	case *DeviceError:
		f.fields(v)
		p.Op = OpRead + OpNum(f.r.IntN(2))
		return
	}
	if b, ok := between[v.Type()]; ok {
		v.SetUint(b[0] + f.r.Uint64N(b[1]-b[0]+1))
		return
	}
	if c, ok := oneOf[name]; ok {
		v.SetUint(c[f.r.IntN(len(c))])
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(f.r.IntN(2) == 1)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(f.r.Uint64() >> (64 - v.Type().Bits()))
	case reflect.Int64:
		v.SetInt(int64(f.r.Uint64()))
	case reflect.String:
		v.SetString(string(f.bytes(24)))
	case reflect.Array:
		for i := range v.Len() {
			f.value(v.Index(i), "")
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(f.bytes(40))
			return
		}
		n := f.r.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			f.value(v.Index(i), "")
		}
	case reflect.Struct:
		f.fields(v)
	default:
		panic("no way to fill a " + v.Type().String())
	}
}

func (f *filler) fields(v reflect.Value) {
	for i := range v.NumField() {
		if ft := v.Type().Field(i); ft.IsExported() && ft.Name != "Beside" {
			f.value(v.Field(i), ft.Name)
		}
	}
}

func (f *filler) bytes(limit int) []byte {
	b := make([]byte, f.r.IntN(limit+1))
	for i := range b {
		b[i] = byte('a' + f.r.IntN(26))
	}
	return b
}

// attrs sets a random choice of attributes.
func (f *filler) attrs(a *Attrs) {
	*a = Attrs{}
	v := reflect.ValueOf(a).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "Mask" || f.r.IntN(4) > 0 {
			continue
		}
		n, ok := attrOfField[name]
		if !ok {
			panic("no attribute for field " + name)
		}
		a.Mask.Set(n)
		f.value(v.Field(i), name)
	}
}

// readDir sets a random listing.
func (f *filler) readDir(r *ReadDirRes) {
	*r = ReadDirRes{Status: statuses[f.r.IntN(len(statuses))], EOF: f.r.IntN(2) == 1}
	f.fill(&r.CookieVerf)
	var l EntryList
	l.Reset(&ReadDirArgs{MaxCount: 1 << 20}, nil)
	for range f.r.IntN(4) {
		var e Entry
		f.fill(&e)
		if !l.Add(&e) {
			panic("no room for an entry")
		}
	}
	r.Entries = l.Bytes()
}

// attrOfField maps the names of the fields of Attrs to numbers.
var attrOfField = map[string]Attr{
	"SupportedAttrs": 0, "Type": 1, "FHExpireType": 2, "Change": 3, "Size": 4, "LinkSupport": 5,
	"SymlinkSupport": 6, "NamedAttr": 7, "FSID": 8, "UniqueHandles": 9, "LeaseTime": 10,
	"RDAttrError": 11, "ACL": 12, "ACLSupport": 13, "Archive": 14, "CanSetTime": 15,
	"CaseInsensitive": 16, "CasePreserving": 17, "ChownRestricted": 18, "FileHandle": 19,
	"FileID": 20, "FilesAvail": 21, "FilesFree": 22, "FilesTotal": 23, "FSLocations": 24,
	"Hidden": 25, "Homogeneous": 26, "MaxFileSize": 27, "MaxLink": 28, "MaxName": 29, "MaxRead": 30,
	"MaxWrite": 31, "MimeType": 32, "Mode": 33, "NoTrunc": 34, "NumLinks": 35, "Owner": 36,
	"OwnerGroup": 37, "QuotaAvailHard": 38, "QuotaAvailSoft": 39, "QuotaUsed": 40, "RawDev": 41,
	"SpaceAvail": 42, "SpaceFree": 43, "SpaceTotal": 44, "SpaceUsed": 45, "System": 46,
	"TimeAccess": 47, "TimeAccessSet": 48, "TimeBackup": 49, "TimeCreate": 50, "TimeDelta": 51,
	"TimeMetadata": 52, "TimeModify": 53, "TimeModifySet": 54, "MountedOnFileID": 55,
	"DirNotifDelay": 56, "DirentNotifDelay": 57, "DACL": 58, "SACL": 59, "ChangePolicy": 60,
	"FSLayoutTypes": 62, "LayoutTypes": 64, "LayoutBlkSize": 65, "LayoutAlignment": 66,
	"ModeSetMasked": 74, "SuppAttrExclCreat": 75, "FSCharsetCap": 76, "CloneBlkSize": 77,
	"SpaceFreed": 78, "ChangeAttrType": 79, "SecLabel": 80, "ModeUmask": 81, "XattrSupport": 82,
}

// same compares what can be seen from outside; an empty slice is the same as
// none.
func same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		if a.Elem().Type() != b.Elem().Type() {
			return false
		}
		return same(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() && f.Name != "Beside" && !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

func equal(a, b any) bool { return same(reflect.ValueOf(a), reflect.ValueOf(b)) }

// item is anything that encodes and decodes itself.
type item interface {
	Encode(e *xdr.Encoder)
	Decode(d *xdr.Decoder)
}

// encode returns the message of it.
func encode(t fatal, it item) xdr.Message {
	t.Helper()
	var e xdr.Encoder
	it.Encode(&e)
	if e.Err() != nil {
		t.Fatalf("encoding %T: %v", it, e.Err())
	}
	return e.Message()
}

// decode sets it from a message and wants nothing to be left over.
func decode(t fatal, m xdr.Message, it item) {
	t.Helper()
	var d xdr.Decoder
	d.Reset(m)
	it.Decode(&d)
	d.End()
	if d.Err() != nil {
		t.Fatalf("decoding %T: %v", it, d.Err())
	}
}

// fatal is what *testing.T, *testing.F and *rapid.T have in common.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// everyItem returns one of each operation's arguments and results.
func everyItem() map[string]item {
	all := map[string]item{}
	for n := range OpNum(100) {
		if a := NewArgs(n); a.Op() == n {
			if _, bad := a.(*IllegalArgs); !bad {
				all["args "+n.String()] = a
				all["res "+n.String()] = NewRes(n)
			}
		}
	}
	for n := range CBOpNum(100) {
		if a := NewCBArgs(n); a.Op() == n {
			if _, bad := a.(*CBIllegalArgs); !bad {
				all["args "+n.String()] = a
				all["res "+n.String()] = NewCBRes(n)
			}
		}
	}
	return all
}

// fresh returns a new item of the type of it.
func fresh(it item) item {
	it2 := reflect.New(reflect.TypeOf(it).Elem()).Interface().(item)
	if r, ok := it.(*IllegalRes); ok {
		it2.(*IllegalRes).Number = r.Number
	}
	return it2
}
