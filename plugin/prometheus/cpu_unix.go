//go:build unix

package prometheus

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time that the process has used, in user and system mode.
func cpuTime() (time.Duration, bool) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, false
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), true
}
