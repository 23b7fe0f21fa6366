package kubernetes

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// snapshotMetrics collects what there is to say of snapshots when it is asked for; without the option, nothing.
type snapshotMetrics struct {
	stale, written *prometheus.Desc
	mu             sync.Mutex
	all            map[*snapshotter]struct{}
}

// trackSnapshot shows a snapshot until stop is called: also the age of the data, as if the file were a source, while answers come from it.
func (m *SourceMetrics) trackSnapshot(s *snapshotter) (stop func()) {
	untrack := m.track("snapshot", s.age)
	c := &m.snapshots
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[*snapshotter]struct{}{}
	}
	c.all[s] = struct{}{}
	return func() {
		untrack()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.all, s)
	}
}

// Describe is prometheus.Collector's.
func (c *snapshotMetrics) Describe(to chan<- *prometheus.Desc) { to <- c.stale; to <- c.written }

// Collect is prometheus.Collector's. A reload may have two snapshotters of one file for a moment: the later time counts.
func (c *snapshotMetrics) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	stale, written := 0.0, map[string]int64{}
	for s := range c.all {
		if s.index.Stale() {
			stale = 1
		}
		written[s.file] = max(written[s.file], s.written.Load())
	}
	c.mu.Unlock()
	if len(written) == 0 {
		return
	}
	to <- prometheus.MustNewConstMetric(c.stale, prometheus.GaugeValue, stale)
	for file, nanos := range written {
		if nanos > 0 {
			to <- prometheus.MustNewConstMetric(c.written, prometheus.GaugeValue, float64(nanos)/float64(time.Second), file)
		}
	}
}
