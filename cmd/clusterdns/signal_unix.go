//go:build unix

package main

import (
	"os"
	"syscall"
)

// reloadSignals are those that make the server read its Corefile again.
func reloadSignals() []os.Signal { return []os.Signal{syscall.SIGUSR1} }

func isReload(s os.Signal) bool { return s == syscall.SIGUSR1 }
