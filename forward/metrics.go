package forward

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/server/wire"
)

// proxyName is what CoreDNS writes into the label proxy_name for this directive.
const proxyName = "forward"

// Metrics are the metrics of all forward lines of the process, under CoreDNS's names, and a few of our own.
type Metrics struct {
	broken   prometheus.Counter
	rejects  prometheus.Counter
	shared   prometheus.Counter
	duration *prometheus.HistogramVec
	probes   *prometheus.CounterVec
	hits     *prometheus.CounterVec
	misses   *prometheus.CounterVec
	ignored  *prometheus.CounterVec
	repeats  *prometheus.CounterVec
	states   states
}

// NewMetrics registers the metrics. It is called once per process; a nil reg makes metrics that nobody sees.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	to := []string{"proxy_name", "to"}
	m := &Metrics{
		broken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_forward_healthcheck_broken_total",
			Help: "Queries that were forwarded although all upstreams were down."}),
		rejects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_forward_max_concurrent_rejects_total",
			Help: "Queries refused because max_concurrent of them were waiting already."}),
		shared: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clusterdns_forward_shared_total",
			Help: "Queries that were answered by the reply to an identical one in flight."}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "coredns_proxy_request_duration_seconds",
			Help:    "How long upstreams took to reply.",
			Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16),
			// CoreDNS's resolution, and bounds where it has none: 160 buckets span three decades.
			NativeHistogramBucketFactor: 1.05, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
		}, []string{"proxy_name", "to", "rcode"}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coredns_proxy_healthcheck_failures_total",
			Help: "Probes of upstreams in trouble that failed."}, to),
		hits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coredns_proxy_conn_cache_hits_total",
			Help: "Questions sent over a socket or connection that was open."}, []string{"proxy_name", "to", "proto"}),
		misses: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "coredns_proxy_conn_cache_misses_total",
			Help: "Questions for which a socket or connection had to be opened."}, []string{"proxy_name", "to", "proto"}),
		ignored: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterdns_forward_ignored_replies_total",
			Help: "Datagrams from upstreams that answered no question in flight: id, question, malformed, late."}, []string{"to", "reason"}),
		repeats: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clusterdns_forward_repeats_total",
			Help: "Further attempts at a question, by the upstream they went to."}, []string{"to"}),
		states: states{
			up: prometheus.NewDesc("clusterdns_forward_upstream_up",
				"Whether the upstream is taken to work (1) or marked as down (0).", []string{"to"}, nil),
			live: map[*Forward]bool{}},
	}
	reg.MustRegister(m.broken, m.rejects, m.shared, m.duration, m.probes, m.hits, m.misses, m.ignored, m.repeats, &m.states)
	return m
}

// states tells of the upstreams that are in use now. They are looked at when somebody asks, so that none outlives its configuration.
type states struct {
	up   *prometheus.Desc
	mu   sync.Mutex
	live map[*Forward]bool // those that run
}

// set says whether f runs.
func (s *states) set(f *Forward, runs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if runs {
		s.live[f] = true
	} else {
		delete(s.live, f)
	}
}

// Describe is for prometheus.
func (s *states) Describe(out chan<- *prometheus.Desc) { out <- s.up }

// Collect is for prometheus. Several lines may have the same upstream: it is down if it is for one of them.
func (s *states) Collect(out chan<- prometheus.Metric) {
	s.mu.Lock()
	live := maps.Clone(s.live)
	s.mu.Unlock()
	up := map[string]float64{}
	for f := range live {
		for _, g := range f.groups {
			for _, u := range *g.ups.Load() {
				if _, ok := up[u.to]; !ok {
					up[u.to] = 1
				}
				if u.down.Load() {
					up[u.to] = 0
				}
			}
		}
	}
	for to, v := range up {
		out <- prometheus.MustNewConstMetric(s.up, prometheus.GaugeValue, v, to)
	}
}

// proto is what carries a question, with the names that CoreDNS's metrics use.
type proto uint8

const (
	overUDP proto = iota
	overTCP
	overTLS
	protos
)

func (p proto) String() string { return [...]string{"udp", "tcp", "tcp-tls"}[p] }

// ignored are the reasons why a datagram from an upstream is not used.
type ignored uint8

const (
	wrongID       ignored = iota // no question with that id is in flight on the socket
	wrongQuestion                // the id fits, the question does not
	malformed                    // no reply at all
	late                         // the question has been answered otherwise in the meantime
	reasons
)

func (i ignored) String() string { return [...]string{"id", "question", "malformed", "late"}[i] }

// upstreamMetrics are the handles of one upstream, so that counting costs no look-up.
type upstreamMetrics struct {
	all     *Metrics
	to      string
	rcodes  [maxRCode + 2]atomic.Pointer[prometheus.Observer]
	probes  prometheus.Counter
	hits    [protos]prometheus.Counter
	misses  [protos]prometheus.Counter
	ignored [reasons]prometheus.Counter
	repeats prometheus.Counter
}

// upstream resolves the handles for an upstream of which to is the address and protos says by what it is asked.
func (m *Metrics) upstream(to string, ps ...proto) *upstreamMetrics {
	u := &upstreamMetrics{
		all: m, to: to,
		probes:  m.probes.WithLabelValues(proxyName, to),
		repeats: m.repeats.WithLabelValues(to),
	}
	for _, p := range ps {
		u.hits[p] = m.hits.WithLabelValues(proxyName, to, p.String())
		u.misses[p] = m.misses.WithLabelValues(proxyName, to, p.String())
	}
	for i := range reasons {
		u.ignored[i] = m.ignored.WithLabelValues(to, i.String())
	}
	return u
}

// replied counts a reply. The series of an rcode begins with the first reply that has it; those without a name share one, since an
// upstream could send four thousand.
func (u *upstreamMetrics) replied(c wire.RCode, took time.Duration) {
	slot := min(c, maxRCode+1)
	o := u.rcodes[slot].Load()
	if o == nil {
		name := "other"
		if c <= maxRCode {
			name = c.String()
		}
		h := u.all.duration.WithLabelValues(proxyName, u.to, name)
		o = &h
		u.rcodes[slot].Store(o)
	}
	(*o).Observe(took.Seconds())
}
