package config_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// under is an instance under test with its Corefile.
type under struct {
	*config.Instance
	t    *testing.T
	path string
	log  *strings.Builder // complete once the instance has stopped
}

// instance makes one that serves nothing yet, and stops it when the test ends.
func instance(t *testing.T) *under {
	t.Helper()
	u := &under{t: t, path: filepath.Join(t.TempDir(), "Corefile"), log: new(strings.Builder)}
	u.Instance = config.NewInstance(config.NewShared(u.log, prometheus.Build{Version: "test"}), "0")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := u.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", u.log)
		}
	})
	return u
}

func (u *under) write(text string) {
	u.t.Helper()
	if err := os.WriteFile(u.path, []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

func (u *under) start(text string) {
	u.t.Helper()
	u.write(text)
	if err := u.tryStart(); err != nil {
		u.t.Fatal(err)
	}
}

func (u *under) tryStart() error {
	src, err := config.ReadSource(u.path)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return u.Start(ctx, src)
}

func (u *under) reload(text string) error {
	u.t.Helper()
	u.write(text)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return u.Reload(ctx)
}

// ask asks the server on 127.0.0.1.
func (u *under) ask(name string, typ uint16) *dns.Msg {
	u.t.Helper()
	addr, ok := u.Addrs()["127.0.0.1:0"]
	if !ok {
		u.t.Fatalf("not served on 127.0.0.1: %v", u.Addrs())
	}
	c := dns.Client{Timeout: patience}
	r, _, err := c.Exchange(servertest.Query(name, typ, 1232), addr.String())
	if err != nil {
		u.t.Fatal(err)
	}
	return r
}

// get is an HTTP request to an address that the Corefile names.
func (u *under) get(addr, path string) (status int, body string) {
	u.t.Helper()
	r, err := http.Get("http://" + u.HTTPAddr(addr) + path)
	if err != nil {
		u.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		u.t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// counting is an upstream that knows every name, and how often it was asked.
func counting(t *testing.T) (addr string, asked *atomic.Int64) {
	asked = new(atomic.Int64)
	return servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		asked.Add(1)
		r := new(dns.Msg)
		r.SetReply(q)
		r.RecursionAvailable = true
		if q.Question[0].Qtype == dns.TypeA {
			r.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 300}, A: net.IPv4(192, 0, 2, 1)}}
		}
		_ = w.WriteMsg(r)
	}), asked
}

func TestReloadKeepsWhatDidNotChange(t *testing.T) {
	t.Parallel()
	addr, asked := counting(t)
	with := func(cache, more string) string {
		return ". {\n    bind 127.0.0.1\n    " + cache + "\n    forward . " + addr + "\n" + more + "}\n"
	}
	u := instance(t)
	u.start(with("cache 30", ""))
	u.ask("example.org", dns.TypeA)
	before := asked.Load()
	for _, more := range []string{"    debug\n", "    errors\n    loadbalance\n", "    log\n"} {
		if err := u.reload(with("cache 30", more)); err != nil {
			t.Fatal(err)
		}
		if r := u.ask("example.org", dns.TypeA); len(r.Answer) != 1 {
			t.Fatal(r)
		}
	}
	if n := asked.Load(); n != before {
		t.Errorf("the upstream was asked %d times more after reloads that left the cache alone", n-before)
	}
	if err := u.reload(with("cache 60", "")); err != nil {
		t.Fatal(err)
	}
	u.ask("example.org", dns.TypeA)
	if n := asked.Load(); n == before {
		t.Error("a cache with other options has the answers of the one before")
	}
}

// TestUpstreamInLog: the label forward/upstream says who answered: of two upstreams the one that did, and nobody where none was asked, or where all failed.
func TestUpstreamInLog(t *testing.T) {
	t.Parallel()
	good, _ := counting(t)
	refusing := servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(q, dns.RcodeRefused)) })
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	u := instance(t)
	u.start(`. {
    bind 127.0.0.1
    metadata
    log . "logged {name} {rcode} {/forward/upstream}"
    forward . ` + refusing + " " + good + ` {
        policy sequential
        failover REFUSED
    }
    forward refused.org ` + refusing + `
    forward down.org ` + closed.LocalAddr().String() + `
    cache
}
`)
	for _, n := range []string{"www.example.org.", "www.example.org.", "www.refused.org.", "www.down.org."} {
		u.ask(n, dns.TypeA)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := u.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(u.log.String()) {
		if _, text, ok := strings.Cut(line, "logged "); ok {
			got = append(got, strings.TrimSpace(text))
		}
	}
	slices.Sort(got) // workers write their lines each for itself
	want := []string{"www.down.org. SERVFAIL -", "www.example.org. NOERROR -", "www.example.org. NOERROR " + good, "www.refused.org. REFUSED " + refusing}
	if !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
}

const manifest = `apiVersion: v1
kind: Namespace
metadata: {name: prod}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: prod}
spec: {clusterIP: 10.96.0.7, clusterIPs: [10.96.0.7], ports: [{name: http, port: 80}]}
`

func TestCluster(t *testing.T) {
	t.Parallel()
	u := instance(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(u.path), "cluster.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	text := func(more string) string {
		return ". {\n    bind 127.0.0.1\n    kubernetes cluster.local {\n        manifests cluster.yaml\n    }\n    ready 127.0.0.1:0\n" + more + "}\n"
	}
	u.start(text(""))
	if r := u.ask("web.prod.svc.cluster.local", dns.TypeA); len(r.Answer) != 1 {
		t.Fatal(r)
	}
	if status, _ := u.get("127.0.0.1:0", "/ready"); status != http.StatusOK {
		t.Errorf("ready is %d", status)
	}
	bad := strings.Replace(text(""), "cluster.yaml", "nowhere.yaml", 1)
	if err := u.reload(bad); err == nil || !strings.Contains(err.Error(), "nowhere.yaml") {
		t.Errorf("a reload with manifests that do not exist: %v", err)
	}
	if r := u.ask("web.prod.svc.cluster.local", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("after a reload that failed: %v", r)
	}
	if err := u.reload(text("    whoami\n")); err != nil {
		t.Fatal(err)
	}
	if r := u.ask("web.prod.svc.cluster.local", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("after a reload: %v", r)
	}
}

// TestClusterOutOfReach reads from an API server that does not answer: a start goes on without, a reload does not take what has data away.
func TestClusterOutOfReach(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	text := ". {\n    bind 127.0.0.1\n    kubernetes cluster.local {\n        endpoint http://" + silent.Addr().String() + "\n        startup_timeout 100ms\n    }\n}\n"
	u := instance(t)
	u.start(text)
	if r := u.ask("web.prod.svc.cluster.local", dns.TypeA); r.Rcode != dns.RcodeServerFailure {
		t.Errorf("before the first sync: %v", r)
	}

	with := instance(t)
	if err := os.WriteFile(filepath.Join(filepath.Dir(with.path), "cluster.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	with.start(". {\n    bind 127.0.0.1\n    kubernetes cluster.local {\n        manifests cluster.yaml\n    }\n}\n")
	if err := with.reload(text); err == nil || !strings.Contains(err.Error(), "kubernetes: no data could be read in time") {
		t.Errorf("a reload that would lose the cluster: %v", err)
	}
	if r := with.ask("web.prod.svc.cluster.local", dns.TypeA); len(r.Answer) != 1 {
		t.Errorf("after a reload that failed: %v", r)
	}
}

func TestStartFails(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	for name, c := range map[string]struct{ text, says string }{
		"manifests that do not exist": {". {\n    kubernetes cluster.local {\n        manifests nowhere.yaml\n    }\n}\n", "nowhere.yaml"},
		"an HTTP address in use":      {". {\n    bind 127.0.0.1\n    health " + taken.Addr().String() + "\n}\n", taken.Addr().String()},
		"a file of TLS":               {". {\n    bind 127.0.0.1\n    forward . tls://127.0.0.1 {\n        tls nowhere.pem nowhere.key\n    }\n}\n", "nowhere.pem"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := instance(t)
			u.write(c.text)
			if err := u.tryStart(); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
		})
	}
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	u := instance(t)
	u.start(". {\n    bind 127.0.0.1\n    health 127.0.0.1:0\n    whoami\n    reload\n    prometheus 127.0.0.1:0\n    pprof 127.0.0.1:0\n}\n")
	if status, body := u.get("127.0.0.1:0", "/health"); status != http.StatusOK || body != "OK" {
		t.Errorf("health: %d %q", status, body)
	}
	u.ask("example.org", dns.TypeA)
	metrics := func() string {
		status, body := u.get("127.0.0.1:0", "/metrics")
		if status != http.StatusOK {
			t.Fatalf("metrics: %d", status)
		}
		return body
	}
	first := metrics()
	for _, want := range []string{
		`coredns_dns_requests_total{family="1",proto="udp",server="dns://127.0.0.1:0",type="A",view="",zone="."} 1`,
		`coredns_plugin_enabled{name="whoami",server="dns://127.0.0.1:0",view="",zone="."} 1`,
		`coredns_build_info{goversion=`, `coredns_reload_failed_total 0`, `coredns_reload_version_info{hash="sha512",value="`, `coredns_panics_total 0`,
	} {
		if !strings.Contains(first, want) {
			t.Errorf("metrics have no %s:\n%s", want, first)
		}
	}
	if err := u.reload(". {\n    whomi\n}\n"); err == nil {
		t.Error("an unknown directive was taken")
	}
	if got := metrics(); !strings.Contains(got, "coredns_reload_failed_total 1") {
		t.Error("the failed reload was not counted")
	}
}

func TestLameduck(t *testing.T) {
	t.Parallel()
	u := instance(t)
	u.start(". {\n    bind 127.0.0.1\n    health 127.0.0.1:0 {\n        lameduck 1s\n    }\n    ready 127.0.0.1:0\n    whoami\n}\n")
	if status, _ := u.get("127.0.0.1:0", "/ready"); status != http.StatusOK {
		t.Fatalf("ready is %d", status)
	}
	stopped := make(chan error, 1)
	began := time.Now()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- u.Stop(ctx)
	}()
	for gone := false; !gone; { // it may take a moment until Stop has begun
		status, _ := u.get("127.0.0.1:0", "/ready")
		gone = status == http.StatusServiceUnavailable
		if time.Since(began) > patience {
			t.Fatal("ready stays")
		}
	}
	for time.Since(began) < 2*time.Second { // longer than the lameduck time: queries still arrive
		if r := u.ask("example.org", dns.TypeA); r.Rcode != dns.RcodeSuccess {
			t.Fatal(r)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took < 2*time.Second || took > patience {
		t.Errorf("it stopped after %s", took)
	}
}
