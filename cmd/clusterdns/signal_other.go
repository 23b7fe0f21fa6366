//go:build !unix

package main

import "os"

// reloadSignals are none: this system has no signal to spare for it.
func reloadSignals() []os.Signal { return nil }

func isReload(os.Signal) bool { return false }
