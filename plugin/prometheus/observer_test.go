package prometheus

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"
	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// answerA answers every question with one address.
type answerA struct{}

func (answerA) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	r.A(server.Answer, server.Owner, 5, [4]byte{10, 96, 0, 10})
	return server.Done
}

var stockOptions = Options{Address: DefaultAddress}

func observed(m *Metrics, o Options) *server.Block {
	b := servertest.Block(".", server.Stage{Name: "kubernetes", Handler: answerA{}})
	b.Observers = []server.Observer{m.Observer(o, b)}
	return b
}

func TestObserveDoesNotAllocate(t *testing.T) {
	m := NewMetrics(prom.NewRegistry(), Build{})
	q := servertest.Query("kubernetes.default.svc.cluster.local.", dns.TypeA, 1232)
	servertest.NoAllocs(t, q, observed(m, stockOptions))
	o := stockOptions
	o.Clients = 20
	m.Apply(nil, o)
	servertest.NoAllocs(t, q, observed(m, o))
}

func BenchmarkObserve(b *testing.B) {
	for name, o := range map[string]*Options{"without": nil, "with": {}, "clients": {Clients: 20}} {
		b.Run(name, func(b *testing.B) {
			m := NewMetrics(prom.NewRegistry(), Build{})
			bl := servertest.Block(".", server.Stage{Name: "kubernetes", Handler: answerA{}})
			if o != nil {
				m.Apply(nil, *o)
				bl = observed(m, *o)
			}
			d := servertest.Direct(bl)
			msg := servertest.Pack(b, servertest.Query("kubernetes.default.svc.cluster.local.", dns.TypeA, 1232))
			client := netip.MustParseAddrPort("10.244.0.7:40000")
			b.ReportAllocs()
			for b.Loop() {
				d.Answer(msg, client, server.UDP)
			}
		})
	}
}
