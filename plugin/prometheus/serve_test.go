package prometheus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/admin"
)

// certificate writes a self-signed certificate of 127.0.0.1 and its key into dir, and gives it.
func certificate(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "metrics"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "tls.crt"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	write(t, filepath.Join(dir, "tls.key"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pk})))
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTLS serves over HTTPS, and a certificate that is replaced is used by the next connection.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "web.yml")
	write(t, file, "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n  min_version: TLS13\n")
	first := certificate(t, dir)
	o := Options{Address: "127.0.0.1:0", TLS: file}
	route, err := NewMetrics(prom.NewRegistry(), Build{}).Route(o, quiet)
	if err != nil {
		t.Fatal(err)
	}
	s := admin.New(quiet)
	t.Cleanup(func() { s.Shutdown(t.Context()) })
	if err := s.Apply([]admin.Route{route}); err != nil {
		t.Fatal(err)
	}
	fetch := func(cert *x509.Certificate) error {
		pool := x509.NewCertPool()
		pool.AddCert(cert)
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
		resp, err := c.Get("https://" + s.Addr(o.Address) + Path)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	if err := fetch(first); err != nil {
		t.Error(err)
	}
	second := certificate(t, dir)
	if err := fetch(second); err != nil {
		t.Errorf("after the certificate was replaced: %v", err)
	}
	if fetch(first) == nil {
		t.Error("a certificate that was replaced is still served")
	}
}

func TestTLSFaults(t *testing.T) {
	t.Parallel()
	const cert = "tls_server_config:\n  cert_file: tls.crt\n  key_file: tls.key\n"
	for text, want := range map[string]string{
		"basic_auth_users: {}\n": "unknown field",
		"{}\n":                   "has no tls_server_config",
		"tls_server_config:\n  cert_file: gone\n":                                            "gone",
		cert + "  client_auth_type: Sometimes\n":                                             `unknown client_auth_type "Sometimes"`,
		cert + "  min_version: TLS1.3\n":                                                     `unknown TLS version "TLS1.3"`,
		cert + "  client_ca_file: tls.crt\n":                                                 "does nothing without client_auth_type",
		cert + "  client_ca_file: tls.key\n  client_auth_type: RequireAndVerifyClientCert\n": "no certificate in",
	} {
		dir := t.TempDir()
		certificate(t, dir)
		file := filepath.Join(dir, "web.yml")
		write(t, file, text)
		_, err := NewMetrics(prom.NewRegistry(), Build{}).Route(Options{TLS: file}, quiet)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "web.yml") {
			t.Errorf("%q: error %v, want one with %s and the file's name", text, err, want)
		}
	}
}
