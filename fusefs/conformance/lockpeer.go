package conformance

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lockCall is a system call that a peer is asked to make.
type lockCall struct {
	Do    string // open, close, dup, fcntl, flock
	Path  string
	Flags int // of open; the operation of flock; the command of fcntl
	FD    int
	Lock  unix.Flock_t
}

// lockAnswer is how it went.
type lockAnswer struct {
	Errno int
	FD    int
	Lock  unix.Flock_t
	TID   int // of the thread that makes the calls; comes first of all
}

// err is the error of the call, nil if there was none.
func (a lockAnswer) err() error {
	if a.Errno == 0 {
		return nil
	}
	return syscall.Errno(a.Errno)
}

// peer is a process that makes calls about locks when it is told to, all from
// one thread.
type peer struct {
	e       *env
	name    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan lockAnswer
	tid     int
	dir     string // where it opens files
	ended   bool
}

// peerPatience is how long an answer may take that has nothing to wait for.
const peerPatience = 30 * time.Second

// peer starts a process; the files are its descriptors from 3 on.
func (e *env) peer(name string, files ...*os.File) *peer {
	self, err := os.Executable()
	e.ok(err, "path of this executable")
	text, err := json.Marshal(childArgs{Dir: e.dir, Seed: e.seed})
	e.ok(err, "arguments")
	p := &peer{e: e, name: name, dir: e.dir, cmd: exec.Command(self), answers: make(chan lockAnswer, 1)}
	p.cmd.Env = append(os.Environ(), childEnv+"=lock", childArgsEnv+"="+string(text))
	p.cmd.ExtraFiles = files
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	e.ok(err, "pipe")
	out, err := p.cmd.StdoutPipe()
	e.ok(err, "pipe")
	e.ok(p.cmd.Start(), "start of process %s", name)
	go func() {
		defer close(p.answers)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var a lockAnswer
			if json.Unmarshal(lines.Bytes(), &a) == nil {
				p.answers <- a
			}
		}
	}()
	e.Cleanup(p.kill)
	p.tid = p.answer("start").TID
	return p
}

// atSecond has the process open files as the second client sees them.
func (p *peer) atSecond() *peer {
	p.dir = p.e.second
	return p
}

// tell has the process begin a call.
func (p *peer) tell(c lockCall) {
	text, err := json.Marshal(c)
	p.e.ok(err, "command")
	_, err = p.in.Write(append(text, '\n'))
	p.e.ok(err, "command to process %s", p.name)
}

// answer waits for the end of a call.
func (p *peer) answer(what string) lockAnswer {
	t := time.NewTimer(peerPatience)
	defer t.Stop()
	select {
	case a, ok := <-p.answers:
		if !ok {
			p.e.Fatalf("process %s: %s: it has ended", p.name, what)
		}
		return a
	case <-t.C:
		p.e.Fatalf("process %s: %s: no answer in %v", p.name, what, peerPatience)
	}
	return lockAnswer{}
}

func (p *peer) call(c lockCall) lockAnswer {
	p.tell(c)
	return p.answer(c.Do)
}

// open opens a file in the process and returns its descriptor there.
func (p *peer) open(name string, flags int) int {
	a := p.call(lockCall{Do: "open", Path: filepath.Join(p.dir, name), Flags: flags})
	p.e.ok(a.err(), "process %s: open %q", p.name, name)
	return a.FD
}

func (p *peer) close(fd int) {
	p.e.ok(p.call(lockCall{Do: "close", FD: fd}).err(), "process %s: close", p.name)
}

func (p *peer) dup(fd int) int {
	a := p.call(lockCall{Do: "dup", FD: fd})
	p.e.ok(a.err(), "process %s: dup", p.name)
	return a.FD
}

// flockOf makes the argument of fcntl(2); length 0 is up to the end.
func flockOf(typ int16, start, length int64) unix.Flock_t {
	return unix.Flock_t{Type: typ, Whence: io.SeekStart, Start: start, Len: length}
}

// lock sets or clears a POSIX lock without waiting.
func (p *peer) lock(fd int, typ int16, start, length int64) error {
	return p.call(lockCall{Do: "fcntl", Flags: unix.F_SETLK, FD: fd, Lock: flockOf(typ, start, length)}).err()
}

// ofd is lock for OFD locks.
func (p *peer) ofd(fd int, typ int16, start, length int64) error {
	return p.call(lockCall{Do: "fcntl", Flags: unix.F_OFD_SETLK, FD: fd, Lock: flockOf(typ, start, length)}).err()
}

func (p *peer) flock(fd, how int) error {
	return p.call(lockCall{Do: "flock", Flags: how, FD: fd}).err()
}

// query asks with F_GETLK what is in the way of a lock.
func (p *peer) query(fd int, typ int16, start, length int64) unix.Flock_t {
	a := p.call(lockCall{Do: "fcntl", Flags: unix.F_GETLK, FD: fd, Lock: flockOf(typ, start, length)})
	p.e.ok(a.err(), "process %s: F_GETLK", p.name)
	return a.Lock
}

// ask begins to lock, with waiting.
func (p *peer) ask(fd int, typ int16, start, length int64) {
	p.tell(lockCall{Do: "fcntl", Flags: unix.F_SETLKW, FD: fd, Lock: flockOf(typ, start, length)})
}

// blocked records a failure if the call that the process has begun ends by
// itself within a while.
func (p *peer) blocked(what string) {
	t := time.NewTimer(150 * time.Millisecond)
	defer t.Stop()
	select {
	case a, ok := <-p.answers:
		p.e.Fatalf("process %s: %s: expected to wait, but got %v (%v)", p.name, what, a.err(), ok)
	case <-t.C:
	}
}

// interrupt sends a signal to the thread that makes the calls; its handler does
// not restart them.
func (p *peer) interrupt() {
	p.e.ok(unix.Tgkill(p.cmd.Process.Pid, p.tid, unix.SIGUSR1), "signal to process %s", p.name)
}

// kill ends the process in the middle of whatever it does, and waits for its
// end.
func (p *peer) kill() {
	if p.ended {
		return
	}
	p.ended = true
	_ = p.cmd.Process.Kill()
	for range p.answers {
	}
	_ = p.cmd.Wait()
}

// lockChild makes the calls that it reads from its standard input.
func lockChild(childArgs) error {
	runtime.LockOSThread()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	if err := dontRestart(unix.SIGUSR1); err != nil {
		return err
	}
	answer := json.NewEncoder(os.Stdout)
	if err := answer.Encode(lockAnswer{TID: unix.Gettid()}); err != nil {
		return err
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var c lockCall
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		a := lockAnswer{Lock: c.Lock}
		var err error
		switch c.Do {
		case "open":
			a.FD, err = unix.Open(c.Path, c.Flags|unix.O_CLOEXEC, 0o644)
		case "close":
			err = unix.Close(c.FD)
		case "dup":
			a.FD, err = unix.Dup(c.FD)
		case "fcntl":
			err = unix.FcntlFlock(uintptr(c.FD), c.Flags, &a.Lock)
		case "flock":
			err = unix.Flock(c.FD, c.Flags)
		default:
			err = fmt.Errorf("unknown call %q", c.Do)
		}
		if errno, ok := err.(syscall.Errno); ok {
			a.Errno = int(errno)
		} else if err != nil {
			return err
		}
		if err := answer.Encode(a); err != nil {
			return err
		}
	}
	return nil
}

// dontRestart makes a signal that has a handler end system calls with EINTR:
// Go's handlers have them restarted.
func dontRestart(sig syscall.Signal) error {
	const restart = 0x10000000 // SA_RESTART
	var act struct {           // as the kernel has it on amd64 and arm64
		handler        uintptr
		flags          uint64
		restorer, mask uintptr
	}
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&act)), 8, 0, 0); errno != 0 {
		return errno
	}
	act.flags &^= restart
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&act)), 0, 8, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
