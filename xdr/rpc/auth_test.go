package rpc

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"nfsrdma-fuse/xdr"
)

func TestAuthSys(t *testing.T) {
	want := AuthSys{Stamp: 5, Machine: "box-1", UID: 1000, GID: 100, GIDs: []uint32{4, 24, 27}}
	cred, err := want.Auth()
	if err != nil {
		t.Fatal(err)
	}
	body := words(5, 5, "box-1\x00\x00\x00", 1000, 100, 3, 4, 24, 27)
	if cred.Flavor != FlavorSys || !bytes.Equal(cred.Body, body) {
		t.Fatalf("flavor %d, body %x; want %x", cred.Flavor, cred.Body, body)
	}
	var got AuthSys
	if err := got.SetAuth(cred); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
}

func TestAuthSysLimits(t *testing.T) {
	largest := AuthSys{Machine: strings.Repeat("m", MaxMachineName), GIDs: make([]uint32, MaxGroups)}
	cred, err := largest.Auth()
	if err != nil || len(cred.Body) > MaxAuthBody {
		t.Fatalf("largest body: %d bytes, %v", len(cred.Body), err)
	}
	var got AuthSys
	if err := got.SetAuth(cred); err != nil || !reflect.DeepEqual(got, largest) {
		t.Errorf("largest body: %v", err)
	}
	for name, a := range map[string]AuthSys{
		"17 groups": {GIDs: make([]uint32, MaxGroups+1)},
		"long name": {Machine: strings.Repeat("m", MaxMachineName+1)},
	} {
		if _, err := a.Auth(); !errors.Is(err, xdr.ErrRange) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAuthSysRefused(t *testing.T) {
	groups := string(make([]byte, 4*(MaxGroups+1)))
	for name, cred := range map[string]OpaqueAuth{
		"other flavor":   {FlavorNone, words(5, 0, 1, 1, 0)},
		"empty":          {FlavorSys, nil},
		"cut":            {FlavorSys, words(5, 0, 1, 1)},
		"17 groups":      {FlavorSys, words(5, 0, 1, 1, 17, groups)},
		"groups missing": {FlavorSys, words(5, 0, 1, 1, 2, 1)},
		"long name":      {FlavorSys, words(5, 256, string(make([]byte, 256)), 1, 1, 0)},
		"bytes behind":   {FlavorSys, words(5, 0, 1, 1, 0, 0)},
	} {
		if err := new(AuthSys).SetAuth(cred); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestOpaqueAuthTooLong(t *testing.T) {
	var e xdr.Encoder
	(&OpaqueAuth{Body: make([]byte, MaxAuthBody)}).Encode(&e)
	if e.Err() != nil {
		t.Errorf("%d bytes: %v", MaxAuthBody, e.Err())
	}
	(&OpaqueAuth{Body: make([]byte, MaxAuthBody+1)}).Encode(&e)
	if !errors.Is(e.Err(), xdr.ErrRange) {
		t.Errorf("%d bytes: %v", MaxAuthBody+1, e.Err())
	}
}
