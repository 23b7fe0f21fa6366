//go:build !linux

package server

import "net"

// socketDrops is Linux's.
func socketDrops(*net.UDPConn) (n uint64, ok bool) { return 0, false }
