package plugin_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/autopath"
	"github.com/clusterdns/clusterdns/plugin/dns64"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/rewrite"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// validated answers as a server that validates: it says so to who wants to know.
type validated struct{}

func (validated) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.WantsAD() {
		r.SetFlags(wire.FlagAD)
	}
	r.AAAA(server.Answer, server.Owner, 60, [16]byte{15: 1})
	return server.Done
}

// TestAskedOnBehalf has directives ask the rest of the chain for a client that sets AD without DO (RFC 6840 5.7), as glibc does with trust-ad: it learns that
// the answer is authenticated as it would without them.
func TestAskedOnBehalf(t *testing.T) {
	t.Parallel()
	for what, h := range map[string]server.Handler{
		"dns64":    dns64.New(must(t, dns64.Parse, "dns64 {\nallow_ipv4\n}"), nil),
		"autopath": autopath.New(must(t, autopath.Parse, "autopath resolv.conf"), autopath.Source{List: []wire.Canonical{wire.MustCanonical("example.org")}}, nil),
		"rewrite":  rewrite.New([]rewrite.Options{must(t, rewrite.Parse, "rewrite cname exact a.test. b.test.")}),
	} {
		for _, wants := range []bool{true, false} {
			m := plugintest.Question("www.example.org.", "AAAA")
			m.AuthenticatedData = wants
			r := plugintest.Ask(t, "", m, h, validated{})
			if r.Rcode != dns.RcodeSuccess || len(r.Answer) != 1 || r.AuthenticatedData != wants {
				t.Errorf("%s, AD %v: %v", what, wants, r)
			}
		}
	}
}
