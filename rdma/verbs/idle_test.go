//go:build cgo && linux

package verbs

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A device whose node has gone is let go of; one that is there, and a
// descriptor that has become something else, are left alone.
func TestIdle(t *testing.T) {
	dir := t.TempDir()
	open := func(name string) int {
		fd, err := unix.Open(filepath.Join(dir, name), unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	stat := func(fd int) (st unix.Stat_t) {
		if err := unix.Fstat(fd, &st); err != nil {
			t.Fatal(err)
		}
		return st
	}
	gone, events, there, other := open("gone"), open("events"), open("there"), open("other")
	idle.mu.Lock()
	defer idle.mu.Unlock()
	before := idle.devices
	defer func() { idle.devices = before }()
	idle.devices = make(map[int]idleDevice)
	for fd, async := range map[int]int{gone: events, there: -1, other: -1} {
		st := stat(fd)
		idle.devices[fd] = idleDevice{async: async, ino: st.Ino, dev: st.Dev}
	}
	if err := os.Remove(filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup3(open("new"), other, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "new")); err != nil {
		t.Fatal(err)
	}
	sweepIdle()
	var null unix.Stat_t
	if err := unix.Stat(os.DevNull, &null); err != nil {
		t.Fatal(err)
	}
	for fd, want := range map[int]bool{gone: true, events: true, there: false, other: false} {
		if got := stat(fd).Rdev == null.Rdev; got != want {
			t.Errorf("descriptor %d is on /dev/null: %v", fd, !want)
		}
	}
	if _, ok := idle.devices[there]; !ok || len(idle.devices) != 1 {
		t.Errorf("watched: %v", idle.devices)
	}
}
