package ndots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/plugin/console/ndots"
)

// The environment variables by which this test starts itself again: as the inside of a network namespace, and as a program that uses Go's
// resolver.
const (
	insideEnv = "NDOTS_TEST_INSIDE"
	goEnv     = "NDOTS_TEST_GO_LOOKUP"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(insideEnv) != "":
		if err := inside(os.Getenv(insideEnv)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case os.Getenv(goEnv) != "":
		_, _ = (&net.Resolver{PreferGo: true}).LookupIPAddr(context.Background(), os.Getenv(goEnv))
		return
	}
	os.Exit(m.Run())
}

// realCase is one lookup by a real resolver.
type realCase struct {
	Resolver string
	Command  []string
	Env      []string
	Name     string
	NDots    int
	Asked    []string // the names that it asked for, in order, each once
}

var realSearch = []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}

// muslProgram calls getaddrinfo as any program does.
const muslProgram = `#include <netdb.h>
#include <stddef.h>
int main(int c, char **v) { struct addrinfo *r; return c < 2 || getaddrinfo(v[1], NULL, NULL, &r) != 0; }
`

// TestRealResolvers compares the candidates of each model with what the resolver itself asks a server for, in a network namespace
// of the test's own in which that server has port 53.
func TestRealResolvers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cases := realCases(t, dir)
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "cases")
	if err := os.WriteFile(file, in, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), insideEnv+"="+file)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this system gives no user and network namespaces to tests: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	var done []realCase
	if err := json.Unmarshal(out, &done); err != nil {
		t.Fatal(err)
	}
	server := cluster(t)
	for _, c := range done {
		rules, err := ndots.ResolverNamed(c.Resolver)
		if err != nil {
			t.Fatal(err)
		}
		rules.Timeout, rules.Attempts = time.Second, 1 // as in inside
		lab := ndots.Lab{Server: server, Rules: rules, NDots: c.NDots, Search: realSearch}
		var want []string
		for _, q := range lab.Lookup(t.Context(), c.Name).Queries {
			if !slices.Contains(want, q.Name) {
				want = append(want, q.Name)
			}
		}
		if !slices.Equal(c.Asked, want) {
			t.Errorf("%s %s ndots:%d:\nreal  %q\nmodel %q", c.Resolver, c.Name, c.NDots, c.Asked, want)
		}
	}
}

// realCases are the lookups to make with each resolver that is on this machine.
func realCases(t *testing.T, dir string) []realCase {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	commands := map[string][]string{"go": {self}}
	if _, err := exec.LookPath("getent"); err == nil {
		commands["glibc"] = []string{"getent", "ahosts"}
	} else {
		t.Log("glibc is not checked: no getent here")
	}
	source, bin := filepath.Join(dir, "lookup.c"), filepath.Join(dir, "lookup")
	if err := os.WriteFile(source, []byte(muslProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("musl-gcc", "-static", "-o", bin, source).CombinedOutput(); err == nil {
		commands["musl"] = []string{bin}
	} else {
		t.Logf("musl is not checked: musl-gcc (Debian's musl-tools): %v %s", err, out)
	}
	var out []realCase
	for resolver, command := range commands {
		for _, name := range []string{"web.prod", "api.example.com", "api.example.com.", "nothing.example.com", "only6.example.com", "lame.example.com", "mute.example.com", "sick.example.com", "bare.example.com", "single"} {
			for _, n := range []int{1, 2, 5} {
				if n != 5 && strings.HasPrefix(name, "mute.") {
					continue // it takes seconds
				}
				c := realCase{Resolver: resolver, Command: append(slices.Clone(command), name), Name: name, NDots: n}
				if resolver == "go" {
					c.Command, c.Env = command, []string{goEnv + "=" + name}
				}
				out = append(out, c)
			}
		}
	}
	return out
}

// inside runs in the namespaces: it serves port 53, points resolv.conf at it, runs each case and writes down what was asked.
func inside(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var cases []realCase
	if err := json.Unmarshal(b, &cases); err != nil {
		return err
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("ip link set lo up: %w %s", err, out)
	}
	resolv, nsswitch := file+".resolv", file+".nsswitch"
	if err := errors.Join(os.WriteFile(resolv, nil, 0o600), os.WriteFile(nsswitch, []byte("hosts: dns\n"), 0o600),
		syscall.Mount(resolv, "/etc/resolv.conf", "", syscall.MS_BIND, "")); err != nil {
		return fmt.Errorf("putting resolv.conf in place: %w", err)
	}
	if _, err := os.Stat("/etc/nsswitch.conf"); err == nil {
		if err := syscall.Mount(nsswitch, "/etc/nsswitch.conf", "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("putting nsswitch.conf in place: %w", err)
		}
	}
	var mu sync.Mutex
	var asked []string
	pc, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		return err
	}
	go func() {
		_ = (&dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			mu.Lock()
			if n := q.Question[0].Name; !slices.Contains(asked, n) {
				asked = append(asked, n)
			}
			mu.Unlock()
			clusterAnswer(w, q)
		})}).ActivateAndServe()
	}()
	for i := range cases {
		c := &cases[i]
		conf := fmt.Sprintf("nameserver 127.0.0.1\nsearch %s\noptions ndots:%d timeout:1 attempts:1\n", strings.Join(realSearch, " "), c.NDots)
		if err := os.WriteFile(resolv, []byte(conf), 0o600); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, insideEnv) }), c.Env...)
		_ = cmd.Run() // a name that is not found is a failure of the command
		cancel()
		mu.Lock()
		c.Asked, asked = asked, nil
		mu.Unlock()
	}
	return json.NewEncoder(os.Stdout).Encode(cases)
}
