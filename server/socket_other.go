//go:build !linux

package server

import "syscall"

// SharePort does nothing: one socket per port is what these systems get.
func SharePort(_, _ string, _ syscall.RawConn) error { return nil }
