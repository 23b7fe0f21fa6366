package ndots_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/console/ndots"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// cluster is clusterAnswer as a server.
func cluster(t *testing.T) string { return servertest.Upstream(t, clusterAnswer) }

// clusterAnswer answers like a cluster: with authority, names it holds, NXDOMAIN for others; AAAA is NODATA, and fails.example. is SERVFAIL.
// lame.example.com.default.svc.cluster.local. is NODATA as lame servers give it, with neither AA nor RA, and mute.example.com.default.svc.cluster.local. gets no reply.
func clusterAnswer(w dns.ResponseWriter, q *dns.Msg) {
	known := map[string]string{
		"web.prod.svc.cluster.local.":                  "10.96.0.1",
		"api.example.com.":                             "192.0.2.1",
		"only6.example.com.default.svc.cluster.local.": "",
		"lame.example.com.default.svc.cluster.local.":  "",
		"bare.example.com.":                            "",
	}
	m := new(dns.Msg)
	m.SetReply(q)
	name := strings.ToLower(q.Question[0].Name)
	if name == "mute.example.com.default.svc.cluster.local." {
		return
	}
	m.Authoritative = !strings.HasPrefix(name, "lame.")
	addr, ok := known[name]
	switch {
	case strings.HasPrefix(name, "fails.example."), name == "sick.example.com.default.svc.cluster.local.":
		m.Rcode = dns.RcodeServerFailure
	case !ok:
		m.Rcode = dns.RcodeNameError
	case addr != "" && q.Question[0].Qtype == dns.TypeA:
		rr, _ := dns.NewRR(name + " 30 IN A " + addr)
		m.Answer = append(m.Answer, rr)
	}
	_ = w.WriteMsg(m)
}

func TestCandidates(t *testing.T) {
	t.Parallel()
	list := []string{"default.svc.cluster.local", "cluster.local."}
	root := []string{".", "cluster.local"}
	long := strings.Repeat("0123456789.", 21) + "x" // 232 letters
	for _, c := range []struct {
		resolver, name string
		ndots          int
		search         []string
		want           string
	}{
		{"glibc", "web", 5, list, "web.default.svc.cluster.local. web.cluster.local. web."},
		{"glibc", "api.example.com", 5, list, "api.example.com.default.svc.cluster.local. api.example.com.cluster.local. api.example.com."},
		{"glibc", "api.example.com", 2, list, "api.example.com. api.example.com.default.svc.cluster.local. api.example.com.cluster.local."},
		{"glibc", "api.example.com.", 5, list, "api.example.com."},
		{"go", "api.example.com", 2, list, "api.example.com. api.example.com.default.svc.cluster.local. api.example.com.cluster.local."},
		{"musl", "api.example.com", 2, list, "api.example.com."},
		{"musl", "web", 1, list, "web.default.svc.cluster.local. web.cluster.local. web."},
		{"glibc", "web", 5, root, "web. web.cluster.local."},
		{"glibc", "web", 0, root, "web. web. web.cluster.local."},
		{"musl", "web", 5, root, "web.cluster.local. web."},
		{"go", "web", 5, root, "web.cluster.local. web."},
		{"glibc", long, 25, list, long + "."},
		{"musl", long, 25, list, long + ".cluster.local. " + long + "."},
		{"go", long, 25, list, long + ".cluster.local. " + long + "."},
	} {
		r, err := ndots.ResolverNamed(c.resolver)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(r.Candidates(c.name, c.ndots, c.search), " "); got != c.want {
			t.Errorf("%s %s ndots:%d:\ngot  %s\nwant %s", c.resolver, c.name, c.ndots, got, c.want)
		}
	}
}

func TestLookup(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	search := []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	for _, c := range []struct {
		resolver, name string
		ndots          int
		want           string
	}{
		{"glibc", "api.example.com", 5, "found after 8 queries"},
		{"glibc", "api.example.com", 2, "found after 2 queries"},
		{"glibc", "api.example.com.", 5, "found after 2 queries"},
		{"glibc", "web.prod", 5, "found after 4 queries"},
		{"glibc", "nothing.example.com", 1, "nxdomain after 8 queries"},
		{"musl", "nothing.example.com", 1, "nxdomain after 2 queries"},
		{"glibc", "only6.example.com", 5, "nodata after 8 queries"},
		{"glibc", "lame.example.com", 5, "nodata after 4 queries"},
		{"go", "lame.example.com", 5, "nodata after 8 queries"},
		{"go", "only6.example.com", 5, "nodata after 8 queries"},
		{"musl", "only6.example.com", 5, "nodata after 2 queries"},
		{"glibc", "fails.example", 5, "failed after 8 queries"},
		{"musl", "fails.example", 5, "failed after 2 queries"},
		{"go", "fails.example", 5, "failed after 8 queries"},
	} {
		r, err := ndots.ResolverNamed(c.resolver)
		if err != nil {
			t.Fatal(err)
		}
		lab := ndots.Lab{Server: server, Rules: r, NDots: c.ndots, Search: search, Zones: []string{"cluster.local"}}
		l := lab.Lookup(t.Context(), c.name)
		if got := fmt.Sprintf("%s after %d queries", l.Outcome, len(l.Queries)); got != c.want {
			t.Errorf("%s %s ndots:%d: %s, want %s", c.resolver, c.name, c.ndots, got, c.want)
		}
		for _, q := range l.Queries {
			if q.Upstream == strings.HasSuffix(q.Name, ".cluster.local.") {
				t.Errorf("%s: upstream %v", q.Name, q.Upstream)
			}
		}
	}
}

// TestNoQuestion asks a server whose replies have no question section.
func TestNoQuestion(t *testing.T) {
	t.Parallel()
	addr := servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.Question, m.Authoritative = nil, true
		_ = w.WriteMsg(m)
	})
	rules, err := ndots.ResolverNamed("glibc")
	if err != nil {
		t.Fatal(err)
	}
	lab := ndots.Lab{Server: addr, Rules: rules, NDots: 1}
	if got := lab.Lookup(t.Context(), "x."); got.Outcome != ndots.NoData {
		t.Errorf("%+v", got)
	}
}
