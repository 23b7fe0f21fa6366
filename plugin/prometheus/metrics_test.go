package prometheus

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/miekg/dns"
	prom "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

var quiet = slog.New(slog.DiscardHandler)

// busy makes metrics that have counted a bit of everything.
func busy(t *testing.T) (*prom.Registry, *Metrics) {
	t.Helper()
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{"1.0.0", "abcdef"})
	m.Watch(func() int64 { return 3 }, func() uint64 { return 0 }, func() uint64 { return 0 })
	m.Apply([]Enabled{{"dns://:53", ".", "", []string{"errors", "kubernetes"}}}, Options{Clients: 5})
	d := servertest.Direct(observed(m, Options{Clients: 5}))
	for _, q := range []*dns.Msg{
		servertest.Query("example.org.", dns.TypeA, 0), servertest.Query("example.org.", dns.TypeHTTPS, 1232),
		servertest.Query("example.org.", dns.TypeURI, 0).SetEdns0(4096, true),
	} {
		for range oneIn {
			d.Answer(servertest.Pack(t, q), servertest.Client, server.UDP)
			d.Answer(servertest.Pack(t, q), servertest.Client, server.TCP)
		}
	}
	m.Panic()
	m.Limit(server.LimitParked)
	m.HTTPSResponse("https://:443", 200)
	return reg, m
}

// TestRecordedList holds every line of the list that is about queries or the process against what is exported here.
func TestRecordedList(t *testing.T) {
	t.Parallel()
	reg, _ := busy(t)
	exported := shapes(t, reg)
	f, err := os.Open("../../test/conformance/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := 0
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, _, _ := strings.Cut(sc.Text(), " ")
		switch {
		case strings.HasPrefix(name, "coredns_dns_"), name == "coredns_panics_total", name == "coredns_plugin_enabled", name == "coredns_build_info":
		default:
			continue
		}
		seen++
		if !slices.Contains(exported, sc.Text()) {
			t.Errorf("not exported: %s", sc.Text())
		}
	}
	if seen != 8 {
		t.Errorf("compared %d lines of the list, want 8", seen)
	}
}

// shapes are the metrics of a registry as the recorded list writes them: name, type, labels, buckets.
func shapes(t *testing.T, reg *prom.Registry) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, f := range families {
		var labels []string
		for _, l := range f.Metric[0].Label {
			labels = append(labels, l.GetName())
		}
		line := fmt.Sprintf("%s %s {%s}", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ","))
		if h := f.Metric[0].Histogram; h != nil {
			for _, b := range h.Bucket {
				line += fmt.Sprintf(" %g", b.GetUpperBound())
			}
			line += " +Inf"
		}
		out = append(out, line)
	}
	return out
}

func TestLint(t *testing.T) {
	t.Parallel()
	reg, _ := busy(t)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestCounts asks known queries and reads the numbers back, over a reload that makes observers anew.
func TestCounts(t *testing.T) {
	t.Parallel()
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{})
	for range 2 {
		b := observed(m, stockOptions)
		b.View = "inside"
		b.Observers = []server.Observer{m.Observer(stockOptions, b)}
		d := servertest.Direct(b)
		for range 10 {
			d.Answer(servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0)), servertest.Client, server.UDP)
		}
		d.Answer(servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeURI, 0).SetEdns0(1232, true)), servertest.Client, server.HTTPS)
	}
	const labels = `server="dns://:53",view="inside",zone="."`
	want := `
		# HELP coredns_dns_requests_total Queries by zone, transport, address family (1 for IPv4, 2 for IPv6) and type.
		# TYPE coredns_dns_requests_total counter
		coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="A",view="inside",zone="."} 20
		coredns_dns_requests_total{family="1",proto="tcp",server="dns://:53",type="other",view="inside",zone="."} 2
		# HELP coredns_dns_do_requests_total Queries with the DO bit set.
		# TYPE coredns_dns_do_requests_total counter
		coredns_dns_do_requests_total{` + labels + `} 2
		# HELP coredns_dns_responses_total Replies by response code and the directive that answered.
		# TYPE coredns_dns_responses_total counter
		coredns_dns_responses_total{plugin="kubernetes",rcode="NOERROR",` + labels + `} 22
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "coredns_dns_requests_total", "coredns_dns_do_requests_total",
		"coredns_dns_responses_total"); err != nil {
		t.Error(err)
	}
}

// verdict is a handler that always says the same.
type verdict server.Verdict

func (v verdict) Answer(*server.Reply, *server.Query) server.Verdict { return server.Verdict(v) }

// TestFailures: SERVFAIL by the server itself has no plugin, and a dropped query no reply.
func TestFailures(t *testing.T) {
	t.Parallel()
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{})
	for name, v := range map[string]verdict{"pass.": verdict(server.Pass), "drop.": verdict(server.Drop)} {
		b := servertest.Block(name, server.Stage{Name: "erratic", Handler: v})
		b.Observers = []server.Observer{m.Observer(stockOptions, b)}
		servertest.Direct(b).Answer(servertest.Pack(t, servertest.Query(name, dns.TypeA, 0)), servertest.Client, server.UDP)
	}
	want := `
		# HELP coredns_dns_responses_total Replies by response code and the directive that answered.
		# TYPE coredns_dns_responses_total counter
		coredns_dns_responses_total{plugin="",rcode="SERVFAIL",server="dns://:53",view="",zone="pass."} 1
		# HELP clusterdns_dns_dropped_total Queries that were left without a reply on purpose.
		# TYPE clusterdns_dns_dropped_total counter
		clusterdns_dns_dropped_total{server="dns://:53",view="",zone="drop."} 1
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "coredns_dns_responses_total", "clusterdns_dns_dropped_total"); err != nil {
		t.Error(err)
	}
}

// TestUnroutedQueries: those that no zone takes are counted under a zone that is none, on real sockets.
func TestUnroutedQueries(t *testing.T) {
	t.Parallel()
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{})
	s := server.New(server.DefaultLimits(), server.Hooks{})
	err := s.Apply([]server.Listener{{
		Host: "127.0.0.1", Port: "0",
		Blocks:   []*server.Block{servertest.Block("example.org.", server.Stage{Name: "x", Handler: answerA{}})},
		Unrouted: []server.Observer{m.Unrouted("dns://:53")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	addr := s.Addrs()["127.0.0.1:0"].String()
	r, err := dns.Exchange(servertest.Query("example.com.", dns.TypeAAAA, 0), addr)
	if err != nil || r.Rcode != dns.RcodeRefused {
		t.Errorf("want REFUSED, got %v %v", r, err)
	}
	bad := servertest.Query("example.org.", dns.TypeA, 0)
	bad.Opcode = dns.OpcodeStatus
	if r, err := dns.Exchange(bad, addr); err != nil || r.Rcode != dns.RcodeNotImplemented {
		t.Errorf("want NOTIMP, got %v %v", r, err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	want := `
		# HELP coredns_dns_responses_total Replies by response code and the directive that answered.
		# TYPE coredns_dns_responses_total counter
		coredns_dns_responses_total{plugin="",rcode="NOTIMP",server="dns://:53",view="",zone="dropped"} 1
		coredns_dns_responses_total{plugin="",rcode="REFUSED",server="dns://:53",view="",zone="dropped"} 1
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "coredns_dns_responses_total"); err != nil {
		t.Error(err)
	}
}

// TestHooks counts what the server tells of, on a real socket: panics, and the statuses of DNS over HTTPS.
func TestHooks(t *testing.T) {
	t.Parallel()
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{})
	s := server.New(server.DefaultLimits(), server.Hooks{
		Panic: func(any, []byte) { m.Panic() }, Limit: m.Limit, HTTPS: m.HTTPSResponse,
	})
	b := servertest.Block(".", server.Stage{Name: "x", Handler: verdict(server.Done)})
	b.Server = "https://:443"
	bad := servertest.Block("panic.", server.Stage{Name: "x", Handler: panics{}})
	if err := s.Apply([]server.Listener{{Host: "127.0.0.1", Port: "0", Transport: server.HTTPS, Blocks: []*server.Block{b, bad}}}); err != nil {
		t.Fatal(err)
	}
	var addr string
	for _, a := range s.Addrs() {
		addr = a.String()
	}
	for _, path := range []string{
		"/dns-query?dns=" + base64.RawURLEncoding.EncodeToString(servertest.Pack(t, servertest.Query("a.", dns.TypeA, 0))),
		"/dns-query?dns=" + base64.RawURLEncoding.EncodeToString(servertest.Pack(t, servertest.Query("panic.", dns.TypeA, 0))),
		"/dns-query?dns=%21", "/other",
	} {
		get(t, "http://"+addr+path, "application/dns-message")
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	want := `
		# HELP coredns_panics_total Panics that were recovered from.
		# TYPE coredns_panics_total counter
		coredns_panics_total 1
		# HELP coredns_dns_https_responses_total Responses to requests over HTTPS by status.
		# TYPE coredns_dns_https_responses_total counter
		coredns_dns_https_responses_total{server="https://:443",status="200"} 2
		coredns_dns_https_responses_total{server="https://:443",status="400"} 1
		coredns_dns_https_responses_total{server="https://:443",status="404"} 1
	`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "coredns_panics_total", "coredns_dns_https_responses_total"); err != nil {
		t.Error(err)
	}
}

// panics is a handler with a fault.
type panics struct{}

func (panics) Answer(*server.Reply, *server.Query) server.Verdict { panic("boom") }

// TestTypes: exactly the types that CoreDNS names have a label of their own.
func TestTypes(t *testing.T) {
	t.Parallel()
	named := map[string]bool{}
	for i := range 65536 {
		named[typeNames[typeNumber(wire.Type(i))]] = true
		if n := typeNumber(wire.Type(i)); n != 0 && typeNames[n] != wire.Type(i).String() {
			t.Errorf("type %d is counted as %s", i, typeNames[n])
		}
	}
	want := "A AAAA ANY AXFR CNAME DNSKEY DS HTTPS IXFR MX NS NSEC NSEC3 PTR RRSIG SOA SRV TXT other"
	if got := strings.Join(slices.Sorted(maps.Keys(named)), " "); got != want {
		t.Errorf("types are\n%s, want\n%s", got, want)
	}
}

// TestMoreDirectivesThanThereArePlaces: names beyond the bound are counted as nobody's, and no lookup runs forever.
func TestMoreDirectivesThanThereArePlaces(t *testing.T) {
	t.Parallel()
	n := names{list: []string{""}}
	var all []string
	for i := range 2 * maxNames {
		all = append(all, fmt.Sprint("directive", i))
	}
	numbers := n.with(all)
	for i, s := range all {
		got, ok := numbers.of(s)
		if want := i + 1; i < maxNames-1 && (!ok || got != want) {
			t.Errorf("%s has number %d %v, want %d", s, got, ok, want)
		}
	}
	if got := n.add("one more"); got != 0 {
		t.Errorf("a name beyond the bound has number %d, want 0", got)
	}
}

// TestScrape serves two blocks' metrics on one address, over a reload: text, OpenMetrics, and protobuf with native histograms.
func TestScrape(t *testing.T) {
	t.Parallel()
	_, m := busy(t)
	s := admin.New(quiet)
	t.Cleanup(func() { s.Shutdown(t.Context()) })
	o := Options{Address: "127.0.0.1:0"}
	route, err := m.Route(o, quiet)
	if err != nil {
		t.Fatal(err)
	}
	addr := ""
	for range 2 {
		if err := s.Apply([]admin.Route{route, route}); err != nil {
			t.Fatal(err)
		}
		if addr != "" && addr != s.Addr(o.Address) {
			t.Error("a reload bound the address again")
		}
		addr = s.Addr(o.Address)
	}
	for accept, want := range map[string]string{
		"": "text/plain", "application/openmetrics-text; version=1.0.0": "application/openmetrics-text",
	} {
		resp := get(t, "http://"+addr+Path, accept)
		if got := resp.Header.Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("Accept %q: Content-Type %q, want %q", accept, got, want)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || !strings.Contains(string(body), `coredns_dns_request_duration_seconds_bucket{server="dns://:53",view="",zone=".",le="0.00025"}`) {
			t.Errorf("Accept %q: no duration of requests in %s, %v", accept, body, err)
		}
	}
	resp := get(t, "http://"+addr+Path, "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	dec := expfmt.NewDecoder(resp.Body, expfmt.ResponseFormat(resp.Header))
	for {
		var f dto.MetricFamily
		if err := dec.Decode(&f); err != nil {
			t.Fatalf("no duration of requests in protobuf: %v", err)
		}
		if f.GetName() == "coredns_dns_request_duration_seconds" {
			if h := f.Metric[0].Histogram; len(h.PositiveSpan) == 0 || h.GetSchema() != schema || len(h.Bucket) != 16 {
				t.Errorf("not both native and classic: %v", h)
			}
			break
		}
	}
	if resp := get(t, "http://"+addr+"/", ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("/ is %s, want 404", resp.Status)
	}
}

func get(t *testing.T, url, accept string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestScrapeWhileCounting loses nothing: the sum over all scrapes' end is what was asked.
func TestScrapeWhileCounting(t *testing.T) {
	t.Parallel()
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{})
	b := observed(m, stockOptions)
	msg := servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0))
	const workers, each = 4, 2000
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			d := servertest.Direct(b)
			for range each {
				d.Answer(msg, servertest.Client, server.UDP)
			}
		})
	}
	for range 20 {
		if _, err := reg.Gather(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	h := durationsOf(t, reg)
	if h.GetSampleCount() != workers*each {
		t.Errorf("counted %d queries, want %d", h.GetSampleCount(), workers*each)
	}
}

func durationsOf(t *testing.T, reg *prom.Registry) *dto.Histogram {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "coredns_dns_request_duration_seconds" {
			return f.Metric[0].Histogram
		}
	}
	t.Fatal("no duration of requests")
	return nil
}

// TestRuntimeMetrics: the option exports more of Go's metrics, and once it did, a reload without it does not take them away.
func TestRuntimeMetrics(t *testing.T) {
	t.Parallel()
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{})
	has := func() bool {
		n, err := testutil.GatherAndCount(reg, "go_sched_latencies_seconds")
		if err != nil {
			t.Fatal(err)
		}
		return n > 0
	}
	if has() {
		t.Error("all of runtime/metrics without the option")
	}
	for range 2 {
		m.Apply(nil, Options{RuntimeMetrics: true})
		if !has() {
			t.Error("no scheduler latencies with the option")
		}
	}
	m.Apply(nil)
	if !has() {
		t.Error("a reload without the option took the metrics away")
	}
}
