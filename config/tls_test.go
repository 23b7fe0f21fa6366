package config_test

import (
	"bytes"
	"context"
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

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// certificate writes a self-signed certificate for 127.0.0.1 into cert.pem and key.pem of dir.
func certificate(t *testing.T, dir, name string, at time.Time) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	for file, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "EC PRIVATE KEY", Bytes: keyDER}} {
		text := pem.EncodeToMemory(block)
		pool.AppendCertsFromPEM(text)
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil { // so that a change shows however coarse the clock of the file system is
			t.Fatal(err)
		}
	}
	return pool
}

func TestTLSAndHTTPS(t *testing.T) {
	t.Parallel()
	u := instance(t)
	dir := filepath.Dir(u.path)
	now := time.Now()
	pool := certificate(t, dir, "first", now.Add(-time.Minute))
	block := func(scheme string) string {
		return scheme + "://.:0 {\n    root " + dir + "\n    bind 127.0.0.1\n    tls cert.pem key.pem\n    whoami\n}\n"
	}
	u.start(block("tls") + block("https") + ".:0 {\n    bind 127.0.0.1\n    whoami\n}\n")

	overTLS := func(pool *x509.CertPool) error {
		c := dns.Client{Net: "tcp-tls", TLSConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Timeout: patience}
		r, _, err := c.Exchange(servertest.Query("example.org", dns.TypeA, 0), u.Addrs()["tls://127.0.0.1:0"].String())
		if err == nil && len(r.Extra) != 2 {
			t.Errorf("over TLS: %v", r)
		}
		return err
	}
	if err := overTLS(pool); err != nil {
		t.Fatal(err)
	}
	web := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true}}
	post, err := http.NewRequestWithContext(context.Background(), http.MethodPost,
		"https://"+u.Addrs()["https://127.0.0.1:0"].String()+"/dns-query", bytes.NewReader(servertest.Pack(t, servertest.Query("example.org", dns.TypeA, 0))))
	if err != nil {
		t.Fatal(err)
	}
	post.Header.Set("Content-Type", "application/dns-message")
	resp, err := web.Do(post)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	web.CloseIdleConnections()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("over HTTPS: %s", resp.Status)
	}

	second := certificate(t, dir, "second", now)
	if err := overTLS(second); err != nil {
		t.Errorf("with a new certificate: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := overTLS(second); err != nil {
		t.Errorf("with a bad certificate in place of one that was good: %v", err)
	}
	if err := u.reload(block("tls")); err != nil {
		t.Errorf("a reload with the same options must go on with the certificate: %v", err)
	}
	if banner := u.Banner(); !strings.HasPrefix(banner, "tls://.:") || !strings.HasSuffix(banner, " on 127.0.0.1\n") {
		t.Errorf("banner %q", banner)
	}
}

func TestHTTPWithoutTLS(t *testing.T) {
	t.Parallel()
	u := instance(t)
	u.start("https://.:0 {\n    bind 127.0.0.1\n    whoami\n}\n")
	if _, ok := u.Addrs()["http://127.0.0.1:0"]; !ok {
		t.Errorf("served are %v", u.Addrs())
	}
}
