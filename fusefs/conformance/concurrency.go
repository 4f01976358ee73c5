package conformance

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var concurrencyCases = []Case{
	{"ConcurrentGoroutines", concurrentGoroutines},
	{"ConcurrentProcesses", concurrentProcesses},
	{"ConcurrentAppend", concurrentAppend},
	{"ConcurrentRangesOfOneFile", concurrentRanges},
	{"ConcurrentSameNames", concurrentSameNames},
}

// concurrentGoroutines: many at once in one process, each with its own files.
func concurrentGoroutines(e *env) {
	e.workers(func(w int) error {
		return load(e.dir, e.seed+uint64(w), w, e.o.Duration)
	})
}

// concurrentProcesses: the same by processes.
func concurrentProcesses(e *env) { e.runChildren("load", e.o.Workers) }

func loadChild(a childArgs) error {
	return load(a.Dir, a.Seed+uint64(a.Number), a.Number, time.Duration(a.Duration))
}

// load makes, changes, verifies, renames, links and removes files in a
// directory of its own, and files of one shared directory, until the time is
// over; it keeps the checksum of every file it has.
func load(dir string, seed uint64, worker int, d time.Duration) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	own := filepath.Join(dir, fmt.Sprintf("worker%d", worker))
	shared := filepath.Join(dir, "shared")
	if err := os.MkdirAll(own, 0o777); err != nil {
		return err
	}
	if err := os.MkdirAll(shared, 0o777); err != nil {
		return err
	}
	sums := make(map[string]uint32)
	pick := func() string {
		all := make([]string, 0, len(sums))
		for p := range sums {
			all = append(all, p)
		}
		slices.Sort(all)
		return all[rng.IntN(len(all))]
	}
	verify := func(p string) error {
		got, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if sum := crc32.ChecksumIEEE(got); sum != sums[p] {
			return fmt.Errorf("%q: checksum %08x of %d bytes, expected %08x", p, sum, len(got), sums[p])
		}
		return nil
	}
	end := time.Now().Add(d)
	for i := 0; time.Now().Before(end); i++ {
		op := rng.IntN(10)
		if len(sums) == 0 {
			op = 0
		}
		switch {
		case op < 3 && len(sums) < 40:
			in := own
			if rng.IntN(4) == 0 {
				in = shared
			}
			p := filepath.Join(in, fmt.Sprintf("%d-%d", worker, i))
			data := pattern(seed+uint64(i), 0, make([]byte, rng.IntN(1<<rng.IntN(19)+1)))
			if err := os.WriteFile(p, data, 0o644); err != nil {
				return err
			}
			sums[p] = crc32.ChecksumIEEE(data)
		case op < 6:
			if err := verify(pick()); err != nil {
				return err
			}
		case op == 6: // overwrite a part, through a second look at the whole
			p := pick()
			whole, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(p, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			off := rng.IntN(len(whole) + 1)
			piece := pattern(seed+uint64(i), int64(off), make([]byte, rng.IntN(5000)))
			if _, err = f.WriteAt(piece, int64(off)); err == nil && rng.IntN(3) == 0 {
				err = f.Sync()
			}
			if cerr := f.Close(); err == nil {
				err = cerr
			}
			if err != nil {
				return err
			}
			if need := off + len(piece); need > len(whole) && len(piece) > 0 {
				whole = append(whole, make([]byte, need-len(whole))...)
			}
			copy(whole[off:], piece)
			sums[p] = crc32.ChecksumIEEE(whole)
		case op == 7:
			p := pick()
			to := filepath.Join(own, fmt.Sprintf("renamed-%d", i))
			if err := os.Rename(p, to); err != nil {
				return err
			}
			sums[to] = sums[p]
			delete(sums, p)
		case op == 8:
			p := pick()
			to := filepath.Join(own, fmt.Sprintf("linked-%d", i))
			if err := os.Link(p, to); err != nil {
				return err
			}
			if err := os.Remove(p); err != nil {
				return err
			}
			sums[to] = sums[p]
			delete(sums, p)
		default:
			p := pick()
			if err := os.Remove(p); err != nil {
				return err
			}
			if _, err := os.Lstat(p); !os.IsNotExist(err) {
				return fmt.Errorf("%q after its removal: %v, expected that it does not exist", p, err)
			}
			delete(sums, p)
		}
	}
	for p := range sums {
		if err := verify(p); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	entries, err := os.ReadDir(own)
	if err != nil {
		return err
	}
	for _, de := range entries {
		if _, ok := sums[filepath.Join(own, de.Name())]; !ok && !strings.HasPrefix(de.Name(), ".nfs") {
			return fmt.Errorf("%q is listed in %q but should not exist", de.Name(), own)
		}
	}
	return nil
}

const (
	appendRecord = 64
	appendCount  = 40
)

// concurrentAppend: records that many processes append to one file are all
// there, whole and once.
func concurrentAppend(e *env) {
	e.create(e.path("log"), nil)
	e.runChildren("append", e.o.Workers)
	got, err := os.ReadFile(e.path("log"))
	e.ok(err, "read")
	if want := e.o.Workers * appendCount * appendRecord; len(got) != want {
		e.Errorf("log has %d bytes, expected %d", len(got), want)
	}
	seen := make(map[string]int)
	for i := 0; i+appendRecord <= len(got); i += appendRecord {
		seen[string(got[i:i+appendRecord])]++
	}
	for w := range e.o.Workers {
		for i := range appendCount {
			if n := seen[record(w, i)]; n != 1 {
				e.Errorf("record %d of process %d is there %d times, expected once", i, w, n)
			}
		}
	}
}

func record(worker, i int) string {
	return fmt.Sprintf("%-*s\n", appendRecord-1, fmt.Sprintf("process %d record %d", worker, i))
}

func appendChild(a childArgs) error {
	p := filepath.Join(a.Dir, "log")
	for i := range appendCount {
		// A descriptor for every few records: opening must not lose any.
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		if _, err := f.WriteString(record(a.Number, i)); err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// concurrentRanges: goroutines that write and read their own ranges of one
// file through one descriptor and through their own do not disturb each other.
func concurrentRanges(e *env) {
	p := e.path("file")
	fd := e.open(p, unix.O_CREAT|unix.O_RDWR, 0o644)
	const span = 60_001 // ranges share pages
	e.workers(func(w int) error {
		mine := fd
		if w%2 == 1 {
			var err error
			if mine, err = unix.Open(p, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
				return err
			}
			defer unix.Close(mine)
		}
		rng := rand.New(rand.NewPCG(e.seed, uint64(w)))
		base := int64(w) * span
		model := make([]byte, span)
		if err := pwriteFull(mine, model, base); err != nil {
			return err
		}
		for i := range 30 {
			off := rng.IntN(span)
			piece := pattern(e.seed+uint64(i), int64(off), make([]byte, 1+rng.IntN(min(span-off, 20_000))))
			if err := pwriteFull(mine, piece, base+int64(off)); err != nil {
				return err
			}
			copy(model[off:], piece)
			if i%10 == 9 {
				if err := dropCache(mine); err != nil {
					return err
				}
			}
			got := make([]byte, span)
			n, err := preadFull(mine, got, base)
			if err != nil {
				return err
			}
			if err := same(p, base, got[:n], model); err != nil {
				return fmt.Errorf("worker %d, step %d: %w", w, i, err)
			}
		}
		return nil
	})
}

// concurrentSameNames: many that fight for the same few names get only the
// errors that a race explains, and what is there at the end is whole.
func concurrentSameNames(e *env) {
	end := time.Now().Add(e.o.Duration / 2)
	e.workers(func(w int) error {
		rng := rand.New(rand.NewPCG(e.seed, uint64(w)))
		name := func() string { return e.path(fmt.Sprint(rng.IntN(4))) }
		for i := 0; time.Now().Before(end); i++ {
			var err error
			p, q := name(), name()
			switch rng.IntN(5) {
			case 0:
				tmp := e.path(fmt.Sprintf("tmp-%d", w))
				if err = os.WriteFile(tmp, pattern(1, 0, make([]byte, 10_000)), 0o644); err != nil {
					return err
				}
				if err = os.Rename(tmp, p); err != nil {
					return fmt.Errorf("rename %q to %q: %w", tmp, p, err)
				}
			case 1:
				err = os.Rename(p, q)
			case 2:
				err = os.Remove(p)
			case 3:
				err = os.Link(p, q)
				if os.IsExist(err) {
					err = nil
				}
			case 4:
				var got []byte
				if got, err = os.ReadFile(p); err == nil {
					if err := same(p, 0, got, pattern(1, 0, make([]byte, 10_000))); err != nil {
						return fmt.Errorf("worker %d, step %d: %w", w, i, err)
					}
				}
			}
			if err != nil && !os.IsNotExist(err) {
				return fmt.Errorf("worker %d, step %d on %q and %q: %w", w, i, p, q, err)
			}
		}
		return nil
	})
	for i := range 4 {
		p := e.path(fmt.Sprint(i))
		if got, err := os.ReadFile(p); err == nil {
			if err := same(p, 0, got, pattern(1, 0, make([]byte, 10_000))); err != nil {
				e.Errorf("at the end: %v", err)
			}
		}
	}
}
