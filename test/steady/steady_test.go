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
	"strconv"
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
	bin := process.Build(t)
	api := kubetest.Start(t, namespace("prod"), service("prod", "web", "10.96.0.1"))
	proxy := kubetest.StartProxy(t, api.Addr())
	upstream := servertest.Upstream(t, answerA)
	readyPort := process.FreePort(t)
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
	out := process.NewOutput()
	cmd := exec.Command(bin, "-conf", conf)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	addr := "127.0.0.1:" + out.Await(t, `(?m)^\.:(\d+)`, 1)[1]

	asking := startLoad(t, addr)
	ready := watchReady(t, "http://127.0.0.1:"+readyPort+"/ready")
	for i := range reloads {
		write(good())
		out.Await(t, "Reloading complete", i+1)
	}
	t.Logf("%d reloads, %d queries so far", reloads, asking.Sent())
	write("this is { no Corefile\n")
	out.Await(t, `\[ERROR\] plugin/reload: .*Corefile:1`, 1)
	t.Logf("a bad Corefile, %d queries so far", asking.Sent())
	write(good())
	out.Await(t, "Reloading complete", reloads+1)
	api.Fail(http.StatusServiceUnavailable)
	proxy.Cut()
	out.Await(t, `\[WARNING\] plugin/kubernetes`, 1)
	api.Fail(0)
	api.Put(service("prod", "new", "10.96.0.2"))
	awaitName(t, addr, "new.prod.svc.cluster.local.")
	t.Logf("the API server restarted, %d queries so far", asking.Sent())
	if err := ready.stop(); err != nil {
		t.Error(err)
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	out.Await(t, "lameduck", 1)
	asking.Stop()
	atServer, atClients := load.Drops(addr)
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(patience):
		t.Error("the server has not ended after SIGTERM")
	}
	result := asking.Result()
	t.Log(result)
	if result.Lost > 0 || result.Wrong > 0 || result.Sent == 0 {
		t.Errorf("%s; the kernel dropped %d for want of room in the server's sockets, %d in the clients'", result, atServer, atClients)
	}
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
