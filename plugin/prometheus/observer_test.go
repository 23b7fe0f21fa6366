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

// BenchmarkHistograms compares counting a duration here with a histogram of client_golang that has the same buckets.
func BenchmarkHistograms(b *testing.B) {
	b.Run("cells", func(b *testing.B) {
		t, v := durations.tally(), uint64(1)
		for b.Loop() {
			v = v*6364136223846793005 + 1442695040888963407
			t.cells[durations.cell(float64(v>>40)*1e-9)]++
		}
	})
	b.Run("client_golang", func(b *testing.B) {
		h, v := prom.NewHistogram(prom.HistogramOpts{Name: "x", Buckets: durations.bounds, NativeHistogramBucketFactor: 1.05}), uint64(1)
		for b.Loop() {
			v = v*6364136223846793005 + 1442695040888963407
			h.Observe(float64(v>>40) * 1e-9)
		}
	})
}
