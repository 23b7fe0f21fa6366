package kubernetes_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

// patience ends a test that hangs.
const patience = 10 * time.Second

// parse reads a kubernetes directive: its arguments on the first line, an option on each other.
func parse(text string) (kubernetes.Options, error) {
	var in directive.Input
	for n, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		var line directive.Line
		for i, w := range strings.Fields(l) {
			a := directive.Arg{Text: w, File: "Corefile", Line: n + 1}
			if i == 0 && n > 0 {
				line.Name = a
			} else {
				line.Args = append(line.Args, a)
			}
		}
		if n == 0 {
			in.Line = directive.Line{Name: directive.Arg{Text: "kubernetes", File: "Corefile", Line: 1}, Args: line.Args, HasBlock: true}
			continue
		}
		in.Lines = append(in.Lines, line)
	}
	in.Zones, in.Root, in.Warn = []string{"cluster.local."}, "/etc", func(directive.Arg, string, ...any) {}
	return kubernetes.Parse(&in)
}

func options(t testing.TB, text string) kubernetes.Options {
	t.Helper()
	o, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// cluster gives a Kubernetes that has read manifests.
func cluster(t testing.TB, opts, manifests string) *kubernetes.Kubernetes {
	t.Helper()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	o := options(t, opts)
	o.Manifests = []string{file}
	k := kubernetes.New(o, kubernetes.NewManifests(o, nil, nil), kubernetes.Deps{})
	run(t, k)
	select {
	case <-k.Synced():
	case <-time.After(patience):
		t.Fatal("the manifests were not read")
	}
	return k
}

// run runs k until the test ends.
func run(t testing.TB, k server.Runner) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// next is a handler behind the one under test: its records stand for everything else in the world.
type next map[string]string

// Answer implements server.Handler. What it does not have does not exist; "fail" in a name makes it fail.
func (n next) Answer(r *server.Reply, q *server.Query) server.Verdict {
	name := wire.Canonical(q.Name.Folded()).String()
	if strings.Contains(name, "fail") {
		return r.Fail(nil)
	}
	r.SetFlags(wire.FlagRA)
	text, ok := n[name+" "+q.Type.String()]
	if ok {
		r.TXT(server.Answer, server.Owner, 60, text)
		return server.Done
	}
	for k := range n {
		ok = ok || strings.HasPrefix(k, name+" ")
	}
	if !ok {
		r.SetRCode(wire.RCodeNXDomain)
	}
	root := []byte{0}
	r.SOA(server.Authority, root, 60, &server.SOA{MName: root, RName: root})
	return server.Done
}

// block is a server block of the root zone with k and the rest of the world.
func block(k server.Handler, world next) *server.Block {
	return servertest.Block(".", server.Stage{Name: "kubernetes", Handler: k}, server.Stage{Name: "next", Handler: world})
}

// answer is a reply as tests write it: rcode and flags, then one line a record, the serial as 0.
func answer(m *dns.Msg) string {
	out := []string{dns.RcodeToString[m.Rcode]}
	if m.Authoritative {
		out[0] += " aa"
	}
	if m.RecursionAvailable {
		out[0] += " ra"
	}
	for _, s := range []struct {
		mark string
		rrs  []dns.RR
	}{{"", m.Answer}, {"~ ", m.Ns}, {"+ ", m.Extra}} {
		var lines []string
		for _, rr := range s.rrs {
			if rr.Header().Rrtype == dns.TypeOPT {
				continue
			}
			if soa, ok := rr.(*dns.SOA); ok {
				soa.Serial = 0
			}
			lines = append(lines, s.mark+strings.Join(strings.Fields(rr.String()), " "))
		}
		slices.Sort(lines)
		out = append(out, lines...)
	}
	return strings.Join(out, "\n")
}

// The negative answers of cluster.local with the TTL that is the default.
const (
	soa      = "\n~ cluster.local. 5 IN SOA ns.dns.cluster.local. hostmaster.cluster.local. 0 7200 1800 86400 5"
	nodata   = "NOERROR aa" + soa
	nxdomain = "NXDOMAIN aa" + soa
)

// check asks questions, "name type" each, and compares answers.
func check(t *testing.T, s *servertest.Server, want map[string]string) {
	t.Helper()
	for q, w := range want {
		name, typ, _ := strings.Cut(q, " ")
		if got := answer(s.Ask(t, name, dns.StringToType[typ])); got != strings.TrimSpace(w) {
			t.Errorf("%s:\n got %s\nwant %s", q, got, w)
		}
	}
}
