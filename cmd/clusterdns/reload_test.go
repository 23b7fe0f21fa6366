//go:build unix

package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// stateful is a Corefile with state to lose: a cluster's objects and a cache.
const stateful = `. {
    bind 127.0.0.1
    errors
    health 127.0.0.1:0 {
        lameduck 30s
    }
    ready %[1]s
    prometheus %[1]s
    kubernetes cluster.local {
        kubeconfig %[2]s
        ttl %[3]d
    }
    forward . %[4]s
    cache 3600
    reload
    %[5]s
}
`

// reloading is a process with that Corefile, and what it talks to.
type reloading struct {
	*process
	api      *kubetest.Server
	asked    atomic.Int64 // questions to the upstream for the cached name
	silent   atomic.Bool  // the upstream does not answer
	http     string
	conf     string
	kube, up string
}

const cachedName = "www.example.com."

func startStateful(t *testing.T) (r *reloading, addr string) {
	t.Helper()
	r = &reloading{api: kubetest.Start(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.20", ClusterIPs: []string{"10.96.0.20"}}})}
	r.up = servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		if q.Question[0].Name == cachedName {
			r.asked.Add(1)
		}
		if r.silent.Load() {
			return
		}
		m := new(dns.Msg)
		m.SetReply(q)
		rr, _ := dns.NewRR(q.Question[0].Name + " 3600 IN A 192.0.2.1")
		m.Answer = []dns.RR{rr}
		_ = w.WriteMsg(m)
	})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.http, r.kube = ln.Addr().String(), r.api.Kubeconfig("", kubetest.Token)
	ln.Close()
	dir, conf := corefile(t, r.corefile(5, ""))
	r.conf = conf
	r.process = start(t, dir, "", "-p", "0")
	return r, r.addr()
}

func (r *reloading) corefile(ttl int, more string) string {
	return fmt.Sprintf(stateful, r.http, r.kube, ttl, r.up, more)
}

func (r *reloading) get(path string) (status int, body string) {
	r.t.Helper()
	res, err := http.Get("http://" + r.http + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// reloads is what the metrics say of the configuration.
func (r *reloading) reloads() (hash, failures string) {
	r.t.Helper()
	_, text := r.get("/metrics")
	h := regexp.MustCompile(`(?m)^coredns_reload_version_info\{hash="sha512",value="([0-9a-f]{128})"\} 1$`).FindAllStringSubmatch(text, -1)
	f := regexp.MustCompile(`(?m)^coredns_reload_failed_total (\d+)$`).FindStringSubmatch(text)
	if len(h) != 1 || f == nil {
		r.t.Fatalf("%d hashes, failures %q in\n%s", len(h), f, text)
	}
	return h[0][1], f[1]
}

// reads is how often the cluster was read from its beginning.
func (r *reloading) reads() (n int) {
	for _, kind := range []string{"namespaces", "services", "endpointslices"} {
		n += r.api.Count("stream " + kind)
	}
	return n
}

// TestReloadKeepsState: what a directive knows outlives a reload that does not change its options. What is right and wrong with the
// Corefile shows in metrics, and with lameduck set the server is ready throughout.
func TestReloadKeepsState(t *testing.T) {
	t.Parallel()
	r, addr := startStateful(t)
	both := func(when string) {
		t.Helper()
		for _, name := range []string{"web.default.svc.cluster.local.", cachedName} {
			if rcode, n, err := ask(addr, name); rcode != dns.RcodeSuccess || n != 1 || err != nil {
				t.Errorf("%s: %s: rcode %d, %d records, %v", when, name, rcode, n, err)
			}
		}
		if status, body := r.get("/ready"); status != http.StatusOK {
			t.Errorf("%s: /ready is %d %s", when, status, body)
		}
	}
	r.until(addr, "web.default.svc.cluster.local.", dns.RcodeSuccess)
	both("at first")
	reads := r.reads()
	first, failures := r.reloads()
	if reads == 0 || failures != "0" {
		t.Fatalf("%d reads, %s failures", reads, failures)
	}

	began := time.Now()
	write(t, r.conf, r.corefile(5, "loadbalance"))
	r.find("Reloading complete", 1)
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the reload took %s", took)
	}
	both("after a reload")
	second, failures := r.reloads()
	if second == first || failures != "0" {
		t.Errorf("hash %s before and %s after a reload, %s failures", first, second, failures)
	}
	r.signal(syscall.SIGUSR1)
	r.find("Reloading complete", 2)
	both("after a signal")
	if n, m := r.reads(), r.asked.Load(); n != reads || m != 1 {
		t.Errorf("the cluster was read %d times, first %d; the upstream was asked %d times", n, reads, m)
	}

	write(t, r.conf, strings.Replace(r.corefile(5, ""), "cache", "cash", 1))
	r.find(`\[ERROR\] plugin/reload: .*unknown directive "cash"`, 1)
	both("with a bad Corefile")
	if hash, failures := r.reloads(); hash != second || failures != "1" {
		t.Errorf("with a bad Corefile: hash %s, was %s; %s failures", hash, second, failures)
	}

	write(t, r.conf, r.corefile(6, "loadbalance"))
	r.find("Reloading complete", 3)
	both("with another option of kubernetes")
	if n, m := r.reads(), r.asked.Load(); n <= reads || m != 1 {
		t.Errorf("with another option of kubernetes the cluster was read %d times, before %d; the upstream was asked %d times", n, reads, m)
	}
	if n := strings.Count(r.output(), "[ERROR]"); n != 1 {
		t.Errorf("the bad Corefile was said %d times", n)
	}
}
