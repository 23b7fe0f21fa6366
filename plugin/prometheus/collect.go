package prometheus

import (
	"slices"

	prom "github.com/prometheus/client_golang/prometheus"
)

// descs describe what is collected. Labels are in the order in which values are given.
type descs struct {
	requests, do, duration, requestSize, responseSize, responses, dropped, enabled, clients *prom.Desc
}

func newDescs() descs {
	d := func(name, help string, more ...string) *prom.Desc {
		return prom.NewDesc(name, help, append([]string{"server", "zone", "view"}, more...), nil)
	}
	return descs{
		requests: d("coredns_dns_requests_total",
			"Queries by zone, transport, address family (1 for IPv4, 2 for IPv6) and type.", "proto", "family", "type"),
		do:           d("coredns_dns_do_requests_total", "Queries with the DO bit set."),
		duration:     d("coredns_dns_request_duration_seconds", "Time from the receipt of a query to its reply."),
		requestSize:  d("coredns_dns_request_size_bytes", "Length of queries.", "proto"),
		responseSize: d("coredns_dns_response_size_bytes", "Length of replies.", "proto"),
		responses:    d("coredns_dns_responses_total", "Replies by response code and the directive that answered.", "rcode", "plugin"),
		dropped:      d("clusterdns_dns_dropped_total", "Queries that were left without a reply on purpose."),
		enabled:      d("coredns_plugin_enabled", "Always 1; the labels say which directives are on where.", "name"),
		clients: prom.NewDesc("clusterdns_client_query_rate",
			"Queries per second of the busiest clients, averaged over a minute and estimated from a sample.",
			[]string{"client", "namespace", "pod"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prom.Desc) {
	for _, d := range []*prom.Desc{m.desc.requests, m.desc.do, m.desc.duration, m.desc.requestSize, m.desc.responseSize,
		m.desc.responses, m.desc.dropped, m.desc.enabled, m.desc.clients} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prom.Metric) {
	m.mu.Lock()
	all := slices.Clone(m.series)
	m.mu.Unlock()
	for _, s := range all {
		m.collect(ch, s)
	}
	if on := m.enabled.Load(); on != nil {
		for _, e := range *on {
			for _, name := range e.Directives {
				ch <- prom.MustNewConstMetric(m.desc.enabled, prom.GaugeValue, 1, e.Server, e.Zone, e.View, name)
			}
		}
	}
	for _, c := range m.clients.busiest() {
		ch <- prom.MustNewConstMetric(m.desc.clients, prom.GaugeValue, c.rate, c.addr.String(), c.namespace, c.pod)
	}
}

// collect emits one series' sums. What has never been counted is not there.
func (m *Metrics) collect(ch chan<- prom.Metric, s *series) {
	sum := s.sum()
	if sum == nil {
		return
	}
	count := func(d *prom.Desc, n uint64, labels ...string) {
		if n > 0 {
			ch <- prom.MustNewConstMetricWithCreatedTimestamp(d, prom.CounterValue, float64(n), m.created.AsTime(),
				append([]string{s.server, s.zone, s.view}, labels...)...)
		}
	}
	tallied := func(d *prom.Desc, l *layout, t tally, unit float64, names []string, labels ...string) {
		ch <- &histogram{desc: d, labels: pairs(names, append([]string{s.server, s.zone, s.view}, labels...)), created: m.created,
			layout: l, tally: t, unit: unit}
	}
	for transport, proto := range [...]string{"udp", "tcp"} {
		for family, f := range [...]string{"1", "2"} {
			for typ, n := range sum.requests[transport][family] {
				count(m.desc.requests, n, proto, f, typeNames[typ])
			}
		}
		if p := sum.sizes[transport]; p != nil {
			names := []string{"server", "zone", "view", "proto"}
			tallied(m.desc.requestSize, sizes, p.request, 1, names, proto)
			tallied(m.desc.responseSize, sizes, p.response, 1, names, proto)
		}
	}
	tallied(m.desc.duration, durations, sum.duration, 1e-9, []string{"server", "zone", "view"})
	count(m.desc.do, sum.do)
	count(m.desc.dropped, sum.dropped)
	for i, row := range sum.replies {
		for rcode, n := range row {
			count(m.desc.responses, n, rcodeName(rcode), m.names.at(i))
		}
	}
}
