package nfs4

import "nfsrdma-fuse/xdr"

// Args are the arguments of an operation. The number of the operation is not
// part of what Encode and Decode handle.
type Args interface {
	Op() OpNum
	Encode(e *xdr.Encoder)
	Decode(d *xdr.Decoder)
}

// Res is the result of an operation. Every one begins with its status; the
// number of the operation in front of it is not part of what Encode and Decode
// handle.
type Res interface {
	Op() OpNum
	Result() Status
	Encode(e *xdr.Encoder)
	Decode(d *xdr.Decoder)
}

// CBArgs are the arguments of a callback operation.
type CBArgs interface {
	Op() CBOpNum
	Encode(e *xdr.Encoder)
	Decode(d *xdr.Decoder)
}

// CBRes is the result of a callback operation.
type CBRes interface {
	Op() CBOpNum
	Result() Status
	Encode(e *xdr.Encoder)
	Decode(d *xdr.Decoder)
}
