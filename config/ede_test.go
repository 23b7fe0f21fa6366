package config_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/server"
)

// twoNamespaces is a cluster with a Service in the namespace that is not asked for.
const twoNamespaces = `apiVersion: v1
kind: Namespace
metadata: {name: prod}
---
apiVersion: v1
kind: Service
metadata: {name: db, namespace: staging}
spec: {clusterIP: 10.96.0.1}
`

// TestReasons: which reason a reply has by the directives of its block.
func TestReasons(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(twoNamespaces), 0o600); err != nil {
		t.Fatal(err)
	}
	for directives, want := range map[string]string{
		"":                                   "no service db in prod; there is one in staging",
		"ede on":                             "no service db in prod; there is one in staging",
		"ede off":                            "",
		"acl {\n block net 192.0.2.0/24\n }": "no service db in prod",
		"view v {\n expr server_port() != ''\n }": "no service db in prod",
	} {
		text := ".:53 {\n" + directives + "\n kubernetes cluster.local {\n  manifests \"" + file + "\"\n }\n}\n"
		c, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(text)}, config.DefaultPort)
		if err != nil {
			t.Fatal(err)
		}
		o, err := config.NewOffline(t.Context(), c, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(o.Close)
		q := new(dns.Msg)
		q.SetQuestion("db.prod.svc.cluster.local.", dns.TypeA)
		q.SetEdns0(1232, false)
		b, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		reply, _ := o.Server().Direct(o.Listeners()[0].Blocks).Answer(b, netip.MustParseAddrPort("127.0.0.1:4000"), server.UDP)
		var r dns.Msg
		if err := r.Unpack(reply); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, opt := range r.IsEdns0().Option {
			if e, ok := opt.(*dns.EDNS0_EDE); ok {
				got = append(got, e.ExtraText)
			}
		}
		if r.Rcode != dns.RcodeNameError || strings.Join(got, "|") != want {
			t.Errorf("%q: %s %q, want %q", directives, dns.RcodeToString[r.Rcode], got, want)
		}
	}
}
