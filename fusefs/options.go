package fusefs

import (
	"io"
	"time"

	"github.com/sirupsen/logrus"
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

	// EntryTimeout, AttrTimeout and NegativeTimeout are for how long the
	// kernel may use a name, attributes, or the knowledge that there is no
	// such name, without asking. Zero means one second, a negative value not
	// at all.
	EntryTimeout, AttrTimeout, NegativeTimeout time.Duration

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
	defaultTimeout       = time.Second
	defaultMaxBackground = 64
	defaultCloseTimeout  = 30 * time.Second
	defaultReadAheads    = 8 // READs
)

func (o Options) withDefaults() Options {
	if o.Source == "" {
		o.Source = "nfs"
	}
	for _, t := range []*time.Duration{&o.EntryTimeout, &o.AttrTimeout, &o.NegativeTimeout} {
		switch {
		case *t == 0:
			*t = defaultTimeout
		case *t < 0:
			*t = 0
		}
	}
	if o.ServerPermissions {
		o.EntryTimeout, o.NegativeTimeout = 0, 0
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
