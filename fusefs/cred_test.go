package fusefs

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

func TestReadGroups(t *testing.T) {
	want, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	got, start, err := readGroups(uint32(unix.Gettid()))
	if err != nil {
		t.Fatal(err)
	}
	if start == 0 {
		t.Error("start time 0")
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.EqualFunc(got, want, func(a uint32, b int) bool { return int(a) == b }) {
		t.Errorf("groups %v, expected %v", got, want)
	}
}

func TestParseGroups(t *testing.T) {
	for _, c := range []struct {
		status string
		want   []uint32
		bad    bool
	}{
		{"Name:\tx\nGroups:\t1 2 4294967295 \nNStgid:\t1\n", []uint32{1, 2, 4294967295}, false},
		{"Name:\tx\nGroups:\t\n", nil, false},
		{"Name:\tGroups: 1\n", nil, true},
		{"Name:\tx\nGroups:\tx\n", nil, true},
		{"Name:\tx\nGroups:\t4294967296\n", nil, true},
	} {
		got, err := parseGroups([]byte(c.status))
		if (err != nil) != c.bad || !slices.Equal(got, c.want) {
			t.Errorf("%q: %v, %v, expected %v, error %v", c.status, got, err, c.want, c.bad)
		}
	}
}

func TestGroupCache(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	reads := 0
	groups := []uint32{7}
	var readErr error
	g := newGroupCache()
	g.now = func() time.Time { return now }
	tid := uint32(unix.Gettid())
	start, err := readStart(tid)
	if err != nil {
		t.Fatal(err)
	}
	g.read = func(uint32) ([]uint32, uint64, error) { reads++; return groups, start, readErr }
	alice, bob := fuse.Owner{Uid: 1, Gid: 2}, fuse.Owner{Uid: 1, Gid: 3}

	ask := func(what string, owner fuse.Owner, wantReads int, wantGroups ...uint32) {
		t.Helper()
		c := g.cred(fuse.Caller{Owner: owner, Pid: tid})
		if c.UID != owner.Uid || c.GID != owner.Gid || !slices.Equal(c.Groups, wantGroups) || reads != wantReads {
			t.Errorf("%s: %+v after %d reads, expected groups %v after %d", what, c, reads, wantGroups, wantReads)
		}
	}
	ask("first", alice, 1, 7)
	groups = []uint32{8}
	ask("at once again", alice, 1, 7)
	now = now.Add(groupsTrust)
	ask("the same thread still", alice, 1, 7)
	ask("another group", bob, 2, 8)
	now = now.Add(groupsLife)
	groups = []uint32{9}
	ask("after a while", bob, 3, 9)
	start++ // another thread with the same id
	now = now.Add(groupsTrust)
	g.tid[tid].start = start
	ask("a thread id that came around", bob, 4, 9)
	readErr = errors.New("gone")
	now = now.Add(groupsLife)
	ask("a thread that is gone", bob, 5)
	if c := g.cred(fuse.Caller{Owner: alice}); c.Groups != nil || reads != 5 {
		t.Errorf("thread of another namespace: %+v after %d reads", c, reads)
	}
	readErr = nil
	for i := range uint32(maxGroupEntries * 2) {
		g.cred(fuse.Caller{Owner: alice, Pid: 1_000_000 + i})
	}
	if len(g.tid) > maxGroupEntries {
		t.Errorf("%d entries, the limit is %d", len(g.tid), maxGroupEntries)
	}
}
