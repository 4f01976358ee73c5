package fusefs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"nfsrdma-fuse/nfsclient"
)

// FUSE tells user, group and thread of the caller. Supplementary groups have to
// be read from /proc, which costs as much as a request to a near server; so
// they are kept for a moment.
const (
	// groupsTrust is how long groups are used without a look at /proc. A
	// thread id cannot come around again in this time.
	groupsTrust = 100 * time.Millisecond
	// groupsLife is how long they are used if the thread's start time shows
	// that it is still the same: the time that a change by setgroups(2) alone
	// takes to be noticed. (A change of user or group is noticed at once.)
	groupsLife = 2 * time.Second
	// maxGroupEntries bounds the cache.
	maxGroupEntries = 4096
)

// groupCache knows the supplementary groups of callers.
type groupCache struct {
	now  func() time.Time
	read func(tid uint32) (groups []uint32, start uint64, err error)

	mu  sync.Mutex
	tid map[uint32]*groupEntry
}

type groupEntry struct {
	owner   fuse.Owner
	groups  []uint32
	start   uint64    // when the thread started, in clock ticks since boot
	checked time.Time // when the start time was last seen to be the same
	read    time.Time
}

func newGroupCache() *groupCache {
	return &groupCache{now: time.Now, read: readGroups, tid: make(map[uint32]*groupEntry)}
}

// cred returns the credentials of a caller. A thread whose groups cannot be
// known, as it is in another PID namespace or gone, has none.
func (g *groupCache) cred(caller fuse.Caller) nfsclient.Cred {
	c := nfsclient.Cred{UID: caller.Uid, GID: caller.Gid}
	if caller.Pid == 0 {
		return c
	}
	now := g.now()
	g.mu.Lock()
	e := g.tid[caller.Pid]
	if e != nil && e.owner == caller.Owner && now.Sub(e.checked) < groupsTrust {
		c.Groups = e.groups
		g.mu.Unlock()
		return c
	}
	var known groupEntry
	if e != nil {
		known = *e
	}
	g.mu.Unlock()

	if e != nil && known.owner == caller.Owner && now.Sub(known.read) < groupsLife {
		if start, err := readStart(caller.Pid); err == nil && start == known.start {
			known.checked = now
			g.put(caller.Pid, known)
			c.Groups = known.groups
			return c
		}
	}
	groups, start, err := g.read(caller.Pid)
	if err != nil {
		return c
	}
	g.put(caller.Pid, groupEntry{owner: caller.Owner, groups: groups, start: start, checked: now, read: now})
	c.Groups = groups
	return c
}

func (g *groupCache) put(tid uint32, e groupEntry) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.tid) >= maxGroupEntries {
		clear(g.tid)
	}
	g.tid[tid] = &e
}

// readGroups reads the supplementary groups of a thread and its start time.
func readGroups(tid uint32) ([]uint32, uint64, error) {
	start, err := readStart(tid)
	if err != nil {
		return nil, 0, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return nil, 0, err
	}
	groups, err := parseGroups(status)
	return groups, start, err
}

func parseGroups(status []byte) ([]uint32, error) {
	_, rest, ok := bytes.Cut(status, []byte("\nGroups:"))
	if !ok {
		return nil, fmt.Errorf("fusefs: no groups in the status of a thread")
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	fields := bytes.Fields(line)
	groups := make([]uint32, 0, len(fields))
	for _, f := range fields {
		id, err := strconv.ParseUint(string(f), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("fusefs: group %q in the status of a thread", f)
		}
		groups = append(groups, uint32(id))
	}
	return groups, nil
}

// readStart reads when a thread started: field 22 of its stat file. The command
// in field 2 stands in parentheses and can contain anything.
func readStart(tid uint32) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", tid))
	if err != nil {
		return 0, err
	}
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, fmt.Errorf("fusefs: malformed stat of thread %d", tid)
	}
	fields := bytes.Fields(stat[i+1:])
	const startTime = 22 - 3 // the first field behind the command is number 3
	if len(fields) <= startTime {
		return 0, fmt.Errorf("fusefs: malformed stat of thread %d", tid)
	}
	return strconv.ParseUint(string(fields[startTime]), 10, 64)
}
