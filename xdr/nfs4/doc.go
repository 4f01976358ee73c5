// Package nfs4 encodes and decodes the operations of NFS version 4, minor
// versions 1 and 2 (RFC 8881, RFC 7862), and of extended attributes (RFC 8276),
// in both directions: what a client sends and what a server answers, and the
// other way round for callbacks.
//
// Every operation has a struct for its arguments and one for its result, which
// begins with the status. Unions are structs with the discriminant and the
// fields of all arms; the comments tell which field belongs to which arm, and
// the others are zero after decoding and not looked at in encoding.
//
// Byte slices that were decoded alias the message; strings are copies. What
// comes from the wire is bounded by the constants with names in Max.
//
// The payload of READ and WRITE, and the text of symbolic links, can travel
// beside the stream: they are the items that RFC 8267 section 6.1 makes eligible
// for direct data placement, and they alone.
package nfs4
