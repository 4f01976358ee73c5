package fusefs

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"golang.org/x/sys/unix"

	"nfsrdma-fuse/nfsclient/nfstest"
)

// Histories of what processes on two mounts of one server did at the same time
// are linearizable: there is an order of all operations, each within the time
// that it took, in which a single register, or a single table of locks, would
// have given the same answers.

// linearArgs are the arguments of a process that makes a history.
type linearArgs struct {
	File   string
	Worker int
	Seed   uint64
	Count  int    // operations
	Kind   string // a name in linearKinds
}

// linearOp is one operation of a history.
type linearOp struct {
	Register  int
	Do        string // read, write, swap; tryread, trywrite, unlock
	Value     uint64 // written
	Got       uint64 // read, or 1 for a lock that was had
	Call, End int64  // nanoseconds of CLOCK_MONOTONIC
}

const (
	linearEnv      = "FUSEFS_TEST_LINEAR"
	linearRegister = 3 // registers, in one file
)

// linearKinds are the kinds of histories: how one operation is done on an open
// or unopened file.
var linearKinds = map[string]func(a linearArgs, fd int, rng *rand.Rand, i int, op *linearOp) error{
	"posix": lockedOp(unix.F_SETLKW),
	"ofd":   lockedOp(unix.F_OFD_SETLKW),
	"close": closeToOpenOp,
	"locks": lockTableOp,
}

// lockedOp reads, writes or swaps a register under a lock of its bytes.
func lockedOp(set int) func(linearArgs, int, *rand.Rand, int, *linearOp) error {
	return func(a linearArgs, fd int, rng *rand.Rand, i int, op *linearOp) error {
		op.Register = rng.IntN(linearRegister)
		op.Do = []string{"read", "write", "swap"}[rng.IntN(3)]
		off := int64(op.Register * 8)
		l := unix.Flock_t{Type: unix.F_WRLCK, Start: off, Len: 8}
		if op.Do == "read" {
			l.Type = unix.F_RDLCK
		}
		if err := fcntl(fd, set, l); err != nil {
			return err
		}
		var err error
		if op.Do != "write" {
			op.Got, err = readRegister(fd, off)
		}
		if op.Do != "read" && err == nil {
			op.Value = uint64(a.Worker)<<32 | uint64(i)<<8 | 1
			err = writeRegister(fd, off, op.Value)
		}
		l.Type = unix.F_UNLCK
		return errors.Join(err, fcntl(fd, set, l))
	}
}

// closeToOpenOp opens the file, writes or reads a register and closes it again,
// without locks. One mount writes and the other reads: what a process of the
// writing mount reads may not be at the server yet.
func closeToOpenOp(a linearArgs, _ int, _ *rand.Rand, i int, op *linearOp) error {
	fd, err := unix.Open(a.File, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if op.Do = "read"; a.Worker%2 == 0 {
		op.Got, err = readRegister(fd, 0)
	} else {
		op.Do, op.Value = "write", uint64(a.Worker)<<32|uint64(i)<<8|1
		err = writeRegister(fd, 0, op.Value)
	}
	return errors.Join(err, unix.Close(fd))
}

// lockTableOp tries to lock the file, for reading or for writing, or unlocks it.
func lockTableOp(a linearArgs, fd int, rng *rand.Rand, i int, op *linearOp) error {
	l := unix.Flock_t{Type: unix.F_RDLCK, Len: 8}
	op.Do = []string{"tryread", "trywrite", "unlock"}[rng.IntN(3)]
	if i == a.Count-1 {
		op.Do = "unlock" // before the end of the process does it
	}
	switch op.Do {
	case "trywrite":
		l.Type = unix.F_WRLCK
	case "unlock":
		l.Type = unix.F_UNLCK
	}
	err := fcntl(fd, unix.F_SETLK, l)
	if err == nil {
		op.Got = 1
	} else if err == unix.EAGAIN || err == unix.EACCES {
		return nil
	}
	return err
}

func fcntl(fd, cmd int, l unix.Flock_t) error {
	for {
		if err := unix.FcntlFlock(uintptr(fd), cmd, &l); err != unix.EINTR {
			return err
		}
	}
}

func readRegister(fd int, off int64) (uint64, error) {
	var b [8]byte
	if n, err := unix.Pread(fd, b[:], off); err != nil || n != 8 {
		return 0, fmt.Errorf("read: %d, %v", n, err)
	}
	return binary.LittleEndian.Uint64(b[:]), nil
}

func writeRegister(fd int, off int64, v uint64) error {
	if n, err := unix.Pwrite(fd, binary.LittleEndian.AppendUint64(nil, v), off); err != nil || n != 8 {
		return fmt.Errorf("write: %d, %v", n, err)
	}
	return nil
}

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err)
	}
	return ts.Nano()
}

// runLinear is the process that makes a history: it begins when its standard
// input ends, and prints what it did.
func runLinear(text string) error {
	var a linearArgs
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	fd, err := unix.Open(a.File, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(a.Seed, uint64(a.Worker)))
	ops := make([]linearOp, a.Count)
	for i := range ops {
		op := &ops[i]
		op.Call = monotonic()
		if err := linearKinds[a.Kind](a, fd, rng, i, op); err != nil {
			return fmt.Errorf("operation %d (%s): %w", i, op.Do, err)
		}
		op.End = monotonic()
	}
	return json.NewEncoder(os.Stdout).Encode(ops)
}

// registerModel is a register that can be read, written and swapped.
var registerModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		parts := make([][]porcupine.Operation, linearRegister)
		for _, o := range history {
			r := o.Input.(linearOp).Register
			parts[r] = append(parts[r], o)
		}
		return parts
	},
	Init: func() any { return uint64(0) },
	Step: func(state, input, _ any) (bool, any) {
		op := input.(linearOp)
		switch op.Do {
		case "read":
			return op.Got == state.(uint64), state
		case "write":
			return true, op.Value
		}
		return op.Got == state.(uint64), op.Value
	},
}

// lockTable is who has a lock: one writer, or readers.
type lockTable struct {
	writer  int // -1 if there is none
	readers uint64
}

// lockTableModel is a lock that processes try to get.
var lockTableModel = porcupine.Model{
	Init: func() any { return lockTable{writer: -1} },
	Step: func(state, input, output any) (bool, any) {
		t, op, who := state.(lockTable), input.(linearOp), output.(int)
		me := uint64(1) << who
		free := t.writer < 0 || t.writer == who
		switch op.Do {
		case "trywrite":
			free = free && t.readers&^me == 0
		case "unlock":
			free = true
		}
		if !free || op.Got == 0 {
			return free == (op.Got == 1), state
		}
		if t.writer == who {
			t.writer = -1
		}
		t.readers &^= me
		switch op.Do {
		case "tryread":
			t.readers |= me
		case "trywrite":
			t.writer = who
		}
		return true, t
	},
}

func TestLinearizable(t *testing.T) {
	for _, k := range []struct {
		kind           string
		so             nfstest.Options
		workers, count int
		model          porcupine.Model
	}{
		{"posix", nfstest.Options{}, 6, 40, registerModel},
		{"posix", nfstest.Options{NoNotifyLock: true, Delegations: nfstest.DelegateNever}, 6, 40, registerModel},
		{"ofd", nfstest.Options{}, 6, 40, registerModel},
		{"close", nfstest.Options{Delegations: nfstest.DelegateNever}, 6, 60, registerModel},
		{"locks", nfstest.Options{Delegations: nfstest.DelegateNever}, 6, 60, lockTableModel},
	} {
		t.Run(fmt.Sprintf("%s notified %v", k.kind, !k.so.NoNotifyLock), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			if text := os.Getenv("FUSEFS_SEED"); text != "" {
				seed, _ = strconv.ParseUint(text, 0, 64)
			}
			t.Logf("seed %d (set FUSEFS_SEED to repeat)", seed)
			p := mountPairOf(t, k.so, Options{AllowOther: true})
			history := makeHistory(t, p, k.kind, k.workers, k.count, seed)
			switch porcupine.CheckOperationsTimeout(k.model, history, 30*time.Second) {
			case porcupine.Illegal:
				slices.SortFunc(history, func(a, b porcupine.Operation) int { return int(a.Call - b.Call) })
				for _, o := range history {
					t.Logf("%d: %+v", o.ClientId, o.Input)
				}
				t.Error("not linearizable")
			case porcupine.Unknown:
				t.Error("history too hard to check")
			}
		})
	}
}

// makeHistory has processes work on a file, half of them on each mount.
func makeHistory(t *testing.T, p *pair, kind string, workers, count int, seed uint64) (history []porcupine.Operation) {
	t.Helper()
	p.sh(t, `head -c 24 /dev/zero >"$1/file"`)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type worker struct {
		cmd   *exec.Cmd
		begin io.Closer
		out   io.Reader
	}
	var all []worker
	for i := range workers {
		args, err := json.Marshal(linearArgs{File: filepath.Join([]string{p.a, p.b}[i%2], "file"), Worker: i, Seed: seed, Count: count, Kind: kind})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(self)
		cmd.Env = append(os.Environ(), linearEnv+"="+string(args))
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, worker{cmd, in, out})
	}
	for _, w := range all {
		w.begin.Close()
	}
	for i, w := range all {
		var ops []linearOp
		text, _ := io.ReadAll(w.out)
		if err := w.cmd.Wait(); err != nil {
			t.Fatalf("process %d: %v: %s", i, err, text)
		}
		if err := json.Unmarshal(text, &ops); err != nil {
			t.Fatal(err)
		}
		for _, op := range ops {
			history = append(history, porcupine.Operation{ClientId: i, Input: op, Call: op.Call, Output: i, Return: op.End})
		}
	}
	return history
}
