package fusefs

import (
	accounts "os/user"
	"strconv"
	"strings"
	"sync"
	"time"
)

// NameIDs is the IDMapper for servers that name owners user@domain as well as
// for those that send ids as decimal numbers (RFC 8881 section 5.9). It asks the
// name service of this machine, and remembers what that has said.
//
// Owners are sent as numbers until the server has been seen to use names; from
// then on as names, as far as this machine knows them.
//
// It is safe for concurrent use.
type NameIDs struct {
	// Domain is the one domain whose names are this machine's. Empty means
	// that those of every domain are, and that owners are sent with the domain
	// that the server has used last.
	Domain string

	mu    sync.Mutex
	seen  string // domain that the server has used last
	ids   map[string]knownID
	names map[string]knownName

	// Replaced by tests; nil means the machine's.
	lookup func(group bool, name string) (id string, err error)
	named  func(group bool, id string) (name string, err error)
	now    func() time.Time
}

type knownID struct {
	id    uint32
	until time.Time
}

type knownName struct {
	name  string // empty if there is none
	until time.Time
}

const (
	// nameLife is for how long an answer of the name service is used, noNameLife
	// for how long it counts that there was none.
	nameLife   = 10 * time.Minute
	noNameLife = time.Minute
	// maxNames bounds the answers remembered, in each direction.
	maxNames = 4096
)

// UID implements IDMapper.
func (m *NameIDs) UID(owner string) uint32 { return m.id(false, owner) }

// GID implements IDMapper.
func (m *NameIDs) GID(group string) uint32 { return m.id(true, group) }

// Owner implements IDMapper.
func (m *NameIDs) Owner(uid uint32) string { return m.name(false, uid) }

// Group implements IDMapper.
func (m *NameIDs) Group(gid uint32) string { return m.name(true, gid) }

func (m *NameIDs) id(group bool, owner string) uint32 {
	if len(owner) > 0 && owner[0] >= '0' && owner[0] <= '9' && !strings.Contains(owner, "@") {
		return numericID(owner)
	}
	name, domain, _ := strings.Cut(owner, "@")
	if name == "" {
		return Nobody
	}
	if domain != "" && m.Domain != "" && !strings.EqualFold(domain, m.Domain) {
		return Nobody
	}
	key := kind(group) + name
	m.mu.Lock()
	if domain != "" && name != "nobody" { // what servers call owners that have no name
		m.seen = domain
	}
	known, ok := m.ids[key]
	m.mu.Unlock()
	now := m.clock()
	if ok && now.Before(known.until) {
		return known.id
	}
	known = knownID{Nobody, now.Add(noNameLife)}
	if text, err := m.lookUp(group, name); err == nil {
		known = knownID{numericID(text), now.Add(nameLife)}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ids == nil || len(m.ids) >= maxNames {
		m.ids = make(map[string]knownID)
	}
	m.ids[key] = known
	return known.id
}

func (m *NameIDs) name(group bool, id uint32) string {
	number := strconv.FormatUint(uint64(id), 10)
	key := kind(group) + number
	m.mu.Lock()
	domain := m.seen
	known, ok := m.names[key]
	m.mu.Unlock()
	if domain == "" {
		return number
	}
	if m.Domain != "" {
		domain = m.Domain
	}
	now := m.clock()
	if !ok || !now.Before(known.until) {
		known = knownName{"", now.Add(noNameLife)}
		if name, err := m.nameOf(group, number); err == nil {
			known = knownName{name, now.Add(nameLife)}
		}
		m.mu.Lock()
		if m.names == nil || len(m.names) >= maxNames {
			m.names = make(map[string]knownName)
		}
		m.names[key] = known
		m.mu.Unlock()
	}
	if known.name == "" {
		return number
	}
	return known.name + "@" + domain
}

func kind(group bool) string {
	if group {
		return "g"
	}
	return "u"
}

func (m *NameIDs) clock() time.Time {
	if m.now != nil {
		return m.now()
	}
	return time.Now()
}

func (m *NameIDs) lookUp(group bool, name string) (id string, err error) {
	switch {
	case m.lookup != nil:
		return m.lookup(group, name)
	case group:
		g, err := accounts.LookupGroup(name)
		if err != nil {
			return "", err
		}
		return g.Gid, nil
	}
	u, err := accounts.Lookup(name)
	if err != nil {
		return "", err
	}
	return u.Uid, nil
}

func (m *NameIDs) nameOf(group bool, id string) (name string, err error) {
	switch {
	case m.named != nil:
		return m.named(group, id)
	case group:
		g, err := accounts.LookupGroupId(id)
		if err != nil {
			return "", err
		}
		return g.Name, nil
	}
	u, err := accounts.LookupId(id)
	if err != nil {
		return "", err
	}
	return u.Username, nil
}
