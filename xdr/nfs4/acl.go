package nfs4

import "nfsrdma-fuse/xdr"

// EncodeACL returns the encoded form of an access control list, as an fattr4 has
// it: the number of entries and the entries. This is also the form in which
// Linux gives it to programs.
func EncodeACL(acl []ACE) []byte {
	var e xdr.Encoder
	encodeList(&e, acl)
	return e.Bytes()
}

// DecodeACL takes what EncodeACL returns.
func DecodeACL(b []byte) ([]ACE, error) {
	var d xdr.Decoder
	d.Reset(xdr.Message{Stream: b})
	acl := decodeList[ACE](&d, MaxACEs, 16)
	d.End()
	return acl, d.Err()
}
