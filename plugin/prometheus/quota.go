package prometheus

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// quota is the CPU time that the control groups of the process allow for each second, the least of those from its own to the root's; false
// where none limits it. root is the root of the file system; outside Linux there is nothing to read.
func quota(root fs.FS) (cpus float64, limited bool) {
	for dir := ownGroup(root); ; dir = path.Dir(dir) {
		if q, ok := groupQuota(root, dir); ok && (!limited || q < cpus) {
			cpus, limited = q, true
		}
		if dir == "/" || dir == "." {
			return cpus, limited
		}
	}
}

// ownGroup is the path of the control group of the process below the mount point (cgroups(7)): "/" in a container with a name space of
// its own.
func ownGroup(root fs.FS) string {
	b, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return "/"
	}
	for line := range strings.Lines(string(b)) {
		// hierarchy:controllers:path; version 2 has no controllers named.
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (f[1] == "" || strings.Contains(","+f[1]+",", ",cpu,")) && strings.HasPrefix(f[2], "/") {
			return path.Clean(f[2])
		}
	}
	return "/"
}

// groupQuota reads the quota of one control group, of version 2 or 1.
func groupQuota(root fs.FS, dir string) (float64, bool) {
	if b, err := fs.ReadFile(root, path.Join("sys/fs/cgroup", dir, "cpu.max")); err == nil {
		return ratioOf(strings.Fields(string(b)))
	}
	q, err := fs.ReadFile(root, path.Join("sys/fs/cgroup/cpu", dir, "cpu.cfs_quota_us"))
	if err != nil {
		return 0, false
	}
	p, err := fs.ReadFile(root, path.Join("sys/fs/cgroup/cpu", dir, "cpu.cfs_period_us"))
	if err != nil {
		return 0, false
	}
	return ratioOf([]string{strings.TrimSpace(string(q)), strings.TrimSpace(string(p))})
}

// ratioOf divides a quota by its period; "max" and -1 are no limits.
func ratioOf(f []string) (float64, bool) {
	if len(f) != 2 {
		return 0, false
	}
	q, err := strconv.ParseFloat(f[0], 64)
	if err != nil || q <= 0 {
		return 0, false
	}
	p, err := strconv.ParseFloat(f[1], 64)
	if err != nil || p <= 0 {
		return 0, false
	}
	return q / p, true
}
