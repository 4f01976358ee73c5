package fusefs

import (
	"io"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/sirupsen/logrus"
)

// LookupCache says which names may be remembered, as the option lookupcache of
// nfs(5).
type LookupCache uint8

const (
	LookupCacheAll      LookupCache = iota // names that exist and names that do not
	LookupCachePositive                    // names that exist
	LookupCacheNone                        // none: every use of a name asks the server
)

// Options say how an export is mounted. The zero value mounts it for the
// mounting user only.
type Options struct {
	// Source is what the mount table shows as the device, server:/export.
	// Empty means "nfs".
	Source string
	// ReadOnly mounts read-only.
	ReadOnly bool
	// AllowOther lets every user of the machine use the mount; otherwise only
	// the mounting one can. For others than root it needs user_allow_other in
	// /etc/fuse.conf.
	AllowOther bool
	// Kernel are further mount options for the kernel, such as noatime, nosuid,
	// nodev, noexec, sync, and their opposites.
	Kernel []string
	// ServerPermissions leaves permission checks to the server alone; see the
	// package comment.
	ServerPermissions bool

	// AcRegMin and AcRegMax are the shortest and the longest time for which
	// the attributes of files may be used without asking, AcDirMin and AcDirMax
	// those of directories, and with them the names in there (nfs(5)). Zero
	// means 3, 60, 30 and 60 seconds; a negative value not at all. A longest
	// time below the shortest counts as the shortest.
	AcRegMin, AcRegMax, AcDirMin, AcDirMax time.Duration
	// NoAC is for those who need to see at once what other clients do: no
	// attributes and no names are cached, and writes are stable when they
	// return.
	NoAC bool
	// NoCTO opens files without a look at whether others have changed them, as
	// long as their attributes may still be used.
	NoCTO bool
	// LookupCache says which names the kernel may remember.
	LookupCache LookupCache

	// LocalFlock and LocalPOSIX leave flock(2) locks, and POSIX and OFD locks,
	// to the kernel: they then hold between the processes of this mount only.
	LocalFlock, LocalPOSIX bool

	// ReadAhead is how many bytes the kernel reads ahead in a file that is read
	// in order. Zero means 8 times the largest READ. It takes effect only if
	// this process may change it under /sys/class/bdi.
	ReadAhead int
	// MaxBackground is how many requests for read-ahead and write-back the
	// kernel may have outstanding. Zero means 64.
	MaxBackground int

	// IDs translates owners. Nil means that they are numbers in decimal, as
	// servers send them over AUTH_SYS, and anything else is nobody.
	IDs IDMapper

	// CloseTimeout is how long closing what is still open may take when the
	// file system has been unmounted. Zero means 30 seconds.
	CloseTimeout time.Duration

	// Log takes what an administrator may want to know. Nil discards it.
	Log logrus.FieldLogger
}

const (
	defaultMaxBackground = 64
	defaultCloseTimeout  = 30 * time.Second
	defaultReadAheads    = 8 // READs
)

// localLocks are the capabilities of FUSE that are turned down.
func (o Options) localLocks() (caps uint64) {
	if o.LocalFlock {
		caps |= fuse.CAP_FLOCK_LOCKS
	}
	if o.LocalPOSIX {
		caps |= fuse.CAP_POSIX_LOCKS
	}
	return caps
}

func (o Options) withDefaults() Options {
	if o.Source == "" {
		o.Source = "nfs"
	}
	for _, t := range []struct {
		p *time.Duration
		d time.Duration
	}{{&o.AcRegMin, 3}, {&o.AcRegMax, 60}, {&o.AcDirMin, 30}, {&o.AcDirMax, 60}} {
		switch {
		case *t.p < 0 || o.NoAC:
			*t.p = 0
		case *t.p == 0:
			*t.p = t.d * time.Second
		}
	}
	o.AcRegMax, o.AcDirMax = max(o.AcRegMin, o.AcRegMax), max(o.AcDirMin, o.AcDirMax)
	if o.ServerPermissions {
		o.LookupCache = LookupCacheNone
	}
	if o.MaxBackground == 0 {
		o.MaxBackground = defaultMaxBackground
	}
	if o.IDs == nil {
		o.IDs = NumericIDs{}
	}
	if o.CloseTimeout == 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	if o.Log == nil {
		l := logrus.New()
		l.SetOutput(io.Discard)
		o.Log = l
	}
	return o
}
