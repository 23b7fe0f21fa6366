package main

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// heapShare is how much of the control group's memory Go may use before it collects harder. What is left is for what the collector does not
// see: the binary's pages, and the kernel's socket buffers, which are charged to the group too.
const heapShare = 0.9

// limitMemory sets Go's soft memory limit from the limit of the control group, unless GOMEMLIMIT says one, and says what it did. The number of threads
// needs nothing of the kind: Go reads the group's CPU quota itself.
func limitMemory(root fs.FS, getenv func(string) string, set func(int64) int64) string {
	if v := getenv("GOMEMLIMIT"); v != "" {
		return "memory limit of Go: " + v + ", from GOMEMLIMIT"
	}
	group, ok := groupMemory(root)
	if !ok {
		return "memory limit of Go: none, as the control group has none"
	}
	limit := int64(float64(group) * heapShare)
	set(limit)
	return fmt.Sprintf("memory limit of Go: %d MiB, %.0f%% of the control group's %d MiB", limit>>20, 100*heapShare, group>>20)
}

// limitOwnMemory is limitMemory for this process.
func limitOwnMemory() string { return limitMemory(os.DirFS("/"), os.Getenv, debug.SetMemoryLimit) }

// groupMemory is the memory that the control groups of the process allow, the least of those from its own to the root's; false where none limits
// it. Outside Linux there is nothing to read.
func groupMemory(root fs.FS) (least int64, limited bool) {
	own, ok := ownGroup(root)
	if !ok {
		return 0, false
	}
	for dir := own; ; dir = path.Dir(dir) {
		for _, file := range []string{
			path.Join("sys/fs/cgroup", dir, "memory.max"),                   // version 2
			path.Join("sys/fs/cgroup/memory", dir, "memory.limit_in_bytes"), // version 1
		} {
			if n, ok := readLimit(root, file); ok && (!limited || n < least) {
				least, limited = n, true
			}
		}
		if dir == "/" || dir == "." {
			return least, limited
		}
	}
}

// ownGroup is the path of the process's control group for memory below the mount point (cgroups(7)).
func ownGroup(root fs.FS) (string, bool) {
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return "", false
	}
	unified := ""
	for line := range strings.Lines(string(b)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy:controllers:path
		switch {
		case len(f) != 3 || !strings.HasPrefix(f[2], "/"):
		case strings.Contains(","+f[1]+",", ",memory,"):
			return path.Clean(f[2]), true // where both versions are mounted, the controller is in this one
		case f[1] == "":
			unified = path.Clean(f[2])
		}
	}
	return unified, unified != ""
}

// readLimit reads a limit in bytes. "max", and the huge number that version 1 has for it, are none.
func readLimit(root fs.FS, file string) (int64, bool) {
	b, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil && n > 0 && n < math.MaxInt64>>1
}
