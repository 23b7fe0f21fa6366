//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// loadAverage is that of the last minute (proc(5)).
func loadAverage() string {
	b, _ := os.ReadFile("/proc/loadavg") // without one the report has none
	first, _, _ := strings.Cut(string(b), " ")
	return first
}

// quiet says whether nothing else to speak of was running.
func quiet(load string) bool {
	l, err := strconv.ParseFloat(load, 64)
	return err == nil && l < 1
}

var modelLine = regexp.MustCompile(`(?m)^model name\s*:\s*(.+)$`)

func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	if m := modelLine.FindSubmatch(b); m != nil {
		return string(m[1])
	}
	return "an unnamed processor"
}

func kernel() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "?"
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-") // what follows names a build
	return version
}

// cpuTime reads what a process and its ended children used, in clock ticks of a hundredth of a second (proc(5)), in microseconds.
func cpuTime(pid int) (user, system float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var v [4]float64
	for i := range v {
		n, e := strconv.ParseFloat(fields[11+i], 64)
		v[i], err = n*1e4, errors.Join(err, e)
	}
	return v[0] + v[2], v[1] + v[3], err
}

var residentLine = regexp.MustCompile(`(?m)^VmRSS:\s*(\d+) kB$`)

// residentMemory is in MB.
func residentMemory(pid int) float64 {
	b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if m := residentLine.FindSubmatch(b); m != nil {
		kb, _ := strconv.ParseFloat(string(m[1]), 64)
		return kb / 1000 * 1.024
	}
	return 0
}

var startLine = regexp.MustCompile(`(?m)^BenchmarkStart\S*\s+\d+\s+.*?([0-9.]+) ms/start`)

// apiStart runs the benchmark that starts clusterdns against an API server in one process; "" if it cannot be run.
func apiStart(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkStart$", "-benchtime", "3x",
		"github.com/clusterdns/clusterdns/test/bench").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: start with an API server: %v\n%s", err, out)
		return ""
	}
	if m := startLine.FindSubmatch(out); m != nil {
		return string(m[1]) + " ms"
	}
	return ""
}
