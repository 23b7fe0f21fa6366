package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

func TestLimitMemory(t *testing.T) {
	t.Parallel()
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s + "\n")} }
	for _, c := range []struct {
		name  string
		env   string
		files fstest.MapFS
		limit int64 // 0: not set
		says  string
	}{
		{"version 2", "", fstest.MapFS{"proc/self/cgroup": file("0::/"), "sys/fs/cgroup/memory.max": file("178257920")}, 160432128, "153 MiB, 90%"},
		{"a parent's is lower", "", fstest.MapFS{
			"proc/self/cgroup":              file("0::/pods/one"),
			"sys/fs/cgroup/pods/memory.max": file("1000000"), "sys/fs/cgroup/pods/one/memory.max": file("2000000"),
		}, 900000, "90%"},
		{"no limit", "", fstest.MapFS{"proc/self/cgroup": file("0::/"), "sys/fs/cgroup/memory.max": file("max")}, 0, "none"},
		{"version 1", "", fstest.MapFS{
			"proc/self/cgroup": file("5:cpu,cpuacct:/c\n4:memory:/m\n0::/"),
			"sys/fs/cgroup/memory/m/memory.limit_in_bytes": file("104857600"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   file("9223372036854771712"),
			"sys/fs/cgroup/memory/c/memory.limit_in_bytes": file("5"),
		}, 94371840, "90 MiB"},
		{"version 1 in a container", "", fstest.MapFS{
			"proc/self/cgroup":                           file("4:memory:/kubepods/pod7/abc"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("104857600"),
		}, 94371840, "90 MiB"},
		{"version 1 without a limit", "", fstest.MapFS{
			"proc/self/cgroup": file("4:memory:/"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712"),
		}, 0, "none"},
		{"GOMEMLIMIT counts", "100MiB", fstest.MapFS{"proc/self/cgroup": file("0::/"), "sys/fs/cgroup/memory.max": file("178257920")}, 0, "100MiB, from GOMEMLIMIT"},
		{"no control groups", "", fstest.MapFS{}, 0, "none"},
		{"garbage", "", fstest.MapFS{"proc/self/cgroup": file("0:/\nx"), "sys/fs/cgroup/memory.max": file("-5")}, 0, "none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var limit int64
			says := limitMemory(c.files, func(string) string { return c.env }, func(n int64) int64 { limit = n; return 0 })
			if limit != c.limit || !strings.Contains(says, c.says) {
				t.Errorf("set %d, said %q; want %d and %q", limit, says, c.limit, c.says)
			}
		})
	}
}
