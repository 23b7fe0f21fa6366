package config_test

import (
	"net"
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

// asked gives the rcode of the reply that a Corefile has to a question, and the codes and texts of its Extended DNS Errors.
func asked(t *testing.T, corefile, name string) (rcode string, reasons []dns.EDNS0_EDE) {
	t.Helper()
	c, err := config.Parse(config.Source{Name: "Corefile", Text: []byte(corefile)}, config.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	o, err := config.NewOffline(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	q := new(dns.Msg)
	q.SetQuestion(name, dns.TypeA)
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
	for _, opt := range r.IsEdns0().Option {
		if e, ok := opt.(*dns.EDNS0_EDE); ok {
			reasons = append(reasons, *e)
		}
	}
	return dns.RcodeToString[r.Rcode], reasons
}

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
		rcode, reasons := asked(t, text, "db.prod.svc.cluster.local.")
		var got []string
		for _, e := range reasons {
			got = append(got, e.ExtraText)
		}
		if rcode != "NXDOMAIN" || strings.Join(got, "|") != want {
			t.Errorf("%q: %s %q, want %q", directives, rcode, got, want)
		}
	}
}

// TestReasonsBesideLimits: a block without limits of its own does not speak of what another keeps clients from.
func TestReasonsBesideLimits(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(twoNamespaces), 0o600); err != nil {
		t.Fatal(err)
	}
	cluster := " kubernetes cluster.local {\n  manifests \"" + file + "\"\n }\n}\n"
	for zone, want := range map[string]string{
		"staging.svc.cluster.local:53": "no service db in prod",
		"cluster.local:5353":           "no service db in prod",
		"example.org:53":               "no service db in prod; there is one in staging",
	} {
		_, reasons := asked(t, "cluster.local:53 {\n"+cluster+zone+" {\n acl {\n  block net 192.0.2.0/24\n }\n"+cluster, "db.prod.svc.cluster.local.")
		if len(reasons) != 1 || reasons[0].ExtraText != want {
			t.Errorf("beside %s: %v, want %q", zone, reasons, want)
		}
	}
}

// TestFailureReasons: SERVFAIL says what failed.
func TestFailureReasons(t *testing.T) {
	t.Parallel()
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	addr := closed.LocalAddr().String()
	mute, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	for name, c := range map[string]struct {
		directives string
		code       uint16
		text       string
	}{
		"upstream":   {"forward . " + addr, server.EDENoReachable, addr},
		"time-out":   {"forward . " + mute.LocalAddr().String(), server.EDENoReachable, mute.LocalAddr().String() + " over udp: no reply in time"},
		"not synced": {"kubernetes {\n  endpoint http://" + addr + "\n  startup_timeout 0s\n }\n forward . " + addr, server.EDENotReady, "have not been read yet"},
		"hosts":      {"hosts {\n  192.0.2.1 other.example\n }", server.EDEOther, "no line of hosts"},
		"no match":   {"template IN A {\n  match ^other\n }", server.EDEOther, "no expression of the template"},
		"no record":  {"template IN A {\n  answer \"{{ .Name }} 60 IN A nowhere\"\n }", server.EDEOther, "the template makes no record"},
		"nobody":     {"hosts {\n  192.0.2.1 other.example\n  fallthrough\n }", server.EDEOther, "no directive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rcode, got := asked(t, ".:53 {\n "+c.directives+"\n}\n", "www.example.com.")
			if rcode != "SERVFAIL" || len(got) != 1 || got[0].InfoCode != c.code || !strings.Contains(got[0].ExtraText, c.text) {
				t.Errorf("%s %v", rcode, got)
			}
		})
	}
}
