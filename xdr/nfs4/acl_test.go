package nfs4

import (
	"bytes"
	"reflect"
	"testing"
)

func TestACLForm(t *testing.T) {
	acl := []ACE{
		{Type: ACEAllow, Mask: ACEReadData, Who: "OWNER@"},
		{Type: ACEDeny, Flag: ACEIdentifierGroup, Mask: ACEWriteData, Who: "staff@example"},
	}
	b := EncodeACL(acl)
	want := []byte{0, 0, 0, 2,
		0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 6, 'O', 'W', 'N', 'E', 'R', '@', 0, 0,
		0, 0, 0, 1, 0, 0, 0, 0x40, 0, 0, 0, 2, 0, 0, 0, 13, 's', 't', 'a', 'f', 'f', '@', 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0, 0, 0}
	if !bytes.Equal(b, want) {
		t.Errorf("% x", b)
	}
	got, err := DecodeACL(b)
	if err != nil || !reflect.DeepEqual(got, acl) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := DecodeACL(EncodeACL(nil)); err != nil || len(got) != 0 {
		t.Errorf("an empty list: %v, %v", got, err)
	}
	for _, bad := range [][]byte{nil, b[:len(b)-1], append(bytes.Clone(b), 0), {0xff, 0xff, 0xff, 0xff}} {
		if _, err := DecodeACL(bad); err == nil {
			t.Errorf("% x: no error", bad)
		}
	}
}
