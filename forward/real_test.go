package forward

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// certificate makes a certificate for names that signs itself, and writes it with its key to PEM files.
func certificate(t *testing.T, names ...string) (cert tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	pk, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	write := func(name, kind string, b []byte) {
		if err := os.WriteFile(name, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(certFile, "CERTIFICATE", der)
	write(keyFile, "PRIVATE KEY", pk)
	if cert, err = tls.LoadX509KeyPair(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	return cert, certFile, keyFile
}

// overTLSUpstream is a DNS-over-TLS server, and the number of connections it has had.
func overTLSUpstream(t *testing.T, conf *tls.Config, h dns.HandlerFunc) (addr string, conns *atomic.Int32) {
	t.Helper()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	conns = new(atomic.Int32)
	s := &dns.Server{Listener: &counting{ln, conns}, Handler: h, MaxTCPQueries: -1}
	started := make(chan struct{})
	s.NotifyStartedFunc = func() { close(started) }
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
	return ln.Addr().String(), conns
}

type counting struct {
	net.Listener
	n *atomic.Int32
}

func (c *counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return conn, err
}

// padded says whether the length of a question tells nothing (RFC 8467 4.1): a multiple of 128, by zeros in an option at its end.
func padded(q *dns.Msg) error {
	b, err := q.Pack()
	if err != nil {
		return err
	}
	if opt := q.IsEdns0(); len(b)%128 == 0 && opt != nil && len(opt.Option) == 1 && opt.Option[0].Option() == dns.EDNS0PADDING {
		return nil
	}
	return fmt.Errorf("%d bytes, not padded: %v", len(b), q)
}

func TestOverTLS(t *testing.T) {
	t.Parallel()
	cert, ca, key := certificate(t, "dns.example")
	pool := x509.NewCertPool()
	pool.AddCert(cert.Leaf)
	answer := answering("192.0.2.1")
	addr, conns := overTLSUpstream(t, &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}, func(w dns.ResponseWriter, q *dns.Msg) {
		if err := padded(q); err != nil {
			t.Error(err)
		}
		answer(w, q)
	})
	ip, port, _ := net.SplitHostPort(addr)
	for name, line := range map[string]string{
		"named in the address": fmt.Sprintf("forward . tls://%s%%dns.example:%s {\n tls %s %s %s\n}", ip, port, ca, key, ca),
		"tls_servername":       fmt.Sprintf("forward . tls://%s {\n tls %s %s %s\n tls_servername dns.example\n}", addr, ca, key, ca),
	} {
		t.Run(name, func(t *testing.T) {
			conns.Store(0)
			s := serving(t, running(t, line))
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() {
					m := s.Exchange(t, "udp", servertest.Query(strings.Repeat("n", i+1)+strings.Repeat(".long-label-of-a-name", i%4*2)+".example.org.", dns.TypeA, 1232))
					if m.Rcode != dns.RcodeSuccess || len(m.Answer) != 1 {
						t.Errorf("got\n%v", m)
					}
				})
			}
			wg.Wait()
			if n := conns.Load(); n != 1 {
				t.Errorf("50 questions took %d connections, want one", n)
			}
		})
	}
	t.Run("wrong name", func(t *testing.T) {
		var log logLines
		f := New([]Options{parsed(t, fmt.Sprintf("forward . tls://%s%%other.example:%s {\n tls %s %s %s\n}", ip, port, ca, key, ca))}, NewMetrics(nil), slog.New(slog.NewTextHandler(&log, nil)))
		run(t, f)
		s := serving(t, f)
		for range 3 {
			if m := s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 1232)); m.Rcode != dns.RcodeServerFailure {
				t.Errorf("got\n%v", m)
			}
		}
		text := log.take()
		if strings.Count(text, "upstream fails") != 1 || !strings.Contains(text, "proto=tcp-tls") || !strings.Contains(text, "certificate is valid for dns.example, not other.example") {
			t.Errorf("logged\n%s", text)
		}
	})
}

func TestLoadFindsBadFiles(t *testing.T) {
	t.Parallel()
	_, cert, key := certificate(t, "dns.example")
	for line, want := range map[string]string{
		"tls /nowhere/ca.pem":                  "forward: open /nowhere/ca.pem: ",
		"tls " + key:                           "holds no certificate",
		"tls " + cert + " /nowhere/key.pem":    "forward: certificate " + cert + " with key /nowhere/key.pem: ",
		"tls " + cert + " " + key + " " + cert: "",
	} {
		f := New([]Options{parsed(t, "forward . tls://127.0.0.1 {\n "+line+"\n}")}, NewMetrics(nil), quiet())
		err := f.Load()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestOneOfTwoSilent(t *testing.T) {
	t.Parallel()
	silent := servertest.Upstream(t, func(dns.ResponseWriter, *dns.Msg) {})
	good := servertest.Upstream(t, answering("192.0.2.1"))
	s := serving(t, running(t, fmt.Sprintf("forward . %s %s", silent, good)))
	for i := range 50 {
		begin := time.Now()
		m := s.Exchange(t, "udp", servertest.Query(fmt.Sprintf("n%d.example.org.", i), dns.TypeA, 1232))
		if first(t, m); i >= 4 && time.Since(begin) > time.Second { // the figure that counts is measured by test/failover, on a quiet machine
			t.Errorf("query %d took %v", i, time.Since(begin))
		}
	}
}

// TestRandomPortsAndIDs: ids are not to be guessed from earlier ones or from the client (CVE-2019-19794), nor are ports.
func TestRandomPortsAndIDs(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	ports, ids := map[string]int{}, map[uint16]int{}
	up := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		mu.Lock()
		ports[w.RemoteAddr().String()]++
		ids[m.Id]++
		mu.Unlock()
		answering("192.0.2.1")(w, m)
	})
	s := serving(t, running(t, "forward . "+up))
	for i := range 500 {
		q := servertest.Query(fmt.Sprintf("n%d.example.org.", i), dns.TypeA, 0)
		q.Id = 4711 // the client's id is never the upstream's
		s.Exchange(t, "udp", q)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(ports) != usualSockets {
		t.Errorf("%d ports were used, want %d", len(ports), usualSockets)
	}
	if len(ids) < 485 || ids[4711] > 2 {
		t.Errorf("%d ids were used in 500 questions, the client's %d times", len(ids), ids[4711])
	}
}

// TestOnlyTheUpstreamIsHeard sends the right reply from another address: a connected socket does not even receive it.
func TestOnlyTheUpstreamIsHeard(t *testing.T) {
	t.Parallel()
	up := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		forged := new(dns.Msg).SetReply(m)
		forged.Answer = []dns.RR{address(m, "203.0.113.1")}
		b, _ := forged.Pack()
		other, err := net.DialUDP("udp", nil, w.RemoteAddr().(*net.UDPAddr))
		if err == nil {
			_, _ = other.Write(b)
			other.Close()
		}
		answering("192.0.2.1")(w, m)
	})
	s := serving(t, running(t, "forward . "+up))
	for range 20 {
		if a := first(t, s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 0))); a != "192.0.2.1" {
			t.Fatalf("believed %s", a)
		}
	}
}

// TestWhatUpstreamsGet looks at the question as it leaves: the client's RD, CD and DO, nothing of its other options, and AD.
func TestWhatUpstreamsGet(t *testing.T) {
	t.Parallel()
	got := make(chan *dns.Msg, 1)
	up := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		got <- m.Copy()
		answering("192.0.2.1")(w, m)
	})
	s := serving(t, running(t, "forward . "+up))
	for _, c := range []struct{ rd, cd, do, edns bool }{{true, false, false, false}, {true, true, true, true}, {false, false, false, true}, {false, true, true, true}} {
		q := servertest.Query("WwW.example.org.", dns.TypeA, 0)
		q.RecursionDesired, q.CheckingDisabled = c.rd, c.cd
		if c.edns {
			q.SetEdns0(4096, c.do)
			q.IsEdns0().Option = []dns.EDNS0{
				&dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "0011223344556677"},
				&dns.EDNS0_SUBNET{Code: dns.EDNS0SUBNET, Family: 1, SourceNetmask: 24, Address: net.IPv4(198, 51, 100, 0)},
			}
		}
		r := s.Exchange(t, "udp", q)
		m := <-got
		o := m.IsEdns0()
		if m.RecursionDesired != c.rd || m.CheckingDisabled != c.cd || !m.AuthenticatedData || o == nil || o.Do() != c.do || o.UDPSize() != 1232 || len(o.Option) != 0 || len(m.Extra) != 1 {
			t.Errorf("%+v: the upstream got\n%v", c, m)
		}
		if m.Question[0].Name != "WwW.example.org." || (r.IsEdns0() != nil) != c.edns {
			t.Errorf("%+v: asked %s, reply\n%v", c, m.Question[0].Name, r)
		}
	}
}

// TestAuthenticatedOnlyToThoseWhoAsked: the upstream's AD is for clients that set AD or DO.
func TestAuthenticatedOnlyToThoseWhoAsked(t *testing.T) {
	t.Parallel()
	up := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		r := new(dns.Msg).SetReply(m)
		r.AuthenticatedData, r.Authoritative = true, true
		r.Answer = []dns.RR{address(m, "192.0.2.1")}
		_ = w.WriteMsg(r)
	})
	s := serving(t, running(t, "forward . "+up))
	for _, ad := range []bool{false, true} {
		q := servertest.Query("example.org.", dns.TypeA, 0)
		q.AuthenticatedData = ad
		if r := s.Exchange(t, "udp", q); r.AuthenticatedData != ad || !r.Authoritative || r.RecursionAvailable {
			t.Errorf("asked with AD %v:\n%v", ad, r)
		}
	}
}

// TestProbeQuestion looks at what a probe asks.
func TestProbeQuestion(t *testing.T) {
	t.Parallel()
	got := make(chan *dns.Msg, 100)
	up := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if m.Question[0].Qtype == dns.TypeNS {
			select {
			case got <- m.Copy():
			default:
			}
		}
	})
	s := serving(t, running(t, "forward . "+up+" {\n health_check 10ms no_rec domain probe.example.org\n read_timeout 300ms\n}"))
	s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 0))
	if m := <-got; m.RecursionDesired || m.Question[0].Name != "probe.example.org." {
		t.Errorf("probed with\n%v", m)
	}
}

// TestQueriesSurviveTheEndOfRun: a configuration that was replaced still answers what had come before.
func TestQueriesSurviveTheEndOfRun(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	up := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		if strings.HasPrefix(m.Question[0].Name, "slow") {
			<-release
		}
		answering("192.0.2.1")(w, m)
	})
	f := New([]Options{parsed(t, "forward . "+up+" {\n read_timeout 10s\n}")}, NewMetrics(nil), quiet()) // so the slow one has 4.8 s
	stop := make(chan struct{})
	done := make(chan error)
	go func() { done <- f.Run(contextUntil(stop)) }()
	s := serving(t, f)
	slow := make(chan *dns.Msg)
	go func() { slow <- s.Exchange(t, "udp", servertest.Query("slow.example.org.", dns.TypeA, 0)) }()
	first(t, s.Exchange(t, "udp", servertest.Query("fast.example.org.", dns.TypeA, 0)))
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		first(t, s.Exchange(t, "udp", servertest.Query("after.example.org.", dns.TypeA, 0)))
	}
	close(release)
	first(t, <-slow)
}

// TestSourceAddress: questions leave from the configured address.
func TestSourceAddress(t *testing.T) {
	t.Parallel()
	from := make(chan string, 4)
	up := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		from <- w.RemoteAddr().String()
		answering("192.0.2.1")(w, m)
	})
	for _, more := range []string{"", "\n force_tcp"} {
		s := serving(t, running(t, "forward . "+up+" {\n source_address 127.0.0.1"+more+"\n}"))
		first(t, s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 0)))
		if host, _, _ := net.SplitHostPort(<-from); host != "127.0.0.1" {
			t.Errorf("left from %s", host)
		}
	}
}

// TestHostNames: an upstream given by name is resolved by the resolvers given.
func TestHostNames(t *testing.T) {
	t.Parallel()
	up := servertest.Upstream(t, answering("192.0.2.1"))
	_, port, _ := net.SplitHostPort(up)
	resolver := servertest.Upstream(t, func(w dns.ResponseWriter, m *dns.Msg) {
		r := new(dns.Msg).SetReply(m)
		if m.Question[0].Name == "dns.example.org." && m.Question[0].Qtype == dns.TypeA {
			r.Answer = []dns.RR{address(m, "127.0.0.1")}
		}
		_ = w.WriteMsg(r)
	})
	s := serving(t, running(t, "forward . dns.example.org:"+port+" {\n resolver "+resolver+"\n}"))
	first(t, s.Exchange(t, "udp", servertest.Query("example.org.", dns.TypeA, 0)))
}

// TestPeersThatLimitConnections: a server that closes after some questions, as many do, with others under way.
func TestPeersThatLimitConnections(t *testing.T) {
	t.Parallel()
	up := servertest.Upstream(t, answering("192.0.2.1")) // closes after 128
	s := serving(t, running(t, "forward . "+up+" {\n force_tcp\n}"))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 60 {
				if r := s.Exchange(t, "udp", servertest.Query(fmt.Sprintf("n%d-%d.example.org.", g, i), dns.TypeA, 0)); r.Rcode != dns.RcodeSuccess {
					t.Errorf("got\n%v", r)
				}
			}
		})
	}
	wg.Wait()
}

func TestMetricNames(t *testing.T) {
	t.Parallel()
	recorded, err := os.ReadFile("../test/conformance/testdata/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	reg, f := registered(t, "forward . 127.0.0.1")
	(*f.groups[0].ups.Load())[0].metrics.replied(0, time.Millisecond)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for l := range bytes.Lines(recorded) {
		line := strings.TrimSpace(string(l))
		if !strings.HasPrefix(line, "coredns_forward_") && !strings.HasPrefix(line, "coredns_proxy_") {
			continue
		}
		found := ""
		for _, fam := range all {
			if m := fam.GetMetric()[0]; fam.GetName() == strings.Fields(line)[0] {
				var labels []string
				for _, p := range m.GetLabel() {
					labels = append(labels, p.GetName())
				}
				found = fmt.Sprintf("%s %s {%s}", fam.GetName(), strings.ToLower(fam.GetType().String()), strings.Join(labels, ","))
				for _, b := range m.GetHistogram().GetBucket() {
					found += fmt.Sprintf(" %v", b.GetUpperBound())
				}
				if m.GetHistogram() != nil {
					found += " +Inf"
				}
			}
		}
		if found != line {
			t.Errorf("recorded %s\n    here %s", line, found)
		}
	}
}
