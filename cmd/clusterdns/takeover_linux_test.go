package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestTakeOverLate: a server is told to end before there is another one. It answers on until that listens, or until the end of its lameduck time.
func TestTakeOverLate(t *testing.T) {
	t.Parallel()
	conf := func(lameduck string) string {
		dir, _ := corefile(t, ". {\n    bind 127.0.0.1\n    health 127.0.0.1:0 {\n        lameduck "+lameduck+"\n    }\n    hosts {\n        192.0.2.1 a.example\n    }\n}\n")
		return dir
	}
	t.Run("comes", func(t *testing.T) {
		t.Parallel()
		old := start(t, conf("5m"), "", "-takeover", "-p", "0")
		addr := old.addr()
		_, port, _ := strings.Cut(addr, ":")
		old.signal(syscall.SIGTERM)
		old.find("nobody else serves the same addresses: answering on for up to 5m0s", 1)
		asks := func(when string) {
			for range 20 {
				if rcode, n, err := ask(addr, "a.example."); err != nil || rcode != 0 || n != 1 {
					t.Fatalf("%s: %d, %d, %v", when, rcode, n, err)
				}
			}
		}
		asks("before there is another one")
		next := start(t, conf("5m"), "", "-takeover", "-p", port)
		next.addr()
		if status := old.wait(); status != exitOK {
			t.Errorf("the old one ended with %d", status)
		}
		old.find("another process serves the same addresses now", 1)
		asks("after the old one's end")
		next.signal(syscall.SIGTERM)
		next.find("nobody else serves", 1)
		next.signal(syscall.SIGTERM)
		next.wait()
	})
	t.Run("does not come", func(t *testing.T) {
		t.Parallel()
		old := start(t, conf("100ms"), "", "-takeover", "-p", "0")
		old.addr()
		old.signal(syscall.SIGTERM)
		if status := old.wait(); status != exitOK {
			t.Errorf("it ended with %d", status)
		}
		old.find("nobody else serves the same addresses at the end of the lameduck time", 1)
	})
}

// TestTakeOver: a server starts beside another one with the same address, is ready by its own account, and goes on alone.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	dir, _ := corefile(t, ". {\n    bind 127.0.0.1\n    hosts {\n        192.0.2.1 a.example\n    }\n}\n")
	old := start(t, dir, "", "-takeover", "-p", "0")
	addr := old.addr()
	_, port, _ := strings.Cut(addr, ":")
	socket := "unix:" + filepath.Join(t.TempDir(), "ready")
	dir, _ = corefile(t, ". {\n    bind 127.0.0.1\n    ready "+socket+"\n    hosts {\n        192.0.2.1 a.example\n    }\n}\n")
	if p := start(t, dir, "", "ready", socket); p.wait() != exitError || !strings.Contains(p.output(), "no answer at "+socket) {
		t.Errorf("before there is a server: %s", p.output())
	}
	next := start(t, dir, "", "-takeover", "-p", port)
	next.addr()
	next.find("taking over "+addr+" from another process", 1)
	if p := start(t, dir, "", "ready", socket); p.wait() != exitOK || p.output() != "OK\n" {
		t.Errorf("ready: status %d, %q", p.status, p.output())
	}
	old.signal(syscall.SIGTERM)
	if status := old.wait(); status != exitOK {
		t.Errorf("the old one ended with %d", status)
	}
	for range 20 {
		if rcode, n, err := ask(addr, "a.example."); err != nil || rcode != 0 || n != 1 {
			t.Fatalf("after the old one's end: %d, %d, %v", rcode, n, err)
		}
	}
}
