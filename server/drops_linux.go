package server

import (
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// socketDrops reads SK_MEMINFO_DROPS, the last of the numbers of socket(7)'s SO_MEMINFO. Kernels before 4.12 do not have it.
func socketDrops(c *net.UDPConn) (n uint64, ok bool) {
	rc, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = rc.Control(func(fd uintptr) {
		var info [9]uint32 // SK_MEMINFO_VARS of linux/sock_diag.h
		size := uint32(unsafe.Sizeof(info))
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
		if errno == 0 && size == uint32(unsafe.Sizeof(info)) {
			n, ok = uint64(info[8]), true
		}
	})
	return n, ok && err == nil
}
