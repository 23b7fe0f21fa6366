// Package plugin_test looks at directives together.
package plugin_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/acl"
	anytype "github.com/clusterdns/clusterdns/plugin/any"
	"github.com/clusterdns/clusterdns/plugin/autopath"
	"github.com/clusterdns/clusterdns/plugin/chaos"
	"github.com/clusterdns/clusterdns/plugin/dns64"
	"github.com/clusterdns/clusterdns/plugin/file"
	"github.com/clusterdns/clusterdns/plugin/header"
	"github.com/clusterdns/clusterdns/plugin/hosts"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/local"
	"github.com/clusterdns/clusterdns/plugin/minimal"
	"github.com/clusterdns/clusterdns/plugin/nsid"
	"github.com/clusterdns/clusterdns/plugin/rewrite"
	"github.com/clusterdns/clusterdns/plugin/template"
	"github.com/clusterdns/clusterdns/plugin/transfer"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/server/wire"
)

func must[O any](t *testing.T, parse func(*directive.Input) (O, error), text string) O {
	t.Helper()
	o, err := parse(plugintest.Input(t, text, "."))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestManyThatDoNotApply is the gate of a long server block: directives that have nothing to do with a query cost it no memory.
func TestManyThatDoNotApply(t *testing.T) {
	reg := prometheus.NewRegistry()
	zone := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(zone, []byte("$TTL 5\n@ SOA a b 1 2 3 4 5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tmpl, err := template.New(must(t, template.Parse, "template IN A lab.example {\nmatch ^ip-([0-9]+)[.]\nanswer \"{{ .Name }} 5 IN A 192.0.2.{{ index .Match 1 }}\"\nfallthrough\n}"), template.NewMetrics(reg))
	if err != nil {
		t.Fatal(err)
	}
	judge := acl.New([]acl.Options{must(t, acl.Parse, "acl {\nblock type TXT net 192.0.2.0/24 2001:db8::/32\n}")}, acl.NewMetrics(reg))
	chain := []server.Handler{
		nsid.New(nsid.Options{}, "host"),
		local.New(local.Options{LocalhostPrefix: true}, local.NewMetrics(reg)),
		judge,
		anytype.New(anytype.Options{}),
		chaos.New(chaos.Options{}, "1", "host"),
		rewrite.New([]rewrite.Options{
			must(t, rewrite.Parse, "rewrite name exact a.example b.example"),
			must(t, rewrite.Parse, "rewrite name suffix .goggle.example .google.example answer auto"),
			must(t, rewrite.Parse, `rewrite name regex (.*)\.svc\.other$ {1}.svc.cluster.local answer auto`),
		}),
		header.New(must(t, header.Parse, "header {\nresponse set ra\n}")),
		autopath.New(must(t, autopath.Parse, "autopath /etc/resolv.conf"), autopath.Source{List: []wire.Canonical{wire.MustCanonical("lab.example")}}, autopath.NewMetrics(reg)),
		minimal.New(minimal.Options{}),
		judge.Final(),
		tmpl,
		transfer.New([]transfer.Options{must(t, transfer.Parse, "transfer {\nto *\n}")}, nil, nil),
		hosts.New(must(t, hosts.Parse, "hosts {\n192.0.2.1 registry.example\nfallthrough\n}"), hosts.NewMetrics(reg), nil),
		dns64.New(must(t, dns64.Parse, "dns64"), dns64.NewMetrics(reg)),
		file.New([]file.Options{must(t, file.Parse, "file "+zone+" example.net")}, nil, nil),
		plugintest.NewAnswers(t, "web.default.svc.cluster.local. 5 IN A 10.96.0.1"),
	}
	stages := make([]server.Stage, len(chain))
	for i, h := range chain {
		stages[i] = plugintest.Stage(h)
	}
	b := servertest.Block(".", stages...)
	for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV} {
		servertest.NoAllocs(t, servertest.Query("web.default.svc.cluster.local.", typ, 1232), b)
		servertest.NoAllocs(t, servertest.Query("no.default.svc.cluster.local.", typ, 1232), b)
	}
	plugintest.Check(t, "the answer", plugintest.AskBlocks(t, "", plugintest.Question("web.default.svc.cluster.local.", "A"), b), "NOERROR", "web.default.svc.cluster.local. 5 IN A 10.96.0.1")
}
