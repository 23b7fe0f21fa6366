package cache

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// cells is how many workers count without meeting; more of them share.
const cells = 16

// cell is one worker's counters of what happens at every query, on cache lines of its own.
type cell struct {
	hits   [2]atomic.Uint64 // success, denial
	misses atomic.Uint64
	_      [128 - 3*8]byte
}

// labels tell the counters of one use of a cache from another's.
type labels struct{ server, zones, view string }

// counters are those of all caches with the same labels, since the process began.
type counters struct {
	cells      [cells]cell
	prefetches atomic.Uint64
	drops      atomic.Uint64
	stale      atomic.Uint64
	evictions  [2]atomic.Uint64
}

func (n *counters) cell(shard int) *cell { return &n.cells[uint(shard)%cells] }

// hit counts an answer from f.
func (n *counters) hit(shard int, f *found) {
	n.cell(shard).hits[f.kind.label()].Add(1)
	if f.stale {
		n.stale.Add(1)
	}
}

// label is the index of the kind in everything that is counted by type; failures are kept, and counted, among denials.
func (k kind) label() int {
	if k == success {
		return 0
	}
	return 1
}

// types are the values of the label "type".
var types = [2]string{"success", "denial"}

// Metrics are the counters of all caches of the process, and the sizes of those that run. They are counted per worker and added up when they are
// asked for.
type Metrics struct {
	mu   sync.Mutex
	by   map[labels]*counters
	live map[*Cache]bool

	entries, bytes, hits, evictions             *prometheus.Desc // by type too
	misses, requests, prefetches, drops, staled *prometheus.Desc
}

// NewMetrics registers the metrics of caches; once a process. reg may be nil.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	few := []string{"server", "zones", "view"}
	all := []string{"server", "type", "zones", "view"}
	desc := func(name, help string, labels []string) *prometheus.Desc {
		return prometheus.NewDesc("coredns_cache_"+name, help, labels, nil)
	}
	m := &Metrics{
		by: map[labels]*counters{}, live: map[*Cache]bool{},
		entries:    desc("entries", "Entries in the cache.", all),
		bytes:      prometheus.NewDesc("clusterdns_cache_bytes", "Memory that the entries of the cache take, in bytes.", all, nil), // CoreDNS has none
		hits:       desc("hits_total", "Queries that the cache answered.", all),
		evictions:  desc("evictions_total", "Entries that had to go because the cache was full.", all),
		misses:     desc("misses_total", "Queries that the cache could not answer.", few),
		requests:   desc("requests_total", "Queries that were looked up in the cache.", few),
		prefetches: desc("prefetch_total", "Times that a popular entry was asked for again before it expired.", few),
		drops:      desc("drops_total", "Replies not kept because they answer another question than was asked.", few),
		staled:     desc("served_stale_total", "Queries that an expired entry answered.", few),
	}
	if reg != nil {
		reg.MustRegister(m)
	}
	return m
}

func (m *Metrics) counters(l labels) *counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.by[l]
	if n == nil {
		n = new(counters)
		m.by[l] = n
	}
	return n
}

// add makes the sizes of c seen.
func (m *Metrics) add(c *Cache) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live[c] = true
}

func (m *Metrics) remove(c *Cache) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.live, c)
}

// Describe is for prometheus.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.entries, m.bytes, m.hits, m.evictions, m.misses, m.requests, m.prefetches, m.drops, m.staled} {
		out <- d
	}
}

// Collect is for prometheus.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	m.mu.Lock()
	by, live := maps.Clone(m.by), maps.Clone(m.live)
	m.mu.Unlock()
	for l, n := range by {
		n.collect(m, l, out)
	}
	// Two directives may have the same labels: their sizes add up.
	sizes := map[labels]sums{}
	for c := range live {
		t := c.store.sums()
		for _, u := range *c.uses.Load() {
			s := sizes[u.labels]
			for i := range types {
				s.entries[i] += t.entries[i]
				s.bytes[i] += t.bytes[i]
			}
			sizes[u.labels] = s
		}
	}
	for l, s := range sizes {
		for i, t := range types {
			out <- prometheus.MustNewConstMetric(m.entries, prometheus.GaugeValue, float64(s.entries[i]), l.server, t, l.zones, l.view)
			out <- prometheus.MustNewConstMetric(m.bytes, prometheus.GaugeValue, float64(s.bytes[i]), l.server, t, l.zones, l.view)
		}
	}
}

func (n *counters) collect(m *Metrics, l labels, out chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, values ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), values...)
	}
	var hits [2]uint64
	var misses uint64
	for i := range n.cells {
		c := &n.cells[i]
		hits[0] += c.hits[0].Load()
		hits[1] += c.hits[1].Load()
		misses += c.misses.Load()
	}
	for i, t := range types {
		counter(m.hits, hits[i], l.server, t, l.zones, l.view)
		counter(m.evictions, n.evictions[i].Load(), l.server, t, l.zones, l.view)
	}
	counter(m.misses, misses, l.server, l.zones, l.view)
	counter(m.requests, hits[0]+hits[1]+misses, l.server, l.zones, l.view)
	counter(m.prefetches, n.prefetches.Load(), l.server, l.zones, l.view)
	counter(m.drops, n.drops.Load(), l.server, l.zones, l.view)
	counter(m.staled, n.stale.Load(), l.server, l.zones, l.view)
}
