package conformance

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Options scale the cases. The zero value takes some seconds on a local disk.
type Options struct {
	// Seed of everything random. Zero takes the value of the environment
	// variable CONFORMANCE_SEED, or else the clock. It is logged either way.
	Seed uint64
	// DirEntries is the number of names in the large directories; zero means
	// 1,500.
	DirEntries int
	// BigFile is the size in bytes of the big file; zero means 32 MiB.
	BigFile int64
	// Workers is the number of concurrent processes, and of goroutines in
	// each case that uses goroutines; zero means 16.
	Workers int
	// Duration is how long each of the cases under concurrent load runs; zero
	// means 2 s.
	Duration time.Duration
	// TreeFiles is the number of files in the trees that tools work on; zero
	// means 120.
	TreeFiles int
	// Expected lists cases by name that cannot pass on this file system, with
	// the reason. They run all the same; their failure is reported as a skip
	// with the reason and what failed, and a pass as an error, so that the
	// list stays true.
	Expected map[string]string
	// Second, if not empty, is another path of the directory that is tested, as
	// a second client of the same server sees it. The cases about locks then
	// have some of their processes work there.
	Second string
	// Only names the cases to run; nil means all of them.
	Only []string
	// Report, if not nil, is called at the end of every case.
	Report func(Outcome) `json:"-"`
}

// Outcome is how a case ended. It has passed if it neither failed nor was
// skipped.
type Outcome struct {
	Case    string
	Failed  bool
	Skipped string // why, or empty
	Took    time.Duration
}

func (o Options) withDefaults() Options {
	if o.Seed == 0 {
		o.Seed, _ = strconv.ParseUint(os.Getenv("CONFORMANCE_SEED"), 0, 64)
	}
	if o.Seed == 0 {
		o.Seed = uint64(time.Now().UnixNano())
	}
	if o.DirEntries == 0 {
		o.DirEntries = 1500
	}
	if o.BigFile == 0 {
		o.BigFile = 32 << 20
	}
	if o.Workers == 0 {
		o.Workers = 16
	}
	if o.Duration == 0 {
		o.Duration = 2 * time.Second
	}
	if o.TreeFiles == 0 {
		o.TreeFiles = 120
	}
	return o
}

// Case is one test of the suite.
type Case struct {
	Name string
	run  func(*env)
}

// Cases returns all cases in the order in which Run runs them.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		openCases, readWriteCases, truncateCases, mmapCases, directoryCases,
		renameCases, linkCases, attributeCases, nameCases, largeDirCases,
		unlinkedCases, lockCases, spaceCases, xattrCases, concurrencyCases, toolCases, bigFileCases,
	} {
		all = append(all, group...)
	}
	return all
}

// Run runs every case as a subtest, each in a directory of its own below dir,
// which it creates and removes.
func Run(t *testing.T, dir string, o Options) {
	o = o.withDefaults()
	t.Logf("conformance: directory %s, seed %d (set CONFORMANCE_SEED to repeat)", dir, o.Seed)
	known := make(map[string]bool)
	for i, c := range Cases() {
		known[c.Name] = true
		if o.Only != nil && !slices.Contains(o.Only, c.Name) {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			runCase(t, c, filepath.Join(dir, c.Name), o, o.Seed+uint64(i))
		})
	}
	for name := range o.Expected {
		if !known[name] {
			t.Errorf("expected failure of %q: there is no such case", name)
		}
	}
	for _, name := range o.Only {
		if !known[name] {
			t.Errorf("asked to run only %q: there is no such case", name)
		}
	}
}

func runCase(t *testing.T, c Case, dir string, o Options, seed uint64) {
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatalf("directory of the case: %v", err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatalf("directory of the case: %v", err)
	}
	e := &env{
		dir: dir, second: dir, o: o, seed: seed,
		rng:  rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
		logf: t.Logf,
	}
	if o.Second != "" {
		e.second = filepath.Join(o.Second, c.Name)
	}
	began := time.Now()
	defer func() { // also when the case is skipped
		if !t.Failed() {
			if err := os.RemoveAll(dir); err != nil {
				t.Errorf("removing the directory of the case: %v", err)
			}
		}
		if o.Report != nil {
			o.Report(Outcome{Case: c.Name, Failed: t.Failed(), Skipped: e.skipped, Took: time.Since(began)})
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			// A panic becomes a failure of the case that names it.
			if r := recover(); r != nil {
				buf := make([]byte, 16<<10)
				e.Errorf("panic: %v\n%s", r, buf[:runtime.Stack(buf, false)])
			}
		}()
		defer e.cleanup()
		c.run(e)
	}()
	<-done
	e.judge(t, o.Expected[c.Name])
}

// env is what a case works with. Its methods are for the case's own goroutine,
// except Errorf and Logf.
type env struct {
	dir    string
	second string // the same, as a second client sees it
	o      Options
	seed   uint64
	rng    *rand.Rand
	logf   func(string, ...any)

	undo []func()

	mu       sync.Mutex
	failures []string
	skipped  string
}

func (e *env) judge(t *testing.T, reason string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.skipped != "":
		t.Skip(e.skipped)
	case len(e.failures) > 0 && reason != "":
		e.skipped = "expected failure: " + reason
		t.Skipf("%s:\n%s", e.skipped, strings.Join(e.failures, "\n"))
	case len(e.failures) > 0:
		t.Errorf("seed %d:\n%s", e.seed, strings.Join(e.failures, "\n"))
	case reason != "":
		t.Errorf("passes, but was expected to fail: %s", reason)
	}
}

// Logf logs.
func (e *env) Logf(format string, args ...any) { e.logf(format, args...) }

// Errorf records a failure. Only the first 20 of a case are kept.
func (e *env) Errorf(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.failures) < 20 {
		e.failures = append(e.failures, fmt.Sprintf(format, args...))
	}
}

// Fatalf records a failure and ends the case.
func (e *env) Fatalf(format string, args ...any) {
	e.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf ends the case as one that cannot run here.
func (e *env) Skipf(format string, args ...any) {
	e.mu.Lock()
	e.skipped = fmt.Sprintf(format, args...)
	e.mu.Unlock()
	runtime.Goexit()
}

// Cleanup registers a function to run when the case has ended.
func (e *env) Cleanup(f func()) { e.undo = append(e.undo, f) }

func (e *env) cleanup() {
	for len(e.undo) > 0 {
		f := e.undo[len(e.undo)-1]
		e.undo = e.undo[:len(e.undo)-1]
		f()
	}
}

// path returns a path below the directory of the case.
func (e *env) path(elem ...string) string {
	return e.dir + "/" + strings.Join(elem, "/")
}

// needRoot ends the case unless it runs as root.
func (e *env) needRoot() {
	if os.Geteuid() != 0 {
		e.Skipf("needs root")
	}
}
