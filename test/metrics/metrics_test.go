//go:build unix

// Package metrics holds the test that dashboards, alerts and rules written for CoreDNS find what they look for: a whole server with the
// Corefile of a kubeadm cluster is scraped as Prometheus does it.
package metrics_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/process"
)

// patience bounds every wait for something to happen.
const patience = 30 * time.Second

// kubeadm is the Corefile that kubeadm installs, but for ports, the API server and the upstream.
const kubeadm = `.:%[1]s {
    bind 127.0.0.1
    errors
    health 127.0.0.1:0 {
       lameduck 5s
    }
    ready 127.0.0.1:0
    kubernetes cluster.local in-addr.arpa ip6.arpa {
       kubeconfig %[2]s
       pods insecure
       fallthrough in-addr.arpa ip6.arpa
       ttl 30
    }
    prometheus 127.0.0.1:%[3]s
    forward . %[4]s {
       max_concurrent 1000
    }
    cache 30 {
       disable success cluster.local
       disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
`

// scrape gives the metrics of the server in the form that accept asks for.
func scrape(t *testing.T, url string, accept expfmt.Format) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", string(accept))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil // it may not serve yet
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, res.Status, err)
	}
	return b
}

// families are the metrics by name, native histograms included.
func families(t *testing.T, url string) map[string]*dto.MetricFamily {
	t.Helper()
	format := expfmt.NewFormat(expfmt.TypeProtoDelim)
	dec, all := expfmt.NewDecoder(bytes.NewReader(scrape(t, url, format)), format), map[string]*dto.MetricFamily{}
	for {
		f := &dto.MetricFamily{}
		err := dec.Decode(f)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all[f.GetName()] = f
	}
}

// shape is a metric as the list writes it: name, type, labels, buckets.
func shape(f *dto.MetricFamily) string {
	var labels []string
	for _, l := range f.Metric[0].Label {
		labels = append(labels, l.GetName())
	}
	slices.Sort(labels)
	line := fmt.Sprintf("%s %s {%s}", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ","))
	if h := f.Metric[0].Histogram; h != nil {
		for _, b := range h.Bucket {
			line += fmt.Sprintf(" %g", b.GetUpperBound())
		}
		line = strings.TrimSuffix(line, " +Inf") + " +Inf"
	}
	return line
}

// list is what a stock CoreDNS exports, a line a metric.
func list(t *testing.T) (lines []string) {
	t.Helper()
	f, err := os.Open("../conformance/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if l := sc.Text(); l != "" && !strings.HasPrefix(l, "#") {
			lines = append(lines, l)
		}
	}
	if len(lines) < 20 {
		t.Fatalf("the list has %d lines only", len(lines))
	}
	return lines
}

func service(name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
		ClusterIP: ip, ClusterIPs: []string{ip}, Selector: map[string]string{"app": name}}}
}

func slice(service, addr string, changed time.Time) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: service + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: service},
			Annotations: map[string]string{corev1.EndpointsLastChangeTriggerTime: changed.Format(time.RFC3339Nano)}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{addr}}},
	}
}

// server is the program at work.
type server struct{ addr, url string }

func start(t *testing.T, api *kubetest.Server, upstream string) server {
	t.Helper()
	dir, port, metrics := t.TempDir(), process.FreePort(t), process.FreePort(t)
	bin, conf := process.Build(t), filepath.Join(dir, "Corefile")
	text := fmt.Sprintf(kubeadm, port, api.Kubeconfig("", kubetest.Token), metrics, upstream)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd := exec.Command(bin, "-conf", conf)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server said:\n%s", &out)
		}
	})
	return server{"127.0.0.1:" + port, "http://127.0.0.1:" + metrics + "/metrics"}
}

// ask asks until there is a reply.
func (s server) ask(t *testing.T, network, name string, typ uint16) *dns.Msg {
	t.Helper()
	c, again := dns.Client{Net: network}, time.NewTicker(10*time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-again.C {
		if m, _, err := c.Exchange(servertest.Query(name, typ, 1232), s.addr); err == nil {
			return m
		}
	}
	t.Fatalf("no reply to %s", name)
	return nil
}

// until asks until there is an answer.
func (s server) until(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if m := s.ask(t, "udp", name, dns.TypeA); len(m.Answer) > 0 {
			return
		}
	}
	t.Fatalf("%s has no address", name)
}

func TestStockMetrics(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-time.Second)
	api := kubetest.Start(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		service("web", "10.96.0.20"), service("db", corev1.ClusterIPNone), slice("web", "10.244.0.1", began.Add(-time.Hour)))
	upstream := servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		rr, _ := dns.NewRR(q.Question[0].Name + " 300 IN A 192.0.2.1")
		m.Answer = []dns.RR{rr}
		_ = w.WriteMsg(m)
	})
	s := start(t, api, upstream)
	for _, network := range []string{"udp", "tcp"} {
		s.ask(t, network, "web.default.svc.cluster.local.", dns.TypeA)
		s.ask(t, network, "missing.default.svc.cluster.local.", dns.TypeA)
		s.ask(t, network, "www.example.com.", dns.TypeA) // the second time from the cache
	}
	api.Put(slice("web", "10.244.0.2", began))
	api.Put(slice("db", "10.244.0.3", began))
	s.until(t, "db.default.svc.cluster.local.")

	// Some metrics take a moment: the server asks its own health end point once a second.
	missing, all := list(t), map[string]*dto.MetricFamily{}
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(10 * time.Second); len(missing) > 0 && time.Now().Before(end); <-again.C {
		all = families(t, s.url)
		missing = slices.DeleteFunc(list(t), func(line string) bool {
			f := all[strings.Fields(line)[0]]
			return f != nil && shape(f) == line
		})
	}
	for _, line := range missing {
		got := "nothing of that name"
		if f := all[strings.Fields(line)[0]]; f != nil {
			got = shape(f)
		}
		t.Errorf("a stock CoreDNS exports\n%s, here is\n%s", line, got)
	}
	t.Run("native histograms", func(t *testing.T) { native(t, all) })
	t.Run("programming latency", func(t *testing.T) { programming(t, all, time.Since(began)) })
	t.Run("promtool", func(t *testing.T) { promtool(t, scrape(t, s.url, expfmt.NewFormat(expfmt.TypeTextPlain))) })
}

// native: every histogram under CoreDNS's name has native buckets as well, at CoreDNS's resolution, a factor of 1.05.
func native(t *testing.T, all map[string]*dto.MetricFamily) {
	n := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if f := all[name]; f.GetType() == dto.MetricType_HISTOGRAM && strings.HasPrefix(name, "coredns_") {
			n++
			h := f.Metric[0].Histogram
			if h.Schema == nil || h.GetSchema() != 4 || h.GetSampleCount() > 0 && len(h.PositiveSpan)+int(h.GetZeroCount()) == 0 {
				t.Errorf("%s has no native buckets of schema 4: %v", name, h)
			}
		}
	}
	if n < 8 {
		t.Errorf("%d histograms", n)
	}
}

// programming: each change that was made is measured once, from its beginning.
func programming(t *testing.T, all map[string]*dto.MetricFamily, most time.Duration) {
	got := map[string]*dto.Histogram{}
	for _, m := range all["coredns_kubernetes_dns_programming_duration_seconds"].GetMetric() {
		got[m.Label[0].GetValue()] = m.Histogram
	}
	for _, kind := range []string{"cluster_ip", "headless_with_selector"} {
		if h := got[kind]; h.GetSampleCount() != 1 || h.GetSampleSum() < 1 || h.GetSampleSum() > most.Seconds() {
			t.Errorf("%s: %d changes took %v s, want 1 that took 1 to %v", kind, h.GetSampleCount(), h.GetSampleSum(), most)
		}
	}
}

// promtool: Prometheus' own linter has nothing to say.
func promtool(t *testing.T, text []byte) {
	bin := os.Getenv("PROMTOOL")
	if bin == "" {
		var err error
		if bin, err = exec.LookPath("promtool"); err != nil {
			t.Skip("there is no promtool; .ci/run builds it and says where in $PROMTOOL")
		}
	}
	cmd := exec.Command(bin, "check", "metrics")
	cmd.Stdin = bytes.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}
