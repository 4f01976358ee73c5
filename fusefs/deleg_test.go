package fusefs

import (
	"testing"
	"time"

	"nfsrdma-fuse/nfsclient/nfstest"
	"nfsrdma-fuse/xdr/nfs4"
)

// TestDelegation: while a mount has a delegation of a file, opening, reading and
// closing it, and asking for its attributes, send nothing; what another mount
// then does is seen nevertheless.
func TestDelegation(t *testing.T) {
	// Granted again at once after a recall.
	p := mountPairOf(t, nfstest.Options{DelegationHoldOff: time.Nanosecond}, Options{})
	p.sh(t, `echo one >"$1/file"; cat "$1/file" >/dev/null`) // granted with the first open
	asked := []nfs4.OpNum{nfs4.OpOpen, nfs4.OpClose, nfs4.OpRead, nfs4.OpGetAttr}
	if n := p.count(t, `for i in 1 2 3 4 5; do test "$(cat "$1/file")" = one; done; stat "$1/file" >/dev/null`, asked...); n > 2 {
		t.Errorf("%d requests for a file with a delegation that was read five times", n)
	}
	if s := p.fs.Stats(); s.OpensAlone < 4 {
		t.Errorf("counters: %+v", s)
	}
	// By another mount: content, size, mode; each recalls what is held.
	p.sh(t, `echo two two >"$2/file"; test "$(cat "$1/file")" = "two two"; test "$(stat -c %s "$1/file")" = 8`)
	p.sh(t, `cat "$1/file" "$1/file" >/dev/null; chmod 600 "$2/file"; test "$(stat -c %a "$1/file")" = 600`)
	p.sh(t, `cat "$1/file" "$1/file" >/dev/null; mv "$2/file" "$2/moved"; test "$(cat "$1/moved")" = "two two"`)
	p.sh(t, `cat "$1/moved" "$1/moved" >/dev/null; rm "$2/moved"; ! cat "$1/moved" 2>/dev/null`)
}

// TestDelegationUnderLoad: two mounts read and write the same files by turns, each
// turn recalling what the other holds.
func TestDelegationUnderLoad(t *testing.T) {
	p := mountPairOf(t, nfstest.Options{DelegationHoldOff: time.Nanosecond}, Options{})
	p.sh(t, `
		turn() { # WRITER READER VALUE
			for f in 1 2 3 4 5 6 7 8; do echo "$3 $f" >"$1/f$f"; done
			for f in 1 2 3 4 5 6 7 8; do test "$(cat "$2/f$f")" = "$3 $f" || { echo "f$f: $(cat "$2/f$f") after $3"; exit 1; }; done
		}
		i=0; while [ $i -lt 5 ]; do turn "$1" "$2" "a$i"; turn "$2" "$1" "b$i"; i=$((i+1)); done`)
	if s := p.client.Stats(); s.Recalls == 0 {
		t.Error("nothing was recalled")
	}
}
