package fusefs

import (
	"testing"

	"nfsrdma-fuse/fusefs/conformance"
)

// TestConformanceLocal runs the conformance cases on a mount of a backend
// without a network: it is this package alone that is tested.
func TestConformanceLocal(t *testing.T) {
	haveFUSE(t)
	conformance.Run(t, helper(t, "local", t.TempDir(), Options{AllowOther: true}), conformance.Options{})
}
