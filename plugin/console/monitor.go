package console

import (
	"context"
	"math"
	"sync"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	// tick is how often a sample is kept.
	tick = 5 * time.Second
	// kept is how many are: ten minutes.
	kept = 120
	// fresh is for how long a sample is what there is now: a few pages that look at the same time cost one.
	fresh = 900 * time.Millisecond
	// span is the least time that a rate is over.
	span = 4 * time.Second
)

// Monitor remembers how the metrics of the process went over the last minutes. It is a server.Runner; its methods may be called
// concurrently.
type Monitor struct {
	gather prom.Gatherer
	now    func() time.Time

	mu     sync.Mutex
	kept   []*sample // one a tick, the oldest first
	latest *sample
}

// Run keeps a sample every few seconds.
func (m *Monitor) Run(ctx context.Context) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	m.keep()
	for {
		select {
		case <-t.C:
			m.keep()
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *Monitor) keep() {
	s := m.take()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latest = s
	m.kept = append(m.kept, s)
	if len(m.kept) > kept {
		m.kept = append(m.kept[:0], m.kept[len(m.kept)-kept:]...)
	}
}

// take reads the metrics. Parts that cannot be read are missing: there is a log for them where they are scraped.
func (m *Monitor) take() *sample {
	families, _ := m.gather.Gather()
	return newSample(m.now(), families)
}

// look gives the samples that rates are made of: what is kept, and what there is now as the last of them.
func (m *Monitor) look() []*sample {
	m.mu.Lock()
	stale := m.latest == nil || m.now().Sub(m.latest.at) > fresh
	m.mu.Unlock()
	var s *sample
	if stale {
		s = m.take()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if s != nil && (m.latest == nil || s.at.After(m.latest.at)) {
		m.latest = s
	}
	out := append(make([]*sample, 0, len(m.kept)+1), m.kept...)
	if n := len(out); n == 0 || out[n-1] != m.latest {
		out = append(out, m.latest)
	}
	return out
}

// family is a metric that is looked at, summed up by one of its labels, or altogether.
type family struct{ key, name, label string }

// families are those that are looked at. Of histograms there are key+".count" and key+".sum".
func families() []family {
	return []family{
		{"requests", "coredns_dns_requests_total", ""},
		{"rcode", "coredns_dns_responses_total", "rcode"},
		{"directive", "coredns_dns_responses_total", "plugin"},
		{"dropped", "clusterdns_dns_dropped_total", ""},
		{"cache.entries", "coredns_cache_entries", "zones"},
		{"cache.bytes", "clusterdns_cache_bytes", "zones"},
		{"cache.hits", "coredns_cache_hits_total", "zones"},
		{"cache.requests", "coredns_cache_requests_total", "zones"},
		{"cache.evictions", "coredns_cache_evictions_total", "zones"},
		{"cache.stale", "coredns_cache_served_stale_total", "zones"},
		{"upstream.took", "coredns_proxy_request_duration_seconds", "to"},
		{"upstream.repeats", "clusterdns_forward_repeats_total", "to"},
		{"upstream.failures", "coredns_proxy_healthcheck_failures_total", "to"},
		{"parked", "clusterdns_queries_parked", ""},
		{"saturation", "clusterdns_saturation_ratio", ""},
		{"memory", "process_resident_memory_bytes", ""},
		{"started", "process_start_time_seconds", ""},
		{"age", "clusterdns_kubernetes_data_age_seconds", "source"},
		{"panics", "coredns_panics_total", ""},
		{"limits", "clusterdns_limit_hits_total", ""},
		{"reloads.failed", "coredns_reload_failed_total", ""},
	}
}

// duration is the metric of which percentiles are made.
const duration = "coredns_dns_request_duration_seconds"

// sample is what the metrics said at one time. It is immutable.
type sample struct {
	at     time.Time
	values map[string]map[string]float64 // by family and label
	took   map[int]uint64                // queries by native bucket: the i for up to base^i seconds
	base   float64
}

func newSample(at time.Time, all []*dto.MetricFamily) *sample {
	s := &sample{at: at, values: map[string]map[string]float64{}, took: map[int]uint64{}}
	wanted := map[string][]family{}
	for _, f := range families() {
		wanted[f.name] = append(wanted[f.name], f)
	}
	for _, mf := range all {
		for _, f := range wanted[mf.GetName()] {
			for _, m := range mf.GetMetric() {
				s.add(f, m)
			}
		}
		if mf.GetName() == duration {
			for _, m := range mf.GetMetric() {
				s.addBuckets(m.GetHistogram())
			}
		}
	}
	return s
}

func (s *sample) add(f family, m *dto.Metric) {
	label := ""
	for _, l := range m.GetLabel() {
		if l.GetName() == f.label {
			label = l.GetValue()
		}
	}
	put := func(key string, v float64) {
		if s.values[key] == nil {
			s.values[key] = map[string]float64{}
		}
		s.values[key][label] += v
	}
	switch {
	case m.GetCounter() != nil:
		put(f.key, m.GetCounter().GetValue())
	case m.GetGauge() != nil:
		put(f.key, m.GetGauge().GetValue())
	case m.GetHistogram() != nil:
		put(f.key+".count", float64(m.GetHistogram().GetSampleCount()))
		put(f.key+".sum", m.GetHistogram().GetSampleSum())
	}
}

// addBuckets adds the native buckets of a histogram, each given by its difference to the one before. All have the same schema.
func (s *sample) addBuckets(h *dto.Histogram) {
	s.base = math.Pow(2, math.Pow(2, -float64(h.GetSchema())))
	i, n, k := 0, int64(0), 0
	for _, sp := range h.GetPositiveSpan() {
		i += int(sp.GetOffset())
		for range sp.GetLength() {
			if k >= len(h.GetPositiveDelta()) {
				return
			}
			n += h.GetPositiveDelta()[k]
			s.took[i] += uint64(max(n, 0))
			i, k = i+1, k+1
		}
	}
}

func (s *sample) value(key, label string) float64 { return s.values[key][label] }

// change is what went on between two samples.
type change struct{ from, to *sample }

// recent is what went on in the last few seconds of samples.
func recent(all []*sample) change {
	to := all[len(all)-1]
	from := all[0]
	for _, s := range all {
		if to.at.Sub(s.at) >= span {
			from = s
		}
	}
	return change{from, to}
}

// rate is how much a counter moved in a second; 0 where there is no time in between.
func (c change) rate(key, label string) float64 {
	if d := c.to.at.Sub(c.from.at).Seconds(); d > 0 {
		return c.moved(key, label) / d
	}
	return 0
}

func (c change) moved(key, label string) float64 {
	return max(0, c.to.value(key, label)-c.from.value(key, label))
}

// percentile is the time within which a share of the queries was answered, 0 where there were none.
func (c change) percentile(share float64) time.Duration {
	lowest, highest, total := math.MaxInt, math.MinInt, uint64(0)
	for i, n := range c.to.took {
		if n > c.from.took[i] {
			lowest, highest, total = min(lowest, i), max(highest, i), total+n-c.from.took[i]
		}
	}
	rank, seen := uint64(math.Ceil(share*float64(total))), uint64(0)
	for i := lowest; i <= highest; i++ {
		if n := c.to.took[i]; n > c.from.took[i] {
			seen += n - c.from.took[i]
		}
		if seen >= rank {
			return time.Duration(math.Pow(c.to.base, float64(i)) * float64(time.Second))
		}
	}
	return 0
}
