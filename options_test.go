package main

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"nfsrdma-fuse/fusefs"
)

func TestParseOptions(t *testing.T) {
	with := func(change func(*settings)) settings {
		s := defaultSettings()
		change(&s)
		return s
	}
	for _, c := range []struct {
		lists []string
		want  settings
	}{
		{nil, defaultSettings()},
		{[]string{""}, defaultSettings()},
		{[]string{"defaults,rw,_netdev,nofail,x-systemd.automount,comment=mine"}, defaultSettings()},
		{[]string{"port=20050"}, with(func(s *settings) { s.Port = 20050 })},
		{[]string{"proto=tcp", "rdma"}, defaultSettings()},
		{[]string{"rdma,proto=tcp"}, with(func(s *settings) { s.Proto = "tcp" })},
		{[]string{"vers=4.1"}, with(func(s *settings) { s.Minor = 1 })},
		{[]string{"nfsvers=4.2,minorversion=1"}, with(func(s *settings) { s.Minor = 1 })},
		{[]string{"vers=4"}, defaultSettings()},
		{[]string{"rsize=1048576,wsize=5000"}, with(func(s *settings) { s.RSize, s.WSize = 1048576, 4096 })},
		{[]string{"rsize=1,wsize=99999999"}, with(func(s *settings) { s.RSize, s.WSize = 4096, 4<<20 })},
		{[]string{"ro,rw,ro"}, with(func(s *settings) { s.ReadOnly = true })},
		{[]string{"soft,timeo=25,retrans=0"}, with(func(s *settings) { s.Soft, s.Timeout, s.Retrans = true, 2500*time.Millisecond, 0 })},
		{[]string{"crc"}, with(func(s *settings) { s.CRC = true })},
		{[]string{"noatime,nosuid,noatime"}, with(func(s *settings) { s.Kernel = []string{"noatime", "nosuid"} })},
		{[]string{"local_lock=flock"}, with(func(s *settings) { s.LocalFlock = true })},
		{[]string{"local_lock=posix"}, with(func(s *settings) { s.LocalPOSIX = true })},
		{[]string{"local_lock=all"}, with(func(s *settings) { s.LocalFlock, s.LocalPOSIX = true, true })},
		{[]string{"nolock"}, with(func(s *settings) { s.LocalFlock, s.LocalPOSIX = true, true })},
		{[]string{"local_lock=all,local_lock=none"}, defaultSettings()},
		{[]string{"nolock,lock"}, defaultSettings()},
		{[]string{"acregmin=1,acregmax=2,acdirmin=3,acdirmax=4"}, with(func(s *settings) {
			s.AcRegMin, s.AcRegMax, s.AcDirMin, s.AcDirMax = time.Second, 2*time.Second, 3*time.Second, 4*time.Second
		})},
		{[]string{"actimeo=600,acregmin=0"}, with(func(s *settings) {
			s.AcRegMin, s.AcRegMax, s.AcDirMin, s.AcDirMax = 0, 10*time.Minute, 10*time.Minute, 10*time.Minute
		})},
		{[]string{"domain=example.org"}, with(func(s *settings) { s.Domain = "example.org" })},
		{[]string{"noac,nocto"}, with(func(s *settings) { s.NoAC, s.NoCTO = true, true })},
		{[]string{"noac,nocto,ac,cto"}, defaultSettings()},
		{[]string{"lookupcache=pos"}, with(func(s *settings) { s.Lookup = fusefs.LookupCachePositive })},
		{[]string{"lookupcache=none"}, with(func(s *settings) { s.Lookup = fusefs.LookupCacheNone })},
		{[]string{"lookupcache=none,lookupcache=all"}, defaultSettings()},
		{[]string{"noallow_other"}, with(func(s *settings) { s.AllowOther = false })},
	} {
		got, err := parseOptions(c.lists)
		if err != nil {
			t.Errorf("parseOptions(%q): %v", c.lists, err)
		} else if !reflect.DeepEqual(got, c.want) {
			t.Errorf("parseOptions(%q) = %+v, want %+v", c.lists, got, c.want)
		}
	}
}

func TestParseOptionsRefuses(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"protoc=tcp", `unknown mount option "protoc"; is "proto" meant?`},
		{"prot=tcp", `unknown mount option "prot"; nfsrdma-fuse mount --help lists`}, // proto or port

		{"wszie=4096", `is "wsize" meant?`},
		{"krb5", `unknown mount option "krb5"`},
		{"proto=udp", "must be rdma, rdma6, tcp or tcp6"},
		{"port=0", "from 1 to 65535"},
		{"port=x", "from 1 to 65535"},
		{"port", `needs a value: port=N`},
		{"acregmin=-1", "from 0 to 86400"},
		{"domain", "needs a value: domain=NAME"},
		{"actimeo", "needs a value: actimeo=SECONDS"},
		{"lookupcache=some", "must be all, pos or none"},
		{"ro=1", "takes no value"},
		{"vers=3", "only NFS versions 4.1 and 4.2"},
		{"vers=4.0", "only NFS versions 4.1 and 4.2"},
		{"minorversion=0", "only NFS versions 4.1 and 4.2"},
		{"rsize=-1", "must be a number"},
		{"timeo=0", "must be a number"},
		{"local_lock=some", "must be none, flock, posix or all"},
		{"local_lock", "needs a value"},
	} {
		_, err := parseOptions([]string{c.list})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("parseOptions(%q): error %v, want it to contain %q", c.list, err, c.want)
		} else if exitStatus(err) != exitUsage {
			t.Errorf("parseOptions(%q): exit status %d, want %d", c.list, exitStatus(err), exitUsage)
		}
	}
}

// TestManualKnowsEveryOption keeps the manual page and the table of options
// together.
func TestManualKnowsEveryOption(t *testing.T) {
	page, err := os.ReadFile("docs/mount.nfsrdma-fuse.8")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range optionTable {
		if o.help == "" {
			continue
		}
		for name := range strings.SplitSeq(o.name, ",") {
			if !strings.Contains(string(page), `.It Cm `+name) && !strings.Contains(string(page), ` Cm `+name) {
				t.Errorf("option %s is not in docs/mount.nfsrdma-fuse.8", name)
			}
		}
	}
}

func TestParseSpec(t *testing.T) {
	for _, c := range []struct {
		in, host, export, shown string
	}{
		{"server:/export", "server", "/export", "server:/export"},
		{"127.0.0.1:/", "127.0.0.1", "/", "127.0.0.1:/"},
		{"server:/a//b/../c/", "server", "/a/c", "server:/a/c"},
		{"[::1]:/x", "::1", "/x", "[::1]:/x"},
		{"server:/with:colon", "server", "/with:colon", "server:/with:colon"},
	} {
		got, err := parseSpec(c.in)
		if err != nil || got.Host != c.host || got.Export != c.export || got.String() != c.shown {
			t.Errorf("parseSpec(%q) = %+v (%s), %v", c.in, got, got, err)
		}
	}
	for _, c := range []struct{ in, want string }{
		{"server", "there is no colon"},
		{":/x", "the server is missing"},
		{"server:", "must begin with a slash"},
		{"server:x", "must begin with a slash"},
		{"fe80::1:/x", "in brackets"},
		{"[::1:/x", "bracket is not closed"},
		{"[host]:/x", "not an IPv6 address"},
		{"[::1]/x", "colon must follow"},
		{"", "there is no colon"},
	} {
		if _, err := parseSpec(c.in); err == nil || !strings.Contains(err.Error(), c.want) || exitStatus(err) != exitUsage {
			t.Errorf("parseSpec(%q): error %v, want it to contain %q", c.in, err, c.want)
		}
	}
}

// TestCachingOptions: the defaults are those of nfs(5) by either way, and zero
// means not at all.
func TestCachingOptions(t *testing.T) {
	o := fsOptions(spec{}, defaultSettings())
	if o.AcRegMin != 3*time.Second || o.AcRegMax != time.Minute || o.AcDirMin != 30*time.Second || o.AcDirMax != time.Minute ||
		o.NoAC || o.NoCTO || o.LookupCache != fusefs.LookupCacheAll {
		t.Errorf("by default: %+v", o)
	}
	s, err := parseOptions([]string{"actimeo=0,nocto,lookupcache=pos"})
	if err != nil {
		t.Fatal(err)
	}
	o = fsOptions(spec{}, s)
	if o.AcRegMin >= 0 || o.AcRegMax >= 0 || o.AcDirMin >= 0 || o.AcDirMax >= 0 || !o.NoCTO || o.LookupCache != fusefs.LookupCachePositive {
		t.Errorf("actimeo=0: %+v", o)
	}
}
