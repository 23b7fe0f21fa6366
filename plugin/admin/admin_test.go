package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
	"github.com/clusterdns/clusterdns/server"
)

// patience bounds waits of tests; it is no pace, only an end.
const patience = 10 * time.Second

const anyPort = "127.0.0.1:0"

func start(t *testing.T) *Server {
	t.Helper()
	s := New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.Shutdown(ctx)
	})
	return s
}

// says is a route that answers with a word.
func says(addr, path, word string) Route {
	return Route{Addr: addr, Path: path, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, word) })}
}

func apply(t *testing.T, s *Server, routes ...Route) {
	t.Helper()
	if err := s.Apply(routes); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, c *http.Client, addr, path string) string {
	t.Helper()
	resp, err := c.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(string(b)))
}

// TestReloadKeepsTheSocket, and even the connections of clients; what is served behind them changes.
func TestReloadKeepsTheSocket(t *testing.T) {
	t.Parallel()
	s := start(t)
	apply(t, s, says(anyPort, "/a", "one"), says(anyPort, "/a", "not this"), says(anyPort, "/b", "bee"))
	addr := s.Addr(anyPort)
	dials := 0
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
		dials++
		return new(net.Dialer).DialContext(ctx, n, a)
	}}}
	for path, want := range map[string]string{"/a": "200 one", "/b": "200 bee", "/c": "404 404 page not found"} {
		if got := get(t, c, addr, path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	apply(t, s, says(anyPort, "/a", "two"))
	if s.Addr(anyPort) != addr {
		t.Error("the address was bound again")
	}
	for path, want := range map[string]string{"/a": "200 two", "/b": "404 404 page not found"} {
		if got := get(t, c, addr, path); got != want {
			t.Errorf("after the reload %s: %s, want %s", path, got, want)
		}
	}
	if dials != 1 {
		t.Errorf("%d connections, want 1", dials)
	}
}

// TestAddressesComeAndGo: one that is not named any more is free at once, and one that cannot be bound changes nothing.
func TestAddressesComeAndGo(t *testing.T) {
	t.Parallel()
	s := start(t)
	apply(t, s, says(anyPort, "/", "one"))
	addr := s.Addr(anyPort)
	other := start(t)
	err := other.Apply([]Route{says(anyPort, "/", "x"), says(addr, "/", "x")})
	if err == nil || !strings.Contains(err.Error(), "cannot listen on HTTP address "+addr) {
		t.Errorf("error %v, want one that names %s", err, addr)
	}
	if got := other.Addr(anyPort); got != "" {
		t.Errorf("%s is served though the configuration failed", got)
	}
	apply(t, s)
	if got := s.Addr(anyPort); got != "" {
		t.Errorf("%s is still served", got)
	}
	apply(t, other, says(addr, "/", "three"))
	if got := get(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, addr, "/"); got != "200 three" {
		t.Errorf("got %s", got)
	}
}

// TestAnswersUnderWayAreFinished when their address goes.
func TestAnswersUnderWayAreFinished(t *testing.T) {
	t.Parallel()
	s := start(t)
	entered, leave := make(chan struct{}), make(chan struct{})
	apply(t, s, Route{Addr: anyPort, Path: "/", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-leave
		_, _ = io.WriteString(w, "done")
	})})
	addr := s.Addr(anyPort)
	got := make(chan string)
	go func() { got <- get(t, &http.Client{Transport: new(http.Transport)}, addr, "/") }()
	<-entered
	apply(t, s)
	close(leave)
	if g := <-got; g != "200 done" {
		t.Errorf("got %s", g)
	}
}

// TestSlowClients: one that does not read is let go, and one that opens connections by the hundred does not keep others out for good.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	s := start(t)
	ended := make(chan error, 1)
	apply(t, s, says(anyPort, "/ok", "ok"), Route{Addr: anyPort, Path: "/big", Patience: 50 * time.Millisecond, Handler: http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			var err error
			for range 1 << 12 { // far more than the sockets' buffers hold
				if _, err = w.Write(make([]byte, 1<<16)); err != nil {
					break
				}
			}
			ended <- err
		})})
	addr := s.Addr(anyPort)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /big HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a client that reads nothing got 256 MiB")
		}
	case <-time.After(patience):
		t.Fatal("a client that reads nothing holds its answer")
	}
	var idle []net.Conn
	for range maxConns + 50 {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, c)
	}
	// The ones over the limit are closed by the server.
	last := idle[len(idle)-1]
	if err := last.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := last.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("connection %d is kept: %v", len(idle), err)
	}
	for _, c := range idle {
		c.Close()
	}
	for end := time.Now().Add(patience); ; {
		resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Get("http://" + addr + "/ok")
		if err == nil {
			resp.Body.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no answer after the connections are gone: %v", err)
		}
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	s := start(t)
	apply(t, s, says(anyPort, "/", "x"))
	addr := s.Addr(anyPort)
	s.Shutdown(t.Context())
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("still accepts connections")
	}
	if err := s.Apply(nil); err == nil {
		t.Error("can be used after it was shut down")
	}
	s.Shutdown(t.Context())
}

// moody is a listener that fails before it gives connections.
type moody struct {
	net.Listener
	errs []error
}

func (m *moody) Accept() (net.Conn, error) {
	if len(m.errs) == 0 {
		return m.Listener.Accept()
	}
	err := m.errs[0]
	m.errs = m.errs[1:]
	return nil, os.NewSyscallError("accept4", err)
}

// TestAcceptErrors has Accept fail as accept(2) says that it may: probes are answered all the same. It ends with the listener.
func TestAcceptErrors(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", anyPort)
	if err != nil {
		t.Fatal(err)
	}
	ep := &endpoint{ln: &moody{ln, []error{syscall.EMFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM}}, done: make(chan struct{})}
	sites, _, err := build([]Route{says(anyPort, "/a", "yes")})
	if err != nil {
		t.Fatal(err)
	}
	ep.site.Store(sites[anyPort])
	ep.http = &http.Server{Handler: ep}
	go ep.serve()
	if got := get(t, &http.Client{Timeout: patience}, ln.Addr().String(), "/a"); got != "200 yes" {
		t.Errorf("answered %q", got)
	}
	ep.stop(t.Context())
}

func TestParseAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"x": "localhost:80", "x :8080": ":8080", "x localhost:1": "localhost:1", "x [::1]:08": "[::1]:8", "x 10.9.8.7:6060": "10.9.8.7:6060",
	} {
		if got, err := ParseAddress(plugintest.Input(t, text), "localhost:80"); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"x bla": "is not an address", "x bla bla": "takes one address", "x /foo": "is not an address", "x bla:a": `"a" is not a port`,
		"x :65536": "is not within 0 and 65535", "x 80": "is a port alone; write :80", "x :": "is not a port", "x ::1:80": "is not an address", "x :80 -1": "takes one address",
	} {
		if _, err := ParseAddress(plugintest.Input(t, text), ""); err == nil || !strings.HasPrefix(err.Error(), "Corefile:1: x: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"[::]:8080": "localhost:8080", "0.0.0.0:80": "localhost:80", "127.0.0.1:1": "127.0.0.1:1", "[fe80::1]:2": "[fe80::1]:2", ":5": "localhost:5", "": "",
	} {
		if got := Reachable(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// TestUnixSocket: an address may be a path. What a killed process left there is no obstacle, a process that serves it is.
func TestUnixSocket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ready")
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false)
	left.Close()
	apply(t, start(t), says("unix:"+path, "/", "one"))
	c := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	if got := get(t, c, "localhost", "/"); got != "200 one" {
		t.Errorf("got %s", got)
	}
	if err := start(t).Apply([]Route{says("unix:"+path, "/", "two")}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a socket that is served: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := start(t).Apply([]Route{says("unix:"+file, "/", "two")}); err == nil {
		t.Error("a file that is no socket was replaced")
	}
}

// TestShare: servers that share their addresses can have the same one, and one that does not share cannot.
func TestShare(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("sharing is Linux's")
	}
	a, b := New(slog.New(slog.DiscardHandler)), start(t)
	a.Share(server.SharePort)
	b.Share(server.SharePort)
	apply(t, a, says(anyPort, "/", "one"))
	addr := a.Addr(anyPort)
	apply(t, b, says(addr, "/", "two"))
	if err := start(t).Apply([]Route{says(addr, "/", "three")}); err == nil {
		t.Error("an address that is in use was bound by a server that does not share")
	}
	a.Shutdown(t.Context())
	if got := get(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, addr, "/"); got != "200 two" {
		t.Errorf("after the other one's end: %s", got)
	}
}
