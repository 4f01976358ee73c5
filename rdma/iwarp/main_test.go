package iwarp

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	before := descriptors()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		if n := descriptors(); n > before {
			fmt.Fprintf(os.Stderr, "%d file descriptors left open\n", n-before)
			code = 1
		}
	}
	os.Exit(code)
}

// descriptors returns the number of open sockets, which does not depend on what
// the runtime opens for itself.
func descriptors() int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0 // no such file system: nothing to compare
	}
	n := 0
	for _, e := range list {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && len(to) > 6 && to[:6] == "socket" {
			n++
		}
	}
	return n
}

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second
