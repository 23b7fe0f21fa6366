package kubernetes_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/server/wire"
)

func zone(s string) wire.Zone { return wire.NewZone(wire.MustCanonical(s)) }

func TestParse(t *testing.T) {
	t.Parallel()
	o := options(t, `Cluster.Local 10.96.0.0/15 ip6.arpa
endpoint https://10.0.0.1:6443
tls cert.pem key.pem /abs/ca.pem
kubeconfig config context
apiserver_qps 12.5
apiserver_burst 20
apiserver_max_inflight 3
namespaces a b
namespaces c
labels app in (x, y),tier=front
pods verified
endpoint_pod_names
ttl 3600
noendpoints
fallthrough in-addr.arpa 10.0.0.0/8
ignore empty_service
zonal
startup_timeout 1m
upstream 1.2.3.4
resyncperiod 5m
transfer to *`)
	want := kubernetes.Options{
		Zones:       []wire.Zone{zone("cluster.local"), zone("96.10.in-addr.arpa"), zone("97.10.in-addr.arpa"), zone("ip6.arpa")},
		Fallthrough: []wire.Zone{zone("in-addr.arpa"), zone("10.in-addr.arpa")},
		Endpoint:    "https://10.0.0.1:6443", TLSCert: "/etc/cert.pem", TLSKey: "/etc/key.pem", TLSCA: "/abs/ca.pem",
		KubeconfigFile: "/etc/config", Context: "context", QPS: 12.5, Burst: 20, MaxInflight: 3,
		Namespaces: []string{"a", "b", "c"}, Labels: "app in (x,y),tier=front", Pods: kubernetes.PodsVerified, EndpointPodNames: true,
		TTL: 3600, IgnoreEmpty: true, Zonal: true, StartupTimeout: time.Minute,
	}
	if fmt.Sprintf("%+v", o) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
	o = options(t, "\nnamespace_labels env = prod\nmanifests a b\nmanifests /c\nfallthrough")
	want = kubernetes.Options{
		Zones: []wire.Zone{zone("cluster.local")}, Fallthrough: []wire.Zone{zone(".")}, NamespaceLabels: "env=prod",
		Manifests: []string{"/etc/a", "/etc/b", "/c"}, TTL: 5, Endpoints: true, StartupTimeout: 5 * time.Second,
	}
	if fmt.Sprintf("%+v", o) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", o, want)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"in-addr.arpa 10.0.0.0/8":            "Corefile:1: kubernetes: all zones are reverse zones",
		"\nttl 3601":                         "Corefile:2: kubernetes: ttl: 3601 is not within 0 and 3600",
		"\nttl":                              `option "ttl" needs more arguments: ttl SECONDS`,
		"\nttl 5\nttl 6":                     `Corefile:3: kubernetes: option "ttl" appears more than once`,
		"\npods maybe":                       `"maybe" is not one of disabled, insecure, verified`,
		"\nignore everything":                "the only thing to ignore is empty_service",
		"\nlabels a in b":                    "is not a label selector",
		"\nnamespaces a\nnamespace_labels b": "namespaces and namespace_labels cannot both be set",
		"\nmanifests a\nkubeconfig b":        "manifests cannot be set together with kubeconfig or endpoint",
		"\nendpoint 10.0.0.1":                "is not a URL",
		"\nendpoint https://a https://b":     `option "endpoint" takes no argument "https://b"`,
		"\ntls a b":                          "tls CERT KEY CACERT",
		"\napiserver_qps 0":                  `"0" is not a number over 0`,
		"\napiserver_qps many":               `"many" is not a number over 0`,
		"\napiserver_burst 0":                "0 is not within 1 and",
		"\nstartup_timeout 5":                `"5" is not a duration; write it like 30s or 5m`,
		"\nmulticluster clusterset.local":    "Corefile:2: kubernetes: multicluster: multicluster zones are not supported yet",
		"\nttls 5":                           `unknown option "ttls"; did you mean`,
		"\nnonsense 5":                       `unknown option "nonsense"; known are endpoint, tls, kubeconfig, manifests, snapshot,`,
		"a..b":                               "is not a zone",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}

// TestDocsNameEveryOption holds the page of the directive to the options that there are.
func TestDocsNameEveryOption(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "kubernetes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = parse("\nno-such-option")
	_, known, _ := strings.Cut(err.Error(), "known are ")
	for _, name := range strings.Split(known, ", ") {
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("docs/kubernetes.md does not name %s", name)
		}
	}
}

// TestKubeconfigHome is not parallel because it sets an environment variable.
func TestKubeconfigHome(t *testing.T) {
	t.Setenv("HOME", "/of/user")
	for text, want := range map[string]string{
		"~/.kube/config": "/of/user/.kube/config", "~other/config": "/etc/~other/config", "a/~/config": "/etc/a/~/config", "/~/x": "/~/x",
	} {
		if o := options(t, "\nkubeconfig "+text); o.KubeconfigFile != want {
			t.Errorf("%s is %s, want %s", text, o.KubeconfigFile, want)
		}
	}
}
