//go:build cgo && linux

package verbs

/*
#cgo CFLAGS: -O2 -g -Wall
#cgo LDFLAGS: -ldl
#include "verbs.h"
*/
import "C"

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// Available returns why RDMA devices cannot be used, or nil if they can. It
// opens the libraries the first time and remembers what came of it. That there
// is a device is another matter: see Connector.Probe.
func Available() error { return load() }

var load = sync.OnceValue(func() error {
	var text [256]C.char
	if C.vb_load(&text[0], C.size_t(len(text))) != 0 {
		return fmt.Errorf("verbs: RDMA devices need libibverbs and librdmacm (Debian: packages libibverbs1, librdmacm1, ibverbs-providers): %s",
			C.GoString(&text[0]))
	}
	return nil
})

// errno makes an error of what the functions of verbs.c return.
func errno(r C.int) error {
	if r == 0 {
		return nil
	}
	return syscall.Errno(r)
}

const defaultTimeout = 10 * time.Second

func (c Config) timeout() time.Duration {
	if c.Timeout <= 0 {
		return defaultTimeout
	}
	return c.Timeout
}
