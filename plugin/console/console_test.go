package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/console"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// cluster is a small one.
type cluster struct{ services []console.Service }

func (c cluster) Zones() []string { return []string{"cluster.local."} }
func (c cluster) Source() string  { return "a test" }
func (c cluster) Ready() bool     { return true }
func (c cluster) Stale() bool     { return false }
func (c cluster) Namespaces() int { return 2 }

func (c cluster) Services() (out []console.ServiceName) {
	for _, s := range c.services {
		out = append(out, s.ServiceName)
	}
	return out
}

func (c cluster) Service(n console.ServiceName) (console.Service, bool) {
	for _, s := range c.services {
		if s.ServiceName == n {
			return s, true
		}
	}
	return console.Service{}, false
}

func named(namespace, name string) console.ServiceName {
	return console.ServiceName{Namespace: namespace, Name: name}
}

// demo has a Service in each state.
var demo = cluster{[]console.Service{
	{ServiceName: named("prod", "web"), Type: "ClusterIP", Addresses: []string{"10.96.0.1"}, Ports: []string{"http 80/TCP"}, Ready: 2, Endpoints: 2},
	{ServiceName: named("prod", "slow"), Type: "Headless", Ready: 1, Endpoints: 3},
	{ServiceName: named("prod", "sick"), Type: "ClusterIP", Endpoints: 1, Published: true},
	{ServiceName: named("test", "none"), Type: "NodePort"},
	{ServiceName: named("test", "out"), Type: "ExternalName", External: "www.example.org"},
}}

// fixture is what serves the page at an address.
func fixture(address string, m *console.Monitor, d console.Deps) http.Handler {
	mux := http.NewServeMux()
	for _, r := range console.New(console.Options{Address: address}, m, d).Routes() {
		mux.Handle(r.Path, r.Handler)
	}
	return mux
}

func empty() *console.Monitor { return console.NewMonitor(prom.NewRegistry()) }

// standard is a page with the small cluster.
func standard() http.Handler {
	return fixture(console.DefaultAddress, empty(), console.Deps{
		Version: "v1", State: func() console.State {
			return console.State{Clusters: []console.Cluster{demo}, Zones: []console.Zone{{Name: ".", Listener: "dns://:53", Directives: []string{"kubernetes"}}}}
		},
		Explain: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			switch {
			case q.Get("name") == "bad":
				http.Error(w, `"bad" cannot be a name`, http.StatusBadRequest)
			case q.Get("o") == "json":
				_ = json.NewEncoder(w).Encode(map[string]any{"name": q.Get("name"), "from": q.Get("from"), "ndots": 5,
					"verdict": map[string]any{"kind": "absent", "summary": "no <such> name"}})
			default:
				_, _ = io.WriteString(w, "in plain words")
			}
		}),
		Dump: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "kind: Namespace") }),
	})
}

// get asks with the headers given as "Name: value"; Host is one of them.
func get(t *testing.T, h http.Handler, target string, headers ...string) (status int, body string, header http.Header) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
	r.Host = "127.0.0.1:8053"
	for _, s := range headers {
		name, value, _ := strings.Cut(s, ": ")
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String(), w.Header()
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ args, want string }{
		{"", "127.0.0.1:8053"},
		{":80", ":80"},
		{"[::1]:8053", "[::1]:8053"},
		{"8053", `error: Corefile:1: console: "8053" is a port alone; write :8053 for it on all addresses, or localhost:8053`},
	} {
		o, err := console.Parse(plugintest.Input(t, "console "+c.args))
		got := o.Address
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != c.want {
			t.Errorf("console %s: %s, want %s", c.args, got, c.want)
		}
	}
}

// TestHosts: a page on the web whose name resolves to this server gets nothing.
func TestHosts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		address string
		served  string
		refused string
	}{
		{"127.0.0.1:8053", "127.0.0.1:8053 127.8.9.10 [::1]:8053 localhost localhost:99 LOCALHOST. page.localhost", "evil.example 192.0.2.1 127.0.0.1.evil.example localhost.evil.example [2001:db8::1]:80"},
		{"192.0.2.1:80", "192.0.2.1 localhost", "192.0.2.2 evil.example"},
		{"console.example:80", "console.example:80 Console.Example", "evil.example 192.0.2.1"},
		{":8053", "192.0.2.1:8053 [2001:db8::1]:8053 localhost", "evil.example console"},
		{"0.0.0.0:8053", "192.0.2.1:8053", "evil.example"},
	} {
		given := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "all of it") })
		h := fixture(c.address, empty(), console.Deps{State: func() console.State { return console.State{} }, Explain: given, Dump: given})
		for want, hosts := range map[int]string{http.StatusOK: c.served, http.StatusMisdirectedRequest: c.refused} {
			for _, host := range strings.Fields(hosts) {
				for _, path := range []string{"/", "/services", "/live.json", "/style.css", "/explain?name=x", "/ndots", "/dump"} {
					got, body, _ := get(t, h, path, "Host: "+host)
					if got != want || want != http.StatusOK && strings.Contains(body, "all of it") {
						t.Errorf("console %s, Host %s, %s: status %d, want %d", c.address, host, path, got, want)
					}
				}
			}
		}
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	h := standard()
	for _, path := range []string{"/", "/services", "/explain", "/ndots", "/dump", "/live.json", "/style.css", "/console.js", "/icon.svg"} {
		status, _, header := get(t, h, path, "Accept: text/html")
		csp := header.Get("Content-Security-Policy")
		if status != http.StatusOK || !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: status %d, policy %q, headers %v", path, status, csp, header)
		}
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete} {
			r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
			r.Host = "localhost"
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: status %d", method, path, w.Code)
			}
		}
	}
	for _, c := range []struct {
		path, site, mode string
		want             int
	}{
		{"/", "cross-site", "navigate", http.StatusOK}, // a link that somebody followed
		{"/", "cross-site", "no-cors", http.StatusForbidden},
		{"/ndots?names=x", "cross-site", "navigate", http.StatusForbidden},
		{"/explain?name=x", "same-site", "no-cors", http.StatusForbidden},
		{"/dump", "cross-site", "no-cors", http.StatusForbidden},
		{"/dump", "cross-site", "navigate", http.StatusForbidden},
		{"/explain?name=x", "same-origin", "navigate", http.StatusOK},
		{"/explain?name=x", "none", "navigate", http.StatusOK}, // typed
	} {
		if got, _, _ := get(t, h, c.path, "Sec-Fetch-Site: "+c.site, "Sec-Fetch-Mode: "+c.mode); got != c.want {
			t.Errorf("%s from %s, %s: status %d, want %d", c.path, c.site, c.mode, got, c.want)
		}
	}
	if status, _, _ := get(t, h, "/services?q="+strings.Repeat("x", 9000)); status != http.StatusRequestURITooLong {
		t.Errorf("a query of 9000 letters: status %d", status)
	}
	if status, _, _ := get(t, h, "/nothing"); status != http.StatusNotFound {
		t.Errorf("/nothing: status %d", status)
	}
}

func TestServices(t *testing.T) {
	t.Parallel()
	h := standard()
	for _, c := range []struct {
		query string
		want  string // Services, in order
		words string
	}{
		{"", "web slow sick none out", "5 Services."},
		{"q=PROD", "web slow sick", "3 of 5 Services match."},
		{"q=prod+headless", "slow", "1 of 5"},
		{"q=web.prod", "web", "1 of 5"},
		{"q=10.96", "web", "1 of 5"},
		{"q=example.org", "out", "1 of 5"},
		{"state=not+ready", "sick", "1 of 5"},
		{"state=no+endpoints", "none", "1 of 5"},
		{"state=partly+ready", "slow", "1 of 5"},
		{"state=nonsense&q=80/tcp", "web", "1 of 5"},
		{"q=nothing", "", "0 of 5"},
	} {
		status, body, _ := get(t, h, "/services?"+c.query)
		var got []string
		for _, part := range strings.Split(body, `<th scope="row">`)[1:] {
			name, _, _ := strings.Cut(part, "<")
			got = append(got, name)
		}
		if status != http.StatusOK || strings.Join(got, " ") != c.want || !strings.Contains(body, c.words) {
			t.Errorf("%s: status %d, %q, want %s and %q", c.query, status, got, c.want, c.words)
		}
	}
	_, body, _ := get(t, h, "/services?q=sick")
	for _, want := range []string{"not ready", "0 of 1", "published anyway", "explain?name=sick.prod&amp;from=prod"} {
		if !strings.Contains(body, want) {
			t.Errorf("the row does not say %q", want)
		}
	}
}

// TestNoAge: where nobody says how old the data is, the page does not either.
func TestNoAge(t *testing.T) {
	t.Parallel()
	if _, body, _ := get(t, standard(), "/"); strings.Contains(body, "known to be current") {
		t.Error("an age that nobody knows is shown")
	}
}

// TestManyServices: a page has a bounded number of rows, and says so.
func TestManyServices(t *testing.T) {
	t.Parallel()
	var many cluster
	for i := range 1000 {
		many.services = append(many.services, console.Service{ServiceName: named("prod", fmt.Sprintf("s%03d", i)), Type: "ClusterIP"})
	}
	h := fixture(console.DefaultAddress, empty(), console.Deps{State: func() console.State { return console.State{Clusters: []console.Cluster{many}} }})
	_, body, _ := get(t, h, "/services")
	if n := strings.Count(body, `<th scope="row">`); n != 200 || !strings.Contains(body, "1000 of 1000 Services match; the first 200 are shown.") {
		t.Errorf("%d rows", n)
	}
}

// TestEscapes: what comes from the cluster or the address bar is text, wherever it stands.
func TestEscapes(t *testing.T) {
	t.Parallel()
	const evil = `"'><script>alert(1)</script>`
	bad := cluster{[]console.Service{{ServiceName: named(evil, evil), Type: evil, Addresses: []string{evil}, Ports: []string{evil}, Endpoints: 1}}}
	h := fixture(console.DefaultAddress, empty(), console.Deps{Version: evil, State: func() console.State {
		return console.State{Clusters: []console.Cluster{bad}, DNS: "127.0.0.1:1", Zones: []console.Zone{{Name: evil, Listener: evil, View: evil, Directives: []string{evil}, State: evil, Why: evil}},
			Upstreams: []console.Upstream{{Zone: evil, Address: evil, State: evil, Why: evil}}}
	}, Explain: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": evil, "from": evil, "search": []string{evil}, "next": []string{evil},
			"service": map[string]any{"namespace": evil, "name": evil, "type": evil, "selector": evil, "addresses": []string{evil},
				"ports":          []any{map[string]any{"name": evil, "protocol": evil, "targetPort": evil, "problem": evil}},
				"endpointSlices": []any{map[string]any{"name": evil, "endpoints": []any{map[string]any{"address": evil, "hostname": evil, "pod": evil, "node": evil, "why": evil}}}}},
			"verdict":    map[string]any{"kind": evil, "summary": evil, "notes": []string{evil}},
			"candidates": []any{map[string]any{"name": evil, "outcome": evil, "answers": []any{map[string]any{"type": evil, "records": []string{evil}, "reasons": []string{evil}, "by": evil}}}}})
	})})
	e := url.QueryEscape(evil)
	for _, path := range []string{"/", "/services", "/services?q=" + e + "&state=" + e, "/explain?name=" + e + "&from=" + e + "&ndots=" + e, "/ndots?names=" + e + "&from=" + e + "&resolver=" + e + "&delay=" + e} {
		_, body, _ := get(t, h, path, "Accept: text/html")
		if strings.Contains(body, "<script>") || strings.Contains(body, `"'>`) || !strings.Contains(body, "alert(1)") {
			t.Errorf("%s: not escaped:\n%s", path, body)
		}
	}
	// What the script fetches is no page, whoever opens it.
	if _, body, header := get(t, h, "/live.json"); header.Get("Content-Type") != "application/json" || header.Get("X-Content-Type-Options") != "nosniff" || strings.Contains(body, "<script>") {
		t.Errorf("/live.json: %v\n%s", header, body)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	h := standard()
	for _, c := range []struct {
		path, accept string
		status       int
		want         string
	}{
		{"/explain?name=web", "*/*", http.StatusOK, "in plain words"},
		{"/explain?name=web&o=json", "text/html", http.StatusOK, `"kind":"absent"`},
		{"/explain?name=web&o=text", "text/html", http.StatusOK, "in plain words"},
		{"/explain?name=web&from=prod", "text/html,*/*", http.StatusOK, "no &lt;such&gt; name"},
		{"/explain?name=bad", "text/html", http.StatusBadRequest, "cannot be a name"},
		{"/explain?name=bad", "", http.StatusBadRequest, "cannot be a name"},
		{"/explain", "text/html", http.StatusOK, "Name, as the client writes it"},
	} {
		status, body, _ := get(t, h, c.path, "Accept: "+c.accept)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s for %s: status %d, want %d and %q:\n%s", c.path, c.accept, status, c.status, c.want, body)
		}
	}
	none := fixture(console.DefaultAddress, empty(), console.Deps{State: func() console.State { return console.State{} }})
	if status, body, _ := get(t, none, "/explain?name=web", "Accept: text/html"); status != http.StatusNotFound || !strings.Contains(body, "cannot be explained here") {
		t.Errorf("without an explainer: status %d", status)
	}
}

// TestDump: one at a time, as many as one wants after one another, and none where there is nothing to give.
func TestDump(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	h := fixture(console.DefaultAddress, empty(), console.Deps{State: func() console.State { return console.State{} }, Dump: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("anonymize") {
			entered <- struct{}{}
			<-leave
		}
		_, _ = io.WriteString(w, "kind: Namespace")
	})})
	done := make(chan int)
	go func() {
		status, _, _ := get(t, h, "/dump?anonymize=true")
		done <- status
	}()
	<-entered
	if status, body, _ := get(t, h, "/dump"); status != http.StatusTooManyRequests || !strings.Contains(body, "another dump") {
		t.Errorf("a second dump at a time: status %d, %q", status, body)
	}
	close(leave)
	if status := <-done; status != http.StatusOK {
		t.Errorf("the first: status %d", status)
	}
	if status, body, header := get(t, h, "/dump"); status != http.StatusOK || body != "kind: Namespace" || header.Get("Cache-Control") != "no-store" {
		t.Errorf("the next: status %d, %q, %v", status, body, header)
	}
	none := fixture(console.DefaultAddress, empty(), console.Deps{State: func() console.State { return console.State{} }})
	if status, _, _ := get(t, none, "/dump"); status != http.StatusNotFound {
		t.Errorf("where there is nothing to give: status %d", status)
	}
}

// TestExperiment looks a name up at a scripted server.
func TestExperiment(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 100), make(chan struct{})
	addr := servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		switch name := q.Question[0].Name; {
		case name == "stuck.":
			entered <- struct{}{}
			<-leave
		case name != "api.example.com.":
			m.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			rr, _ := dns.NewRR(name + " 30 IN A 192.0.2.1")
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})
	h := fixture(console.DefaultAddress, empty(), console.Deps{State: func() console.State {
		return console.State{Clusters: []console.Cluster{demo}, DNS: addr}
	}})
	status, body, _ := get(t, h, "/ndots?names=api.example.com")
	for _, want := range []string{"ndots:2 is best", "api.example.com.default.svc.cluster.local.", `class="nx"`, `class="nodata"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the page does not have %q", want)
		}
	}
	if n := strings.Count(body, "<li><span class=\"mono\"><b>A</b>"); status != http.StatusOK || n != 1+1+4+4+4 {
		t.Errorf("status %d, %d questions for A, want 14", status, n)
	}
	for query, want := range map[string]string{
		"names=+,+":                "between 1 and 6 names",
		"names=a+b+c+d+e+f+g":      "not 7",
		"names=a..b":               "cannot be a name",
		"names=x&resolver=bionic":  "known are glibc, musl, go",
		"names=x&delay=10m":        "one of 0ms",
		"names=x&from=a.b":         "cannot be a namespace",
		"names=x&from=" + "%C3%A4": "ndots", // any byte may be in a name
	} {
		if status, body, _ := get(t, h, "/ndots?"+query); !strings.Contains(body, want) || status == http.StatusInternalServerError {
			t.Errorf("%s: status %d, the page does not say %q", query, status, want)
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		get(t, h, "/ndots?names=stuck.")
	}()
	<-entered
	if status, body, _ := get(t, h, "/ndots?names=api.example.com"); status != http.StatusTooManyRequests || !strings.Contains(body, "another experiment") {
		t.Errorf("a second experiment at a time: status %d", status)
	}
	close(leave)
	<-done
}

// TestRates: what the page says is what happened in the last seconds.
func TestRates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prom.NewRegistry()
		queries := prometheus.NewMetrics(reg, prometheus.Build{})
		entries := prom.NewGaugeVec(prom.GaugeOpts{Name: "coredns_cache_entries"}, []string{"server", "type", "zones", "view"})
		ages := prom.NewGaugeVec(prom.GaugeOpts{Name: "clusterdns_kubernetes_data_age_seconds"}, []string{"source"})
		reg.MustRegister(entries, ages)
		ages.WithLabelValues("https://192.0.2.3").Set(65)
		ages.WithLabelValues("manifests").Set(1)
		entries.WithLabelValues("dns://:53", "success", ".", "").Set(1500)
		b := servertest.Block(".")
		b.Observers = []server.Observer{queries.Observer(prometheus.Options{}, b)}
		direct := servertest.Direct(b)
		ask := servertest.Pack(t, servertest.Query("a.example.", dns.TypeA, 0))
		m := console.NewMonitor(reg)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = m.Run(ctx) }()
		synctest.Wait()
		for range 10 {
			time.Sleep(time.Second / 2) // so that no query is on the tick of a sample
			for range 50 {
				direct.Answer(ask, netip.MustParseAddrPort("127.0.0.1:5"), server.UDP)
			}
			time.Sleep(time.Second / 2)
		}
		h := fixture(console.DefaultAddress, m, console.Deps{State: func() console.State {
			return console.State{Clusters: []console.Cluster{demo}, Zones: []console.Zone{{Name: ".", Listener: "dns://:53", State: "no upstream", Why: "none of them can be asked"}},
				Upstreams: []console.Upstream{{Zone: ".", Address: "192.0.2.1:53", State: "suspended", Why: "leads back"}, {Zone: ".", Address: "192.0.2.2:53", State: "up"}}}
		}})
		_, body, _ := get(t, h, "/live.json")
		var live struct {
			Values, Charts map[string]string
		}
		if err := json.Unmarshal([]byte(body), &live); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]string{
			"rate": "50", "requests": "500", "rcode.REFUSED.rate": "50", "nxdomain": "0 %", "directive..total": "500",
			"cache...entries": "1\u202f500", "cluster.0.services": "5", "cluster.0.endpoints": "3 of 6", "cluster.0.unready": "2", "cluster.0.state": "ready",
			"upstream.0.state": "suspended", "upstream.0.why": "leads back", "upstream.1.state": "up", "upstream.1.why": "",
			"zone.0.state": "no upstream", "zone.0.why": "none of them can be asked", "age": "1 min 5 s",
		} {
			if live.Values[key] != want {
				t.Errorf("%s is %q, want %q", key, live.Values[key], want)
			}
		}
		if live.Values["p50"] == "–" || len(strings.Fields(live.Charts["rate"])) != 2 {
			t.Errorf("p50 %s, chart %q", live.Values["p50"], live.Charts["rate"])
		}
		_, page, _ := get(t, h, "/")
		for _, want := range []string{`data-value="rate">50<`, "192.0.2.1:53", `class="badge suspended"`, `class="badge no-upstream"`, "leads back", "1\u202f500"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not have %q", want)
			}
		}
		cancel()
		synctest.Wait()
	})
}
