package plugin_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// lab is a small cluster: a Service with external addresses, a headless one, one that leads outside, and Pods of which two share
// an address.
const lab = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- {apiVersion: v1, kind: Namespace, metadata: {name: pay}}
- {apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1], externalIPs: [192.0.2.10], ports: [{name: http, port: 80}]}}
- {apiVersion: v1, kind: Service, metadata: {name: bank, namespace: pay}, spec: {clusterIP: 10.96.0.2, clusterIPs: [10.96.0.2], ports: [{name: http, port: 80}]}}
- {apiVersion: v1, kind: Service, metadata: {name: out, namespace: shop}, spec: {type: ExternalName, externalName: www.example.com}}
- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: shop}, status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: b, namespace: shop}, status: {phase: Running, podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.2}]}}
- {apiVersion: v1, kind: Pod, metadata: {name: c, namespace: pay}, status: {phase: Running, podIP: 10.0.0.2, podIPs: [{ip: 10.0.0.2}]}}
`

// blocks builds a Corefile and gives the server blocks of its first listener.
func blocks(t *testing.T, corefile string) []*server.Block {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cluster.yaml":   lab,
		"db.example.org": "$TTL 60\n@ SOA ns h 7 2 3 4 5\n@ NS ns\nns A 192.0.2.53\nwww A 192.0.2.80\nalias CNAME web.shop.svc.cluster.local.\n*.wild A 192.0.2.81\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	upstream := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		r := new(dns.Msg)
		r.SetReply(m)
		switch q := m.Question[0]; {
		case strings.HasSuffix(q.Name, "cluster.local.") || strings.HasPrefix(q.Name, "no."):
			r.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			rr, _ := dns.NewRR(q.Name + " 30 IN A 198.51.100.1")
			r.Answer = append(r.Answer, rr)
		}
		_ = w.WriteMsg(r)
	})
	text := strings.NewReplacer("CLUSTER", filepath.Join(dir, "cluster.yaml"), "ZONEFILE", filepath.Join(dir, "db.example.org"), "UPSTREAM", upstream).Replace(corefile)
	return listening(t, dir, text)
}

// listening builds a Corefile that stands in a folder, and gives the server blocks of its first listener.
func listening(t *testing.T, dir, text string) []*server.Block {
	t.Helper()
	c, err := config.Parse(config.Source{Name: "Corefile", Path: filepath.Join(dir, "Corefile"), Text: []byte(text)}, "53")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	o, err := config.NewOffline(ctx, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Close)
	return o.Listeners()[0].Blocks
}

// TestCorefiles joins directives as Corefiles do, each in its place in the chain.
func TestCorefiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, corefile string
		cases          []string // "CLIENT NAME TYPE", then the reply
	}{
		{"names of another domain", ".:53 {\n rewrite name suffix .shop.example.com .shop.svc.cluster.local answer auto\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n cache 30\n forward . UPSTREAM\n}", []string{
			"10.0.0.9 web.shop.example.com. A", "NOERROR\nweb.shop.example.com. 5 IN A 10.96.0.1",
			"10.0.0.9 out.shop.example.com. A", "NOERROR\nout.shop.example.com. 5 IN CNAME www.example.com.\nwww.example.com. 5 IN A 198.51.100.1",
			"10.0.0.9 no.shop.example.com. A", "NXDOMAIN SOA",
			"10.0.0.9 www.example.net. A", "NOERROR\nwww.example.net. 30 IN A 198.51.100.1",
			"10.0.0.9 www.example.net. A", "NOERROR\nwww.example.net. 30 IN A 198.51.100.1",
		}},
		{"rewritten answers from the cache", ".:53 {\n rewrite name exact a.example b.example\n rewrite ttl suffix .net. 7\n cache 30\n forward . UPSTREAM\n}", []string{
			"10.0.0.9 b.example. A", "NOERROR\nb.example. 30 IN A 198.51.100.1",
			"10.0.0.9 a.example. A", "NOERROR\na.example. 30 IN A 198.51.100.1",
			"10.0.0.9 b.example. A", "NOERROR\nb.example. 30 IN A 198.51.100.1",
			"10.0.0.9 www.net. A", "NOERROR\nwww.net. 7 IN A 198.51.100.1",
			"10.0.0.9 www.net. A", "NOERROR\nwww.net. 7 IN A 198.51.100.1",
		}},
		{"templates before the rest", ".:53 {\n template ANY AAAA {\n  rcode NOERROR\n }\n template IN A example.com {\n  match ^short[.]\n  answer \"{{ .Name }} 5 IN CNAME web.shop.svc.cluster.local.\"\n  fallthrough\n }\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n forward . UPSTREAM\n}", []string{
			"10.0.0.9 web.shop.svc.cluster.local. AAAA", "NOERROR",
			"10.0.0.9 short.example.com. A", "NOERROR\nshort.example.com. 5 IN CNAME web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local. 5 IN A 10.96.0.1",
			"10.0.0.9 www.example.com. A", "NOERROR\nwww.example.com. 30 IN A 198.51.100.1",
		}},
		{"hosts in front", ".:53 {\n hosts {\n  192.0.2.1 registry.example.com\n  fallthrough\n }\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n forward . UPSTREAM\n}", []string{
			"10.0.0.9 registry.example.com. A", "NOERROR\nregistry.example.com. 3600 IN A 192.0.2.1",
			"10.0.0.9 other.example.com. A", "NOERROR\nother.example.com. 30 IN A 198.51.100.1",
			"10.0.0.9 web.shop.svc.cluster.local. A", "NOERROR\nweb.shop.svc.cluster.local. 5 IN A 10.96.0.1",
		}},
		{"Services outside", ".:53 {\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n k8s_external example.org\n forward . UPSTREAM\n}", []string{
			"10.0.0.9 web.shop.example.org. A", "NOERROR\nweb.shop.example.org. 5 IN A 192.0.2.10",
			"10.0.0.9 bank.pay.example.org. A", "NXDOMAIN SOA",
			"10.0.0.9 shop.example.org. A", "NOERROR SOA",
		}},
		{"search lists", ".:53 {\n autopath cluster.local @kubernetes\n kubernetes cluster.local {\n  pods verified\n  manifests CLUSTER\n }\n forward . UPSTREAM\n}", []string{
			"10.0.0.1 web.shop.svc.cluster.local. A", "NOERROR\nweb.shop.svc.cluster.local. 5 IN A 10.96.0.1",
			"10.0.0.1 bank.pay.shop.svc.cluster.local. A", "NOERROR\nbank.pay.shop.svc.cluster.local. 5 IN CNAME bank.pay.svc.cluster.local.\nbank.pay.svc.cluster.local. 5 IN A 10.96.0.2",
			"10.0.0.2 bank.pay.shop.svc.cluster.local. A", "NXDOMAIN SOA", // two Pods have that address
			"10.0.0.3 bank.pay.shop.svc.cluster.local. A", "NXDOMAIN SOA",
		}},
		{"zones that lead into the cluster", ".:53 {\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n file ZONEFILE example.org\n forward . UPSTREAM\n}", []string{
			"10.0.0.9 alias.example.org. A", "NOERROR\nalias.example.org. 60 IN CNAME web.shop.svc.cluster.local.\nweb.shop.svc.cluster.local. 5 IN A 10.96.0.1",
			"10.0.0.9 x.wild.example.org. A", "NOERROR\nx.wild.example.org. 60 IN A 192.0.2.81\nns example.org. 60 IN NS ns.example.org.",
		}},
		{"IPv6 clients", ".:53 {\n dns64\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n cache 30\n forward . UPSTREAM\n}", []string{
			"2001:db8::9 www.example.com. AAAA", "NOERROR\nwww.example.com. 30 IN AAAA 64:ff9b::c633:6401",
			"2001:db8::9 www.example.com. AAAA", "NOERROR\nwww.example.com. 30 IN AAAA 64:ff9b::c633:6401",
			"10.0.0.9 www.example.com. AAAA", "NOERROR",
			"2001:db8::9 web.shop.svc.cluster.local. AAAA", "NOERROR SOA",
			"2001:db8::9 out.shop.svc.cluster.local. AAAA", "NOERROR\nout.shop.svc.cluster.local. 5 IN CNAME www.example.com.\nwww.example.com. 30 IN AAAA 64:ff9b::c633:6401",
		}},
		{"no way round acl", ".:53 {\n acl secret.example.com web.shop.svc.cluster.local {\n  block net 10.0.0.0/8\n }\n rewrite name open.example.com secret.example.com\n autopath cluster.local @kubernetes\n template IN A tmpl.example.com {\n  answer \"{{ .Name }} 5 IN CNAME secret.example.com.\"\n }\n kubernetes cluster.local {\n  pods verified\n  manifests CLUSTER\n }\n cache 30\n forward . UPSTREAM\n}", []string{
			"192.0.2.1 secret.example.com. A", "NOERROR\nsecret.example.com. 30 IN A 198.51.100.1", // and now it is in the cache
			"10.0.0.1 secret.example.com. A", "REFUSED",
			"10.0.0.1 open.example.com. A", "REFUSED",
			"192.0.2.1 open.example.com. A", "NOERROR\nopen.example.com. 30 IN A 198.51.100.1",
			"10.0.0.1 tmpl.example.com. A", "REFUSED\ntmpl.example.com. 5 IN CNAME secret.example.com.",
			"10.0.0.1 secret.example.com.shop.svc.cluster.local. A", "REFUSED\nsecret.example.com.shop.svc.cluster.local. 0 IN CNAME secret.example.com.",
			"10.0.0.1 web.shop.svc.cluster.local. A", "REFUSED",
		}},
		{"views", ".:53 {\n view office {\n  expr incidr(client_ip(), '192.168.0.0/16')\n }\n hosts {\n  192.168.1.1 www.example.com\n }\n}\n.:53 {\n hosts {\n  203.0.113.1 www.example.com\n }\n}", []string{
			"192.168.3.4 www.example.com. A", "NOERROR\nwww.example.com. 3600 IN A 192.168.1.1",
			"10.0.0.9 www.example.com. A", "NOERROR\nwww.example.com. 3600 IN A 203.0.113.1",
		}},
		{"many at once", ".:53 {\n nsid\n bufsize 1232\n local\n any\n chaos one\n minimal\n header {\n  response set ra\n }\n cancel 2s\n file ZONEFILE example.org\n forward . UPSTREAM\n}", []string{
			"10.0.0.9 www.example.org. A", "NOERROR\nwww.example.org. 60 IN A 192.0.2.80",
			"10.0.0.9 example.org. ANY", "NOERROR\nexample.org. 8482 IN HINFO \"ANY obsoleted\" \"See RFC 8482\"",
			"10.0.0.9 localhost.example.org. A", "NOERROR\nlocalhost.example.org. 604800 IN A 127.0.0.1",
			"10.0.0.9 www.example.com. A", "NOERROR\nwww.example.com. 30 IN A 198.51.100.1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := blocks(t, c.corefile)
			for i := 0; i < len(c.cases); i += 2 {
				f := strings.Fields(c.cases[i])
				r := plugintest.AskBlocks(t, f[0], plugintest.Question(f[1], f[2]), b...)
				if rcode, ok := strings.CutSuffix(c.cases[i+1], " SOA"); ok {
					if dns.RcodeToString[r.Rcode] != rcode || len(r.Answer) != 0 || len(r.Ns) != 1 {
						t.Errorf("%s: got %s, want %s with an SOA record", c.cases[i], plugintest.Text(r), rcode)
					}
					continue
				}
				plugintest.Check(t, c.cases[i], r, c.cases[i+1])
			}
		})
	}
}

// TestTransfersOfACluster transfers the zone of kubernetes through sockets.
func TestTransfersOfACluster(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, blocks(t, "cluster.local:53 {\n kubernetes {\n  manifests CLUSTER\n }\n transfer {\n  to 127.0.0.0/8\n }\n}")...)
	m := new(dns.Msg)
	m.SetAxfr("cluster.local.")
	messages, err := new(dns.Transfer).In(m, s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for e := range messages {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		for _, rr := range e.RR {
			found = found || strings.HasPrefix(rr.String(), "web.shop.svc.cluster.local.\t5\tIN\tA\t10.96.0.1")
		}
	}
	if !found {
		t.Error("a Service is missing")
	}
	far, ok := servertest.Direct(s.Blocks...).Answer(servertest.Pack(t, m), netip.MustParseAddrPort("192.0.2.1:4000"), server.TCP)
	if !ok || far[3]&0xF != dns.RcodeRefused {
		t.Errorf("somebody else: %v, %v", far, ok)
	}
}

func TestTransfersOfServicesOutside(t *testing.T) {
	t.Parallel()
	b := blocks(t, ".:53 {\n transfer example.org {\n  to *\n }\n kubernetes cluster.local {\n  manifests CLUSTER\n }\n k8s_external example.org\n}")
	m := new(dns.Msg)
	m.SetAxfr("example.org.")
	if got := plugintest.Text(plugintest.AskBlocks(t, "", m, b...)); !strings.Contains(got, "web.shop.example.org. 5 IN A 192.0.2.10\n") || strings.Count(got, " SOA ") != 2 {
		t.Errorf("got %s", got)
	}
}
