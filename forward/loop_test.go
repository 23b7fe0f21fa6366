package forward

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

var _ server.Forwarder = (*Forward)(nil)

// TestProbeAndSuspend is what the loop directive does with upstreams.
func TestProbeAndSuspend(t *testing.T) {
	t.Parallel()
	var asked [2]atomic.Int64
	addrs := [2]string{}
	for i := range addrs {
		addrs[i] = servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
			if m.Question[0].Qtype == dns.TypeHINFO {
				if i == 0 {
					_ = w.WriteMsg(new(dns.Msg).SetRcode(m, dns.RcodeNameError))
				}
				return
			}
			asked[i].Add(1)
			_ = w.WriteMsg(new(dns.Msg).SetReply(m))
		})
	}
	f := running(t, "forward example.org "+addrs[0]+" "+addrs[1]+" {\n policy sequential\n}")
	s := serving(t, f)
	s.Ask(t, "a.example.org.", dns.TypeA) // the list of upstreams is there
	ups := f.Upstreams()
	if len(ups) != 2 || ups[0].String() != addrs[0] || ups[0].Zone().String() != "example.org." || ups[0] != f.Upstreams()[0] {
		t.Fatalf("upstreams are %v", ups)
	}

	ups[0].Suspend(true)
	probe := server.Question{Name: []byte(wire.MustCanonical("token.example.org.")), Type: wire.TypeHINFO, Class: wire.ClassIN, RD: true}
	if err := ups[0].Probe(t.Context(), probe); err != nil {
		t.Errorf("probe of an upstream that replies: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := ups[1].Probe(ctx, probe); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("probe of an upstream that is silent: %v", err)
	}

	if s, why := ups[0].State(); s != server.UpstreamSuspended || s.String() != "suspended" || !strings.Contains(why, "leads back") {
		t.Errorf("state of one that is suspended: %s, %q", s, why)
	}
	first := asked[0].Load()
	if r := s.Ask(t, "b.example.org.", dns.TypeA); r.Rcode != dns.RcodeSuccess || asked[0].Load() != first || asked[1].Load() == 0 {
		t.Errorf("with the first suspended: %v, asked %d and %d", r, asked[0].Load(), asked[1].Load())
	}
	ups[1].Suspend(true)
	r := s.Ask(t, "c.example.org.", dns.TypeA)
	if r.Rcode != dns.RcodeServerFailure || asked[0].Load() != first {
		t.Errorf("with both suspended: %v", r)
	}
	ups[0].Suspend(false)
	if r := s.Ask(t, "d.example.org.", dns.TypeA); r.Rcode != dns.RcodeSuccess || asked[0].Load() == first {
		t.Errorf("with the first back: %v", r)
	}
	if s, why := ups[0].State(); s != server.UpstreamUp || why != "" {
		t.Errorf("state of one that is back: %s, %q", s, why)
	}
}
