package e2e_test

import (
	"strings"
	"testing"

	"github.com/clusterdns/clusterdns/test/e2e/cluster"
)

// TestClients: a pod with the kubelet's own resolv.conf finds short, longer and full names, inside and outside, with the resolvers of
// glibc, musl and Go, over UDP and TCP, and reaches what stands behind them through the node's rules.
func TestClients(t *testing.T) {
	install(t)
	conf, err := execute("cat", "/etc/resolv.conf")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nameserver " + cluster.DNSIP, "search service-lab.svc.cluster.local svc.cluster.local cluster.local", "options ndots:5"} {
		if !strings.Contains(conf, want) {
			t.Errorf("resolv.conf has no %q:\n%s", want, conf)
		}
	}
	web := kubectl(t, "-n", "service-lab", "get", "service", "web-svc", "-o", "jsonpath={.spec.clusterIP}")
	names := map[string]string{
		"web-svc": web, "web-svc.service-lab": web, "web-svc.service-lab.svc": web, "web-svc.service-lab.svc.cluster.local": web,
		"web-svc.service-lab.svc.cluster.local.": web, "kubernetes.default": "10.96.0.1", "www.example.com": cluster.UpstreamIP, "www.example.com.": cluster.UpstreamIP,
	}
	resolvers := map[string][]string{
		"glibc":          {"lookup-glibc"},
		"glibc over TCP": {"busybox", "env", "RES_OPTIONS=use-vc", "lookup-glibc"},
		"musl":           {"lookup-musl"}, // Debian's musl 1.2.3 asks over UDP alone
		"Go":             {"/lab", "lookup"},
		"Go over TCP":    {"/lab", "lookup", "-tcp"},
	}
	for resolver, command := range resolvers {
		for name, want := range names {
			out, err := execute(append(command, name)...)
			if got := strings.TrimSpace(out); err != nil || got != want {
				t.Errorf("%s: %s is %q, want %s (%v)", resolver, name, got, want, err)
			}
		}
		if out, err := execute(append(command, "no-such-service")...); err == nil {
			t.Errorf("%s: no-such-service is %q", resolver, out)
		}
	}
	for url, want := range map[string]string{"http://web-svc": "web-", "http://web-svc.service-lab.svc.cluster.local": "web-", "http://www.example.com": "outside"} {
		if out, err := execute("/lab", "fetch", url); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%s: %q, %v", url, out, err)
		}
	}
}
