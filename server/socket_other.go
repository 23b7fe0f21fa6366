//go:build !linux

package server

import "syscall"

// isTemporary says whether Accept may work again later.
func isTemporary(error) bool { return false }

// SharePort does nothing: one socket per port is what these systems get.
func SharePort(_, _ string, _ syscall.RawConn) error { return nil }
