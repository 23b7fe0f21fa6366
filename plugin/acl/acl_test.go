package acl

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

func handler(t *testing.T, m *Metrics, texts ...string) *ACL {
	t.Helper()
	var all []Options
	for _, text := range texts {
		o, err := Parse(plugintest.Input(t, text, "."))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return New(all, m)
}

const ok = "NOERROR\na.example.org. 1 IN A 192.0.2.1"

func TestPolicies(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "a.example.org. 1 IN A 192.0.2.1")
	for _, c := range []struct{ text, client, ask, want string }{
		{"acl {\nblock type A net 192.168.0.0/16\n}", "192.168.1.2", "a.example.org. A", "REFUSED"},
		{"acl {\nblock type A net 192.168.0.0/16\n}", "192.168.1.2", "a.example.org. AAAA", "NOERROR"},
		{"acl {\nblock type A net 192.168.0.0/16\n}", "192.169.1.2", "a.example.org. A", ok},
		{"acl {\nfilter type A AAAA net 192.168.0.0/16\n}", "192.168.1.2", "a.example.org. A", "NOERROR"},
		{"acl {\ndrop net 192.0.2.0/24\n}", "192.0.2.9", "a.example.org. A", "dropped"},
		{"acl {\nallow net 192.168.1.0/24\nblock net 192.168.0.0/16\n}", "192.168.1.2", "a.example.org. A", ok},
		{"acl {\nallow net 192.168.1.0/24\nblock net 192.168.0.0/16\n}", "192.168.2.2", "a.example.org. A", "REFUSED"},
		{"acl {\nallow net 192.168.0.0/24 192.168.1.0/24\nblock\n}", "192.168.1.2", "a.example.org. A", ok},
		{"acl {\nallow net 192.168.0.0/24 192.168.1.0/24\nblock\n}", "2001:db8::1", "a.example.org. A", "REFUSED"},
		{"acl {\nblock net 192.0.2.7\n}", "192.0.2.7", "a.example.org. A", "REFUSED"},
		{"acl {\nblock net 192.0.2.7\n}", "192.0.2.8", "a.example.org. A", ok},
		{"acl {\nblock net 2001:db8::/32\n}", "2001:db8:1::1", "a.example.org. A", "REFUSED"},
		{"acl {\nblock net 10.0.0.0/8 type * \n}", "10.1.1.1", "a.example.org. A", "REFUSED"},
		{"acl {\nblock type A net *\n}", "10.1.1.1", "a.example.org. A", "REFUSED"},
		{"acl {\nblock net ::ffff:192.0.2.7\n}", "192.0.2.7", "a.example.org. A", "REFUSED"},
		{"acl {\nblock net ::ffff:192.0.2.0/120\n}", "192.0.2.7", "a.example.org. A", "REFUSED"},
		{"acl {\nblock net ::ffff:192.0.2.0/120\n}", "192.0.3.7", "a.example.org. A", ok},
		{"acl {\nblock net ::ffff:0:0/96\n}", "192.0.2.7", "a.example.org. A", "REFUSED"},
		{"acl a.example.org {\nblock net 192.168.1.0/24\n}", "192.168.1.7", "A.example.org. A", "REFUSED"},
		{"acl b.example.org {\nblock net 192.168.1.0/24\n}", "192.168.1.7", "a.example.org. A", ok},
	} {
		name, typ, _ := strings.Cut(c.ask, " ")
		r := plugintest.Ask(t, c.client, plugintest.Question(name, typ), handler(t, NewMetrics(nil), c.text), back)
		plugintest.Check(t, c.text+" from "+c.client, r, c.want)
	}
}

func TestSeveral(t *testing.T) {
	t.Parallel()
	back := plugintest.NewAnswers(t, "a.example.org. 1 IN A 192.0.2.1")
	h := handler(t, nil, "acl example.org {\nallow net 192.0.2.1\n}", "acl {\nblock\n}")
	plugintest.Check(t, "allowed by the first", plugintest.Ask(t, "192.0.2.1", plugintest.Question("a.example.org.", "A"), h, back), ok)
	plugintest.Check(t, "blocked by the second", plugintest.Ask(t, "192.0.2.2", plugintest.Question("a.example.org.", "A"), h, back), "REFUSED")
	if r := plugintest.Ask(t, "192.0.2.2", plugintest.Question("a.example.org.", "A"), h, back); r.IsEdns0().Option[0].(*dns.EDNS0_EDE).InfoCode != dns.ExtendedErrorCodeBlocked {
		t.Errorf("got %v", r)
	}
}

// rename looks for another name, as rewrite does.
type rename string

func (n rename) Answer(_ *server.Reply, q *server.Query) server.Verdict {
	if !q.Followed() {
		_ = q.SetName([]byte(wire.MustCanonical(string(n))))
	}
	return server.Pass
}

// search asks the rest of the chain for another name, as autopath does.
type search string

func (search) Answer(*server.Reply, *server.Query) server.Verdict { return server.Wait }

func (n search) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	p := q.Rest().Exchange(ctx, server.Question{Name: []byte(wire.MustCanonical(string(n))), Type: q.Type})
	rrs, err := server.Records(p.Msg)
	if err != nil {
		return r.Fail(err)
	}
	for i := range rrs {
		r.Record(&rrs[i])
	}
	r.SetRCode(p.RCode())
	return server.Done
}

// remembers answers every name, as a cache might.
type remembers struct{}

func (remembers) Answer(r *server.Reply, _ *server.Query) server.Verdict {
	r.A(server.Answer, server.Owner, 1, [4]byte{192, 0, 2, 9})
	return server.Done
}

func TestNoWayRound(t *testing.T) {
	t.Parallel()
	secret := handler(t, nil, "acl secret.example.org {\nblock net 10.0.0.0/8\n}")
	back := plugintest.NewAnswers(t, "secret.example.org. 1 IN A 192.0.2.1", "alias.example.org. 1 IN CNAME secret.example.org.", "open.example.org. 1 IN A 192.0.2.2")
	for _, c := range []struct {
		name, ask string
		between   server.Handler
		last      server.Handler
		want      string
	}{
		{"the name itself", "SECRET.example.org.", rename("secret.example.org."), back, "REFUSED"},
		{"a rewritten name", "open.example.org.", rename("secret.example.org."), back, "REFUSED"},
		{"a name that is rewritten to another", "secret.example.org.", rename("open.example.org."), back, "REFUSED"},
		{"a followed name", "alias.example.org.", rename("alias.example.org."), back, "REFUSED\nalias.example.org. 1 IN CNAME secret.example.org."},
		{"a question of a handler's own", "open.example.org.", search("secret.example.org."), back, "REFUSED"},
		{"what is remembered", "open.example.org.", rename("secret.example.org."), remembers{}, "REFUSED"},
		{"an open name", "open.example.org.", rename("open.example.org."), back, "NOERROR\nopen.example.org. 1 IN A 192.0.2.2"},
	} {
		q := plugintest.Question(c.ask, "A")
		plugintest.Check(t, c.name, plugintest.Ask(t, "10.1.1.1", q, secret, c.between, secret.Final(), c.last), c.want)
		if r := plugintest.Ask(t, "192.0.2.200", q, secret, c.between, secret.Final(), c.last); r.Rcode != dns.RcodeSuccess {
			t.Errorf("%s: a client that may ask got %v", c.name, r)
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	h := handler(t, NewMetrics(reg), "acl {\nblock net 10.0.0.1\nfilter net 10.0.0.2\ndrop net 10.0.0.3\n}")
	for _, client := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		plugintest.Ask(t, client, plugintest.Question("a.", "A"), h, h.Final(), plugintest.NewAnswers(t))
	}
	var want strings.Builder
	for _, m := range [][3]string{{"allowed", "Queries that acl let pass.", ""}, {"blocked", "Queries that acl answered with REFUSED.", `,zone="."`},
		{"dropped", "Queries that acl did not answer.", `,zone="."`}, {"filtered", "Queries that acl answered with nothing.", `,zone="."`}} {
		n := "coredns_acl_" + m[0] + "_requests_total"
		want.WriteString("# HELP " + n + " " + m[1] + "\n# TYPE " + n + " counter\n" + n + `{server="dns://:53",view=""` + m[2] + "} 1\n")
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
}

func TestNoAllocs(t *testing.T) {
	h := handler(t, NewMetrics(prometheus.NewRegistry()), "acl {\nblock type TXT net 192.168.0.0/16 10.0.0.0/8 2001:db8::/32\n}", "acl example.org {\nfilter net 192.0.2.0/24\n}")
	back := plugintest.NewAnswers(t, "a.example.org. 1 IN A 192.0.2.1")
	servertest.NoAllocs(t, servertest.Query("a.example.org.", dns.TypeA, 1232), servertest.Block(".", plugintest.Stage(h), plugintest.Stage(h.Final()), plugintest.Stage(back)))
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"acl {\ndeny\n}":              `Corefile:2: acl: unknown action "deny"; known are allow, block, filter, drop`,
		"acl {\nblock A\n}":           "type or net must follow block",
		"acl {\nblock type\n}":        "type needs something behind it",
		"acl {\nblock type net ::\n}": "type needs something behind it",
		"acl {\nblock type XX\n}":     `"XX" is not a record type`,
		"acl {\nblock net 1.2.3\n}":   "neither an address nor a network",
		"acl a..b {\nblock\n}":        "has an empty label",
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
	text := "acl {\nblock type A net 192.0.2.0/24\n}"
	one, _ := Parse(plugintest.Input(t, text, "."))
	two, _ := Parse(plugintest.Input(t, text, "."))
	if !reflect.DeepEqual(one, two) {
		t.Error("equal options are not deeply equal")
	}
}

func TestDocs(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "acl", append(Words(), "coredns_acl_allowed_requests_total", "coredns_acl_blocked_requests_total", "coredns_acl_filtered_requests_total", "coredns_acl_dropped_requests_total")...)
}
