package e2e_test

import (
	"testing"

	"github.com/miekg/dns"
)

// TestRolling: both replicas are replaced under load, one by one, and no query is lost.
func TestRolling(t *testing.T) {
	install(t)
	l := startLoad(t, 2, clusterQuestions()...)
	kubectl(t, "-n", "kube-system", "rollout", "restart", "deployment/clusterdns")
	rolledOut(t, "kube-system", "deployment/clusterdns")
	wait(t, "the old ones are gone", func() error { return serversAre(node.Cluster, "clusterdns") })
	l.finish(t, "rolling restart")
	// A reply that is on its way while the node forgets its connection is dropped by the kernel; nothing else may be.
	if n := l.repeated.Load(); n > loadRate/50 {
		t.Errorf("%d queries had to be asked again", n)
	}
}

// TestAPIServerRestart: names are answered while the API server is away, and follow again when it is back.
func TestAPIServerRestart(t *testing.T) {
	c := install(t)
	l := startLoad(t, 2, clusterQuestions()...)
	if err := c.StopAPIServer(); err != nil {
		t.Fatal(err)
	}
	for range 2000 { // a while without it, in which each kind of question is asked often
		if r, err := ask("udp", "web-svc"+lab, dns.TypeA); err != nil || r.Rcode != dns.RcodeSuccess {
			t.Fatalf("without the API server: %v, %v", r, err)
		}
	}
	if err := c.APIServer(); err != nil {
		t.Fatal(err)
	}
	apply(t, "apiVersion: v1\nkind: Service\nmetadata: {name: after-restart, namespace: service-lab}\nspec: {ports: [{port: 80}]}\n")
	status(t, "a Service made after the restart", "after-restart"+lab, dns.TypeA, dns.RcodeSuccess)
	kubectl(t, "-n", "service-lab", "delete", "service", "after-restart")
	status(t, "it is gone", "after-restart"+lab, dns.TypeA, dns.RcodeNameError)
	l.finish(t, "API server restart")
}
