package fusefs

import (
	"testing"
	"time"

	"nfsrdma-fuse/fusefs/conformance"
)

// small is the scale for tests that run often; the lab runs the cases at full
// size.
var small = conformance.Options{DirEntries: 400, Duration: 500 * time.Millisecond, TreeFiles: 40, BigFile: 8 << 20}

// TestConformanceLocal runs the conformance cases on a mount of a backend
// without a network: it is this package alone that is tested.
func TestConformanceLocal(t *testing.T) {
	haveFUSE(t)
	conformance.Run(t, helper(t, "local", t.TempDir(), Options{AllowOther: true}), small)
}
