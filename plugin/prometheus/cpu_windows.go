package prometheus

import (
	"syscall"
	"time"
)

// cpuTime is the CPU time that the process has used, in user and kernel mode.
func cpuTime() (time.Duration, bool) {
	h, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, false
	}
	var created, ended, kernel, user syscall.Filetime
	if syscall.GetProcessTimes(h, &created, &ended, &kernel, &user) != nil {
		return 0, false
	}
	return span(kernel) + span(user), true
}

// span is a length of time, which has a unit of 100 ns.
func span(f syscall.Filetime) time.Duration {
	return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100
}
