package prometheus

import (
	"context"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"time"
)

// window is how many ticks saturation is averaged over: 30 s, twice what an autoscaler waits between two looks, so that neither a burst nor
// a garbage collection scales anything.
const window = 6

// usage is how much of the CPU time that it may use the process has used.
type usage struct {
	mu       sync.Mutex
	samples  []sample // the oldest first, window at the most
	capacity float64  // CPUs that may be used
}

type sample struct {
	at  time.Time
	cpu time.Duration // that the process has used since it began
}

// take adds a sample.
func (u *usage) take(s sample, capacity float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.samples) == window {
		copy(u.samples, u.samples[1:])
		u.samples = u.samples[:window-1]
	}
	u.samples = append(u.samples, s)
	u.capacity = capacity
}

// ratio is the share used between the oldest sample and now. A process younger than the window counts as idle before: what it does to
// begin is no reason to begin more of them.
func (u *usage) ratio(now sample) float64 {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.samples) == 0 || u.capacity <= 0 {
		return 0
	}
	first := u.samples[0]
	span := max(now.at.Sub(first.at), window*tick)
	return min(1, max(0, (now.cpu-first.cpu).Seconds()/span.Seconds()/u.capacity))
}

// saturation is ratio for the metric of that name.
func (m *Metrics) saturation() float64 {
	cpu, _ := cpuTime() // where it is not known there are no samples either
	return m.usage.ratio(sample{time.Now(), cpu})
}

// Run samples the process until ctx ends. It is for the whole life of the process.
func (m *Metrics) Run(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		if cpu, ok := cpuTime(); ok {
			m.usage.take(sample{time.Now(), cpu}, capacity(os.DirFS("/")))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			m.clients.fade()
		}
	}
}

// capacity is how many CPUs the process may use: those that it may run on, or fewer where its control group has a quota, which may be less
// than one. It is asked anew each time, as quotas of running containers can be changed.
func capacity(root fs.FS) float64 {
	n := float64(runtime.GOMAXPROCS(0))
	if q, ok := quota(root); ok {
		n = min(n, q)
	}
	return n
}
