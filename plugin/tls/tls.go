// Package tls is the tls directive: the certificate with which server blocks answer over TLS and HTTPS.
package tls

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
)

// Options are what the directive says.
type Options struct {
	Cert, Key  string // files
	CA         string // file with the authorities of client certificates; "" for the system's
	ClientAuth Auth
	KeyLog     string // file that the secrets of connections are written to, for debugging; "" for none
}

// Auth is what clients have to show of themselves.
type Auth string

// The words of client_auth.
const (
	NoCert           Auth = "nocert"
	Request          Auth = "request"
	Require          Auth = "require"
	VerifyIfGiven    Auth = "verify_if_given"
	RequireAndVerify Auth = "require_and_verify"
)

// kind is what crypto/tls calls it; known is false for other words.
func (a Auth) kind() (t tls.ClientAuthType, known bool) {
	switch a {
	case NoCert:
		return tls.NoClientCert, true
	case Request:
		return tls.RequestClientCert, true
	case Require:
		return tls.RequireAnyClientCert, true
	case VerifyIfGiven:
		return tls.VerifyClientCertIfGiven, true
	case RequireAndVerify:
		return tls.RequireAndVerifyClientCert, true
	}
	return 0, false
}

// option is an Options being read.
type option struct {
	*Options
	in *directive.Input
}

// Rows are the directive's options.
func Rows() []directive.Option[option] {
	return []directive.Option[option]{
		{
			Name: "client_auth", Usage: "nocert|request|require|verify_if_given|require_and_verify", Min: 1, Max: 1,
			Help: "what certificate clients have to show",
			Set: func(o *option, l *directive.Line) error {
				o.ClientAuth = Auth(l.Args[0].Text)
				if _, known := o.ClientAuth.kind(); !known {
					return l.Args[0].Errorf("unknown word %q; known are nocert, request, require, verify_if_given, require_and_verify", l.Args[0].Text)
				}
				return nil
			},
		},
		{
			Name: "keylog", Usage: "FILE", Min: 1, Max: 1, Help: "writes the secrets of connections to a file, for debugging",
			Set: func(o *option, l *directive.Line) error {
				o.KeyLog = o.in.Path(l.Args[0].Text)
				return nil
			},
		},
	}
}

// Parse reads the directive.
func Parse(in *directive.Input) (Options, error) {
	o := Options{ClientAuth: NoCert}
	for _, l := range in.Lines {
		if l.Name.Text == "acme" {
			return o, l.Name.Errorf("tls: acme is not supported: have the certificate put into files, by cert-manager for example; tls takes up new ones without a reload")
		}
	}
	if n := len(in.Args); n < 2 || n > 3 {
		return o, in.Name.Errorf("tls: takes the files of a certificate, of its key, and maybe of authorities: tls CERT KEY [CA]")
	}
	o.Cert, o.Key = in.Path(in.Args[0].Text), in.Path(in.Args[1].Text)
	if len(in.Args) == 3 {
		o.CA = in.Path(in.Args[2].Text)
	}
	if err := directive.ParseOptions(in, &option{&o, in}, Rows()); err != nil {
		return o, err
	}
	if o.KeyLog != "" {
		in.Warn(in.Name, "tls: with keylog, whoever reads that file reads the queries; it is for debugging only")
	}
	return o, nil
}

// keyPair is a certificate that is read again when its files change, so that a new one needs no reload.
type keyPair struct {
	cert, key string
	log       *slog.Logger
	mu        sync.Mutex
	stamp     [2]time.Time // of the files when they were read
	loaded    *tls.Certificate
}

// Load reads the files and makes what servers take. Files of the certificate that change later are read again at the next connection; as long as they
// are bad, the last good one is used and the log says why.
func (o Options) Load(log *slog.Logger) (*tls.Config, error) {
	pair := &keyPair{cert: o.Cert, key: o.Key, log: log}
	if err := pair.read(); err != nil {
		return nil, err
	}
	auth, _ := o.ClientAuth.kind()
	c := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		ClientAuth:     auth,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.current(), nil },
	}
	if o.CA != "" {
		pem, err := os.ReadFile(o.CA)
		if err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		c.ClientCAs = x509.NewCertPool()
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("tls: %s: %w", o.CA, errNoCert)
		}
	}
	if o.KeyLog != "" {
		f, err := os.OpenFile(o.KeyLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("tls: keylog: %w", err)
		}
		c.KeyLogWriter = f
	}
	return c, nil
}

var errNoCert = errors.New("there is no certificate in it")

// stamps are the times of change of the files.
func (p *keyPair) stamps() (out [2]time.Time) {
	for i, f := range [2]string{p.cert, p.key} {
		if info, err := os.Stat(f); err == nil {
			out[i] = info.ModTime()
		}
	}
	return out
}

func (p *keyPair) read() error {
	p.stamp = p.stamps()
	c, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("tls: %w", err)
	}
	p.loaded = &c
	return nil
}

// current is the certificate for one more connection.
func (p *keyPair) current() *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stamps() != p.stamp {
		if err := p.read(); err != nil {
			p.log.Error(fmt.Sprintf("the certificate before stays in use: %v", err))
		}
	}
	return p.loaded
}
