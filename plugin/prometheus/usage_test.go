package prometheus

import (
	"runtime"
	"testing"
	"testing/fstest"
	"time"
)

func TestSaturation(t *testing.T) {
	t.Parallel()
	var u usage
	if got := u.ratio(); got != 0 {
		t.Errorf("%g before anything is known, want 0", got)
	}
	start := time.Unix(1000, 0)
	cpu := time.Duration(0)
	add := func(i int, share float64) {
		cpu += time.Duration(share * float64(tick))
		u.take(sample{start.Add(time.Duration(i) * tick), cpu}, 2)
	}
	for i := range 20 {
		add(i, 1) // one of two CPUs
	}
	if got := u.ratio(); got < 0.499 || got > 0.501 {
		t.Errorf("one of two CPUs in use is %g, want 0.5", got)
	}
	for i := range window {
		add(20+i, 2.1) // the clocks do not agree to the last digit
	}
	if got := u.ratio(); got != 1 {
		t.Errorf("two of two CPUs in use is %g, want 1", got)
	}
	add(20+window, 0)
	if got := u.ratio(); got < 0.7 || got > 0.95 {
		t.Errorf("one idle moment changed it to %g: not averaged", got)
	}
}

// TestQuota reads control groups as they look in a container, on a node, and with version 1.
func TestQuota(t *testing.T) {
	t.Parallel()
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, tt := range map[string]struct {
		fs      fstest.MapFS
		cpus    float64
		limited bool
	}{
		"no control groups": {fstest.MapFS{}, 0, false},
		"container": {fstest.MapFS{
			"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/cpu.max": file("10000 100000\n"),
		}, 0.1, true},
		"no limit": {fstest.MapFS{
			"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/cpu.max": file("max 100000\n"),
		}, 0, false},
		"limit further up": {fstest.MapFS{
			"proc/self/cgroup": file("0::/kubepods.slice/pod1/x\n"),
			"sys/fs/cgroup/kubepods.slice/pod1/x/cpu.max": file("max 100000\n"),
			"sys/fs/cgroup/kubepods.slice/pod1/cpu.max":   file("150000 100000\n"),
			"sys/fs/cgroup/kubepods.slice/cpu.max":        file("400000 100000\n"),
		}, 1.5, true},
		"version 1": {fstest.MapFS{
			"proc/self/cgroup":                        file("4:memory:/m\n3:cpu,cpuacct:/d/x\n"),
			"sys/fs/cgroup/cpu/d/x/cpu.cfs_quota_us":  file("50000\n"),
			"sys/fs/cgroup/cpu/d/x/cpu.cfs_period_us": file("100000\n"),
			"sys/fs/cgroup/cpu/d/cpu.cfs_quota_us":    file("-1\n"),
			"sys/fs/cgroup/cpu/d/cpu.cfs_period_us":   file("100000\n"),
		}, 0.5, true},
		"nonsense": {fstest.MapFS{
			"proc/self/cgroup": file("::::\nx\n"), "sys/fs/cgroup/cpu.max": file("many\n"),
		}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cpus, limited := quota(tt.fs)
			if cpus != tt.cpus || limited != tt.limited {
				t.Errorf("got %g %v, want %g %v", cpus, limited, tt.cpus, tt.limited)
			}
			want := float64(runtime.GOMAXPROCS(0))
			if tt.limited {
				want = min(want, tt.cpus)
			}
			if got := capacity(tt.fs); got != want {
				t.Errorf("capacity is %g, want %g", got, want)
			}
		})
	}
}

func TestCPUTime(t *testing.T) {
	t.Parallel()
	if cpu, ok := cpuTime(); !ok || cpu <= 0 {
		t.Errorf("got %s %v", cpu, ok)
	}
}
