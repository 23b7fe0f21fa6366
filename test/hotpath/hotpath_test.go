// Package hotpath_test measures what a query costs inside the process: everything but sockets, with the directives of kubeadm's Corefile, metrics
// included, over a cluster of 8,000 Services. test/hotpath/compare.sh compares it with an earlier commit; so this folder needs nothing but
// packages that have long been there.
package hotpath_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

const services = 8000

// corefile is kubeadm's, with the cluster from a file.
const corefile = `.:0 {
    errors
    health 127.0.0.1:0 {
        lameduck 1s
    }
    ready 127.0.0.1:0
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        manifests %q
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus 127.0.0.1:0
    forward . %s {
        max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
}
`

type object = map[string]any

// cluster is the services, and headless ones of 3 and of 100 endpoints.
func cluster() []object {
	items := []object{{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": "load"}}}
	port := []object{{"name": "http", "port": 80, "protocol": "TCP"}}
	add := func(name, ip string) {
		items = append(items, object{"apiVersion": "v1", "kind": "Service", "metadata": object{"name": name, "namespace": "load"},
			"spec": object{"clusterIP": ip, "clusterIPs": []string{ip}, "ports": port}})
	}
	for i := range services {
		add(fmt.Sprintf("service-%d", i), fmt.Sprintf("10.96.%d.%d", i>>8, i&0xFF))
	}
	for _, n := range []int{3, 100} {
		name := fmt.Sprintf("headless-%d", n)
		add(name, "None")
		var eps []object
		for i := range n {
			eps = append(eps, object{"addresses": []string{fmt.Sprintf("10.244.%d.%d", n, i+1)}, "conditions": object{"ready": true}})
		}
		items = append(items, object{"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": eps, "ports": port,
			"metadata": object{"name": name + "-x", "namespace": "load", "labels": object{"kubernetes.io/service-name": name}}})
	}
	return items
}

// upstream answers every query with an address.
func upstream(tb testing.TB) string {
	tb.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 3600}, A: net.IPv4(192, 0, 2, 1)}}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = s.ActivateAndServe() }()
	tb.Cleanup(func() { _ = s.Shutdown() })
	return conn.LocalAddr().String()
}

// start gives the way to ask the whole chain.
func start(tb testing.TB) *server.Direct {
	tb.Helper()
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": cluster()})
	if err != nil {
		tb.Fatal(err)
	}
	file := filepath.Join(tb.TempDir(), "cluster.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		tb.Fatal(err)
	}
	c, err := config.Parse(config.Source{Name: "Corefile", Text: fmt.Appendf(nil, corefile, file, upstream(tb))}, "0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	o, err := config.NewOffline(ctx, c, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(o.Close)
	return o.Server().Direct(o.Listeners()[0].Blocks)
}

// load is one kind of question; %d in the name stands for a number below of.
type load struct {
	name  string
	query func(i int) string
	typ   uint16
	of    int
	rcode int
	count int // answers
}

func loads() []load {
	named := func(format string) func(int) string { return func(i int) string { return fmt.Sprintf(format, i) } }
	fixed := func(name string) func(int) string { return func(int) string { return name } }
	return []load{
		{"cluster-A", named("service-%d.load.svc.cluster.local."), dns.TypeA, services, dns.RcodeSuccess, 1},
		{"cluster-AAAA-nodata", named("service-%d.load.svc.cluster.local."), dns.TypeAAAA, services, dns.RcodeSuccess, 0},
		{"cluster-SRV", named("_http._tcp.service-%d.load.svc.cluster.local."), dns.TypeSRV, services, dns.RcodeSuccess, 1},
		{"cluster-PTR", func(i int) string { return fmt.Sprintf("%d.%d.96.10.in-addr.arpa.", i&0xFF, i>>8) }, dns.TypePTR, services, dns.RcodeSuccess, 1},
		{"nxdomain", named("www-%d.example.com.load.svc.cluster.local."), dns.TypeA, services, dns.RcodeNameError, 0},
		{"headless-3", fixed("headless-3.load.svc.cluster.local."), dns.TypeA, 1, dns.RcodeSuccess, 3},
		{"headless-100", fixed("headless-100.load.svc.cluster.local."), dns.TypeA, 1, dns.RcodeSuccess, 73}, // as many as fit 1232 bytes
		{"pod-name", func(i int) string { return fmt.Sprintf("10-244-%d-%d.load.pod.cluster.local.", i>>8, i&0xFF) }, dns.TypeA, services, dns.RcodeSuccess, 1},
		{"forward-cached", named("host-%d.example.com."), dns.TypeA, 1000, dns.RcodeSuccess, 1},
	}
}

// messages packs the questions, asks each once, which fills the cache, and checks the answers.
func (l *load) messages(tb testing.TB, d *server.Direct) [][]byte {
	tb.Helper()
	out := make([][]byte, l.of)
	for i := range out {
		m := new(dns.Msg).SetQuestion(l.query(i), l.typ)
		m.SetEdns0(1232, false)
		b, err := m.Pack()
		if err != nil {
			tb.Fatal(err)
		}
		out[i] = b
		reply, ok := d.Answer(b, client, server.UDP)
		var r dns.Msg
		if err := r.Unpack(reply); !ok || err != nil || r.Rcode != l.rcode || len(r.Answer) != l.count {
			tb.Fatalf("%s: want rcode %d and %d answers, got %v\n%v", l.query(i), l.rcode, l.count, err, &r)
		}
	}
	return out
}

var client = netip.MustParseAddrPort("10.244.1.2:40000")

func BenchmarkHotPath(b *testing.B) {
	d := start(b)
	for _, l := range loads() {
		b.Run(l.name, func(b *testing.B) {
			msgs := l.messages(b, d)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				d.Answer(msgs[i], client, server.UDP)
				if i++; i == len(msgs) {
					i = 0
				}
			}
		})
	}
}

// TestQuiet: answering from memory leaves nothing for the garbage collector. What other goroutines of the process allocate meanwhile, its
// own tickers and the file watch, is far below one in a thousand queries.
func TestQuiet(t *testing.T) { //nolint:paralleltest // it counts allocations of the whole process
	if servertest.RaceEnabled {
		t.Skip("the race detector allocates by itself")
	}
	d := start(t)
	const queries = 100_000
	for _, l := range loads() {
		msgs := l.messages(t, d)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for i := range queries {
			d.Answer(msgs[i%len(msgs)], client, server.UDP)
		}
		runtime.ReadMemStats(&after)
		n, bytes := after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		// A slab that the collector took from its pool is made anew, which is one larger piece.
		if n > queries/1000 || bytes > queries*4 {
			t.Errorf("%s: %d queries allocated %d times, %d bytes", l.name, queries, n, bytes)
		}
		if strings.HasPrefix(l.name, "cluster") && after.NumGC > before.NumGC+1 {
			t.Errorf("%s: %d collections during %d queries", l.name, after.NumGC-before.NumGC, queries)
		}
	}
}
