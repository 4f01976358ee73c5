package fusefs

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
)

func TestNameIDs(t *testing.T) {
	now, asked := time.Now(), 0
	people := map[string]string{"alice": "1001", "bob": "1002"}
	m := &NameIDs{
		now: func() time.Time { return now },
		lookup: func(group bool, name string) (string, error) {
			asked++
			if id, ok := people[name]; ok && !group {
				return id, nil
			}
			return "", errors.New("unknown")
		},
		named: func(group bool, id string) (string, error) {
			asked++
			for name, n := range people {
				if n == id && !group {
					return name, nil
				}
			}
			return "", errors.New("unknown")
		},
	}
	uid := func(owner string, want uint32) {
		t.Helper()
		if got := m.UID(owner); got != want {
			t.Errorf("UID(%q) = %d, expected %d", owner, got, want)
		}
	}
	owner := func(id uint32, want string) {
		t.Helper()
		if got := m.Owner(id); got != want {
			t.Errorf("Owner(%d) = %q, expected %q", id, got, want)
		}
	}
	lookups := func(want int) {
		t.Helper()
		if asked != want {
			t.Errorf("the name service was asked %d times, expected %d", asked, want)
		}
		asked = 0
	}

	// A server that uses numbers is answered in numbers, without a name service.
	uid("1001", 1001)
	uid("4000000000", 4_000_000_000)
	uid("007", Nobody)
	uid("", Nobody)
	uid("@example.org", Nobody)
	owner(1001, "1001")
	lookups(0)

	// One that uses names, in names.
	uid("alice@example.org", 1001)
	uid("alice@example.org", 1001)
	uid("carol@example.org", Nobody)
	uid("carol@example.org", Nobody)
	lookups(2)
	owner(1001, "alice@example.org")
	owner(1001, "alice@example.org")
	owner(1003, "1003")
	lookups(2)
	if got := m.GID("alice@example.org"); got != Nobody {
		t.Errorf("a user taken for a group: %d", got)
	}
	if got := m.Group(1001); got != "1001" {
		t.Errorf("a user taken for a group: %q", got)
	}
	lookups(2)

	// What the name service says changes; that there was no name, sooner.
	people["carol"], people["alice"] = "1003", "2001"
	now = now.Add(noNameLife)
	uid("carol@example.org", 1003)
	uid("alice@example.org", 1001)
	owner(1003, "carol@example.org")
	lookups(2)
	now = now.Add(nameLife)
	uid("alice@example.org", 2001)
	owner(2001, "alice@example.org")
	lookups(2)

	// With a domain of one's own, others' names are nobody's.
	m.Domain = "Example.Org"
	uid("bob@example.org", 1002)
	uid("bob@elsewhere.org", Nobody)
	uid("bob", 1002)
	owner(1002, "bob@Example.Org")

	for i := range 2 * maxNames {
		m.UID("user" + strconv.Itoa(i))
	}
	if len(m.ids) > maxNames {
		t.Errorf("%d names are remembered", len(m.ids))
	}
}

// TestNameService asks the one of this machine.
func TestNameService(t *testing.T) {
	var m NameIDs
	if uid, gid := m.UID("root@localdomain"), m.GID("root@localdomain"); uid != 0 || gid != 0 {
		t.Errorf("root is %d:%d", uid, gid)
	}
	if owner, group := m.Owner(0), m.Group(0); owner != "root@localdomain" || group != "root@localdomain" {
		t.Errorf("0:0 is %s:%s", owner, group)
	}
	if uid := m.UID("no-such-user@localdomain"); uid != Nobody {
		t.Errorf("a user that there is not is %d", uid)
	}
}

// TestOwnersByName mounts a server that names owners.
func TestOwnersByName(t *testing.T) {
	names := map[uint32]string{0: "root", 1: "daemon"}
	server := nfstest.Options{
		OwnerName: func(id uint32, _ bool) string {
			if name, ok := names[id]; ok {
				return name + "@lab.example"
			}
			return "nobody"
		},
		OwnerID: func(name string, _ bool) (uint32, bool) {
			for id, n := range names {
				if name == n+"@lab.example" {
					return id, true
				}
			}
			return 0, false
		},
	}
	p := mountPairOf(t, server, Options{IDs: &NameIDs{Domain: "lab.example"}})
	if got := p.sh(t, `: >"$1/file"; stat -c %u:%g "$1/file"; chown 1:1 "$1/file"; stat -c %u:%g "$2/file"; chown 4711 "$1/file"; stat -c %u:%g "$1/file"`); got != "0:0\n1:1\n65534:1\n" {
		t.Errorf("owners: %q", got)
	}
}
