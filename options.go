package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"nfsrdma-fuse/fusefs"
)

// settings are the mount options after parsing.
type settings struct {
	Proto      string // protoRDMA or protoTCP
	IPv6       bool   // only IPv6 addresses of the server
	Provider   string // providerVerbs or providerIWARP; "": devices where they reach the server
	Port       int    // 0: the standard port of Proto
	Minor      uint32 // NFSv4 minor version; 0: the highest both ends know
	RSize      int    // bytes; 0: the largest that both ends can
	WSize      int    // bytes; 0: the largest that both ends can
	ReadOnly   bool
	Soft       bool          // give up after Timeout×(Retrans+1) instead of waiting
	Timeout    time.Duration // how long one try of a request may take
	Retrans    int
	CRC        bool          // CRC32c on software iWARP
	LocalFlock bool          // flock(2) locks stay on this mount
	LocalPOSIX bool          // byte-range locks stay on this mount
	AcRegMin   time.Duration // limits of attribute caching, nfs(5); for files
	AcRegMax   time.Duration
	AcDirMin   time.Duration // and for directories, with the names in them
	AcDirMax   time.Duration
	NoAC       bool // cache no attributes, write through
	NoCTO      bool // do not look at attributes when a file is opened
	Lookup     fusefs.LookupCache
	Domain     string   // of owners' names; "": any
	AllowOther bool     // let other users than the mounting one in
	Kernel     []string // options that the kernel's VFS takes: noatime, nosuid …
	Verbose    bool
}

// Values of settings.Proto.
const (
	protoRDMA = "rdma"
	protoTCP  = "tcp"
)

// Values of settings.Provider.
const (
	providerVerbs = "verbs"
	providerIWARP = "iwarp"
)

// Standard ports.
const (
	portRDMA = 20049 // RFC 8267 section 9
	portTCP  = 2049
)

func defaultSettings() settings {
	return settings{
		Proto: protoRDMA, Timeout: 60 * time.Second, Retrans: 2, AllowOther: true,
		AcRegMin: 3 * time.Second, AcRegMax: 60 * time.Second, AcDirMin: 30 * time.Second, AcDirMax: 60 * time.Second,
	}
}

// port returns the port to connect to.
func (s *settings) port() int {
	switch {
	case s.Port != 0:
		return s.Port
	case s.Proto == protoTCP:
		return portTCP
	}
	return portRDMA
}

// option is a row of the table of mount options. The table is the only place
// that knows them: parsing, the help text and the test of the manual page work
// from it.
type option struct {
	name string // as written; several, comma-separated, if they are synonyms
	arg  string // what its value is called in the help; "" if it takes none
	help string // "" for options that are taken and have no effect of their own
	set  func(s *settings, value string) error
}

var optionTable = []option{
	{"proto", "rdma|rdma6|tcp|tcp6", "transport to the server (default rdma); with a 6 over IPv6 only", func(s *settings, v string) error {
		name, six := strings.CutSuffix(v, "6")
		if name != protoRDMA && name != protoTCP {
			return fmt.Errorf("must be rdma, rdma6, tcp or tcp6")
		}
		s.Proto, s.IPv6 = name, six
		return nil
	}},
	{"rdma", "", "the same as proto=rdma", func(s *settings, _ string) error { s.Proto, s.IPv6 = protoRDMA, false; return nil }},
	{"tcp", "", "the same as proto=tcp", func(s *settings, _ string) error { s.Proto, s.IPv6 = protoTCP, false; return nil }},
	{"provider", "verbs|iwarp", "take an RDMA device, or software iWARP (default: a device if one reaches the server)", func(s *settings, v string) error {
		if v != providerVerbs && v != providerIWARP {
			return fmt.Errorf("must be verbs or iwarp")
		}
		s.Provider = v
		return nil
	}},
	{"port", "N", "server port (default 20049 for rdma, 2049 for tcp)", func(s *settings, v string) error {
		return setInt(&s.Port, v, 1, 65535)
	}},
	{"vers,nfsvers", "4.1|4.2", "NFS version (default: the highest that the server has)", func(s *settings, v string) error {
		major, minor, dotted := strings.Cut(v, ".")
		if major != "4" {
			return fmt.Errorf("only NFS versions 4.1 and 4.2 are supported")
		}
		if !dotted {
			return nil
		}
		return setMinor(s, minor)
	}},
	{"minorversion", "1|2", "NFSv4 minor version", setMinor},
	{"rsize", "BYTES", "largest READ; rounded down to a multiple of 4096 (default: what both ends can)", func(s *settings, v string) error {
		return setSize(&s.RSize, v)
	}},
	{"wsize", "BYTES", "largest WRITE; rounded down to a multiple of 4096 (default: what both ends can)", func(s *settings, v string) error {
		return setSize(&s.WSize, v)
	}},
	{"ro", "", "mount read-only", func(s *settings, _ string) error { s.ReadOnly = true; return nil }},
	{"rw", "", "mount read-write (default)", func(s *settings, _ string) error { s.ReadOnly = false; return nil }},
	{"hard", "", "wait for a server that does not answer, for ever if need be (default)", func(s *settings, _ string) error { s.Soft = false; return nil }},
	{"soft", "", "fail with an error when the server has not answered retrans+1 times timeo", func(s *settings, _ string) error { s.Soft = true; return nil }},
	{"timeo", "DECISECONDS", "time for one try of a request, and for the whole of mounting (default 600, one minute)", func(s *settings, v string) error {
		var n int
		err := setInt(&n, v, 1, 36000)
		s.Timeout = time.Duration(n) * time.Second / 10
		return err
	}},
	{"retrans", "N", "further tries before a soft mount gives up (default 2)", func(s *settings, v string) error {
		return setInt(&s.Retrans, v, 0, 100)
	}},
	{"ac", "", "cache attributes (default)", func(s *settings, _ string) error { s.NoAC = false; return nil }},
	{"noac", "", "cache no attributes and no names, and let writes return when they are stable", func(s *settings, _ string) error { s.NoAC = true; return nil }},
	{"acregmin", "SECONDS", "shortest time to trust the attributes of a file (default 3)", func(s *settings, v string) error {
		return setSeconds(v, &s.AcRegMin)
	}},
	{"acregmax", "SECONDS", "longest time to trust the attributes of a file (default 60)", func(s *settings, v string) error {
		return setSeconds(v, &s.AcRegMax)
	}},
	{"acdirmin", "SECONDS", "shortest time to trust the attributes of a directory and the names in it (default 30)", func(s *settings, v string) error {
		return setSeconds(v, &s.AcDirMin)
	}},
	{"acdirmax", "SECONDS", "longest time to trust the attributes of a directory and the names in it (default 60)", func(s *settings, v string) error {
		return setSeconds(v, &s.AcDirMax)
	}},
	{"actimeo", "SECONDS", "all four of these", func(s *settings, v string) error {
		return setSeconds(v, &s.AcRegMin, &s.AcRegMax, &s.AcDirMin, &s.AcDirMax)
	}},
	{"cto", "", "look for changes by others whenever a file is opened (default)", func(s *settings, _ string) error { s.NoCTO = false; return nil }},
	{"nocto", "", "do so only when its attributes are not trusted any more", func(s *settings, _ string) error { s.NoCTO = true; return nil }},
	{"lookupcache", "all|pos|none", "names to remember: all (default), those that exist, or none", func(s *settings, v string) error {
		switch v {
		case "all":
			s.Lookup = fusefs.LookupCacheAll
		case "pos", "positive":
			s.Lookup = fusefs.LookupCachePositive
		case "none":
			s.Lookup = fusefs.LookupCacheNone
		default:
			return fmt.Errorf("must be all, pos or none")
		}
		return nil
	}},
	{"domain", "NAME", "domain of the owners that the server names user@domain (default: any)", func(s *settings, v string) error {
		s.Domain = v
		return nil
	}},
	{"crc", "", "protect every frame of software iWARP with a CRC32c", func(s *settings, _ string) error { s.CRC = true; return nil }},
	{"nocrc", "", "leave integrity to TCP's checksum (default; a peer that asks for a CRC gets it)", func(s *settings, _ string) error { s.CRC = false; return nil }},
	{"local_lock", "none|flock|posix|all", "locks that hold between the processes of this mount only (default none)", func(s *settings, v string) error {
		switch v {
		case "none", "flock", "posix", "all":
			s.LocalFlock, s.LocalPOSIX = v == "flock" || v == "all", v == "posix" || v == "all"
			return nil
		}
		return fmt.Errorf("must be none, flock, posix or all")
	}},
	{"lock", "", "the same as local_lock=none", func(s *settings, _ string) error { s.LocalFlock, s.LocalPOSIX = false, false; return nil }},
	{"nolock", "", "the same as local_lock=all", func(s *settings, _ string) error { s.LocalFlock, s.LocalPOSIX = true, true; return nil }},
	{"allow_other", "", "every user may use the mount (default for root)", func(s *settings, _ string) error { s.AllowOther = true; return nil }},
	{"noallow_other", "", "only the mounting user may use the mount", func(s *settings, _ string) error { s.AllowOther = false; return nil }},
	kernelOption("noatime"), kernelOption("relatime"), kernelOption("strictatime"), kernelOption("nodiratime"),
	kernelOption("nosuid"), kernelOption("nodev"), kernelOption("noexec"), kernelOption("sync"), kernelOption("dirsync"),
	noEffect("atime"), noEffect("suid"), noEffect("dev"), noEffect("exec"), noEffect("async"),
	// Read by mount(8), fstab(5) and systemd, and passed on to the helper.
	noEffect("defaults"), noEffect("auto"), noEffect("noauto"), noEffect("_netdev"), noEffect("nofail"),
	noEffect("user"), noEffect("nouser"), noEffect("users"), noEffect("owner"), noEffect("group"),
}

// kernelOption is an option that goes to the kernel as it stands.
func kernelOption(name string) option {
	return option{name: name, set: func(s *settings, _ string) error {
		if !slices.Contains(s.Kernel, name) {
			s.Kernel = append(s.Kernel, name)
		}
		return nil
	}}
}

// noEffect is an option that is known and asks for what is done anyway, or
// speaks to somebody else.
func noEffect(name string) option {
	return option{name: name, set: func(*settings, string) error { return nil }}
}

// parseOptions reads the comma-separated lists given with -o, in order; of
// options that contradict each other the last one counts.
func parseOptions(lists []string) (settings, error) {
	s := defaultSettings()
	for word := range strings.SplitSeq(strings.Join(lists, ","), ",") {
		if word = strings.TrimSpace(word); word == "" {
			continue
		}
		name, value, given := strings.Cut(word, "=")
		if strings.HasPrefix(name, "x-") || strings.HasPrefix(name, "X-") || name == "comment" {
			continue // for userspace tools (mount(8))
		}
		o := findOption(name)
		switch {
		case o == nil:
			return s, usageError{fmt.Errorf("unknown mount option %q%s", name, suggestion(name))}
		case o.arg == "" && given:
			return s, usageError{fmt.Errorf("mount option %q takes no value", name)}
		case o.arg != "" && value == "":
			return s, usageError{fmt.Errorf("mount option %q needs a value: %s=%s", name, name, o.arg)}
		}
		if err := o.set(&s, value); err != nil {
			return s, usageError{fmt.Errorf("mount option %s: %w", word, err)}
		}
	}
	return s, nil
}

func findOption(name string) *option {
	for i := range optionTable {
		if slices.Contains(strings.Split(optionTable[i].name, ","), name) {
			return &optionTable[i]
		}
	}
	return nil
}

// suggestion names the known option that differs from name by one typing
// mistake, if there is just one.
func suggestion(name string) string {
	var close []string
	for _, o := range optionTable {
		for n := range strings.SplitSeq(o.name, ",") {
			if oneEdit(name, n) {
				close = append(close, n)
			}
		}
	}
	if len(close) != 1 {
		return "; nfsrdma-fuse mount --help lists those there are"
	}
	return fmt.Sprintf("; is %q meant?", close[0])
}

// oneEdit tells whether one insertion, deletion, replacement or exchange of
// neighbours makes a out of b.
func oneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	switch len(b) - len(a) {
	case 1:
		return a[i:] == b[i+1:]
	case 0:
		return i < len(a) && (a[i+1:] == b[i+1:] ||
			i+1 < len(a) && a[i] == b[i+1] && a[i+1] == b[i] && a[i+2:] == b[i+2:])
	}
	return false
}

// optionHelp is the list of options for the help text.
func optionHelp() string {
	var b strings.Builder
	for _, o := range optionTable {
		if o.help == "" {
			continue
		}
		name, _, _ := strings.Cut(o.name, ",")
		if o.arg != "" {
			name += "=" + o.arg
		}
		fmt.Fprintf(&b, "   %-22s %s\n", name, o.help)
	}
	return b.String()
}

func setMinor(s *settings, v string) error {
	if v != "1" && v != "2" {
		return fmt.Errorf("only NFS versions 4.1 and 4.2 are supported")
	}
	s.Minor = uint32(v[0] - '0')
	return nil
}

func setInt(p *int, v string, low, high int) error {
	n, err := strconv.Atoi(v)
	if err != nil || n < low || n > high {
		return fmt.Errorf("must be a number from %d to %d", low, high)
	}
	*p = n
	return nil
}

// maxSeconds is the longest time of attribute caching: a day.
const maxSeconds = 86400

func setSeconds(v string, to ...*time.Duration) error {
	var n int
	if err := setInt(&n, v, 0, maxSeconds); err != nil {
		return err
	}
	for _, p := range to {
		*p = time.Duration(n) * time.Second
	}
	return nil
}

// Limits of rsize and wsize, bytes.
const (
	minTransfer = 4096
	maxTransfer = 4 << 20
)

func setSize(p *int, v string) error {
	if err := setInt(p, v, 1, 1<<30); err != nil {
		return err
	}
	*p = min(max(*p/minTransfer*minTransfer, minTransfer), maxTransfer)
	return nil
}
