package kubernetes

import (
	"context"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/metrics"
)

// SourceMetrics are the metrics of the sources of a process.
type SourceMetrics struct {
	clusterIP, headless, headlessManual prometheus.Observer
	ages                                ages
	snapshots                           snapshotMetrics
	badManifests                        prometheus.Gauge
}

// NewSourceMetrics registers the metrics of sources with reg.
func NewSourceMetrics(reg prometheus.Registerer) *SourceMetrics {
	programming := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            "coredns_kubernetes_dns_programming_duration_seconds",
		Help:                            "Time from the change of an endpoint in the cluster to its being answered, by kind of Service.",
		Buckets:                         prometheus.ExponentialBuckets(0.001, 2, 20),
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"service_kind"})
	m := &SourceMetrics{
		clusterIP:      programming.WithLabelValues("cluster_ip"),
		headless:       programming.WithLabelValues("headless_with_selector"),
		headlessManual: programming.WithLabelValues("headless_without_selector"),
		ages: ages{desc: prometheus.NewDesc("clusterdns_kubernetes_data_age_seconds",
			"Time since the cluster data of a source was last known to be current: the last event or successful check of the kind where that is longest ago.",
			[]string{"source"}, nil)},
	}
	m.snapshots.stale = prometheus.NewDesc("clusterdns_kubernetes_stale", "1 while answers come from a snapshot, because the API server could not be read since the start.", nil, nil)
	m.snapshots.written = prometheus.NewDesc("clusterdns_kubernetes_snapshot_timestamp_seconds", "When the snapshot that is kept was last current.", []string{"file"}, nil)
	m.badManifests = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "clusterdns_kubernetes_manifest_errors",
		Help: "Files of manifests whose newest state cannot be used: what stood in them before is answered still.",
	})
	reg.MustRegister(programming, &m.ages, &m.snapshots, m.badManifests)
	return m
}

// Native histograms have CoreDNS's resolution, and a bound where it has none.
const (
	nativeFactor  = 1.05
	nativeBuckets = 160
)

// programmed records that a change of s's endpoints is answered, so long after it began.
func (m *SourceMetrics) programmed(s *Service, took time.Duration) {
	o := m.clusterIP
	switch {
	case s.Headless && s.Selector:
		o = m.headless
	case s.Headless:
		o = m.headlessManual
	}
	o.Observe(took.Seconds())
}

// track shows the age of a source's data until stop is called. age gives false as long as there is no data.
func (m *SourceMetrics) track(source string, age func() (time.Duration, bool)) (stop func()) {
	return m.ages.add(&tracker{source: source, age: age})
}

// ages collects the age of each source's data when it is asked for.
type ages struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	all  map[*tracker]struct{}
}

type tracker struct {
	source string
	age    func() (time.Duration, bool)
}

func (a *ages) add(t *tracker) (stop func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[*tracker]struct{}{}
	}
	a.all[t] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.all, t)
	}
}

// Describe is prometheus.Collector's.
func (a *ages) Describe(c chan<- *prometheus.Desc) { c <- a.desc }

// Collect is prometheus.Collector's. Of several sources of the same name the oldest is shown.
func (a *ages) Collect(c chan<- prometheus.Metric) {
	oldest := map[string]time.Duration{}
	a.mu.Lock()
	for t := range a.all {
		if age, ok := t.age(); ok {
			oldest[t.source] = max(oldest[t.source], age)
		}
	}
	a.mu.Unlock()
	for source, age := range oldest {
		c <- prometheus.MustNewConstMetric(a.desc, prometheus.GaugeValue, age.Seconds(), source)
	}
}

// RegisterClientMetrics registers the metrics of the requests to API servers with reg. client-go takes its metrics once in the life of
// a process, whatever is made afterwards, so this is for main: a second call registers metrics that stay at nothing.
func RegisterClientMetrics(reg prometheus.Registerer) {
	duration := clientDuration("request", "Duration of requests to the API server in seconds, by verb and host.")
	waiting := clientDuration("rate_limiter", "Time that requests to the API server waited for the client's own rate limit in seconds, by verb and host.")
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "coredns_kubernetes_rest_client_requests_total",
		Help: "Requests to the API server, by status code, method and host.",
	}, []string{"code", "method", "host"})
	reg.MustRegister(duration, waiting, requests)
	metrics.Register(metrics.RegisterOpts{
		RequestLatency:     latency{duration},
		RateLimiterLatency: latency{waiting},
		RequestResult:      result{requests},
	})
}

func clientDuration(of, help string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:                            "coredns_kubernetes_rest_client_" + of + "_duration_seconds",
		Help:                            help,
		Buckets:                         prometheus.DefBuckets,
		NativeHistogramBucketFactor:     nativeFactor,
		NativeHistogramMaxBucketNumber:  nativeBuckets,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"verb", "host"})
}

type latency struct{ v *prometheus.HistogramVec }

// Observe is metrics.LatencyMetric's.
func (l latency) Observe(_ context.Context, verb string, u url.URL, took time.Duration) {
	l.v.WithLabelValues(verb, u.Host).Observe(took.Seconds())
}

type result struct{ v *prometheus.CounterVec }

// Increment is metrics.ResultMetric's.
func (r result) Increment(_ context.Context, code, method, host string) {
	r.v.WithLabelValues(code, method, host).Inc()
}
