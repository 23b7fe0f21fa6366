package kubernetes_test

import (
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// reasons is a cluster in which names fail to exist in every way.
const reasons = unready + "---" + ports + "---" + pods + `
---
apiVersion: v1
kind: Service
metadata: {name: idle, namespace: prod}
spec: {clusterIP: None}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: idle, namespace: prod, labels: {kubernetes.io/service-name: idle}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.9, 10.0.0.8], conditions: {ready: false}}]
---
apiVersion: v1
kind: Service
metadata: {name: bare, namespace: prod}
spec: {clusterIP: None}
---
apiVersion: v1
kind: Service
metadata: {name: queue, namespace: staging}
spec: {clusterIP: 10.96.0.20}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: staging}
spec: {clusterIP: 10.96.0.21}
---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: dev}
spec: {clusterIP: 10.96.0.22}
---
apiVersion: v1
kind: Service
metadata: {name: six, namespace: prod}
spec: {clusterIP: "fd00::6", clusterIPs: ["fd00::6"], ports: [{port: 80}]}
`

// TestReasons: the reason of every NXDOMAIN and NODATA, word for word.
func TestReasons(t *testing.T) {
	t.Parallel()
	const zone = ".cluster.local."
	b := block(cluster(t, "cluster.local in-addr.arpa\npods verified", reasons), nil)
	s := servertest.Start(t, b)
	for q, want := range map[string]string{
		"idle.prod.svc":                     "service idle has 0 ready of 2 endpoints",
		"bare.prod.svc":                     "service bare has no endpoints",
		"x.bare.prod.svc":                   "service bare has no ready endpoint of this name",
		"x.strict.prod.svc":                 "service strict has no ready endpoint of this name; it has 1 ready of 2 endpoints",
		"web.nosuch.svc":                    "no such namespace",
		"nosuch.svc":                        "no such namespace",
		"_http._tcp.web.nosuch.svc":         "no such namespace",
		"10-0-0-1.nosuch.pod":               "no such namespace",
		"nosuch.prod.svc":                   "no service nosuch in prod",
		"queue.prod.svc":                    "no service queue in prod; there is one in staging",
		"QUEUE.prod.svc":                    "no service queue in prod; there is one in staging",
		"_amqp._tcp.queue.prod.svc":         "no service queue in prod; there is one in staging",
		"api.prod.svc":                      "no service api in prod; there are 2 elsewhere, such as in dev",
		"example.com.prod.svc":              "no service com in prod; perhaps a search-path candidate of example.com",
		"api.example.com.prod.svc":          "search-path candidate of api.example.com",
		"api.example.com.svc":               "search-path candidate of api.example.com",
		"api.example.com":                   "search-path candidate of api.example.com",
		"example":                           "no such name in a cluster zone",
		"_grpc._tcp.web.prod.svc":           "port grpc/tcp is not on this service; it has http/tcp, dns/udp",
		"_http._udp.web.prod.svc":           "port http/udp is not on this service; it has http/tcp, dns/udp",
		"_x._tcp.db.prod.svc":               "port x/tcp is not on this service; it has sql/tcp",
		"_x._tcp.queue.staging.svc":         "port x/tcp is not on this service; its ports have no names",
		"no-address.prod.pod":               "not the dashed address of a pod",
		"10-9-9-9.prod.pod":                 "no pod of this namespace has the address",
		"9.9.9.9.in-addr.arpa. PTR":         "not an address of this cluster",
		"six.prod.svc A":                    "service exists only as AAAA",
		"web.prod.svc AAAA":                 "service exists only as A",
		"db.prod.svc AAAA":                  "service exists only as A",
		"db-0.db.prod.svc AAAA":             "service exists only as A",
		"queue.staging.svc SRV":             "service has no ports",
		"web.prod.svc MX":                   "no records of this type at this name",
		"10-0-0-1.prod.pod MX":              "no records of this type at this name",
		"prod.svc":                          "only other names stand below this one",
		"_tcp.web.prod.svc":                 "only other names stand below this one",
		"cluster.local. MX":                 "no records of this type at the name of the zone",
		"we\\032ird.prod.svc":               "no service we?ird in prod",
		"a.b.c.d.e.f.g.h.prod.svc":          "search-path candidate of a.b.c.d.e.f.g.h",
		strings.Repeat("a.", 100) + "b.com": "search-path candidate of " + strings.Repeat("a.", 100) + "b.com",
	} {
		name, typ, ok := strings.Cut(q, " ")
		if !ok {
			typ = "A"
		}
		if !strings.HasSuffix(name, ".") {
			name += zone
		}
		m := s.Ask(t, name, dns.StringToType[typ])
		if e := extended(m); len(m.Answer) > 0 || e == nil || e.ExtraText != want || e.InfoCode != dns.ExtendedErrorCodeOther {
			t.Errorf("%s: %s, reason %v, want %q", q, dns.RcodeToString[m.Rcode], e, want)
		}
	}
	// Clients without EDNS get no reason.
	if m := s.Exchange(t, "udp", servertest.Query("x.prod.svc"+zone, dns.TypeA, 0)); m.IsEdns0() != nil {
		t.Error("OPT for a client without EDNS")
	}
}

// TestNoReasonOnHits: an answer has none.
func TestNoReasonOnHits(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, block(cluster(t, "cluster.local in-addr.arpa\npods verified", reasons), nil))
	for _, q := range []string{
		"web.prod.svc.cluster.local. A", "web.prod.svc.cluster.local. SRV", "db.prod.svc.cluster.local. A", "six.prod.svc.cluster.local. AAAA",
		"10-0-0-1.prod.pod.cluster.local. A", "1.0.96.10.in-addr.arpa. PTR", "cluster.local. SOA", "cluster.local. NS",
	} {
		name, typ, _ := strings.Cut(q, " ")
		if m := s.Ask(t, name, dns.StringToType[typ]); len(m.Answer) == 0 || extended(m) != nil {
			t.Errorf("%s: %v", q, m)
		}
	}
}

// TestReasonsOff: with the block's option off there is none, and where clients may not ask for everything, none speaks of other names.
func TestReasonsOff(t *testing.T) {
	t.Parallel()
	k := cluster(t, "cluster.local", reasons)
	off, reserved := block(k, nil), block(k, nil)
	off.Options.NoEDE, reserved.Options.Reserved = true, true
	name := "queue.prod.svc.cluster.local."
	if m := servertest.Start(t, off).Ask(t, name, dns.TypeA); m.IsEdns0() == nil || extended(m) != nil {
		t.Errorf("off: %v", m)
	}
	if e := extended(servertest.Start(t, reserved).Ask(t, name, dns.TypeA)); e == nil || e.ExtraText != "no service queue in prod" {
		t.Errorf("reserved: %v", e)
	}
}

// TestReasonsWithinLimits: objects that the options hide are not spoken of.
func TestReasonsWithinLimits(t *testing.T) {
	t.Parallel()
	labelled := reasons + `
---
apiVersion: v1
kind: Namespace
metadata: {name: prod, labels: {team: a}}
---
apiVersion: v1
kind: Namespace
metadata: {name: staging, labels: {team: b}}
`
	for _, limit := range []string{"namespaces prod", "namespace_labels team=a"} {
		s := servertest.Start(t, block(cluster(t, "cluster.local\n"+limit, labelled), nil))
		for name, want := range map[string]string{"queue.prod.svc.cluster.local.": "no service queue in prod", "queue.staging.svc.cluster.local.": "no such namespace"} {
			if e := extended(s.Ask(t, name, dns.TypeA)); e == nil || e.ExtraText != want {
				t.Errorf("%s: %s: %v, want %q", limit, name, e, want)
			}
		}
	}
}

// TestReasonBudget: the search through all namespaces is held to so many a second, and then left out.
func TestReasonBudget(t *testing.T) {
	t.Parallel()
	d := servertest.Direct(block(cluster(t, "cluster.local", reasons), nil))
	q := servertest.Pack(t, servertest.Query("queue.prod.svc.cluster.local.", dns.TypeA, 1232))
	with, without := 0, 0
	for range 2000 {
		reply, _ := d.Answer(q, servertest.Client, 0)
		switch text := string(reply); {
		case strings.Contains(text, "there is one in staging"):
			with++
		case strings.Contains(text, "no service queue in prod"):
			without++
		}
	}
	if with < 100 || with+without != 2000 || without == 0 {
		t.Errorf("%d with, %d without", with, without)
	}
}

// TestReasonsTakeNoMemory: no reason costs memory, whatever it says.
func TestReasonsTakeNoMemory(t *testing.T) { //nolint:paralleltest // it counts allocations of the whole process
	b := block(cluster(t, "cluster.local in-addr.arpa\npods verified", reasons), nil)
	for _, name := range []string{
		"idle.prod.svc", "strict.prod.svc", "x.strict.prod.svc", "queue.prod.svc", "api.prod.svc", "web.nosuch.svc", "example.com.prod.svc", "api.example.com",
		"_grpc._tcp.web.prod.svc", "10-9-9-9.prod.pod", "prod.svc", "web.prod.svc", "six.prod.svc",
	} {
		for _, edns := range []uint16{0, 1232} {
			for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA} {
				servertest.NoAllocs(t, servertest.Query(name+".cluster.local.", typ, edns), b)
			}
		}
	}
}
