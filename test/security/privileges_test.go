package security_test

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/plugin/console"
	"github.com/clusterdns/clusterdns/plugin/health"
	"github.com/clusterdns/clusterdns/plugin/pprof"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/plugin/ready"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestAdminAddresses: what CoreDNS has listens where it does there, so that probes and scrapers find it. What it has not listens on loopback unless told
// otherwise.
func TestAdminAddresses(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]string{health.DefaultAddress: ":8080", ready.DefaultAddress: ":8181", prometheus.DefaultAddress: "localhost:9153"} {
		if what != want {
			t.Errorf("%s, CoreDNS has %s", what, want)
		}
	}
	for _, a := range []string{console.DefaultAddress, pprof.DefaultAddress} {
		host, _, err := net.SplitHostPort(a)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && !ip.IsLoopback() {
			t.Errorf("%s is not on loopback", a)
		}
	}
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://name:s3cret-url@127.0.0.1:1", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: s3cret-token}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`

// TestSecretsAreNotShown runs a server that has secrets of every kind it can have, an API server that cannot be reached and all that shows something switched on, and
// looks for them in what is logged, measured, checked and shown.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeCertificate(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(key), "\n")
	secrets := []string{"s3cret-url", "s3cret-token", lines[1], base64.StdEncoding.EncodeToString([]byte("s3cret-token"))}
	text := strings.ReplaceAll(`tls://.:0 {
    bind 127.0.0.1
    debug
    log {
        failures
    }
    errors {
        stacktrace
    }
    tls DIR/cert.pem DIR/key.pem
    prometheus 127.0.0.1:0
    console 127.0.0.1:0
    ready 127.0.0.1:0
    kubernetes cluster.local {
        kubeconfig DIR/config
        startup_timeout 1s
    }
    forward . tls://127.0.0.1:1 {
        tls DIR/cert.pem DIR/key.pem
    }
}
`, "DIR", dir)
	src := config.Source{Name: "Corefile", Path: filepath.Join(dir, "Corefile"), Text: []byte(text)}
	c, err := config.Parse(src, config.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	var log said
	i := config.NewInstance(config.NewShared(&log, prometheus.Build{}), config.DefaultPort)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := i.Start(ctx, src); err != nil {
		t.Fatal(err)
	}
	client := dns.Client{Net: "tcp-tls", Timeout: patience, TLSConfig: trusting()}
	for _, addr := range i.Addrs() {
		for _, name := range []string{"kubernetes.default.svc.cluster.local.", "www.example.org."} {
			if r, _, err := client.Exchange(servertest.Query(name, dns.TypeA, 1232), addr.String()); err != nil || r.Rcode != dns.RcodeServerFailure {
				t.Errorf("%s: %v, %v", name, r, err)
			}
		}
	}
	all := []string{c.String(), i.Banner()}
	for _, of := range []string{"127.0.0.1:0"} {
		for _, path := range []string{"/metrics", "/", "/api/overview", "/api/configuration", "/api/explain?name=www.example.org"} {
			if body := fetch(t, i.HTTPAddr(of), path); body != "" {
				all = append(all, body)
			}
		}
	}
	_ = i.Stop(ctx)
	all = append(all, log.String())
	if len(log.String()) < 200 || !strings.Contains(strings.Join(all, ""), "coredns_build_info") {
		t.Errorf("this is not all that there is:\n%s", &log)
	}
	for _, s := range secrets {
		for _, a := range all {
			if at := strings.Index(a, s); at >= 0 {
				t.Errorf("%q is shown: %s", s, a[max(0, at-200):min(len(a), at+200)])
			}
		}
	}
}

func fetch(t *testing.T, addr, path string) string {
	t.Helper()
	client := http.Client{Timeout: patience}
	res, err := client.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFilesAreReadBeforeServing: once it serves, the server needs none of its files any more.
func TestFilesAreReadBeforeServing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeCertificate(t, dir)
	for name, text := range map[string]string{
		"hosts":        "192.0.2.1 mine.example\n",
		"db":           "example.org. 60 IN SOA a. b. 1 2 3 4 5\nwww.example.org. 60 IN A 192.0.2.2\n",
		"cluster.yaml": manifests,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := start(t, dir, `tls://.:0 {
    bind 127.0.0.1
    tls DIR/cert.pem DIR/key.pem
    hosts DIR/hosts {
        reload 0s
        fallthrough
    }
    kubernetes cluster.local {
        manifests DIR/cluster.yaml
    }
    file DIR/db example.org {
        reload 0
    }
    whoami
}
`)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	c := dns.Client{Net: "tcp-tls", Timeout: patience, TLSConfig: trusting()}
	for _, name := range []string{"mine.example.", "www.example.org.", "kubernetes.default.svc.cluster.local."} {
		if r, _, err := c.Exchange(servertest.Query(name, dns.TypeA, 1232), addr); err != nil || len(r.Answer) != 1 {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
