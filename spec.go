package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"
)

// spec is what mount(8) calls the source of an NFS mount: server:/export.
type spec struct {
	Host   string // name or address, without brackets
	Export string // absolute, cleaned path
}

// parseSpec takes "host:/path", "address:/path" or "[IPv6 address]:/path"
// apart.
func parseSpec(s string) (spec, error) {
	usage := func(why string) error {
		return usageError{fmt.Errorf("%q is not server:/export: %s", s, why)}
	}
	var host, export string
	if rest, ok := strings.CutPrefix(s, "["); ok {
		h, after, ok := strings.Cut(rest, "]")
		if !ok {
			return spec{}, usage("the bracket is not closed")
		}
		if _, err := netip.ParseAddr(h); err != nil {
			return spec{}, usage("what stands in brackets is not an IPv6 address")
		}
		if host, export, ok = h, strings.TrimPrefix(after, ":"), strings.HasPrefix(after, ":"); !ok {
			return spec{}, usage("a colon must follow the bracket")
		}
	} else {
		var ok bool
		if host, export, ok = strings.Cut(s, ":"); !ok {
			return spec{}, usage("there is no colon")
		}
		if strings.Contains(export, ":") && !strings.HasPrefix(export, "/") {
			return spec{}, usage("write an IPv6 address in brackets")
		}
	}
	switch {
	case host == "":
		return spec{}, usage("the server is missing")
	case !strings.HasPrefix(export, "/"):
		return spec{}, usage("the export must begin with a slash")
	case strings.ContainsRune(s, 0):
		return spec{}, usage("it contains a NUL character")
	}
	return spec{Host: host, Export: path.Clean(export)}, nil
}

// String is the form that /proc/self/mounts shows.
func (s spec) String() string {
	if strings.Contains(s.Host, ":") {
		return "[" + s.Host + "]:" + s.Export
	}
	return s.Host + ":" + s.Export
}

// usageError is a mistake in the command line: exit status 1, as mount(8)
// gives it.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func isUsage(err error) bool {
	var u usageError
	return errors.As(err, &u)
}
