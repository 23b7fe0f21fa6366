package ndots_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/ndots"
	lab "github.com/clusterdns/clusterdns/plugin/console/ndots"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// cluster is a server that answers like a cluster's: names it holds, NXDOMAIN for others; AAAA is NODATA.
func cluster(t *testing.T) string {
	return servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		known := map[string]string{"web.prod.svc.cluster.local.": "10.96.0.1", "api.example.com.": "192.0.2.1"}
		m := new(dns.Msg)
		m.SetReply(q)
		m.Authoritative = true
		name := strings.ToLower(q.Question[0].Name)
		switch addr, ok := known[name]; {
		case !ok:
			m.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			rr, _ := dns.NewRR(name + " 30 IN A " + addr)
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})
}

func run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	status = ndots.Run(context.Background(), args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestRun(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	html := filepath.Join(t.TempDir(), "report.html")
	names := filepath.Join(t.TempDir(), "names")
	if err := os.WriteFile(names, []byte("web.prod # a comment\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, out, errs := run(t, "-server", server, "-resolver", "all", "-html", html, "-o", "json", "-rounds", "2", "-names", names, "api.example.com")
	if status != 0 || errs != "" {
		t.Fatalf("status %d: %s", status, errs)
	}
	var r lab.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Summaries) != 15 {
		t.Fatalf("%d summaries, want 3 resolvers with 5 values of ndots", len(r.Summaries))
	}
	for _, s := range r.Summaries {
		want := 12 // 8 for api.example.com, 4 for web.prod
		switch s.NDots {
		case 1:
			want = 2 + 6 // web.prod as it is first, which does not exist, and then searched
			if s.Resolver == "musl" {
				want = 2 + 2 // and not searched: it is not found
			}
		case 2:
			want = 2 + 4
		}
		if s.Queries != 2*want || s.Lookups != 4 || s.P50 <= 0 || s.P99 < s.P50 {
			t.Errorf("%s ndots:%d: %d queries in %d lookups, p50 %v, p99 %v, want %d queries", s.Resolver, s.NDots, s.Queries, s.Lookups, s.P50, s.P99, 2*want)
		}
	}
	if len(r.Advice) == 0 || !strings.Contains(r.Advice[0], "ndots:2 is best") {
		t.Errorf("advice: %q", r.Advice)
	}
	page, err := os.ReadFile(html)
	if err != nil || !bytes.Contains(page, []byte("api.example.com.default.svc.cluster.local.")) || bytes.Contains(page, []byte("://")) {
		t.Errorf("the page has no waterfall, or asks for something: %v", err)
	}
	evil := filepath.Join(t.TempDir(), "evil.html")
	if _, _, errs := run(t, "-server", server, "-ndots", "1", "-rounds", "1", "-html", evil, "<script>alert(1)</script>.example.com", "web.prod"); errs != "" {
		t.Errorf("a hostile name: %s", errs)
	}
	if page, err := os.ReadFile(evil); err != nil || bytes.Contains(page, []byte("<script")) || !bytes.Contains(page, []byte("&lt;script&gt;")) {
		t.Errorf("a hostile name is not escaped: %v\n%s", err, page)
	}
	for _, format := range []string{"table", "csv"} {
		if status, out, errs := run(t, "-server", server, "-o", format, "-rounds", "1", "-ndots", "5", "web.prod"); status != 0 || !strings.Contains(out, "glibc") {
			t.Errorf("%s: %d %s %s", format, status, out, errs)
		}
	}
}

// TestAdvice: what is said is about the default, or else about what was measured; equals are said to be equal, and nothing found is a failure.
func TestAdvice(t *testing.T) {
	t.Parallel()
	server := cluster(t)
	for _, c := range []struct {
		args   string
		status int
		want   []string
	}{
		{"web.prod", 0, []string{"glibc: nothing is better for these names than the default ndots:5: 4.0 queries a lookup, and as many with 2, 3, 4.", "at ndots:5, trailing dots"}},
		{"api.example.com", 0, []string{"glibc: ndots:2 is best for these names: 2.0 queries a lookup, where the default ndots:5 takes 8.0 (1 does as well).", "at ndots:5, trailing dots"}},
		{"-ndots 3 api.example.com", 0, []string{"glibc: ndots:3 takes 8.0 queries a lookup.", "at ndots:3, trailing dots"}},
		{"-ndots 1-4 web.prod", 0, []string{"nothing is better for these names than ndots:4"}},
		{"web.prod.svc.cluster.local.", 0, []string{"every ndots takes 2.0 queries a lookup for these names: stay with the default ndots:5."}},
		{"-resolver musl web.prod", 0, []string{"the default ndots:5"}},
		{"-resolver musl -ndots 1,2,5 web.prod api.example.com", 0, []string{"musl: ndots:2 is best for these names: 3.0 queries"}},
		{"nothing.example.com", 1, []string{"no ndots is better than another", "clusterdns ndots: no lookup found an address: " + server + " says that none of these names exists"}},
	} {
		status, out, errs := run(t, strings.Fields("-rounds 1 -server "+server+" "+c.args)...)
		for _, want := range c.want {
			if status != c.status || !strings.Contains(out+errs, want) {
				t.Errorf("%s: status %d, want %d and %q\n%s%s", c.args, status, c.status, want, out, errs)
			}
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   string
		status int
		want   string
	}{
		{"", 2, "no name to look up"},
		{"-ndots 7-3 x", 2, `-ndots: "7-3" is not a number or range within 0 and 15`},
		{"-ndots 16 x", 2, "within 0 and 15"},
		{"-resolver bionic x", 2, "known are glibc, musl, go"},
		{"-rounds 0 x", 2, "-rounds"},
		{"-delay 2h x", 2, "-delay"},
		{"-o xml x", 2, "known are table, json, csv"},
		{"-names /does/not/exist", 2, "no such file"},
		{"-wrong", 2, "-wrong"},
		{"x a..b", 2, `"a..b" cannot be a name: `},
		{"-search a,b..c x", 2, `-search: "b..c" cannot be a domain: `},
		{"-search a, x", 2, `-search: "" cannot be a domain: `},
	} {
		status, _, errs := run(t, strings.Fields(c.args)...)
		if status != c.status || !strings.Contains(errs, c.want) {
			t.Errorf("%q: status %d, %q, want %d and %q", c.args, status, errs, c.status, c.want)
		}
	}
	status, out, errs := run(t, "-h")
	if status != 0 || errs != "" || !strings.HasPrefix(out, "Usage: clusterdns ndots") {
		t.Errorf("-h: status %d, %q, %q", status, out, errs)
	}
	if n := strings.Count(out, "\n"); n > 26 {
		t.Errorf("-h takes %d lines", n)
	}
}
