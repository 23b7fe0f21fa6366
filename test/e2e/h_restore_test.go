package e2e_test

import (
	"testing"

	"github.com/miekg/dns"
)

// TestRestore: etcd goes back to a snapshot, so the cluster's history is another than the one that was watched. It is the last test,
// since the rest of the control plane is not made to like that either.
func TestRestore(t *testing.T) {
	c := install(t)
	service := func(name string) string {
		return "apiVersion: v1\nkind: Service\nmetadata: {name: " + name + ", namespace: service-lab}\nspec: {ports: [{port: 80}]}\n"
	}
	apply(t, service("kept"))
	status(t, "a Service before the snapshot", "kept"+lab, dns.TypeA, dns.RcodeSuccess)
	if err := c.SaveEtcd(); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", "service-lab", "delete", "service", "kept")
	apply(t, service("forgotten"))
	status(t, "one made after it", "forgotten"+lab, dns.TypeA, dns.RcodeSuccess)
	status(t, "and one deleted", "kept"+lab, dns.TypeA, dns.RcodeNameError)
	l := startLoad(t, 1, clusterQuestions()...)
	if err := c.RestoreEtcd(); err != nil {
		t.Fatal(err)
	}
	status(t, "the one made after the snapshot is gone again", "forgotten"+lab, dns.TypeA, dns.RcodeNameError)
	status(t, "the one deleted is back", "kept"+lab, dns.TypeA, dns.RcodeSuccess)
	l.finish(t, "etcd restored")
}
