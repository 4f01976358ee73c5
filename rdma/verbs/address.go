//go:build cgo && linux

package verbs

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strconv"
	"syscall"
)

// sockaddrLen is the length of the longer of the two socket addresses here.
const sockaddrLen = syscall.SizeofSockaddrInet6

// putSockaddr makes a socket address of the kernel's form.
func putSockaddr(ap netip.AddrPort) (b [sockaddrLen]byte) {
	addr := ap.Addr().Unmap()
	binary.BigEndian.PutUint16(b[2:], ap.Port())
	if addr.Is4() {
		binary.NativeEndian.PutUint16(b[:], syscall.AF_INET)
		a := addr.As4()
		copy(b[4:], a[:])
		return b
	}
	binary.NativeEndian.PutUint16(b[:], syscall.AF_INET6)
	a := addr.As16()
	copy(b[8:], a[:])
	binary.NativeEndian.PutUint32(b[24:], scope(addr.Zone()))
	return b
}

// scope returns the index of the interface that a zone names.
func scope(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	n, _ := strconv.ParseUint(zone, 10, 32) // 0 if it is neither: the kernel refuses that
	return uint32(n)
}

// getSockaddr reads a socket address; it is invalid if b holds none.
func getSockaddr(b []byte) netip.AddrPort {
	port := binary.BigEndian.Uint16(b[2:])
	switch binary.NativeEndian.Uint16(b) {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case syscall.AF_INET6:
		addr := netip.AddrFrom16([16]byte(b[8:24])).Unmap()
		if n := binary.NativeEndian.Uint32(b[24:]); n != 0 && addr.Is6() {
			addr = addr.WithZone(zoneName(n))
		}
		return netip.AddrPortFrom(addr, port)
	}
	return netip.AddrPort{}
}

func zoneName(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(index), 10)
}
