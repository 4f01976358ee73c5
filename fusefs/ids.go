package fusefs

import "strconv"

// Nobody is the user and group id of owners that this machine does not know.
const Nobody = 65534

// IDMapper translates between owners as NFSv4 names them and the ids of this
// machine (RFC 8881 section 5.9). Its methods must not block for long: they
// are called for every object.
type IDMapper interface {
	UID(owner string) uint32
	GID(group string) uint32
	Owner(uid uint32) string
	Group(gid uint32) string
}

// NumericIDs is the IDMapper for servers that send ids as decimal numbers.
type NumericIDs struct{}

// UID implements IDMapper.
func (NumericIDs) UID(owner string) uint32 { return numericID(owner) }

// GID implements IDMapper.
func (NumericIDs) GID(group string) uint32 { return numericID(group) }

// Owner implements IDMapper.
func (NumericIDs) Owner(uid uint32) string { return strconv.FormatUint(uint64(uid), 10) }

// Group implements IDMapper.
func (NumericIDs) Group(gid uint32) string { return strconv.FormatUint(uint64(gid), 10) }

func numericID(s string) uint32 {
	// Leading zeros would make a name of digits an id (section 5.9).
	if len(s) > 1 && s[0] == '0' {
		return Nobody
	}
	id, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return Nobody
	}
	return uint32(id)
}
