//go:build unix

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

const webName = "web.default.svc.cluster.local."

// edeOf asks with EDNS, and gives the rcode and the code of the Extended DNS Error, or -1.
func edeOf(t *testing.T, addr, name string) (rcode, code int) {
	t.Helper()
	m, err := dns.Exchange(servertest.Query(name, dns.TypeA, 1232), addr)
	if err != nil {
		t.Fatal(err)
	}
	if opt := m.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if e, ok := o.(*dns.EDNS0_EDE); ok {
				return m.Rcode, int(e.InfoCode)
			}
		}
	}
	return m.Rcode, -1
}

// TestOutages: neither an API server nor an upstream that is away makes a ready server unready, and names of the cluster are answered on. One
// that starts meanwhile answers from its snapshot at once, and says so until the API server is back.
func TestOutages(t *testing.T) {
	t.Parallel()
	r, addr := startStateful(t)
	r.until(addr, webName, dns.RcodeSuccess)
	write(t, r.conf, strings.Replace(r.corefile(5, ""), "ttl 5", "ttl 5\n        snapshot state", 1))
	r.find("Reloading complete", 1)

	r.api.Fail(http.StatusServiceUnavailable)
	r.silent.Store(true)
	r.find(`\[WARNING\] plugin/kubernetes`, 1)
	if rcode, _, err := ask(addr, "other.example.com."); err == nil && rcode != dns.RcodeServerFailure {
		t.Errorf("an upstream that is silent: rcode %d", rcode)
	}
	if rcode, code := edeOf(t, addr, webName); rcode != dns.RcodeSuccess || code != -1 {
		t.Errorf("rcode %d, EDE %d: what was read is no less true yet", rcode, code)
	}
	if status, body := r.get("/ready"); status != http.StatusOK {
		t.Errorf("/ready is %d %s", status, body)
	}
	r.signal(syscall.SIGTERM)
	r.find("lameduck", 1)
	r.signal(syscall.SIGTERM) // without the lameduck time
	r.wait()

	began := time.Now()
	r.process = start(t, filepath.Dir(r.conf), "", "-p", "0")
	addr = r.addr()
	if took := time.Since(began); took > 4*time.Second { // without a snapshot, the start waits 5 s for the API server
		t.Errorf("the start took %s", took)
	}
	if rcode, code := edeOf(t, addr, webName); rcode != dns.RcodeSuccess || code != int(server.EDEStaleAnswer) {
		t.Errorf("from the snapshot: rcode %d, EDE %d", rcode, code)
	}
	if status, body := r.get("/ready"); status != http.StatusOK {
		t.Errorf("with a snapshot /ready is %d %s", status, body)
	}
	if _, text := r.get("/metrics"); !strings.Contains(text, "\nclusterdns_kubernetes_stale 1\n") {
		t.Error("metrics do not say that the data is stale")
	}
	r.api.Fail(0)
	r.find("the cluster is read", 1)
	if rcode, code := edeOf(t, addr, webName); rcode != dns.RcodeSuccess || code != -1 {
		t.Errorf("from the API server: rcode %d, EDE %d", rcode, code)
	}
	if _, text := r.get("/metrics"); !strings.Contains(text, "\nclusterdns_kubernetes_stale 0\n") {
		t.Error("metrics do not say that the data is current")
	}
}

// TestStartWithoutData: with neither API server nor snapshot it serves, is not ready, and fails names of the cluster without denying them.
func TestStartWithoutData(t *testing.T) {
	t.Parallel()
	r, _ := startStateful(t)
	r.signal(syscall.SIGTERM)
	r.find("lameduck", 1)
	r.signal(syscall.SIGTERM)
	r.wait()
	r.api.Fail(http.StatusServiceUnavailable)
	write(t, r.conf, strings.Replace(r.corefile(5, ""), "ttl 5", "startup_timeout 100ms", 1))
	r.process = start(t, filepath.Dir(r.conf), "", "-p", "0")
	addr := r.addr()
	for _, name := range []string{webName, "missing.default.svc.cluster.local."} {
		if rcode, code := edeOf(t, addr, name); rcode != dns.RcodeServerFailure || code != int(server.EDENotReady) {
			t.Errorf("%s: rcode %d, EDE %d", name, rcode, code)
		}
	}
	if status, _ := r.get("/ready"); status != http.StatusServiceUnavailable {
		t.Errorf("/ready is %d", status)
	}
	r.api.Fail(0)
	r.find("the cluster is read", 1)
	r.until(addr, webName, dns.RcodeSuccess)
	if status, body := r.get("/ready"); status != http.StatusOK {
		t.Errorf("/ready is %d %s", status, body)
	}
}
