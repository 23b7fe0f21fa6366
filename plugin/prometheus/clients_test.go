package prometheus

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// pods gives the Pods at 10.244.1.x names.
type pods struct{}

func (pods) Metadata(q *server.Query, label string) (string, bool) {
	a := q.Client.Addr().As4()
	switch {
	case a[2] != 1:
		return "", false
	case label == "kubernetes/client-namespace":
		return "shop", true
	case label == "kubernetes/client-pod-name":
		return "web-" + string('0'+a[3]), true
	}
	return "", false
}

// TestBusiestClients finds two busy Pods among a hundred thousand addresses that ask once, and never follows more than its bound.
func TestBusiestClients(t *testing.T) {
	t.Parallel()
	const count = 3
	reg := prom.NewRegistry()
	m := NewMetrics(reg, Build{})
	m.Apply(nil, Options{Clients: count})
	b := observed(m, Options{Clients: count})
	b.Providers = []server.MetadataProvider{pods{}}
	d := servertest.Direct(b)
	msg := servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0))
	ask := func(a netip.Addr) { d.Answer(msg, netip.AddrPortFrom(a, 5000), server.UDP) }
	const rounds = 10_000
	for i := range rounds {
		ask(netip.AddrFrom4([4]byte{10, 244, 1, 1}))
		ask(netip.AddrFrom4([4]byte{10, 244, 1, 1}))
		ask(netip.AddrFrom4([4]byte{10, 244, 1, 2}))
		var one [4]byte
		binary.BigEndian.PutUint32(one[:], 11<<24+uint32(i))
		ask(netip.AddrFrom4(one))
		ask(netip.AddrFrom4([4]byte{10, 244, 1, 1})) // five, so that the sample falls on each in turn
	}
	top := m.clients.busiest()
	if len(top) > count {
		t.Errorf("%d clients are named, more than %d", len(top), count)
	}
	if n := len(m.clients.list); n > count*perClient {
		t.Errorf("%d clients are followed, more than %d", n, count*perClient)
	}
	if len(top) < 2 || top[0].pod != "web-1" || top[1].pod != "web-2" || top[0].namespace != "shop" {
		t.Fatalf("busiest are %+v, want web-1, web-2", top)
	}
	// All within the first tick: three fifths of the queries in five seconds.
	want := 3 * rounds / tick.Seconds()
	if r := top[0].rate; r < 0.9*want || r > 1.2*want {
		t.Errorf("rate of the busiest is %.0f/s, want about %.0f/s", r, want)
	}
}

// TestClientsFade: who stops asking is gone after some minutes, and a client's names are looked up again.
func TestClientsFade(t *testing.T) {
	t.Parallel()
	m := NewMetrics(prom.NewRegistry(), Build{})
	o := Options{Clients: 3}
	m.Apply(nil, o)
	d := servertest.Direct(observed(m, o))
	msg := servertest.Pack(t, servertest.Query("a.example.org.", dns.TypeA, 0))
	for range 100 * oneIn {
		d.Answer(msg, servertest.Client, server.UDP)
	}
	if n := len(m.clients.busiest()); n != 1 {
		t.Fatalf("%d clients, want 1", n)
	}
	for range 12 { // a minute
		m.clients.fade()
	}
	if r := m.clients.busiest()[0].rate; r < 5 || r > 100*oneIn/tick.Seconds() {
		t.Errorf("after a minute the rate is %.1f/s", r)
	}
	for range 12 * 10 {
		m.clients.fade()
	}
	if top := m.clients.busiest(); len(top) != 0 {
		t.Errorf("after eleven minutes there is still %+v", top)
	}
	m.Apply(nil)
	d.Answer(msg, servertest.Client, server.UDP)
	if n := len(m.clients.list); n != 0 {
		t.Errorf("%d clients are followed though none is to be named", n)
	}
}
