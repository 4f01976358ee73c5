package nfsclient

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"nfsrdma-fuse/ulb"
	"nfsrdma-fuse/xdr/nfs4"
	"nfsrdma-fuse/xdr/rpc"
)

func TestErrno(t *testing.T) {
	for _, k := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{nfs4.OK, 0},
		{nfs4.ErrNoEnt, syscall.ENOENT},
		{&Error{Op: "LOOKUP", Err: nfs4.ErrAccess}, syscall.EACCES},
		{fmt.Errorf("wrapped: %w", &Error{Op: "WRITE", Err: nfs4.ErrDQuot}), syscall.EDQUOT},
		{nfs4.ErrServerFault, syscall.EREMOTEIO},
		{nfs4.ErrWrongSec, syscall.EPERM},
		{nfs4.ErrBadXDR, syscall.EIO},
		{nfs4.Status(99999), syscall.EREMOTEIO},
		{nfs4.Status(3), syscall.EREMOTEIO},
		{nfs4.Status(10099), syscall.EIO},
		{context.Canceled, syscall.EINTR},
		{context.DeadlineExceeded, syscall.ETIMEDOUT},
		{&Error{Op: "OPEN", Err: ErrStateLost}, syscall.EIO},
		{&rpc.Error{Stat: rpc.AuthError, Auth: rpc.AuthTooWeak}, syscall.EACCES},
		{&rpc.Error{Stat: rpc.ProgUnavail}, syscall.EPFNOSUPPORT},
		{&ulb.ConnError{Transport: "tcp", Peer: "x", Err: syscall.ECONNREFUSED}, syscall.ECONNREFUSED},
		{&ulb.ConnError{Transport: "tcp", Peer: "x", Err: fmt.Errorf("odd")}, syscall.EIO},
		{&ulb.VersionError{Low: 2, High: 2}, syscall.EPROTONOSUPPORT},
	} {
		if got := Errno(k.err); got != k.want {
			t.Errorf("%v: %v, want %v", k.err, got, k.want)
		}
	}
}

// Every status that package nfs4 knows has its row in the table, and in
// docs/errors.md the same one.
func TestErrnoOfEveryStatus(t *testing.T) {
	page, err := os.ReadFile("../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(NFS4ERR_\\w+)` \\| `(E\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		documented[m[1]] = m[2]
	}
	known := 0
	for s := range nfs4.Status(20_000) {
		name := s.String()
		if s == nfs4.OK || name == fmt.Sprintf("NFS4ERR_%d", s) {
			continue
		}
		known++
		errno, ok := statusErrno[s]
		if !ok {
			t.Errorf("%v has no errno", s)
			continue
		}
		want := unix.ErrnoName(errno)
		if errno == syscall.EOPNOTSUPP { // which has two names
			want = "EOPNOTSUPP"
		}
		if got := documented[name]; got != want {
			t.Errorf("docs/errors.md: %v is %q, the table says %s", s, got, want)
		}
		delete(documented, name)
	}
	if known != len(statusErrno) || known < 100 {
		t.Errorf("%d statuses, %d rows", known, len(statusErrno))
	}
	for name := range documented {
		t.Errorf("docs/errors.md has %s, which there is not", name)
	}
}

// No two rows of the tables contradict each other, and nothing is mapped to
// success.
func TestErrnoTables(t *testing.T) {
	for status, errno := range statusErrno {
		if errno == 0 || Errno(status) != errno || status.String()[:8] != "NFS4ERR_" {
			t.Errorf("%v: %v", status, errno)
		}
	}
	for _, row := range causeErrno {
		if got := Errno(&Error{Op: "X", Err: row.cause}); got != row.errno || got == 0 {
			t.Errorf("%v: %v, want %v", row.cause, got, row.errno)
		}
	}
}

func TestCredentials(t *testing.T) {
	table := newCredentials("host")
	many := make([]uint32, 40)
	for i := range many {
		many[i] = uint32(100 + i)
	}
	a := table.get(Cred{UID: 1, GID: 2, Groups: many})
	var sys rpc.AuthSys
	if err := sys.SetAuth(a.auth); err != nil {
		t.Fatal(err)
	}
	if sys.UID != 1 || sys.GID != 2 || sys.Machine != "host" || len(sys.GIDs) != rpc.MaxGroups || sys.GIDs[15] != 115 {
		t.Errorf("%+v", sys)
	}
	if table.get(Cred{UID: 1, GID: 2, Groups: many[:16]}) != a {
		t.Error("same groups on the wire, another credential")
	}
	if table.get(Cred{UID: 1, GID: 2, Groups: many[:15]}) == a {
		t.Error("other groups, the same credential")
	}
	for i := range uint32(2 * maxCredentials) {
		table.get(Cred{UID: i})
	}
	if n := len(table.byKey); n > maxCredentials {
		t.Errorf("%d credentials kept", n)
	}
	if n := testing.AllocsPerRun(100, func() { table.get(Cred{UID: 2*maxCredentials - 1}) }); n != 0 {
		t.Errorf("%v allocations for a credential that is known", n)
	}
}

func TestPayloadLimits(t *testing.T) {
	// What a Linux server grants (4096 octets more than the payload).
	read, write := payloadLimits(nfs4.ChannelAttrs{MaxRequestSize: 528384, MaxResponseSize: 528384})
	if wholePages(read) != 524288 || wholePages(write) != 524288 {
		t.Errorf("read %d, write %d", read, write)
	}
	for _, k := range []struct{ n, want int }{{1 << 20, 1 << 20}, {1<<20 - 1, 1<<20 - 4096}, {5000, 4096}, {4096, 4096}, {4095, 4092}, {7, 4}} {
		if got := wholePages(k.n); got != k.want {
			t.Errorf("wholePages(%d) = %d", k.n, got)
		}
	}
	if got := smallest(0, 7, 0, 3, 9); got != 3 {
		t.Errorf("smallest: %d", got)
	}
}
