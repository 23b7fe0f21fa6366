package minimal

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// referral answers with the name servers of a zone below.
type referral struct{ rcode wire.RCode }

func (f referral) Answer(r *server.Reply, q *server.Query) server.Verdict {
	r.SetRCode(f.rcode)
	r.Begin(server.Authority, server.Owner, wire.TypeNS, 5)
	r.PutName([]byte("\x02ns\x00"))
	r.End()
	return server.Done
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "a. 1 IN CNAME b.", "b. 1 IN A 192.0.2.1", "ns b. 5 IN NS ns.b.", "extra ns.b. 5 IN A 192.0.2.2")
	q := plugintest.Question("a.", "A")
	plugintest.Check(t, "an answer", plugintest.Ask(t, "", q, New(Options{}), back), "NOERROR", "a. 1 IN CNAME b.", "b. 1 IN A 192.0.2.1")
	plugintest.Check(t, "without", plugintest.Ask(t, "", q, back), "NOERROR", "a. 1 IN CNAME b.", "b. 1 IN A 192.0.2.1", "ns b. 5 IN NS ns.b.", "extra ns.b. 5 IN A 192.0.2.2")
	plugintest.Check(t, "a referral", plugintest.Ask(t, "", q, New(Options{}), referral{}), "NOERROR", "ns a. 5 IN NS ns.")
	plugintest.Check(t, "NXDOMAIN", plugintest.Ask(t, "", q, New(Options{}), referral{wire.RCodeNXDomain}), "NXDOMAIN", "ns a. 5 IN NS ns.")
}

func TestNoAllocs(t *testing.T) {
	back := plugintest.NewAnswers(t, "b. 1 IN A 192.0.2.1", "ns b. 5 IN NS ns.b.")
	servertest.NoAllocs(t, servertest.Query("b.", dns.TypeA, 1232), servertest.Block(".", plugintest.Stage(New(Options{})), plugintest.Stage(back)))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"minimal": true, "minimal yes": false, "minimal {\nx y\n}": false} {
		if _, err := Parse(plugintest.Input(t, text)); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "minimal", "minimal")
}
