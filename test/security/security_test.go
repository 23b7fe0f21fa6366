// Package security_test holds, for each known vulnerability of cluster DNS servers that a server like this one could share, a test of the right
// behaviour on a whole server. docs/security.md says what each was, and where those are tested that belong to one room.
package security_test

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
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// patience bounds every exchange.
const patience = 20 * time.Second

// start serves a Corefile with one listener, in which DIR is a folder, and gives its address.
func start(t *testing.T, dir, corefile string) string {
	t.Helper()
	i := config.NewInstance(config.NewShared(io.Discard, prometheus.Build{}), config.DefaultPort)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	text := strings.ReplaceAll(corefile, "DIR", dir)
	if err := i.Start(ctx, config.Source{Name: "Corefile", Path: filepath.Join(dir, "Corefile"), Text: []byte(text)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = i.Stop(ctx)
	})
	for _, a := range i.Addrs() {
		return a.String()
	}
	t.Fatal("the server listens nowhere")
	return ""
}

func exchange(t *testing.T, proto, addr string, m *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: proto, Timeout: patience}
	r, _, err := c.Exchange(m, addr)
	if err != nil {
		t.Fatalf("%s over %s: %v", m.Question[0].Name, proto, err)
	}
	return r
}

// recorder is an upstream that answers every question, and remembers what it was asked.
type recorder struct {
	mu   sync.Mutex
	seen []*dns.Msg
}

func (u *recorder) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	u.mu.Lock()
	u.seen = append(u.seen, q)
	u.mu.Unlock()
	m := new(dns.Msg)
	m.SetReply(q)
	rr, _ := dns.NewRR(q.Question[0].Name + " 300 IN A 192.0.2.1")
	m.Answer = []dns.RR{rr}
	_ = w.WriteMsg(m)
}

func (u *recorder) asked() []*dns.Msg {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.seen)
}

func update() *dns.Msg {
	m := new(dns.Msg)
	m.SetUpdate("example.org.")
	rr, _ := dns.NewRR("www.example.org. 300 IN A 192.0.2.66")
	m.Insert([]dns.RR{rr})
	return m
}

// TestUpdatesGoNowhere is CVE-2026-86003: an UPDATE, or a NOTIFY, that comes by a transport which nobody thought of is passed on to an upstream that trusts us.
func TestUpdatesGoNowhere(t *testing.T) {
	t.Parallel()
	up, dir := &recorder{}, t.TempDir()
	to := servertest.Upstream(t, up.ServeDNS)
	writeCertificate(t, dir)
	addr := start(t, dir, `.:0 {
    bind 127.0.0.1
    forward . `+to+`
    cache 30
}
`)
	secure := start(t, dir, "tls://.:0 {\n bind 127.0.0.1\n tls DIR/cert.pem DIR/key.pem\n forward . "+to+"\n}\n")
	c := dns.Client{Net: "tcp-tls", Timeout: patience, TLSConfig: trusting()}
	web := start(t, dir, "https://.:0 {\n bind 127.0.0.1\n tls DIR/cert.pem DIR/key.pem\n forward . "+to+"\n}\n")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: trusting()}}
	defer client.CloseIdleConnections()
	for _, m := range []*dns.Msg{update(), new(dns.Msg).SetNotify("example.org.")} {
		what := dns.OpcodeToString[m.Opcode]
		for _, proto := range []string{"udp", "tcp"} {
			if r := exchange(t, proto, addr, m); r.Rcode != dns.RcodeNotImplemented || r.Opcode != m.Opcode {
				t.Errorf("%s over %s: %v", what, proto, r.MsgHdr)
			}
		}
		if r, _, err := c.Exchange(m, secure); err != nil || r.Rcode != dns.RcodeNotImplemented {
			t.Errorf("%s over TLS: %v, %v", what, r, err)
		}
		if r := post(t, client, web, servertest.Pack(t, m)); r == nil || r.Rcode != dns.RcodeNotImplemented {
			t.Errorf("%s over HTTPS: %v", what, r)
		}
	}
	for _, q := range up.asked() {
		t.Errorf("the upstream got %v", q)
	}
}

// TestCountsAreBounded is CVE-2026-82399 and CVE-2025-68151: bodies and counts that make a server allocate before it judges.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeCertificate(t, dir)
	web := start(t, dir, "https://.:0 {\n bind 127.0.0.1\n tls DIR/cert.pem DIR/key.pem\n whoami\n}\n")
	client := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: trusting()}}
	defer client.CloseIdleConnections()
	many := servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0))
	for i := 6; i < 12; i++ {
		many[i] = 0xFF
	}
	for len(many) < server.DefaultLimits().QuerySize-20 { // each of the records is a pointer to the question's name
		many = append(many, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0)
	}
	if r := post(t, client, web, many); r == nil || r.Rcode != dns.RcodeFormatError {
		t.Errorf("65,535 records in each section: %v", r)
	}
	for _, n := range []int{server.DefaultLimits().QuerySize + 1, 1 << 20} {
		if r := post(t, client, web, make([]byte, n)); r != nil {
			t.Errorf("a body of %d bytes: %v", n, r)
		}
	}
	res, err := client.Get("https://" + web + "/dns-query?dns=" + strings.Repeat("A", 1<<20))
	if err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("a parameter of 1 MiB (CVE-2026-32936): %s", res.Status)
		}
	}
	if r := post(t, client, web, servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0))); r == nil || r.Rcode != dns.RcodeSuccess {
		t.Errorf("afterwards: %v", r)
	}
}

// TestRewrittenNamesAreChecked is CVE-2026-26017: acl looks at the name that was asked for and not at the one that is answered.
func TestRewrittenNamesAreChecked(t *testing.T) {
	t.Parallel()
	up := &recorder{}
	addr := start(t, t.TempDir(), `.:0 {
    bind 127.0.0.1
    rewrite name public.example.org admin.example.org
    acl admin.example.org {
        block net 127.0.0.0/8
    }
    forward . `+servertest.Upstream(t, up.ServeDNS)+`
    cache 30
}
`)
	for _, name := range []string{"public.example.org.", "PUBLIC.example.ORG.", "admin.example.org.", "public.example.org."} {
		if r := exchange(t, "udp", addr, servertest.Query(name, dns.TypeA, 1232)); r.Rcode != dns.RcodeRefused || len(r.Answer) > 0 {
			t.Errorf("%s: %v", name, r)
		}
	}
	if r := exchange(t, "udp", addr, servertest.Query("open.example.org.", dns.TypeA, 1232)); len(r.Answer) != 1 {
		t.Errorf("a name that is open to all: %v", r)
	}
}

// TestProbesOfLoopCannotBeGuessed is CVE-2026-26018: whoever knows the name of loop's probe ends the server. Here a name has 128 random bits, no two
// are alike, and one that comes back cuts off the upstream that it was sent to and nothing else.
func TestProbesOfLoopCannotBeGuessed(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for range 3 {
		up := &recorder{}
		addr := start(t, t.TempDir(), ".:0 {\n bind 127.0.0.1\n loop\n forward . "+servertest.Upstream(t, up.ServeDNS)+"\n}\n")
		var probe string
		for end := time.Now().Add(patience); probe == "" && time.Now().Before(end); {
			for _, q := range up.asked() {
				if q.Question[0].Qtype == dns.TypeHINFO {
					probe = q.Question[0].Name
				}
			}
			exchange(t, "udp", addr, servertest.Query("x.", dns.TypeA, 0))
		}
		first, _, _ := strings.Cut(probe, ".")
		if names[probe] || len(first) < 16 {
			t.Errorf("probe %q", probe)
		}
		names[probe] = true
		for i := range 200 { // names like it
			exchange(t, "udp", addr, servertest.Query(fmt.Sprintf("%d.%d.", i*7919, i*104729), dns.TypeHINFO, 0))
		}
		if r := exchange(t, "udp", addr, servertest.Query("still.here.", dns.TypeA, 0)); r.Rcode != dns.RcodeSuccess {
			t.Errorf("after guesses: %v", r)
		}
	}
}

// TestSignaturesProveNothing is CVE-2026-35579 and CVE-2026-33190: a TSIG with the right key name and a wrong MAC passes for a signed query. There is no
// tsig directive here, and no answer depends on a TSIG record.
func TestSignaturesProveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "db"), []byte("example.org. 60 IN SOA a. b. 1 2 3 4 5\nexample.org. 60 IN NS a.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := start(t, dir, "example.org:0 {\n bind 127.0.0.1\n acl {\n  block type AXFR net 127.0.0.0/8\n }\n transfer {\n  to 192.0.2.1\n }\n file DIR/db\n}\n")
	for _, signed := range []bool{false, true} {
		m := servertest.Query("example.org.", dns.TypeAXFR, 0)
		if signed {
			m.Extra = append(m.Extra, &dns.TSIG{
				Hdr:       dns.RR_Header{Name: "transfer-key.", Rrtype: dns.TypeTSIG, Class: dns.ClassANY},
				Algorithm: dns.HmacSHA256, TimeSigned: uint64(time.Now().Unix()), Fudge: 300, MACSize: 32, MAC: strings.Repeat("00", 32),
			})
		}
		conn, err := dns.Dial("tcp", addr) // the client of the library would refuse to send such a signature
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := conn.Write(servertest.Pack(t, m)); err != nil {
			t.Fatal(err)
		}
		if r, err := conn.ReadMsg(); err != nil || r.Rcode != dns.RcodeRefused || len(r.Answer) > 0 {
			t.Errorf("AXFR, signed %v: %v, %v", signed, r, err)
		}
		conn.Close()
	}
}

// TestNarrowestTransferRules is CVE-2026-33489: of two transfer directives that cover a zone, the one that comes first in the alphabet decides.
func TestNarrowestTransferRules(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, z := range []string{"a.example.org", "z.example.org"} {
		text := fmt.Sprintf("%s. 60 IN SOA a. b. 1 2 3 4 5\n%s. 60 IN NS a.\n", z, z)
		if err := os.WriteFile(filepath.Join(dir, z), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	addr := start(t, dir, `example.org:0 {
    bind 127.0.0.1
    transfer example.org {
        to *
    }
    transfer a.example.org {
        to 192.0.2.1
    }
    transfer z.example.org {
        to 192.0.2.1
    }
    file DIR/a.example.org a.example.org
    file DIR/z.example.org z.example.org
}
`)
	for _, z := range []string{"a.example.org.", "z.example.org."} {
		if r := exchange(t, "tcp", addr, servertest.Query(z, dns.TypeAXFR, 0)); r.Rcode != dns.RcodeRefused {
			t.Errorf("AXFR of %s: %v", z, r)
		}
	}
}

// TestCheckingDisabledIsKeptApart is CVE-2024-0874: an answer that was got with CD is given to who asked without it.
func TestCheckingDisabledIsKeptApart(t *testing.T) {
	t.Parallel()
	to := servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		if !q.CheckingDisabled {
			m.Rcode = dns.RcodeServerFailure
		} else {
			rr, _ := dns.NewRR(q.Question[0].Name + " 300 IN A 192.0.2.66")
			m.Answer = []dns.RR{rr}
		}
		_ = w.WriteMsg(m)
	})
	addr := start(t, t.TempDir(), ".:0 {\n bind 127.0.0.1\n forward . "+to+"\n cache 30\n}\n")
	m := servertest.Query("bogus.example.org.", dns.TypeA, 1232)
	m.CheckingDisabled = true
	if r := exchange(t, "udp", addr, m); len(r.Answer) != 1 {
		t.Fatalf("with CD: %v", r)
	}
	m.CheckingDisabled = false
	if r := exchange(t, "udp", addr, m); r.Rcode != dns.RcodeServerFailure || len(r.Answer) > 0 {
		t.Errorf("without CD: %v", r)
	}
}

// TestBurstIsOneQuestion is CVE-2023-30464 (and what CVE-2019-19794 adds to it, tested in forward): many questions for one name at once, each sent on its own,
// give a forger as many chances.
func TestBurstIsOneQuestion(t *testing.T) {
	t.Parallel()
	up, gate := &recorder{}, make(chan struct{})
	to := servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		<-gate
		up.ServeDNS(w, q)
	})
	addr := start(t, t.TempDir(), ".:0 {\n bind 127.0.0.1\n forward . "+to+"\n cache 30\n}\n")
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			c := dns.Client{Timeout: patience}
			if _, _, err := c.Exchange(servertest.Query("birthday.example.org.", dns.TypeA, 1232), addr); err != nil {
				t.Error(err)
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, func() { close(gate) })
	wg.Wait()
	if n := len(up.asked()); n > 5 { // a question is sent again when its upstream is slow
		t.Errorf("100 clients made %d questions", n)
	}
}

// trusting takes any certificate: those of these tests are their own.
func trusting() *tls.Config { return &tls.Config{InsecureSkipVerify: true} }

// post sends a message over HTTPS and gives the reply, or nil for any status but 200.
func post(t *testing.T, c *http.Client, addr string, msg []byte) *dns.Msg {
	t.Helper()
	res, err := c.Post("https://"+addr+"/dns-query", "application/dns-message", bytes.NewReader(msg))
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil
	}
	m := new(dns.Msg)
	if err := m.Unpack(b); err != nil {
		t.Errorf("reply %x: %v", b, err)
	}
	return m
}

// writeCertificate puts cert.pem and key.pem for 127.0.0.1 into a folder.
func writeCertificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	priv, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: der}, "key.pem": {Type: "PRIVATE KEY", Bytes: priv}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
