package conformance

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

var lockCases = []Case{
	{"LocksBetweenProcesses", locksBetweenProcesses},
	{"LockSplitAndMerge", lockSplitAndMerge},
	{"LockUpgradeDowngrade", lockUpgradeDowngrade},
	{"LockQuery", lockQuery},
	{"LockBeyond4GiB", lockBeyond4GiB},
	{"LockAccessModes", lockAccessModes},
	{"LockWait", lockWait},
	{"LockInterrupted", lockInterrupted},
	{"LockReleasedOnClose", lockReleasedOnClose},
	{"LockReleasedOnKill", lockReleasedOnKill},
	{"LockDeadlock", lockDeadlock},
	{"FlockShared", flockShared},
	{"FlockDupAndFork", flockDupAndFork},
	{"FlockReleasedOnClose", flockReleasedOnClose},
	{"OFDLocks", ofdLocks},
	{"LockedCounter", lockedCounter},
}

const (
	rdlck = int16(unix.F_RDLCK)
	wrlck = int16(unix.F_WRLCK)
	unlck = int16(unix.F_UNLCK)
)

// taken are the errors of a lock that somebody else has.
var taken = []unix.Errno{unix.EAGAIN, unix.EACCES}

// pair starts two processes that have a new file open; of two clients, if there
// are two.
func (e *env) pair() (a, b *peer, name string, fa, fb int) {
	const file = "file"
	e.create(e.path(file), make([]byte, 1000))
	a, b = e.peer("a"), e.peer("b").atSecond()
	return a, b, file, a.open(file, unix.O_RDWR), b.open(file, unix.O_RDWR)
}

// soon is for what holds at once on one client. Another one may learn of a last
// close(2) a moment after that has returned.
func (e *env) soon(what string, f func() error) {
	end := time.Now()
	if e.o.Second != "" {
		end = end.Add(5 * time.Second)
	}
	for {
		err := f()
		if err == nil || !time.Now().Before(end) {
			e.ok(err, "%s", what)
			return
		}
	}
}

// locksBetweenProcesses: write locks exclude, read locks share, and ranges that
// do not touch each other are independent.
func locksBetweenProcesses(e *env) {
	a, b, _, fa, fb := e.pair()
	e.ok(a.lock(fa, wrlck, 10, 10), "write lock")
	e.fails(b.lock(fb, rdlck, 10, 1), "read lock of the first byte of a write lock", taken...)
	e.fails(b.lock(fb, wrlck, 19, 1), "write lock of its last byte", taken...)
	e.fails(b.lock(fb, rdlck, 0, 0), "read lock of the whole file", taken...)
	e.ok(b.lock(fb, wrlck, 0, 10), "write lock below")
	e.ok(b.lock(fb, rdlck, 20, 10), "read lock above")
	e.ok(a.lock(fa, rdlck, 20, 20), "read lock beside a read lock")
	e.fails(a.lock(fa, wrlck, 29, 1), "write lock over another's read lock", taken...)
	e.ok(a.lock(fa, wrlck, 30, 1), "write lock over one's own read lock")
	e.ok(a.lock(fa, unlck, 0, 0), "unlock of everything")
	e.ok(b.lock(fb, wrlck, 0, 0), "write lock of the whole file")
	e.ok(a.lock(fa, unlck, 5, 5), "unlock of what another has")
	e.fails(a.lock(fa, wrlck, 5, 5), "write lock of what another has", taken...)
}

// lockSplitAndMerge: an unlock in the middle leaves both ends, and locks that
// meet become one.
func lockSplitAndMerge(e *env) {
	a, b, _, fa, fb := e.pair()
	e.ok(a.lock(fa, wrlck, 0, 100), "write lock")
	e.ok(a.lock(fa, unlck, 40, 20), "unlock in the middle")
	e.ok(b.lock(fb, wrlck, 40, 20), "write lock of the hole")
	e.fails(b.lock(fb, wrlck, 39, 1), "write lock of the left end", taken...)
	e.fails(b.lock(fb, wrlck, 60, 1), "write lock of the right end", taken...)
	if l := b.query(fb, wrlck, 0, 0); l.Type != wrlck || l.Start != 0 || l.Len != 40 {
		e.Errorf("left end: %+v, expected from 0, length 40", l)
	}
	e.ok(b.lock(fb, unlck, 0, 0), "unlock of the hole")
	e.ok(a.lock(fa, wrlck, 30, 40), "write lock over the hole")
	if l := b.query(fb, rdlck, 50, 1); l.Type != wrlck || l.Start != 0 || l.Len != 100 {
		e.Errorf("joined again: %+v, expected from 0, length 100", l)
	}
	e.ok(a.lock(fa, rdlck, 20, 10), "read lock within")
	e.ok(b.lock(fb, rdlck, 20, 10), "read lock beside it")
	e.fails(b.lock(fb, rdlck, 19, 1), "read lock below it", taken...)
	e.fails(b.lock(fb, rdlck, 30, 1), "read lock above it", taken...)
	for i := int64(0); i < 100; i += 2 { // every other byte
		e.ok(a.lock(fa, unlck, i, 1), "unlock of byte %d", i)
	}
	e.ok(b.lock(fb, unlck, 0, 0), "unlock")
	for i := int64(0); i < 100; i++ {
		err := b.lock(fb, wrlck, i, 1)
		if i%2 == 0 {
			e.ok(err, "write lock of byte %d", i)
		} else {
			e.fails(err, fmt.Sprintf("write lock of byte %d", i), taken...)
		}
	}
}

// lockUpgradeDowngrade: a lock changes its kind in place; an upgrade that is
// refused leaves what was there.
func lockUpgradeDowngrade(e *env) {
	a, b, _, fa, fb := e.pair()
	e.ok(a.lock(fa, rdlck, 0, 10), "read lock")
	e.ok(b.lock(fb, rdlck, 5, 10), "read lock beside it")
	e.fails(a.lock(fa, wrlck, 0, 10), "upgrade against a reader", taken...)
	e.fails(b.lock(fb, wrlck, 0, 1), "the read lock after a refused upgrade", taken...)
	e.ok(a.lock(fa, wrlck, 0, 5), "upgrade of the rest")
	e.fails(b.lock(fb, rdlck, 4, 1), "read lock of what was upgraded", taken...)
	e.ok(b.lock(fb, unlck, 0, 0), "unlock")
	e.ok(a.lock(fa, wrlck, 0, 10), "upgrade")
	e.fails(b.lock(fb, rdlck, 9, 1), "read lock of what was upgraded", taken...)
	e.ok(a.lock(fa, rdlck, 0, 10), "downgrade")
	e.ok(b.lock(fb, rdlck, 0, 10), "read lock after a downgrade")
}

// lockQuery: F_GETLK tells what is in the way, and nothing else.
func lockQuery(e *env) {
	a, b, _, fa, fb := e.pair()
	if l := b.query(fb, wrlck, 0, 0); l.Type != unlck {
		e.Errorf("nothing locked: %+v", l)
	}
	e.ok(a.lock(fa, rdlck, 100, 50), "read lock")
	if l := b.query(fb, rdlck, 0, 0); l.Type != unlck {
		e.Errorf("read lock against a read lock: %+v", l)
	}
	if l := a.query(fa, wrlck, 0, 0); l.Type != unlck {
		e.Errorf("write lock against one's own: %+v", l)
	}
	l := b.query(fb, wrlck, 149, 1)
	if l.Type != rdlck || l.Start != 100 || l.Len != 50 || l.Whence != io.SeekStart {
		e.Errorf("write lock against a read lock: %+v, expected a read lock from 100, length 50", l)
	}
	if pid := a.cmd.Process.Pid; int(l.Pid) != pid && e.o.Second == "" {
		e.Errorf("held by process %d, expected %d", l.Pid, pid)
	}
	if l := b.query(fb, wrlck, 150, 0); l.Type != unlck {
		e.Errorf("behind it: %+v", l)
	}
	e.ok(a.lock(fa, wrlck, 500, 0), "write lock to the end")
	if l := b.query(fb, rdlck, 1<<40, 1); l.Type != wrlck || l.Start != 500 || l.Len != 0 {
		e.Errorf("to the end: %+v, expected a write lock from 500, length 0", l)
	}
	// A query leaves nothing behind.
	e.ok(a.lock(fa, unlck, 0, 0), "unlock")
	e.ok(a.lock(fa, wrlck, 0, 0), "write lock after queries")
}

// lockBeyond4GiB: ranges lie where they were put, up to the largest offset.
func lockBeyond4GiB(e *env) {
	a, b, _, fa, fb := e.pair()
	const far, most = int64(5 << 30), int64(1<<63 - 1)
	e.ok(a.lock(fa, wrlck, far, 10), "write lock")
	e.ok(b.lock(fb, wrlck, far&(1<<32-1), 10), "write lock of the same offset, 32 bits of it")
	e.ok(b.lock(fb, wrlck, far-1, 1), "write lock below")
	e.ok(b.lock(fb, wrlck, far+10, 1), "write lock above")
	e.fails(b.lock(fb, wrlck, far+9, 1), "write lock of the last byte", taken...)
	e.ok(a.lock(fa, wrlck, most-9, 10), "write lock of the last ten bytes that there can be")
	e.fails(b.lock(fb, rdlck, most, 1), "read lock of the last one", taken...)
	e.fails(b.lock(fb, rdlck, far+20, 0), "read lock to the end", taken...)
	e.ok(a.lock(fa, unlck, most, 1), "unlock of the last one")
	e.ok(b.lock(fb, rdlck, most, 1), "read lock of the last one")
	e.fails(b.lock(fb, rdlck, most-1, 1), "read lock of the last but one", taken...)
	e.ok(a.lock(fa, unlck, 1<<32, 0), "unlock to the end")
	e.ok(b.lock(fb, wrlck, 1<<32, 0), "write lock to the end")
	e.fails(a.lock(fa, rdlck, most, 1), "read lock of the last one", taken...)
	e.fails(a.lock(fa, wrlck, most, 2), "write lock beyond the last one", unix.EOVERFLOW, unix.EINVAL)
}

// lockAccessModes: a write lock wants a descriptor for writing, a read lock one
// for reading.
func lockAccessModes(e *env) {
	a, b, name, _, fb := e.pair()
	ro, wo := a.open(name, unix.O_RDONLY), a.open(name, unix.O_WRONLY)
	e.fails(a.lock(ro, wrlck, 0, 1), "write lock, descriptor for reading", unix.EBADF)
	e.fails(a.lock(wo, rdlck, 0, 1), "read lock, descriptor for writing", unix.EBADF)
	e.ok(a.lock(ro, rdlck, 0, 10), "read lock, descriptor for reading")
	e.ok(a.lock(wo, wrlck, 10, 10), "write lock, descriptor for writing")
	e.fails(b.lock(fb, wrlck, 0, 1), "write lock", taken...)
	e.fails(b.lock(fb, rdlck, 19, 1), "read lock", taken...)
	// Any descriptor releases what the process has.
	e.ok(a.lock(ro, unlck, 10, 10), "unlock through the other descriptor")
	e.ok(b.lock(fb, wrlck, 10, 10), "write lock")
}

// lockWait: who waits for a lock gets it when it is free, and not before.
func lockWait(e *env) {
	a, b, name, fa, fb := e.pair()
	e.ok(a.lock(fa, wrlck, 0, 100), "write lock")
	b.ask(fb, wrlck, 50, 100)
	b.blocked("write lock")
	e.ok(a.lock(fa, unlck, 0, 50), "unlock of what nobody waits for")
	b.blocked("write lock")
	e.ok(a.lock(fa, unlck, 50, 50), "unlock")
	e.ok(b.answer("write lock").err(), "write lock that was waited for")
	e.fails(a.lock(fa, rdlck, 149, 1), "read lock of what was waited for", taken...)
	// Several wait for one.
	c := e.peer("c").atSecond()
	fc := c.open(name, unix.O_RDWR)
	a.ask(fa, rdlck, 100, 1)
	c.ask(fc, rdlck, 100, 1)
	a.blocked("read lock")
	c.blocked("read lock")
	e.ok(b.lock(fb, rdlck, 50, 100), "downgrade")
	e.ok(a.answer("read lock").err(), "read lock that was waited for")
	e.ok(c.answer("read lock").err(), "read lock that was waited for")
	// flock(2) waits as well.
	ga, gb := a.open(name, unix.O_RDWR), b.open(name, unix.O_RDWR)
	for _, p := range []*peer{a, b, c} { // where the two kinds are one
		e.ok(p.lock(map[*peer]int{a: fa, b: fb, c: fc}[p], unlck, 0, 0), "unlock")
	}
	e.ok(a.flock(ga, unix.LOCK_EX), "flock")
	b.tell(lockCall{Do: "flock", FD: gb, Flags: unix.LOCK_SH})
	b.blocked("flock")
	e.ok(a.flock(ga, unix.LOCK_UN), "unlock")
	e.ok(b.answer("flock").err(), "flock that was waited for")
}

// lockInterrupted: a signal ends the waiting, and no lock is left.
func lockInterrupted(e *env) {
	a, b, name, fa, fb := e.pair()
	c := e.peer("c").atSecond()
	fc := c.open(name, unix.O_RDWR)
	e.ok(a.lock(fa, wrlck, 0, 10), "write lock")
	for range 3 {
		b.ask(fb, wrlck, 0, 10)
		b.blocked("write lock")
		b.interrupt()
		e.fails(b.answer("write lock").err(), "interrupted", unix.EINTR)
	}
	e.ok(a.lock(fa, unlck, 0, 10), "unlock")
	e.ok(c.lock(fc, wrlck, 0, 10), "write lock after an interrupted one")
	e.ok(c.lock(fc, unlck, 0, 10), "unlock")
	// The same for flock(2).
	ga, gb, gc := a.open(name, unix.O_RDWR), b.open(name, unix.O_RDWR), c.open(name, unix.O_RDWR)
	e.ok(a.flock(ga, unix.LOCK_EX), "flock")
	b.tell(lockCall{Do: "flock", FD: gb, Flags: unix.LOCK_EX})
	b.blocked("flock")
	b.interrupt()
	e.fails(b.answer("flock").err(), "interrupted", unix.EINTR)
	e.ok(a.flock(ga, unix.LOCK_UN), "unlock")
	e.ok(c.flock(gc, unix.LOCK_EX|unix.LOCK_NB), "flock after an interrupted one")
}

// lockReleasedOnClose: closing any descriptor of a file releases the process's
// locks of it, and of no other file.
func lockReleasedOnClose(e *env) {
	a, b, name, fa, fb := e.pair()
	e.create(e.path("other"), nil)
	oa, ob := a.open("other", unix.O_RDWR), b.open("other", unix.O_RDWR)
	for i := range 20 {
		e.ok(a.lock(fa, wrlck, 0, 10), "write lock")
		e.ok(a.lock(oa, wrlck, 0, 10), "write lock of another file")
		e.fails(b.lock(fb, wrlck, 0, 10), "write lock", taken...)
		var second int
		switch i % 3 {
		case 0:
			second = a.open(name, unix.O_RDONLY)
		case 1:
			second = a.open(name, unix.O_RDWR)
		case 2:
			second = a.dup(fa)
		}
		a.close(second)
		e.ok(b.lock(fb, wrlck, 0, 10), "write lock after a close")
		e.ok(b.lock(fb, unlck, 0, 10), "unlock")
		e.fails(b.lock(ob, wrlck, 0, 10), "write lock of the other file", taken...)
	}
	e.ok(a.lock(fa, wrlck, 0, 10), "write lock")
	b.ask(fb, rdlck, 0, 10)
	b.blocked("read lock")
	a.close(fa)
	e.ok(b.answer("read lock").err(), "read lock that was waited for")
}

// lockReleasedOnKill: locks go with their process, and so does the wait for one.
func lockReleasedOnKill(e *env) {
	a, b, name, fa, fb := e.pair()
	e.ok(a.lock(fa, wrlck, 0, 10), "write lock")
	ga := a.open(name, unix.O_RDWR)
	e.ok(a.ofd(ga, wrlck, 100, 10), "OFD lock")
	b.ask(fb, wrlck, 5, 1)
	b.blocked("write lock")
	a.kill()
	e.ok(b.answer("write lock").err(), "write lock of what a killed process had")
	e.soon("write lock of what a killed process had with an OFD lock", func() error { return b.lock(fb, wrlck, 100, 10) })

	c, d := e.peer("c"), e.peer("d").atSecond()
	fc, fd := c.open(name, unix.O_RDWR), d.open(name, unix.O_RDWR)
	c.ask(fc, wrlck, 5, 1)
	c.blocked("write lock")
	c.kill()
	e.ok(b.lock(fb, unlck, 0, 0), "unlock")
	e.ok(d.lock(fd, wrlck, 0, 0), "write lock after one who waited was killed")
}

// lockDeadlock: two that wait for each other do not wait for ever: one of them
// is told, or a signal frees them.
func lockDeadlock(e *env) {
	a, b, _, fa, fb := e.pair()
	e.ok(a.lock(fa, wrlck, 0, 1), "write lock")
	e.ok(b.lock(fb, wrlck, 1, 1), "write lock")
	a.ask(fa, wrlck, 1, 1)
	a.blocked("write lock")
	b.ask(fb, wrlck, 0, 1)
	t := time.NewTimer(2 * time.Second)
	defer t.Stop()
	told, other, fd := b, a, fb
	var got lockAnswer
	select {
	case got = <-b.answers:
	case got = <-a.answers:
		told, other, fd = a, b, fa
	case <-t.C:
		e.Logf("no detection of deadlocks here")
		b.interrupt()
		e.fails(b.answer("write lock").err(), "interrupted", unix.EINTR)
		got.Errno = int(unix.EDEADLK)
	}
	e.fails(got.err(), "deadlock", unix.EDEADLK)
	e.ok(told.lock(fd, unlck, 0, 0), "unlock")
	e.ok(other.answer("write lock").err(), "write lock after the other has given up")
}

// flockShared: flock(2) excludes and shares between open files, also of one
// process, and changes its kind.
func flockShared(e *env) {
	a, b, name, fa, fb := e.pair()
	ga := a.open(name, unix.O_RDWR)
	e.ok(a.flock(fa, unix.LOCK_EX|unix.LOCK_NB), "exclusive lock")
	e.fails(b.flock(fb, unix.LOCK_SH|unix.LOCK_NB), "shared lock by another process", unix.EWOULDBLOCK)
	e.fails(a.flock(ga, unix.LOCK_SH|unix.LOCK_NB), "shared lock by another open file of the process", unix.EWOULDBLOCK)
	e.ok(a.flock(fa, unix.LOCK_SH|unix.LOCK_NB), "downgrade")
	e.ok(b.flock(fb, unix.LOCK_SH|unix.LOCK_NB), "shared lock")
	e.ok(a.flock(ga, unix.LOCK_SH|unix.LOCK_NB), "shared lock")
	e.fails(b.flock(fb, unix.LOCK_EX|unix.LOCK_NB), "upgrade against others", unix.EWOULDBLOCK)
	e.ok(a.flock(fa, unix.LOCK_UN), "unlock")
	e.ok(a.flock(ga, unix.LOCK_UN), "unlock")
	e.ok(b.flock(fb, unix.LOCK_EX|unix.LOCK_NB), "upgrade")
	ro := a.open(name, unix.O_RDONLY)
	e.fails(a.flock(ro, unix.LOCK_SH|unix.LOCK_NB), "shared lock, descriptor for reading", unix.EWOULDBLOCK)
	e.ok(b.flock(fb, unix.LOCK_UN), "unlock")
	e.ok(a.flock(ro, unix.LOCK_SH|unix.LOCK_NB), "shared lock, descriptor for reading")
	// NFS makes it a lock for writing, which wants a descriptor for writing.
	if err := a.flock(ro, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		e.fails(err, "exclusive lock, descriptor for reading", unix.EBADF)
	}
}

// flockDupAndFork: descriptors that share an open file share its lock; it goes
// with the last of them, or when one of them unlocks.
func flockDupAndFork(e *env) {
	const name = "file"
	e.create(e.path(name), nil)
	f, err := os.OpenFile(e.path(name), os.O_RDWR, 0)
	e.ok(err, "open")
	const shared = 3
	a, b, c := e.peer("a", f), e.peer("b", f), e.peer("c").atSecond()
	e.ok(f.Close(), "close")
	fc := c.open(name, unix.O_RDWR)
	const try = unix.LOCK_EX | unix.LOCK_NB
	e.ok(a.flock(shared, try), "exclusive lock")
	e.ok(b.flock(shared, try), "the same open file in another process")
	e.fails(c.flock(fc, try), "another open file", unix.EWOULDBLOCK)
	d := a.dup(shared)
	a.close(shared)
	e.fails(c.flock(fc, try), "after a close", unix.EWOULDBLOCK)
	a.close(d)
	e.fails(c.flock(fc, try), "after the last close of one process", unix.EWOULDBLOCK)
	b.kill()
	e.soon("after the end of the last process", func() error { return c.flock(fc, try) })
	e.ok(c.flock(fc, unix.LOCK_UN), "unlock")

	ga := a.open(name, unix.O_RDWR)
	d = a.dup(ga)
	e.ok(a.flock(ga, try), "exclusive lock")
	e.ok(a.flock(d, unix.LOCK_UN), "unlock through another descriptor")
	e.ok(c.flock(fc, try), "after that")
}

// flockReleasedOnClose: whoever locks after the last close finds nothing.
func flockReleasedOnClose(e *env) {
	a, b, name, fa, fb := e.pair()
	a.close(fa)
	const try = unix.LOCK_EX | unix.LOCK_NB
	for range 100 {
		fa := a.open(name, unix.O_RDWR)
		e.ok(a.flock(fa, try), "exclusive lock")
		a.close(fa)
		e.soon("exclusive lock after a close", func() error { return b.flock(fb, try) })
		e.ok(b.flock(fb, unix.LOCK_UN), "unlock")
	}
	fa = a.open(name, unix.O_RDWR)
	e.ok(a.flock(fa, try), "exclusive lock")
	a.kill()
	e.soon("exclusive lock after a kill", func() error { return b.flock(fb, try) })
}

// ofdLocks: byte-range locks that belong to the open file.
func ofdLocks(e *env) {
	a, b, name, fa, fb := e.pair()
	ga := a.open(name, unix.O_RDWR)
	e.ok(a.ofd(fa, wrlck, 0, 10), "write lock")
	e.fails(a.ofd(ga, wrlck, 9, 1), "another open file of the process", taken...)
	e.fails(b.ofd(fb, rdlck, 0, 1), "another process", taken...)
	e.fails(b.lock(fb, rdlck, 0, 1), "POSIX lock of another process", taken...)
	a.close(ga)
	e.fails(b.ofd(fb, rdlck, 0, 1), "after a close of another open file", taken...)
	d := a.dup(fa)
	a.close(fa)
	e.fails(b.ofd(fb, rdlck, 0, 1), "after a close of one of two descriptors", taken...)
	e.ok(a.ofd(d, unlck, 0, 5), "unlock of a half")
	e.ok(b.ofd(fb, wrlck, 0, 5), "write lock of it")
	e.fails(b.ofd(fb, wrlck, 5, 5), "write lock of the other", taken...)
	q := a.call(lockCall{Do: "fcntl", Flags: unix.F_OFD_GETLK, FD: d, Lock: flockOf(rdlck, 0, 0)})
	e.ok(q.err(), "F_OFD_GETLK")
	if q.Lock.Type != wrlck || q.Lock.Start != 0 || q.Lock.Len != 5 {
		e.Errorf("F_OFD_GETLK: %+v, expected a write lock from 0, length 5", q.Lock)
	}
	b.tell(lockCall{Do: "fcntl", Flags: unix.F_OFD_SETLKW, FD: fb, Lock: flockOf(wrlck, 0, 0)})
	b.blocked("write lock")
	a.close(d)
	e.ok(b.answer("write lock").err(), "write lock that was waited for")
}

// counts are the ways of countChild to lock, by the number of the round.
var counts = []string{"fcntl", "flock", "ofd"}

// countRounds is how often a process counts.
const countRounds = 25

// lockedCounter: what is read and written under a lock is not lost.
func lockedCounter(e *env) {
	for _, how := range counts {
		dir := e.path(how)
		e.mkdir(dir)
		e.create(filepath.Join(dir, "counter"), make([]byte, 8))
		sub := &env{dir: dir, second: filepath.Join(e.second, how), o: e.o, seed: e.seed, logf: e.logf}
		sub.runChildren("count", e.o.Workers)
		for _, f := range sub.failures {
			e.Errorf("%s: %s", how, f)
		}
		got, err := os.ReadFile(filepath.Join(dir, "counter"))
		e.ok(err, "read")
		if n, want := binary.LittleEndian.Uint64(got), uint64(e.o.Workers*countRounds); n != want {
			e.Errorf("%s: counted to %d, expected %d", how, n, want)
		}
	}
}

// countChild counts with one open file, in the way that its directory is named
// for.
func countChild(a childArgs) error {
	dir := a.Dir
	if a.Number%2 == 1 {
		dir = a.Second
	}
	fd, err := unix.Open(filepath.Join(dir, "counter"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	set := func(typ int16, how int) error {
		l := flockOf(typ, 0, 0)
		for {
			var err error
			switch filepath.Base(a.Dir) {
			case "fcntl":
				err = unix.FcntlFlock(uintptr(fd), unix.F_SETLKW, &l)
			case "ofd":
				err = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLKW, &l)
			default:
				err = unix.Flock(fd, how)
			}
			if err != unix.EINTR {
				return err
			}
		}
	}
	buf := make([]byte, 8)
	for range countRounds {
		if err := set(wrlck, unix.LOCK_EX); err != nil {
			return fmt.Errorf("lock: %w", err)
		}
		if n, err := preadFull(fd, buf, 0); err != nil || n != 8 {
			return fmt.Errorf("read: %d, %w", n, err)
		}
		binary.LittleEndian.PutUint64(buf, binary.LittleEndian.Uint64(buf)+1)
		if err := pwriteFull(fd, buf, 0); err != nil {
			return err
		}
		if err := set(unlck, unix.LOCK_UN); err != nil {
			return fmt.Errorf("unlock: %w", err)
		}
	}
	return nil
}
