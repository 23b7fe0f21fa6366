//go:build unix

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
)

// startConsole runs the demo's cluster with a page and gives the page's address. The address was free a moment ago; where another process was
// quicker, the start fails and another is tried.
func startConsole(t *testing.T) (dnsAddr, page string) {
	t.Helper()
	cluster, err := filepath.Abs("../../deploy/demo/cluster")
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	page = ln.Addr().String()
	ln.Close()
	dir, _ := corefile(t, fmt.Sprintf(". {\n bind 127.0.0.1\n kubernetes cluster.local {\n  manifests %q\n }\n console %s\n}\n", cluster, page))
	return start(t, dir, "", "-p", "0").addr(), page
}

// TestConsoleShowsLoop: an upstream that loop has cut off is said to be, with the reason, and so is the zone that has no other.
func TestConsoleShowsLoop(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	page, addr := ln.Addr().String(), pc.LocalAddr().String()
	ln.Close()
	pc.Close()
	_, port, _ := net.SplitHostPort(addr)
	dir, _ := corefile(t, fmt.Sprintf(". {\n bind 127.0.0.1\n forward . %s\n loop\n console %s\n}\n", addr, page))
	start(t, dir, "", "-p", port).addr()
	var live struct{ Values map[string]string }
	for end := time.Now().Add(patience); live.Values["upstream.0.state"] != "suspended"; {
		resp, err := http.Get("http://" + page + "/live.json")
		if err != nil {
			t.Fatal(err)
		}
		err = json.NewDecoder(resp.Body).Decode(&live)
		resp.Body.Close()
		if err != nil || time.Now().After(end) {
			t.Fatalf("%v, %q", err, live.Values)
		}
	}
	if v := live.Values; !strings.Contains(v["upstream.0.why"], "leads back to this server") || v["zone.0.state"] != "no upstream" || v["zone.0.why"] != "no server for names in . works" {
		t.Errorf("%q, %q, %q", v["upstream.0.why"], v["zone.0.state"], v["zone.0.why"])
	}
	m, err := dns.Exchange(servertest.Query("www.example.com.", dns.TypeA, 1232), addr)
	if err != nil || m.Rcode != dns.RcodeServerFailure || !strings.Contains(m.String(), "all upstream servers lead back to this server") {
		t.Errorf("a client is not told: %v\n%v", err, m)
	}
}

// TestDumpOfRunningServer: what the program has in memory, fetched by the subcommand, is what it is explained from and answered from elsewhere.
func TestDumpOfRunningServer(t *testing.T) {
	t.Parallel()
	_, page := startConsole(t)
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) string {
		c := exec.Command(self, args...)
		c.Env = append(os.Environ(), "CLUSTERDNS_TEST_RUN=1")
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("clusterdns %q: %v\n%s", args, err, out)
		}
		return string(out)
	}
	write(t, filepath.Join(dir, "cluster.yaml"), command("dump", "-admin", page))
	if out := command("explain", "-manifests", filepath.Join(dir, "cluster.yaml"), "web-svc.service-lab"); !strings.Contains(out, "WORKS") || !strings.Contains(out, "10.96.100.10") {
		t.Errorf("explained from the dump:\n%s", out)
	}
	write(t, filepath.Join(dir, "Corefile"), ". {\n bind 127.0.0.1\n kubernetes cluster.local {\n  manifests cluster.yaml\n }\n}\n")
	p := start(t, dir, "", "-p", "0")
	p.until(p.addr(), "mysql-1.mysql.service-lab.svc.cluster.local.", dns.RcodeSuccess)
	if out := command("dump", "-admin", page, "-anonymize"); strings.Contains(out, "service-lab") || !strings.Contains(out, "kind: EndpointSlice") {
		t.Errorf("anonymized:\n%.2000s", out)
	}
}

// TestHostileHTTP sends to the page's own socket what no browser of a user's sends, and what one does for a page of somebody else's.
func TestHostileHTTP(t *testing.T) {
	t.Parallel()
	dnsAddr, page := startConsole(t)
	raw := func(request string) (status int, body string) {
		t.Helper()
		c, err := net.Dial("tcp", page)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		// The server may answer, and close, before it has read all of it.
		go func() { _, _ = io.WriteString(c, request) }()
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("%.60q: %v", request, err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body) // as much as there is
		return resp.StatusCode, string(b)
	}
	paths := []string{"/", "/services", "/live.json", "/explain?name=web-svc.service-lab&o=json", "/ndots?names=web-svc.service-lab", "/dump", "/dump?anonymize=true"}
	for _, path := range paths {
		more := path + "?x="
		if strings.Contains(path, "?") {
			more = path + "&x="
		}
		for what, c := range map[string]struct {
			request string
			want    int
		}{
			"rebinding":      {"GET " + path + " HTTP/1.1\r\nHost: evil.example:8053\r\n\r\n", http.StatusMisdirectedRequest},
			"rebinding, URL": {"GET http://evil.example" + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", http.StatusMisdirectedRequest},
			"no host":        {"GET " + path + " HTTP/1.1\r\n\r\n", http.StatusBadRequest},
			"HTTP/1.0":       {"GET " + path + " HTTP/1.0\r\n\r\n", http.StatusMisdirectedRequest},
			"two hosts":      {"GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n", http.StatusBadRequest},
			"post":           {"POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", http.StatusMethodNotAllowed},
			"preflight":      {"OPTIONS " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: GET\r\n\r\n", http.StatusMethodNotAllowed},
			"trace":          {"TRACE " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", http.StatusMethodNotAllowed},
			"endless body":   {"POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9999999999\r\n\r\n" + strings.Repeat("x", 1<<20), http.StatusMethodNotAllowed},
			"long header":    {"GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
			"long line":      {"GET " + more + strings.Repeat("x", 1<<20) + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", http.StatusRequestHeaderFieldsTooLarge},
			"other site":     {"GET " + more + "1 HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: no-cors\r\n\r\n", http.StatusForbidden},
		} {
			status, body := raw(c.request)
			if status != c.want || strings.Contains(body, "service-lab") {
				t.Errorf("%s, %s: status %d, want %d\n%.300s", path, what, status, c.want, body)
			}
		}
	}
	for _, path := range []string{"/../../etc/passwd", "/style.css/../../page.go", "//evil.example/", "/dump/", "/%2e%2e/", "/explain/x"} {
		if status, body := raw("GET " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); status == http.StatusOK || strings.Contains(body, "service-lab") {
			t.Errorf("%s: status %d\n%.300s", path, status, body)
		}
	}
	if status, body := raw("GET /services HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); status != http.StatusOK || !strings.Contains(body, "service-lab") {
		t.Errorf("after all that: status %d", status)
	}
	if rcode, _, err := ask(dnsAddr, "web-svc.service-lab.svc.cluster.local."); rcode != dns.RcodeSuccess || err != nil {
		t.Errorf("after all that: rcode %d, %v", rcode, err)
	}
}
