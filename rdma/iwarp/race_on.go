//go:build race

package iwarp

import (
	"runtime"
	"sync/atomic"
	"unsafe"
)

// The race detector sees neither what a system call does to memory nor that
// octets cannot be received before they were sent. The net package tells it
// both; so must whoever makes the calls by itself.

var wireOrder atomic.Uint64

func raceRead(p []byte) {
	if len(p) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(&p[0]), len(p))
	}
}

func raceWrite(p []byte) {
	if len(p) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(&p[0]), len(p))
	}
}

func raceSend() { wireOrder.Add(1) }

func raceReceive() { wireOrder.Load() }
