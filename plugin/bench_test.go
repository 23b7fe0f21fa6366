package plugin_test

import (
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/acl"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/plugin/rewrite"
	"github.com/clusterdns/clusterdns/plugin/template"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// BenchmarkPassing is what directives cost a query that they have nothing to do with, on top of the handler that answers.
func BenchmarkPassing(b *testing.B) {
	parsed := func(text string) rewrite.Options {
		o, err := rewrite.Parse(plugintest.Input(b, text, "."))
		if err != nil {
			b.Fatal(err)
		}
		return o
	}
	to, err := template.Parse(plugintest.Input(b, "template IN A lab.example {\nmatch ^ip-([0-9]+)[.]\nanswer \"{{ .Name }} 5 IN A 192.0.2.1\"\nfallthrough\n}", "."))
	if err != nil {
		b.Fatal(err)
	}
	tmpl, err := template.New(to, nil)
	if err != nil {
		b.Fatal(err)
	}
	ao, err := acl.Parse(plugintest.Input(b, "acl {\nblock net 192.0.2.0/24\n}", "."))
	if err != nil {
		b.Fatal(err)
	}
	back := plugintest.NewAnswers(b, "web.default.svc.cluster.local. 5 IN A 10.96.0.1")
	for name, h := range map[string]server.Handler{
		"nothing":  nil,
		"exact":    rewrite.New([]rewrite.Options{parsed("rewrite name a.example b.example")}),
		"ten":      rewrite.New([]rewrite.Options{parsed("rewrite name a.example b.example"), parsed("rewrite name c.example b.example"), parsed("rewrite name d.example b.example"), parsed("rewrite name e.example b.example"), parsed("rewrite name f.example b.example"), parsed("rewrite name g.example b.example"), parsed("rewrite name h.example b.example"), parsed("rewrite name i.example b.example"), parsed("rewrite name j.example b.example"), parsed("rewrite name k.example b.example")}),
		"suffix":   rewrite.New([]rewrite.Options{parsed("rewrite name suffix .a.example .b.example answer auto")}),
		"regex":    rewrite.New([]rewrite.Options{parsed(`rewrite name regex (.*)\.a\.example {1}.b.example answer auto`)}),
		"template": tmpl,
		"acl":      acl.New([]acl.Options{ao}, nil),
	} {
		b.Run(name, func(b *testing.B) {
			chain := []server.Stage{plugintest.Stage(back)}
			if h != nil {
				chain = append([]server.Stage{plugintest.Stage(h)}, chain...)
			}
			d := servertest.Direct(servertest.Block(".", chain...))
			msg := servertest.Pack(b, servertest.Query("web.default.svc.cluster.local.", dns.TypeA, 1232))
			b.ReportAllocs()
			for b.Loop() {
				d.Answer(msg, servertest.Client, server.UDP)
			}
		})
	}
}
