package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// startStream serves a listener of a transport with a certificate until the test ends.
func startStream(t *testing.T, tr server.Transport, secure bool) (addr string, roots *x509.CertPool) {
	t.Helper()
	cert, pool := servertest.Certificate(t)
	l := server.Listener{Transport: tr, Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(handler(address)))}}
	if secure {
		l.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	s := server.New(server.DefaultLimits(), server.Hooks{})
	if err := s.Apply([]server.Listener{l}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // keep-alive connections are closed at once
		_ = s.Shutdown(ctx)
	})
	for _, a := range s.Addrs() {
		addr = a.String()
	}
	return addr, pool
}

func TestTLS(t *testing.T) {
	t.Parallel()
	addr, roots := startStream(t, server.TLS, true)
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	c := &dns.Conn{Conn: conn}
	defer c.Close()
	for range 3 {
		if err := c.WriteMsg(servertest.Query("x.", dns.TypeA, 0)); err != nil {
			t.Fatal(err)
		}
		if m, err := c.ReadMsg(); err != nil || answers(m) != "x. 30 IN A 192.0.2.7" {
			t.Errorf("got %v, %v", m, err)
		}
	}
}

func TestHTTPS(t *testing.T) {
	t.Parallel()
	query := servertest.Pack(t, servertest.Query("x.", dns.TypeA, 1232))
	get := "/dns-query?dns=" + base64.RawURLEncoding.EncodeToString(query)
	reply := append([]byte(nil), query...)
	reply[2] |= 0x80
	for _, secure := range []bool{true, false} {
		addr, roots := startStream(t, server.HTTPS, secure)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
		scheme := "http://"
		if secure {
			scheme = "https://"
		}
		for _, c := range []struct {
			method, path, typ string
			body              []byte
			status            int
		}{
			{http.MethodPost, "/dns-query", "application/dns-message", query, 200},
			{http.MethodGet, get, "", nil, 200},
			{http.MethodGet, "/dns-query", "", nil, 400},
			{http.MethodGet, "/dns-query?dns=!", "", nil, 400},
			{http.MethodGet, "/", "", nil, 404},
			{http.MethodPut, "/dns-query", "application/dns-message", query, 405},
			{http.MethodPost, "/dns-query", "application/dns-message", make([]byte, 70000), 413},
			{http.MethodPost, "/dns-query", "text/plain", query, 415},
			{http.MethodPost, "/dns-query", "application/dns-message", reply, 400},
			{http.MethodPost, "/dns-query", "application/dns-message", nil, 400},
		} {
			req, err := http.NewRequest(c.method, scheme+addr+c.path, bytes.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", c.typ)
			res, err := client.Do(req)
			if err != nil {
				t.Fatalf("%s %s: %v", c.method, c.path, err)
			}
			body, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != c.status {
				t.Errorf("%s %s: %s, %v, want %d", c.method, c.path, res.Status, err, c.status)
			}
			if c.status != 200 {
				continue
			}
			var m dns.Msg
			if err := m.Unpack(body); err != nil || answers(&m) != "x. 30 IN A 192.0.2.7" {
				t.Errorf("%s %s: %v, %v", c.method, c.path, &m, err)
			}
			if cc, ct := res.Header.Get("Cache-Control"), res.Header.Get("Content-Type"); cc != "max-age=30" || ct != "application/dns-message" {
				t.Errorf("Cache-Control %q, Content-Type %q", cc, ct)
			}
			if secure && res.ProtoMajor != 2 {
				t.Errorf("%s, want HTTP/2", res.Proto)
			}
		}
	}
}

// TestTimeoutsOfHTTPS: a connection has the time-outs that were in force when it was made, whatever changes later.
func TestTimeoutsOfHTTPS(t *testing.T) {
	t.Parallel()
	cert, roots := servertest.Certificate(t)
	s := server.New(server.DefaultLimits(), server.Hooks{})
	apply := func(idle time.Duration) {
		t.Helper()
		if err := s.Apply([]server.Listener{{
			Transport: server.HTTPS, Host: "127.0.0.1", Port: "0", Blocks: []*server.Block{servertest.Block(".", stage(handler(address)))},
			TLS: &tls.Config{Certificates: []tls.Certificate{cert}}, Timeouts: server.Timeouts{Idle: idle},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	apply(time.Minute)
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // connections that are kept are closed at once
		_ = s.Shutdown(ctx)
	})
	// dial gives what asks over one connection, and what waits for its end.
	dial := func() (ask, end func() error) {
		conn, err := tls.Dial("tcp", s.Addrs()["https://127.0.0.1:0"].String(), &tls.Config{RootCAs: roots, NextProtos: []string{"http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		in := bufio.NewReader(conn)
		ask = func() error {
			_, res, err := overHTTP(conn, in, servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0)))
			if err == nil && res.StatusCode != http.StatusOK {
				err = errors.New(res.Status)
			}
			return err
		}
		return ask, func() error { _, err := in.ReadByte(); return err }
	}
	before, _ := dial()
	if err := before(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		apply(50 * time.Millisecond)
		after, end := dial()
		if err := after(); err != nil {
			t.Fatal(err)
		}
		if err := end(); !errors.Is(err, io.EOF) {
			t.Errorf("a connection that is idle: %v", err)
		}
		if err := before(); err != nil {
			t.Errorf("the connection that was made before: %v", err)
		}
		apply(time.Minute)
	}
}

// overHTTP asks by POST over a connection of HTTP/1.1.
func overHTTP(conn io.Writer, in *bufio.Reader, query []byte) (*dns.Msg, *http.Response, error) {
	req, err := http.NewRequest(http.MethodPost, "https://dns.example/dns-query", bytes.NewReader(query))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Content-Type", "application/dns-message")
	if err := req.Write(conn); err != nil {
		return nil, nil, err
	}
	res, err := http.ReadResponse(in, req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, nil, err
	}
	m := new(dns.Msg)
	return m, res, m.Unpack(body)
}

func TestAddrsByTransport(t *testing.T) {
	t.Parallel()
	s := server.New(server.DefaultLimits(), server.Hooks{})
	cert, _ := servertest.Certificate(t)
	b := []*server.Block{servertest.Block(".", stage(handler(address)))}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	if err := s.Apply([]server.Listener{
		{Host: "::1", Port: "0", Blocks: b},
		{Transport: server.TLS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: conf},
		{Transport: server.HTTPS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: conf},
		{Transport: server.HTTPS, Host: "127.0.0.1", Port: "0", Blocks: b},
	}); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"[::1]:0", "tls://127.0.0.1:0", "https://127.0.0.1:0", "http://127.0.0.1:0"} {
		if a := s.Addrs()[k]; a == (netip.AddrPort{}) || a.Port() == 0 {
			t.Errorf("%s is bound to %v", k, a)
		}
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
