//go:build !linux

package server

import "syscall"

// isTemporary says whether Accept may work again later.
func isTemporary(error) bool { return false }

// reusePort does nothing: one socket per port is what these systems get.
func reusePort(_, _ string, _ syscall.RawConn) error { return nil }
