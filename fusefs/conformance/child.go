package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// childEnv names the work of a child process; its arguments stand in
// childArgsEnv.
const (
	childEnv     = "CONFORMANCE_CHILD"
	childArgsEnv = "CONFORMANCE_CHILD_ARGS"
)

// childArgs is what a child process is told.
type childArgs struct {
	Dir      string
	Second   string // the same directory, as a second client sees it
	Seed     uint64
	Number   int   // which of the children this is
	Duration int64 // nanoseconds
}

// children are the kinds of work, by name. A child that returns an error
// prints it and exits with status 1.
var children = map[string]func(childArgs) error{}

// runChild does a child's work if this process is one. It is called when all
// kinds are registered, from the last init function of the package.
func runChild() {
	name := os.Getenv(childEnv)
	if name == "" {
		return
	}
	work := children[name]
	var args childArgs
	if err := json.Unmarshal([]byte(os.Getenv(childArgsEnv)), &args); err != nil || work == nil {
		fmt.Fprintf(os.Stderr, "conformance: no work %q (%v)\n", name, err)
		os.Exit(2)
	}
	if err := work(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func init() {
	children["map"] = mapChild
	children["load"] = loadChild
	children["append"] = appendChild
	children["lock"] = lockChild
	children["count"] = countChild
	runChild()
}

// child starts this executable again to do the named work and returns its
// command, which the caller waits for.
func child(name string, args childArgs) (*exec.Cmd, *bytes.Buffer, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self)
	// With coverage on, the runtime of the child would complain without a
	// directory for it; the race detector's options are passed on as they are.
	cmd.Env = append(os.Environ(), childEnv+"="+name, childArgsEnv+"="+string(text))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out, cmd.Start()
}

// runChildren runs n children at once and records what they complain of.
func (e *env) runChildren(name string, n int) {
	type running struct {
		cmd *exec.Cmd
		out *bytes.Buffer
	}
	var all []running
	for i := range n {
		cmd, out, err := child(name, childArgs{Dir: e.dir, Second: e.second, Seed: e.seed, Number: i, Duration: int64(e.o.Duration)})
		if err != nil {
			e.Errorf("start of process %d: %v", i, err)
			break
		}
		all = append(all, running{cmd, out})
	}
	for i, r := range all {
		if err := r.cmd.Wait(); err != nil {
			e.Errorf("process %d (%s): %v: %s", i, name, err, strings.TrimSpace(r.out.String()))
		}
	}
}
