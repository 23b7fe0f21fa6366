package server_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// h2 is a client of HTTP/2 that does what no library would.
type h2 struct {
	*http2.Framer
	conn net.Conn
}

func dialH2(t *testing.T, addr string, conf *tls.Config) *h2 {
	t.Helper()
	conf = conf.Clone()
	conf.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", addr, conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	c := &h2{http2.NewFramer(conn, conn), conn}
	if err := c.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// headers are those of a request with a body.
func headers(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/dns-query"}, {"content-type", "application/dns-message"}} {
		if err := e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestHTTP2Floods has clients that each do one thing over and over. It costs no goroutine for each, somebody else is served
// all the time, and the server ends the connection at once or when the client is done.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	const rounds = 30_000
	limits := server.DefaultLimits()
	limits.TCPIdle = time.Second
	cert, roots := servertest.Certificate(t)
	s := server.New(limits, server.Hooks{})
	b := []*server.Block{servertest.Block(".", stage(handler(address)))}
	conf := &tls.Config{Certificates: []tls.Certificate{cert}}
	if err := s.Apply([]server.Listener{
		{Host: "127.0.0.1", Port: "0", Blocks: b},
		{Transport: server.HTTPS, Host: "127.0.0.1", Port: "0", Blocks: b, TLS: conf},
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Shutdown(t.Context()) })
	plain, web := s.Addrs()["127.0.0.1:0"].String(), s.Addrs()["https://127.0.0.1:0"].String()
	for name, once := range map[string]func(c *h2, n uint32) error{
		"streams that are reset": func(c *h2, n uint32) error {
			if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: headers(t), EndHeaders: true}); err != nil {
				return err
			}
			return c.WriteRSTStream(2*n+1, http2.ErrCodeCancel)
		},
		"streams that stay open": func(c *h2, n uint32) error {
			return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*n + 1, BlockFragment: headers(t), EndHeaders: true})
		},
		"headers without end": func(c *h2, n uint32) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers(t)})
			}
			return c.WriteContinuation(1, false, headers(t))
		},
		"settings": func(c *h2, n uint32) error {
			return c.WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize, Val: 16384 + n%2})
		},
		"pings": func(c *h2, n uint32) error { return c.WritePing(false, [8]byte{byte(n)}) },
		"a body of nothing": func(c *h2, n uint32) error {
			if n == 0 {
				return c.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headers(t), EndHeaders: true})
			}
			return c.WriteData(1, false, nil)
		},
		"windows": func(c *h2, _ uint32) error { return c.WriteWindowUpdate(0, 1<<30) },
	} {
		t.Run(name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			c, most := dialH2(t, web, &tls.Config{RootCAs: roots}), 0
			for n := range uint32(rounds) {
				if once(c, n) != nil {
					break
				}
				if most = max(most, runtime.NumGoroutine()); n%5000 == 0 {
					if err := ask(dial(t, plain)); err != nil {
						t.Fatalf("somebody else: %v", err)
					}
				}
			}
			if most > before+rounds/2 { // other tests have some as well
				t.Errorf("%d goroutines, %d before", most, before)
			}
			_ = c.conn.SetReadDeadline(time.Now().Add(2 * time.Minute)) // a loaded machine has much to read until then
			var late net.Error
			if _, err := io.Copy(io.Discard, c.conn); errors.As(err, &late) && late.Timeout() {
				t.Error("the connection is still there")
			}
		})
	}
}
