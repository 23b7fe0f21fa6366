package prometheus

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/config/directive"
)

// input makes a directive of its words and the lines in its braces.
func input(words string, lines ...string) *directive.Input {
	line := func(s string, n int) directive.Line {
		var l directive.Line
		for i, w := range strings.Fields(s) {
			a := directive.Arg{Text: w, File: "Corefile", Line: n}
			if i == 0 {
				l.Name = a
			} else {
				l.Args = append(l.Args, a)
			}
		}
		return l
	}
	in := &directive.Input{Line: line(words, 1), Zones: []string{"."}, Root: "conf"}
	for i, s := range lines {
		in.HasBlock = true
		in.Lines = append(in.Lines, line(s, 2+i))
	}
	return in
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		in   *directive.Input
		want Options
		err  string
	}{
		{in: input("prometheus"), want: Options{Address: "localhost:9153"}},
		{in: input("prometheus :9153"), want: Options{Address: ":9153"}},
		{in: input("prometheus [::1]:9253"), want: Options{Address: "[::1]:9253"}},
		{in: input("prometheus", "runtime_metrics"), want: Options{Address: "localhost:9153", RuntimeMetrics: true}},
		{in: input("prometheus :9", "tls web.yml"), want: Options{Address: ":9", TLS: "conf/web.yml"}},
		{in: input("prometheus", "tls /etc/web.yml"), want: Options{Address: "localhost:9153", TLS: "/etc/web.yml"}},
		{in: input("prometheus", "clients"), want: Options{Address: "localhost:9153", Clients: 20}},
		{in: input("prometheus", "clients 7"), want: Options{Address: "localhost:9153", Clients: 7}},
		{in: input("prometheus /foo"), err: `Corefile:1: prometheus: "/foo" is not an address; write it like localhost:8080 or :8080`},
		{in: input("prometheus localhost"), err: `Corefile:1: prometheus: "localhost" is not an address`},
		{in: input("prometheus :99999"), err: `Corefile:1: prometheus: port 99999 of ":99999" is not within 0 and 65535`},
		{in: input("prometheus 9153"), err: `Corefile:1: prometheus: "9153" is a port alone; write :9153 for it on all addresses, or localhost:9153`},
		{in: input("prometheus localhost:http"), err: `Corefile:1: prometheus: "http" is not a port of "localhost:http"`},
		{in: input("prometheus 2001:db8::1:9153"), err: `is not an address`},
		{in: input("prometheus :1 :2"), err: `Corefile:1: prometheus: takes one address, found ":2" behind it`},
		{in: input("prometheus", "unknown"), err: `Corefile:2: prometheus: unknown option "unknown"; known are runtime_metrics, tls, clients`},
		{in: input("prometheus", "tls"), err: `needs more arguments: tls CONFIG_FILE`},
		{in: input("prometheus", "tls a b"), err: `takes no argument "b"`},
		{in: input("prometheus", "tls a", "tls b"), err: `appears more than once`},
		{in: input("prometheus", "runtime_metrics x"), err: `takes no argument "x"`},
		{in: input("prometheus", "clients 101"), err: `101 is not within 1 and 100`},
	} {
		got, err := Parse(tt.in)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%v: error %v, want %s", tt.in.Texts(), err, tt.err)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%v: %+v %v, want %+v", tt.in.Texts(), got, err, tt.want)
		}
	}
}

// TestPageNamesEveryOption reads the directive's page.
func TestPageNamesEveryOption(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/prometheus.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range Rows(input("prometheus")) {
		if want := "`" + strings.TrimSpace(o.Name+" "+o.Usage) + "`"; !strings.Contains(string(b), want) {
			t.Errorf("docs/prometheus.md does not mention %s", want)
		}
	}
}

// TestPageOfMetrics: docs/metrics.md has every metric that is exported here, with its labels.
func TestPageOfMetrics(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	reg, _ := busy(t)
	for _, shape := range shapes(t, reg) {
		f := strings.Fields(shape)
		if !strings.HasPrefix(f[0], "coredns_") && !strings.HasPrefix(f[0], "clusterdns_") {
			continue
		}
		want := "`" + f[0] + strings.ReplaceAll(f[2], "{}", "") + "`"
		if !strings.Contains(string(b), want) {
			t.Errorf("docs/metrics.md does not mention %s", want)
		}
	}
}

// TestPageOfMetricsIsWhole: docs/metrics.md has every metric whose whole name stands in a source file of the repository.
func TestPageOfMetricsIsWhole(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`"((?:coredns|clusterdns)_[a-z0-9_]*[a-z0-9])"`)
	count := 0
	for _, root := range []string{"cache", "cmd", "config", "forward", "kubernetes", "plugin", "server"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(p) != ".go" || strings.HasSuffix(p, "_test.go") {
				return err
			}
			b, err := os.ReadFile(p)
			for _, m := range name.FindAllSubmatch(b, -1) {
				count++
				if !regexp.MustCompile("`" + string(m[1]) + "[`{]").Match(page) {
					t.Errorf("docs/metrics.md does not mention %s of %s", m[1], p)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if count < 20 {
		t.Errorf("found only %d names: the walk does not reach the sources", count)
	}
}

// documented are the metrics that the pages of CoreDNS 1.14.7 list for the directives that exist here, those of QUIC aside, with the labels that it
// gives them (where a page leaves out view, or has a label that the program does not, the program counts).
const documented = `
coredns_acl_allowed_requests_total{server,view}
coredns_acl_blocked_requests_total{server,view,zone}
coredns_acl_dropped_requests_total{server,view,zone}
coredns_acl_filtered_requests_total{server,view,zone}
coredns_autopath_success_total{server}
coredns_build_info{goversion,revision,version}
coredns_cache_drops_total{server,view,zones}
coredns_cache_entries{server,type,view,zones}
coredns_cache_evictions_total{server,type,view,zones}
coredns_cache_hits_total{server,type,view,zones}
coredns_cache_misses_total{server,view,zones}
coredns_cache_prefetch_total{server,view,zones}
coredns_cache_requests_total{server,view,zones}
coredns_cache_served_stale_total{server,view,zones}
coredns_dns64_requests_translated_total{server}
coredns_dns_do_requests_total{server,view,zone}
coredns_dns_https_responses_total{server,status}
coredns_dns_request_duration_seconds{server,view,zone}
coredns_dns_request_size_bytes{proto,server,view,zone}
coredns_dns_requests_total{family,proto,server,type,view,zone}
coredns_dns_response_size_bytes{proto,server,view,zone}
coredns_dns_responses_total{plugin,rcode,server,view,zone}
coredns_forward_healthcheck_broken_total
coredns_forward_max_concurrent_rejects_total
coredns_health_request_duration_seconds
coredns_health_request_failures_total
coredns_hosts_entries
coredns_hosts_reload_timestamp_seconds
coredns_kubernetes_dns_programming_duration_seconds{service_kind}
coredns_kubernetes_rest_client_rate_limiter_duration_seconds{host,verb}
coredns_kubernetes_rest_client_request_duration_seconds{host,verb}
coredns_kubernetes_rest_client_requests_total{code,host,method}
coredns_local_localhost_requests_total
coredns_panics_total
coredns_plugin_enabled{name,server,view,zone}
coredns_proxy_conn_cache_hits_total{proto,proxy_name,to}
coredns_proxy_conn_cache_misses_total{proto,proxy_name,to}
coredns_proxy_healthcheck_failures_total{proxy_name,to}
coredns_proxy_request_duration_seconds{proxy_name,rcode,to}
coredns_reload_failed_total
coredns_reload_version_info{hash,value}
coredns_template_matches_total{class,server,type,view,zone}
coredns_template_rr_failures_total{class,section,server,template,type,view,zone}
coredns_template_template_failures_total{class,section,server,template,type,view,zone}
`

// TestPageOfMetricsIsCoreDNS: what bears CoreDNS's name is CoreDNS's, and all of that is there.
func TestPageOfMetricsIsCoreDNS(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	known := strings.Fields(documented)
	for _, m := range regexp.MustCompile("(?m)^\\| `(coredns_[^`]*)` \\|").FindAllSubmatch(page, -1) {
		i := slices.Index(known, string(m[1]))
		if i < 0 {
			t.Errorf("docs/metrics.md has %s, which is none of CoreDNS's", m[1])
			continue
		}
		known = slices.Delete(known, i, i+1)
	}
	if len(known) > 0 {
		t.Errorf("docs/metrics.md does not have %q", known)
	}
}
