package prometheus

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/yaml"

	"github.com/clusterdns/clusterdns/plugin/admin"
)

// maxScrapes is how many scrapes are served at a time. A pair of Prometheus servers and somebody with curl are three.
const maxScrapes = 8

// Route is where one occurrence of the directive serves everything that is registered. It reads the TLS configuration if there is one;
// certificates are read again for each connection, so new ones need no reload.
func (m *Metrics) Route(o Options, log *slog.Logger) (admin.Route, error) {
	r := admin.Route{Addr: o.Address, Path: Path, Handler: promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: maxScrapes,
		ErrorHandling:       promhttp.ContinueOnError, // one part that fails does not hide the others
		ErrorLog:            errorLog{log},
	})}
	if o.TLS == "" {
		return r, nil
	}
	if _, err := loadTLS(o.TLS); err != nil {
		return r, err
	}
	r.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return loadTLS(o.TLS) }}
	return r, nil
}

// errorLog is what promhttp writes of parts that failed to collect.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(v ...any) {
	l.log.Log(context.Background(), slog.LevelWarn, "plugin/prometheus: "+fmt.Sprint(v...))
}

// webConfig is the part of a Prometheus web configuration file that has a meaning here
// (https://prometheus.io/docs/prometheus/latest/configuration/https/).
type webConfig struct {
	TLS *struct {
		CertFile   string `json:"cert_file"`
		KeyFile    string `json:"key_file"`
		ClientAuth string `json:"client_auth_type"`
		ClientCA   string `json:"client_ca_file"`
		MinVersion string `json:"min_version"`
		MaxVersion string `json:"max_version"`
	} `json:"tls_server_config"`
}

// clientAuth are the words of client_auth_type.
var clientAuth = map[string]tls.ClientAuthType{
	"": tls.NoClientCert, "NoClientCert": tls.NoClientCert, "RequestClientCert": tls.RequestClientCert,
	"RequireAnyClientCert": tls.RequireAnyClientCert, "VerifyClientCertIfGiven": tls.VerifyClientCertIfGiven,
	"RequireAndVerifyClientCert": tls.RequireAndVerifyClientCert,
}

// tlsVersions are the words of min_version and max_version.
var tlsVersions = map[string]uint16{
	"TLS10": tls.VersionTLS10, "TLS11": tls.VersionTLS11, "TLS12": tls.VersionTLS12, "TLS13": tls.VersionTLS13,
}

// loadTLS reads a web configuration file and what it names, relative to its folder.
func loadTLS(file string) (*tls.Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("prometheus: tls: %w", err)
	}
	var w webConfig
	if err := yaml.UnmarshalStrict(b, &w); err != nil {
		return nil, fmt.Errorf("prometheus: tls: %s: %w", file, err)
	}
	if w.TLS == nil {
		return nil, fmt.Errorf("prometheus: tls: %s has no tls_server_config", file)
	}
	cfg, err := w.config(filepath.Dir(file))
	if err != nil {
		return nil, fmt.Errorf("prometheus: tls: %s: %w", file, err)
	}
	return cfg, nil
}

// config makes of the file what crypto/tls takes.
func (w *webConfig) config(dir string) (*tls.Config, error) {
	path := func(p string) string {
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(dir, p)
	}
	cert, err := tls.LoadX509KeyPair(path(w.TLS.CertFile), path(w.TLS.KeyFile))
	if err != nil {
		return nil, err
	}
	auth, ok := clientAuth[w.TLS.ClientAuth]
	if !ok {
		return nil, fmt.Errorf("unknown client_auth_type %q", w.TLS.ClientAuth)
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: auth, MinVersion: tls.VersionTLS12}
	if cfg.MinVersion, err = version(w.TLS.MinVersion, cfg.MinVersion); err != nil {
		return nil, err
	}
	if cfg.MaxVersion, err = version(w.TLS.MaxVersion, 0); err != nil {
		return nil, err
	}
	return cfg, w.clients(cfg, path(w.TLS.ClientCA))
}

// version reads the name of a version of TLS; def is what no name means.
func version(word string, def uint16) (uint16, error) {
	if word == "" {
		return def, nil
	}
	v, ok := tlsVersions[word]
	if !ok {
		return 0, fmt.Errorf("unknown TLS version %q", word)
	}
	return v, nil
}

// clients fills in whose certificates are taken from clients.
func (w *webConfig) clients(cfg *tls.Config, caFile string) error {
	if caFile == "" {
		return nil
	}
	if cfg.ClientAuth == tls.NoClientCert {
		return errors.New("client_ca_file does nothing without client_auth_type")
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return err
	}
	cfg.ClientCAs = x509.NewCertPool()
	if !cfg.ClientCAs.AppendCertsFromPEM(pem) {
		return fmt.Errorf("no certificate in %s", caFile)
	}
	return nil
}
