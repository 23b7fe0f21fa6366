// Package prometheus is the prometheus directive: it counts queries under the names that CoreDNS gives its metrics, and serves them
// with what the rest of the process registers.
//
// Counting is made for the hot path: each worker counts for itself, in plain numbers, and a scrape adds them up.
package prometheus

import (
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/clusterdns/clusterdns/server"
)

// Dropped is the zone under which queries are counted that no zone takes. It has no final dot, so it is never a real one.
const Dropped = "dropped"

// Build says what runs.
type Build struct {
	Version  string
	Revision string
}

// Enabled are the directives of one zone of a server block that has prometheus.
type Enabled struct {
	Server, Zone, View string // as in the Block
	Directives         []string
}

// Metrics are the metrics of the process that are about queries and the process itself. There is one; it outlives configurations. Its
// methods may be called concurrently.
type Metrics struct {
	registry *prom.Registry
	desc     descs
	created  *timestamppb.Timestamp
	workers  int
	names    names
	clients  clients
	usage    usage

	panics  prom.Counter
	limits  *prom.CounterVec
	https   *prom.CounterVec
	enabled atomic.Pointer[[]Enabled]

	mu      sync.Mutex
	series  []*series
	runtime prom.Collector // what exports Go's own metrics
	latched bool           // whether runtime exports all of them
}

// NewMetrics makes the metrics and registers them, and those of Go and the process as client_golang has them.
func NewMetrics(reg *prom.Registry, b Build) *Metrics {
	m := &Metrics{
		registry: reg,
		desc:     newDescs(),
		created:  timestamppb.Now(),
		workers:  runtime.GOMAXPROCS(0) + 1, // one for each UDP socket, and TCP
		names:    names{list: []string{""}},
		panics: prom.NewCounter(prom.CounterOpts{
			Name: "coredns_panics_total", Help: "Panics that were recovered from.",
		}),
		limits: prom.NewCounterVec(prom.CounterOpts{
			Name: "clusterdns_limit_hits_total", Help: "Queries and connections refused, and connections closed, because of a limit of the server.",
		}, []string{"limit"}),
		https: prom.NewCounterVec(prom.CounterOpts{
			Name: "coredns_dns_https_responses_total", Help: "Responses to requests over HTTPS by status.",
		}, []string{"server", "status"}),
		runtime: collectors.NewGoCollector(),
	}
	build := prom.NewGauge(prom.GaugeOpts{
		Name: "coredns_build_info", Help: "Always 1; the labels say which version runs.",
		ConstLabels: prom.Labels{"version": b.Version, "revision": b.Revision, "goversion": runtime.Version()},
	})
	build.Set(1)
	saturation := prom.NewGaugeFunc(prom.GaugeOpts{
		Name: "clusterdns_saturation_ratio",
		Help: "Share of the CPU time that the process may use that it has used over the last half minute, from 0 to 1.",
	}, m.saturation)
	reg.MustRegister(m, m.panics, m.limits, m.https, build, saturation, m.runtime,
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Panic counts a panic that was recovered from: for server.Hooks.
func (m *Metrics) Panic() { m.panics.Inc() }

// Limit counts that a limit was hit: for server.Hooks.
func (m *Metrics) Limit(l server.Limit) { m.limits.WithLabelValues(l.String()).Inc() }

// HTTPSResponse counts an answer to a request over HTTPS: for server.Hooks.
func (m *Metrics) HTTPSResponse(server string, status int) {
	m.https.WithLabelValues(server, strconv.Itoa(status)).Inc()
}

// Watch registers what is read from others at each scrape: the number of parked queries, that of log lines lost, and that of datagrams that
// the kernel dropped.
func (m *Metrics) Watch(parked func() int64, linesLost, socketDrops func() uint64) {
	m.registry.MustRegister(
		prom.NewGaugeFunc(prom.GaugeOpts{
			Name: "clusterdns_queries_parked", Help: "Queries that wait for an upstream server or another slow answer at the moment.",
		}, func() float64 { return float64(parked()) }),
		prom.NewCounterFunc(prom.CounterOpts{
			Name: "clusterdns_log_lines_lost_total", Help: "Lines of the log dropped because the output took them too slowly.",
		}, func() float64 { return float64(linesLost()) }),
		prom.NewCounterFunc(prom.CounterOpts{
			Name: "clusterdns_dns_udp_socket_drops_total",
			Help: "Datagrams that the kernel dropped because they came faster than they were answered.",
		}, func() float64 { return float64(socketDrops()) }),
	)
}

// Observer makes what counts the queries of a block with the directive.
func (m *Metrics) Observer(o Options, b *server.Block) server.Observer {
	known := make([]string, len(b.Chain))
	for i := range b.Chain {
		known[i] = b.Chain[i].Name
	}
	ob := &observer{series: m.seriesOf(b.Server, b.ZoneName, b.View), numbers: m.names.with(known), all: &m.names}
	if o.Clients > 0 {
		ob.clients = &m.clients
	}
	return ob
}

// Unrouted makes what counts the queries that no zone of a listener takes; server is the label of its blocks. It is for listeners of
// which a block has the directive.
func (m *Metrics) Unrouted(server string) server.Observer {
	return &observer{series: m.seriesOf(server, Dropped, ""), numbers: m.names.with(nil), all: &m.names}
}

// seriesOf gives the counts of a server, zone and view, which stay the same across configurations.
func (m *Metrics) seriesOf(server, zone, view string) *series {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.series {
		if s.server == server && s.zone == zone && s.view == view {
			return s
		}
	}
	s := &series{server: server, zone: zone, view: view, shards: make([]atomic.Pointer[shard], m.workers)}
	m.series = append(m.series, s)
	return s
}

// Apply takes a configuration into use: the directives that are on, and the options of all occurrences. It is called each time, without
// occurrences too.
func (m *Metrics) Apply(enabled []Enabled, all ...Options) {
	on := slices.Clone(enabled)
	m.enabled.Store(&on)
	count := 0
	for _, o := range all {
		count = max(count, o.Clients)
		if o.RuntimeMetrics {
			m.exportRuntime()
		}
	}
	m.clients.limit(count)
}

// exportRuntime exports all of Go's runtime/metrics from now on. It is not taken back: series that come and go with reloads help nobody.
func (m *Metrics) exportRuntime() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latched {
		return
	}
	m.latched = true
	m.registry.Unregister(m.runtime)
	m.runtime = collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile("/.*")}))
	m.registry.MustRegister(m.runtime)
}
