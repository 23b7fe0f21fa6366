package kubernetes_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server/servertest"
)

func TestExternalServices(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	k := kubernetes.New(options(t, "cluster.local in-addr.arpa"), nil, kubernetes.Deps{Local: func() []netip.Addr { return []netip.Addr{addr("10.0.0.53")} }})
	sync(k, &kubernetes.Namespace{Name: "prod"},
		&kubernetes.Service{
			Namespace: "prod", Name: "lb", Type: kubernetes.LoadBalancer, ClusterIPs: []netip.Addr{addr("10.96.0.1")}, Ports: []kubernetes.Port{{Name: "HTTP", Number: 80}},
			External: []kubernetes.External{{Addr: addr("192.0.2.1")}, {Hostname: "lb.example.org"}},
		},
		&kubernetes.Service{Namespace: "prod", Name: "a", Headless: true, External: []kubernetes.External{{Addr: addr("192.0.2.1")}}},
		&kubernetes.Service{Namespace: "gone", Name: "x", External: []kubernetes.External{{Addr: addr("192.0.2.1")}}},
		&kubernetes.EndpointSlice{Namespace: "prod", Name: "lb", Service: "lb", Endpoints: []kubernetes.Endpoint{{Addr: addr("10.0.0.53"), Ready: true}}},
		&kubernetes.EndpointSlice{Namespace: "prod", Name: "a", Service: "a", Ports: []kubernetes.Port{{Name: "p", Number: 1}}, Endpoints: []kubernetes.Endpoint{
			{Addr: addr("10.0.0.1"), Ready: true}, {Addr: addr("10.0.0.2"), Hostname: "h", Ready: true},
		}},
	)
	for _, c := range []struct{ got, want any }{
		{k.ExternalServicesAt(addr("192.0.2.1")), "[{prod a} {prod lb}]"},
		{k.ExternalServicesAt(addr("10.96.0.1")), "[]"},
		{k.ExternalServers(), "[192.0.2.1]"},
		{k.HasNamespace("prod"), "true"},
		{k.HasNamespace("gone"), "false"},
		{first(k.ExternalService("prod", "lb")), "{[192.0.2.1] [lb.example.org] [{http 80 tcp}] false [{10-0-0-53 10.0.0.53 []}]}"},
		{first(k.ExternalService("prod", "a")), "{[192.0.2.1] [] [] true [{10-0-0-1 10.0.0.1 [{p 1 tcp}]} {h 10.0.0.2 [{p 1 tcp}]}]}"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	if _, exists := k.ExternalService("gone", "x"); exists {
		t.Error("a Service in a namespace that does not exist")
	}
	// External addresses are not the cluster's.
	check(t, servertest.Start(t, block(k, nil)), map[string]string{
		"1.2.0.192.in-addr.arpa. PTR": "NXDOMAIN aa\n~ in-addr.arpa. 5 IN SOA ns.dns.in-addr.arpa. hostmaster.in-addr.arpa. 0 7200 1800 86400 5",
	})
}

func first(v kubernetes.ExternalView, _ bool) kubernetes.ExternalView { return v }
