package iwarp

import (
	"encoding/binary"
	"hash/crc32"
)

// An FPDU, the unit of MPA on a TCP stream without markers (RFC 5044 section
// 4.1). The whole is a multiple of four octets.
//
//	 0        2                 2+length      +0..3
//	+--------+-----------------+-------------+--------+
//	| length |      ULPDU      | pad (zeros) | CRC32c |
//	+--------+-----------------+-------------+--------+
const (
	fpduHeader = 2
	crcLen     = 4
	maxULPDU   = 1<<16 - 1
)

// padLen returns the number of pad octets behind a ULPDU of n octets.
func padLen(n int) int { return -(fpduHeader + n) & 3 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcAdd continues a checksum over p; it starts with zero.
func crcAdd(sum uint32, p []byte) uint32 { return crc32.Update(sum, castagnoli, p) }

// putCRC stores a checksum as it goes onto the wire: least significant octet
// first (RFC 5044 section 4.4 by way of iSCSI's digests).
func putCRC(p []byte, sum uint32) { binary.LittleEndian.PutUint32(p, sum) }

func getCRC(p []byte) uint32 { return binary.LittleEndian.Uint32(p) }
