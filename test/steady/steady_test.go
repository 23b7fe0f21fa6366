//go:build unix

// Package steady holds the test that nothing is lost: a whole server under load, while it is reloaded, given a bad Corefile, cut off from its
// API server, and stopped.
//
//	STEADY_RATE=20000 go test -v -count=1 ./test/steady
//
// asks as many queries a second; without the variable it asks fewer, so that it does not hinder other tests.
package steady_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

const (
	defaultRate = 2000
	// reloads is how often the Corefile changes under the load.
	reloads = 10
	// patience bounds every wait for something to happen.
	patience = 30 * time.Second
)

func rate(t *testing.T) int {
	t.Helper()
	s := os.Getenv("STEADY_RATE")
	if s == "" {
		return defaultRate
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 200_000 {
		t.Fatalf("STEADY_RATE=%s is not a rate", s)
	}
	return n
}

// output is what the server says, and lets a test wait for a part of it.
type output struct {
	mu   sync.Mutex
	text strings.Builder
	grew chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.text.Write(b)
	close(o.grew)
	o.grew = make(chan struct{})
	return len(b), nil
}

// await waits until the output has a match of the expression n times.
func (o *output) await(t *testing.T, expr string, n int) []string {
	t.Helper()
	re, end := regexp.MustCompile(expr), time.After(patience)
	for {
		o.mu.Lock()
		found, grew, text := re.FindAllStringSubmatch(o.text.String(), -1), o.grew, o.text.String()
		o.mu.Unlock()
		if len(found) >= n {
			return found[n-1]
		}
		select {
		case <-grew:
		case <-end:
			t.Fatalf("the server has not said %q %d times:\n%s", expr, n, text)
		}
	}
}

const corefile = `.:0 {
    bind 127.0.0.1
    errors
    health 127.0.0.1:0 {
        lameduck 1s
    }
    ready 127.0.0.1:%s
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig %s
        fallthrough in-addr.arpa ip6.arpa
    }
    forward . %s
    cache %d
    reload 2s 1s
    loadbalance
}
`

// TestNothingIsLost runs the story.
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bin := program(t)
	api := kubetest.Start(t, namespace("prod"), service("prod", "web", "10.96.0.1"))
	proxy := kubetest.StartProxy(t, api.Addr())
	upstream := servertest.Upstream(t, answerA)
	readyPort := freePort(t)
	conf, n := filepath.Join(dir, "Corefile"), 10
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good := func() string {
		n++
		return fmt.Sprintf(corefile, readyPort, api.Kubeconfig(proxy.Addr(), kubetest.Token), upstream, n)
	}
	write(good())
	out := &output{grew: make(chan struct{})}
	cmd := exec.Command(bin, "-conf", conf)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	addr := "127.0.0.1:" + out.await(t, `(?m)^\.:(\d+)`, 1)[1]

	begin := time.Now()
	load := startLoad(t, addr, rate(t), []string{"web.prod.svc.cluster.local.", "missing.prod.svc.cluster.local.", "www.example.com."})
	ready := watchReady(t, "http://127.0.0.1:"+readyPort+"/ready")
	for i := range reloads {
		write(good())
		out.await(t, "Reloading complete", i+1)
	}
	t.Logf("%d reloads, %d queries so far", reloads, load.sent())
	write("this is { no Corefile\n")
	out.await(t, `\[ERROR\] plugin/reload: .*Corefile:1`, 1)
	t.Logf("a bad Corefile, %d queries so far", load.sent())
	write(good())
	out.await(t, "Reloading complete", reloads+1)
	api.Fail(http.StatusServiceUnavailable)
	proxy.Cut()
	out.await(t, `\[WARNING\] plugin/kubernetes`, 1)
	api.Fail(0)
	api.Put(service("prod", "new", "10.96.0.2"))
	awaitName(t, addr, "new.prod.svc.cluster.local.")
	t.Logf("the API server restarted, %d queries so far", load.sent())
	if err := ready.stop(); err != nil {
		t.Error(err)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	out.await(t, "lameduck", 1)
	load.stop()
	atServer, atClients := full(addr)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the server has not ended after SIGTERM")
	}
	sent, lost, wrong := load.result()
	t.Logf("%d queries in %s: %d lost, %d with another rcode than NOERROR or NXDOMAIN", sent, time.Since(begin).Round(time.Millisecond), lost, wrong)
	if lost > 0 || wrong > 0 || sent == 0 {
		t.Errorf("%d of %d queries lost, %d answered with a failure; the kernel dropped %d for want of room in the server's sockets, %d in the clients'",
			lost, sent, wrong, atServer, atClients)
	}
}

// program is the server, built once for the test.
func program(t *testing.T) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "clusterdns")
	if out, err := exec.Command("go", "build", "-o", bin, "github.com/clusterdns/clusterdns/cmd/clusterdns").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return bin
}

// answerA is an upstream that has an address for every name.
func answerA(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg)
	m.SetReply(q)
	rr, _ := dns.NewRR(q.Question[0].Name + " 300 IN A 192.0.2.1")
	m.Answer = []dns.RR{rr}
	_ = w.WriteMsg(m)
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func service(ns, name, ip string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: "TCP"}}}}
}

// awaitName asks until a name is there.
func awaitName(t *testing.T, addr, name string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if r, err := dns.Exchange(servertest.Query(name, dns.TypeA, 0), addr); err == nil && len(r.Answer) == 1 {
			return
		}
	}
	t.Fatalf("%s does not appear", name)
}
