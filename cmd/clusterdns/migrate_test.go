package main

import (
	"bytes"
	"strings"
	"testing"
)

// configMap is a ConfigMap of kube-dns with the given data.
func configMap(data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-dns, namespace: kube-system}\ndata:\n" + data
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, in string
		args     []string
		exit     int
		out, err []string
	}{
		{
			"nothing in it", configMap("  {}\n"), []string{"-"}, 0,
			[]string{"kubernetes cluster.local in-addr.arpa ip6.arpa {", "forward . /etc/resolv.conf {"}, nil,
		},
		{
			"everything", configMap("  stubDomains: |\n    {\"b.example\": [\"10.0.0.2:5353\", \"fd00::1\"], \"a.example\": [\"10.0.0.1\"]}\n" +
				"  upstreamNameservers: |\n    [\"8.8.8.8\", \"8.8.4.4\"]\n  federations: '{}'\n  other: x\n"), []string{"-domain", "k8s.example", "-"}, 0,
			[]string{
				"kubernetes k8s.example in-addr.arpa ip6.arpa {", "forward . 8.8.8.8 8.8.4.4 {",
				"\na.example:53 {\n    errors\n    cache 30\n    forward . 10.0.0.1\n}\n\nb.example:53 {\n    errors\n    cache 30\n    forward . 10.0.0.2:5353 fd00::1\n}\n",
			},
			[]string{"warning: federations are left out", "warning: other is left out"},
		},
		{"no address", configMap("  upstreamNameservers: '[\"dns.example\"]'\n"), []string{"-"}, 1, nil, []string{`upstreamNameservers: "dns.example" is not an address`}},
		{"no server", configMap("  stubDomains: '{\"a.example\": []}'\n"), []string{"-"}, 1, nil, []string{"stubDomains: a.example: there is no server"}},
		{"no zone", configMap("  stubDomains: '{\"a..example\": [\"10.0.0.1\"]}'\n"), []string{"-"}, 1, nil, []string{`stubDomains: "a..example" is not the name of a domain`}},
		{"two zones", configMap("  stubDomains: '{\"a b\": [\"10.0.0.1\"]}'\n"), []string{"-"}, 1, nil, []string{`stubDomains: "a b" is not the name of a domain`}},
		{"a brace", configMap("  stubDomains: '{\"a {\\n}\\n b\": [\"10.0.0.1\"]}'\n"), []string{"-"}, 1, nil, []string{`is not the name of a domain`}},
		{"a port", configMap("  stubDomains: '{\"a.example:54\": [\"10.0.0.1\"]}'\n"), []string{"-"}, 1, nil, []string{`is not the name of a domain`}},
		{"the cluster", configMap("  stubDomains: '{\"Cluster.local\": [\"10.0.0.1\"]}'\n"), []string{"-"}, 1, nil, []string{"stubDomains: Cluster.local is the cluster domain"}},
		{"no domain", configMap("  {}\n"), []string{"-domain", "a b", "-"}, 2, nil, []string{`-domain: "a b" is not the name of a domain`}},
		{
			"a name", configMap("  stubDomains: '{\"a.example\": [\"ns.corp.example\", \"10.0.0.1\"]}'\n"), []string{"-"}, 0,
			[]string{"    forward . ns.corp.example 10.0.0.1\n"}, []string{"warning: stubDomains: a.example: the address of ns.corp.example is asked of"},
		},
		{"a bad address", configMap("  stubDomains: '{\"a.example\": [\"10.0.0.300\"]}'\n"), []string{"-"}, 1, nil, []string{`"10.0.0.300" is neither an address nor a name`}},
		{"a name with a port", configMap("  stubDomains: '{\"a.example\": [\"ns.corp.example:53\"]}'\n"), []string{"-"}, 1, nil, []string{"is neither an address nor a name"}},
		{"no JSON", configMap("  stubDomains: a.example\n"), []string{"-"}, 1, nil, []string{"stubDomains of the ConfigMap: ", `such as {"example.org": ["10.0.0.1"]}, is expected`}},
		{"other JSON", configMap("  stubDomains: '[\"10.0.0.1\"]'\n"), []string{"-"}, 1, nil, []string{"stubDomains of the ConfigMap: a JSON array does not belong", "a JSON object of lists of addresses"}},
		{"one server", configMap("  stubDomains: '{\"a.example\": \"10.0.0.1\"}'\n"), []string{"-"}, 1, nil, []string{"stubDomains of the ConfigMap: a JSON string does not belong"}},
		{"one upstream", configMap("  upstreamNameservers: '\"10.0.0.1\"'\n"), []string{"-"}, 1, nil, []string{"upstreamNameservers of the ConfigMap: ", `a JSON list of addresses, such as ["10.0.0.1"], is expected`}},
		{"no YAML", "a: [", []string{"-"}, 1, nil, []string{"a ConfigMap as YAML or JSON is expected: "}},
		{"no object", "127.0.0.1 localhost\n", []string{"-"}, 1, nil, []string{"a ConfigMap as YAML or JSON is expected: this is of the kind \"string\"\n"}},
		{"a Corefile", ".:53 {\n    whoami\n}\n", []string{"-"}, 1, nil, []string{"this is a Corefile, which needs no migration"}},
		{"list for data", "kind: ConfigMap\ndata: []\n", []string{"-"}, 1, nil, []string{"is expected: data cannot be of the kind \"array\"\n"}},
		{"CoreDNS's", configMap("  Corefile: |\n    . {\n        whoami\n    }\n"), []string{"-"}, 1, nil, []string{"is CoreDNS's and has a Corefile, which needs no migration"}},
		{"no ConfigMap", "kind: Service\n", []string{"-"}, 1, nil, []string{`of kind "Service"`}},
		{"no file", "", []string{"nowhere/map.yaml"}, 1, nil, []string{"cannot read the ConfigMap"}},
		{"no argument", "", nil, 2, nil, []string{"takes one argument"}},
		{"help", "", []string{"-h"}, 0, []string{"Usage: clusterdns migrate"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			exit := run(environment{strings.NewReader(c.in), &out, &errs}, append([]string{"migrate"}, c.args...))
			if exit != c.exit {
				t.Errorf("exit %d, want %d", exit, c.exit)
			}
			for _, s := range c.out {
				if !strings.Contains(out.String(), s) {
					t.Errorf("it wrote\n%s\nwant\n%s", &out, s)
				}
			}
			if exit != 0 && out.Len() > 0 {
				t.Errorf("it failed, and wrote\n%s", &out)
			}
			for _, s := range c.err {
				if !strings.Contains(errs.String(), s) {
					t.Errorf("it said %q, want %q", &errs, s)
				}
			}
		})
	}
}
