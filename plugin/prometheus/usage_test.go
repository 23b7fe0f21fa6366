package prometheus

import (
	"context"
	"runtime"
	"testing"
	"testing/fstest"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
)

func TestSaturation(t *testing.T) {
	t.Parallel()
	var u usage
	now := sample{time.Unix(1000, 0), time.Hour}
	if got := u.ratio(now); got != 0 {
		t.Errorf("%g before anything is known, want 0", got)
	}
	run := func(ticks int, cpus float64) {
		for range ticks {
			u.take(now, 2)
			now = sample{now.at.Add(tick), now.cpu + time.Duration(cpus*float64(tick))}
		}
	}
	expect := func(when string, want float64) {
		t.Helper()
		if got := u.ratio(now); got < want-0.001 || got > want+0.001 {
			t.Errorf("%s: %g, want %g", when, got, want)
		}
	}
	run(1, 2)
	expect("a young process that works hard", 1.0/window)
	run(window-1, 0)
	expect("and is idle then", 1.0/window)
	run(3*window, 1)
	expect("one of two CPUs", 0.5)
	run(window, 2.1) // the clocks do not agree to the last digit
	expect("two of two CPUs", 1)
	run(1, 0)
	expect("one idle moment", 2.1/2*(window-1)/window)
	now.cpu = 0
	expect("a clock that goes back", 0)
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

// TestRun samples the process itself.
func TestRun(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prom.NewRegistry(), Build{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Run(ctx); err != nil {
		t.Error(err)
	}
	if got := m.saturation(); len(m.usage.samples) != 1 || got < 0 || got > 1 {
		t.Errorf("%d samples, saturation %g", len(m.usage.samples), got)
	}
}
