package fusefs

import (
	"strings"
	"testing"
	"time"

	"nfsrdma-fuse/fusefs/conformance"
)

// small is the scale for tests that run often; the lab runs the cases at full
// size.
var small = conformance.Options{DirEntries: 400, Duration: 500 * time.Millisecond, TreeFiles: 40, BigFile: 8 << 20, Workers: 8}

// TestConformanceLocal runs the cases that ask most of this package on a mount
// of a backend without a network: what fails here is this package's fault.
func TestConformanceLocal(t *testing.T) {
	haveFUSE(t)
	t.Parallel()
	o := small
	o.DirEntries = 100 // this backend does not tell who changed a directory: every change expires all names
	for _, c := range conformance.Cases() {
		for _, kind := range []string{"Open", "Truncate", "Map", "Rename", "Unlinked", "Large", "Directory", "RandomReadWrite", "ConcurrentSame"} {
			if strings.HasPrefix(c.Name, kind) {
				o.Only = append(o.Only, c.Name)
			}
		}
	}
	conformance.Run(t, helper(t, "local", t.TempDir(), Options{AllowOther: true}), o)
}

// TestRandomNFS compares random sequences of system calls on a mount of the
// embedded server with a local file system.
func TestRandomNFS(t *testing.T) {
	haveFUSE(t)
	conformance.Random(t, helper(t, "iwarp", t.TempDir(), Options{AllowOther: true}))
}
