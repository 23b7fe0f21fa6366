// Package soak holds the long run: a whole server under load for as long as it is told, while objects change, the Corefile is reloaded, its upstream
// falls silent now and then, and somebody sends malformed packets. Memory, goroutines and file descriptors have to stay flat, and nothing
// may be lost.
//
//	go test -count=1 -v -timeout 2h ./test/soak -minutes 60 -rate 10000
//
// Without flags it runs for seconds, which shows that it works and not more.
package soak_test

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/load"
	"github.com/clusterdns/clusterdns/test/internal/process"
)

const (
	// churn is how often an object changes: 1,000 a minute.
	churn = time.Minute / 1000
	// objects is how many Services come and go.
	objects = 500
	// reloadEvery is how often the Corefile changes.
	reloadEvery = 20 * time.Second
	// silentFor of every silentEvery, the upstream says nothing.
	silentFor, silentEvery = 3 * time.Second, 30 * time.Second
	// samples are taken in all, more in a long run: one every sampleEvery. Those of the first fifth are warm-up.
	samples, sampleEvery = 100, 10 * time.Second
	// drift is how far memory, goroutines and descriptors may move from the first to the last third behind the warm-up.
	drift = 0.05
)

const corefile = `.:%s {
    bind 127.0.0.1
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        fallthrough in-addr.arpa ip6.arpa
    }
    prometheus 127.0.0.1:%s
    forward . %s
    cache %d
    reload 2s 1s
    loadbalance
}
`

// settings are the flags.
type settings struct {
	length time.Duration
	rate   int
	race   bool
}

func flags(t *testing.T) settings {
	t.Helper()
	get := func(name string) float64 { return flag.Lookup(name).Value.(flag.Getter).Get().(float64) }
	s := settings{length: time.Duration(get("minutes") * float64(time.Minute)), rate: int(get("rate")),
		race: flag.Lookup("detector").Value.String() == "true"}
	if s.length < time.Second || s.length > 24*time.Hour || s.rate < 100 || s.rate > 200_000 {
		t.Fatalf("%+v: from a second to a day, from 100 to 200,000 queries a second", s)
	}
	return s
}

func TestMain(m *testing.M) {
	flag.Float64("minutes", 0.1, "length of the run")
	flag.Float64("rate", 500, "queries per second")
	flag.Bool("detector", false, "build the server with the race detector; its memory is not judged")
	flag.Parse()
	os.Exit(m.Run())
}

// world is the server and what stands around it.
type world struct {
	pid           int
	addr, metrics string
	api           *kubetest.Server
	rewrite       func(n int)
	mute          atomic.Bool
}

func TestSoak(t *testing.T) {
	if testing.Short() {
		t.Skip("-short")
	}
	s := flags(t)
	w := startWorld(t, s)
	quit := make(chan struct{})
	var others sync.WaitGroup
	every := func(d time.Duration, f func(n int)) {
		others.Go(func() {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-quit:
					return
				case <-tick.C:
					f(n)
				}
			}
		})
	}
	bad := startMalformed(t, w.addr)
	every(churn, func(n int) {
		w.api.Put(service("prod", fmt.Sprintf("s%d", n%objects), fmt.Sprintf("10.97.%d.%d", n/250%250, n%250+1)))
	})
	every(reloadEvery, func(n int) { w.rewrite(n) })
	every(silentEvery, func(int) {
		w.mute.Store(true)
		time.AfterFunc(silentFor, func() { w.mute.Store(false) })
	})
	every(2*time.Millisecond, bad.send)
	l := startLoad(t, w.addr, s.rate)
	all := w.watch(t, s.length)
	l.Stop()
	close(quit)
	others.Wait()
	r := l.Result()
	atServer, atClients := load.Drops(w.addr)
	t.Logf("%s; %d malformed packets", r, bad.sent.Load())
	if r.Lost > 0 || r.Wrong > 0 || r.Sent == 0 {
		t.Errorf("something was lost; the kernel threw away %d datagrams to the server and %d to its clients; the server counted: %s", atServer, atClients, w.limits(t))
	}
	judge(t, all, s)
}

// startWorld builds the binary and starts it between an API server and an upstream.
func startWorld(t *testing.T, s settings) *world {
	t.Helper()
	dir := t.TempDir()
	var options []string
	if s.race {
		options = append(options, "-race")
	}
	bin := process.Build(t, options...)
	w := &world{api: kubetest.Start(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod"}}, service("prod", "web", "10.96.0.1"))}
	for i := range objects { // so that the store is as large at first as it is at last
		w.api.Put(service("prod", fmt.Sprintf("s%d", i), fmt.Sprintf("10.97.%d.%d", i/250, i%250+1)))
	}
	upstream := servertest.Upstream(t, func(rw dns.ResponseWriter, q *dns.Msg) {
		if w.mute.Load() {
			return
		}
		m := new(dns.Msg)
		m.SetReply(q)
		rr, _ := dns.NewRR(q.Question[0].Name + " 300 IN A 192.0.2.1")
		m.Answer = []dns.RR{rr}
		_ = rw.WriteMsg(m)
	})
	port, metrics := process.FreePort(t), process.FreePort(t)
	conf := filepath.Join(dir, "Corefile")
	w.addr, w.metrics = "127.0.0.1:"+port, "http://127.0.0.1:"+metrics+"/metrics"
	kubeconfig := w.api.Kubeconfig(w.api.Addr(), kubetest.Token)
	w.rewrite = func(n int) {
		if err := os.WriteFile(conf, fmt.Appendf(nil, corefile, port, kubeconfig, metrics, upstream, 20+n%10), 0o600); err != nil {
			t.Error(err)
		}
	}
	w.rewrite(0)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-conf", conf)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { stop(t, cmd, ended, log) })
	w.pid = cmd.Process.Pid
	awaitAnswer(t, w.addr)
	return w
}

// stop ends the server, and shows the end of its log if the test failed.
func stop(t *testing.T, cmd *exec.Cmd, ended <-chan error, log *os.File) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		_ = cmd.Process.Kill()
		t.Error("the server has not ended after SIGTERM")
	}
	text, _ := os.ReadFile(log.Name())
	if t.Failed() {
		t.Logf("%s", text[max(0, len(text)-4000):])
	}
	if strings.Contains(string(text), "panic") || strings.Contains(string(text), "DATA RACE") {
		t.Errorf("the log says:\n%s", text)
	}
	log.Close()
}

func awaitAnswer(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if r, err := dns.Exchange(servertest.Query("web.prod.svc.cluster.local.", dns.TypeA, 0), addr); err == nil && len(r.Answer) == 1 {
			return
		}
	}
	t.Fatal("the server does not answer")
}

func service(ns, name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: "TCP"}}}}
}

// sample is what the server holds at one time.
type sample struct {
	rss, heap, fds, goroutines float64
	dropped                    int // datagrams that the kernel had no room for in the server's sockets
}

// watch takes samples until the run is over, and shows one every minute, with how far it is from the first behind the warm-up.
func (w *world) watch(t *testing.T, length time.Duration) (all []sample) {
	t.Helper()
	n := max(samples, int(length/sampleEvery))
	tick := time.NewTicker(length / time.Duration(n))
	defer tick.Stop()
	shown := max(1, min(n/10, int(time.Minute/(length/time.Duration(n)))))
	for range n {
		<-tick.C
		all = append(all, w.sample(t))
		if len(all)%shown != 0 {
			continue
		}
		s, first := all[len(all)-1], all[min(n/5, len(all)-1)]
		t.Logf("%6s: %.1f MB resident (%+.1f %%), %.1f of them objects, %.0f descriptors (%+.0f), %.0f goroutines (%+.0f), %d datagrams without room",
			(time.Duration(len(all)) * length / time.Duration(n)).Round(time.Second),
			s.rss/1024, 100*(s.rss/first.rss-1), s.heap/(1<<20), s.fds, s.fds-first.fds, s.goroutines, s.goroutines-first.goroutines, s.dropped)
	}
	return all
}

func (w *world) sample(t *testing.T) (s sample) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %f kB", &s.rss)
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.pid))
	if err != nil {
		t.Fatal(err)
	}
	s.fds = float64(len(fds))
	metrics := w.scrape(t)
	defer metrics.Close()
	s.goroutines, s.heap = runtimeFigures(t, metrics)
	s.dropped, _ = load.Drops(w.addr)
	return s
}

// scrape reads /metrics. Whoever calls it closes what it gives.
func (w *world) scrape(t *testing.T) io.ReadCloser {
	t.Helper()
	res, err := http.Get(w.metrics)
	if err != nil {
		t.Fatal(err)
	}
	return res.Body
}

// limits are the limits that the server hit, and how often, as /metrics has them.
func (w *world) limits(t *testing.T) string {
	t.Helper()
	metrics := w.scrape(t)
	defer metrics.Close()
	var hit []string
	for lines := bufio.NewScanner(metrics); lines.Scan(); {
		if l := lines.Text(); (strings.HasPrefix(l, "clusterdns_limit_hits_total") || strings.HasPrefix(l, "clusterdns_dns_dropped_total")) && !strings.HasSuffix(l, " 0") {
			hit = append(hit, l)
		}
	}
	return strings.Join(hit, ", ")
}

// judge compares the first third behind the warm-up with the last. A run of less than two minutes, or under the race detector, is only shown.
func judge(t *testing.T, all []sample, set settings) {
	t.Helper()
	all = all[len(all)/5:]
	third := len(all) / 3
	for _, c := range []struct {
		what  string
		value func(sample) float64
		slack float64 // what may come and go at any time: connections and questions under way
	}{
		{"resident KiB", func(s sample) float64 { return s.rss }, 0},
		{"descriptors", func(s sample) float64 { return s.fds }, 8},
		{"goroutines", func(s sample) float64 { return s.goroutines }, 20},
	} {
		first, last := median(all[:third], c.value), median(all[len(all)-third:], c.value)
		t.Logf("%s: %.0f, at last %.0f (%+.1f %%)", c.what, first, last, 100*(last-first)/first)
		if set.length >= 2*time.Minute && !set.race && last-first > max(drift*first, c.slack) {
			t.Errorf("%s grew from %.0f to %.0f", c.what, first, last)
		}
	}
}
