package rewrite_test

import (
	"context"
	"encoding/hex"
	"log/slog"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/rewrite"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestOptionsReachUpstreams: what edns0 rules set is for the servers that forward asks.
func TestOptionsReachUpstreams(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	upstream := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		var options string
		for _, o := range m.IsEdns0().Option {
			if l, ok := o.(*dns.EDNS0_LOCAL); ok {
				options += hex.EncodeToString(l.Data) + " "
			}
		}
		seen <- options
		r := new(dns.Msg)
		_ = w.WriteMsg(r.SetReply(m))
	})
	o, err := forward.Parse(plugintest.Input(t, "forward . "+upstream, "."))
	if err != nil {
		t.Fatal(err)
	}
	f := forward.New([]forward.Options{o}, forward.NewMetrics(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
	if err := f.Load(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = f.Run(ctx) }()
	rule, err := rewrite.Parse(plugintest.Input(t, "rewrite edns0 local set 0xffee {client_ip} revert"))
	if err != nil {
		t.Fatal(err)
	}
	for client, want := range map[string]string{"192.0.2.7": "c0000207 ", "192.0.2.8": "c0000208 "} {
		m := plugintest.Question("www.example.org.", "A")
		m.IsEdns0().Option = []dns.EDNS0{&dns.EDNS0_LOCAL{Code: 0xffaa, Data: []byte("mine")}}
		r := plugintest.Ask(t, client, m, rewrite.New([]rewrite.Options{rule}), f)
		if got := <-seen; got != want || r.Rcode != dns.RcodeSuccess || len(r.IsEdns0().Option) != 0 {
			t.Errorf("%s: the upstream saw %q, want %q; the reply is\n%v", client, got, want, r)
		}
	}
	cancel()
	<-done
}
