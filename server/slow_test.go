package server_test

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// TestSlowClients has clients on every kind of connection that send a byte now and then and never a whole query. Each is cut off when the
// time for one query is over, and nobody else notices.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	limits := server.DefaultLimits()
	limits.TCPIdle = 300 * time.Millisecond
	cert, roots := servertest.Certificate(t)
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	s := server.New(limits, server.Hooks{})
	b := []*server.Block{servertest.Block(".", stage(handler(address)))}
	if err := s.Apply([]server.Listener{
		{Host: "127.0.0.1", Port: "0", Blocks: b},
		{Transport: server.TLS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: conf},
		{Transport: server.HTTPS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: conf},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	plain, secure, web := s.Addrs()["127.0.0.1:0"].String(), s.Addrs()["tls://127.0.0.1:0"].String(), s.Addrs()["https://127.0.0.1:0"].String()
	query := servertest.Pack(t, servertest.Query("x.", dns.TypeA, 0))
	frame := append([]byte{0, byte(len(query))}, query...)
	post := []byte("POST /dns-query HTTP/1.1\r\nHost: x\r\nContent-Type: application/dns-message\r\nContent-Length: 30000\r\n\r\n")
	over := func(addr string) func() (net.Conn, error) {
		return func() (net.Conn, error) { return tls.Dial("tcp", addr, &tls.Config{RootCAs: roots}) }
	}
	bare := func(addr string) func() (net.Conn, error) {
		return func() (net.Conn, error) { return net.Dial("tcp", addr) }
	}
	for name, c := range map[string]struct {
		dial  func() (net.Conn, error)
		first []byte // sent at once
		rest  []byte // sent byte by byte, over and over
	}{
		"tcp, nothing":           {bare(plain), nil, nil},
		"tcp, half a length":     {bare(plain), frame[:1], nil},
		"tcp, byte by byte":      {bare(plain), []byte{0xFF, 0xFF}, frame},
		"tls, no handshake":      {bare(secure), nil, nil},
		"tls, a slow handshake":  {bare(secure), []byte{22, 3, 1, 0x3F, 0}, []byte{1}},
		"tls, byte by byte":      {over(secure), []byte{0xFF, 0xFF}, frame},
		"https, no handshake":    {bare(web), nil, nil},
		"https, a slow header":   {over(web), []byte("GET /dns-query HTTP/1.1\r\n"), []byte("a")},
		"https, a slow body":     {over(web), post, query},
		"https, nothing to read": {over(web), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := c.dial()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if took := untilCut(t, conn, c.first, c.rest); took > 20*limits.TCPIdle {
				t.Errorf("it was cut off after %s, want about %s", took, limits.TCPIdle)
			}
			if err := ask(dial(t, plain)); err != nil {
				t.Errorf("somebody else: %v", err)
			}
		})
	}
}

// untilCut sends first, then rest byte by byte, until the other side closes, and says how long that took.
func untilCut(t *testing.T, conn net.Conn, first, rest []byte) time.Duration {
	t.Helper()
	begin, end := time.Now(), make(chan struct{})
	_ = conn.SetDeadline(begin.Add(30 * time.Second))
	if _, err := conn.Write(first); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(end)
		buf := make([]byte, 512)
		for {
			if _, err := conn.Read(buf); err != nil {
				return
			}
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-end:
			return time.Since(begin)
		case <-tick.C:
			if len(rest) > 0 {
				_, _ = conn.Write(rest[i%len(rest) : i%len(rest)+1])
			}
		}
	}
}
