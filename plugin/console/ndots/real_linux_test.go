package ndots_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	// allEnv makes what is missing on this machine a failure, so that nobody takes a check for made that was not.
	allEnv = "NDOTS_TEST_ALL"
	goEnv  = "NDOTS_TEST_GO_LOOKUP"
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
	Search   []string
	Asked    []string       // the names that it asked for, in order, each once
	Times    map[string]int // how often it asked, by name and type
	Took     time.Duration
}

// sent is how often questions were sent. musl's count those for a name together: which of the two is sent again when both fail is a matter of chance.
func sent(resolver string, times map[string]int) map[string]int {
	if resolver != "musl" {
		return times
	}
	out := map[string]int{}
	for q, n := range times {
		name, _, _ := strings.Cut(q, " ")
		out[name] += n
	}
	return out
}

// leastTook is how long a lookup takes at the least, with a time-out of a second and two attempts, where it is told by what is not answered.
func leastTook(c *realCase) time.Duration {
	switch {
	case strings.HasPrefix(c.Name, "mute.") && c.Resolver != "musl":
		return 2 * time.Second
	case c.Resolver == "musl" && c.NDots == 5 && (strings.HasPrefix(c.Name, "mute.") || strings.HasPrefix(c.Name, "sick.")):
		return time.Second // for both attempts
	}
	return 0
}

var realSearch = []string{"default.svc.cluster.local", "svc.cluster.local", "cluster.local"}

// muslProgram calls getaddrinfo as any program does.
const muslProgram = `#include <netdb.h>
#include <stddef.h>
int main(int c, char **v) { struct addrinfo *r; return c < 2 || getaddrinfo(v[1], NULL, NULL, &r) != 0; }
`

// missing skips what this machine cannot do, or fails where it has to.
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv(allEnv) != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// TestRealResolvers compares the candidates of each model with what the resolver itself asks a server for, in a network namespace
// of the test's own in which that server has port 53.
func TestRealResolvers(t *testing.T) {
	t.Parallel()
	for resolver, command := range map[string]func(*testing.T) []string{"glibc": glibcCommand, "musl": muslCommand, "go": goCommand} {
		t.Run(resolver, func(t *testing.T) {
			t.Parallel()
			compareReal(t, realCases(resolver, command(t)))
		})
	}
}

// compareReal runs the cases and holds the model to what was asked.
func compareReal(t *testing.T, cases []realCase) {
	t.Helper()
	dir := t.TempDir()
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
	if _, err := exec.LookPath("ip"); err != nil {
		missing(t, "no network namespace can be made ready: %v", err)
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
		missing(t, "this system gives no user and network namespaces to tests: %v", err)
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
		rules.Timeout = rules.Timeout / 5 // timeout:1 in place of the usual 5
		lab := ndots.Lab{Server: server, Rules: rules, NDots: c.NDots, Search: c.Search}
		var want []string
		times := map[string]int{}
		model := lab.Lookup(t.Context(), c.Name)
		for _, q := range model.Queries {
			times[q.Name+" "+q.Type] += q.Attempts
			if !slices.Contains(want, q.Name) {
				want = append(want, q.Name)
			}
		}
		if !slices.Equal(c.Asked, want) {
			t.Errorf("%s %s ndots:%d:\nreal  %q\nmodel %q", c.Resolver, c.Name, c.NDots, c.Asked, want)
		}
		const early = 20 * time.Millisecond // of timers that go by the tick
		if least := leastTook(&c) - early; c.Took < least || model.Took < least {
			t.Errorf("%s %s ndots:%d: the resolver took %s and the model %s, want %s at least", c.Resolver, c.Name, c.NDots, c.Took, model.Took, least)
		}
		if !maps.Equal(sent(c.Resolver, c.Times), sent(c.Resolver, times)) {
			t.Errorf("%s %s ndots:%d: questions and how often they are sent:\nreal  %v\nmodel %v", c.Resolver, c.Name, c.NDots, c.Times, times)
		}
	}
}

// glibcCommand looks a name up by the machine's getaddrinfo.
func glibcCommand(t *testing.T) []string {
	t.Helper()
	if _, err := exec.LookPath("getent"); err != nil {
		missing(t, "glibc is not checked: %v", err)
	}
	if out, err := exec.Command("getent", "--version").CombinedOutput(); err != nil || !strings.Contains(string(out), "GNU libc") && !strings.Contains(string(out), "GLIBC") {
		missing(t, "the getent of this machine is not glibc's: %v %s", err, out)
	}
	return []string{"getent", "ahosts"}
}

// muslCommand does by musl's, in a program of its own.
func muslCommand(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	source, bin := filepath.Join(dir, "lookup.c"), filepath.Join(dir, "lookup")
	if err := os.WriteFile(source, []byte(muslProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("musl-gcc", "-static", "-o", bin, source).CombinedOutput(); err != nil {
		missing(t, "musl is not checked: musl-gcc (Debian's musl-tools): %v %s", err, out)
	}
	return []string{bin}
}

// goCommand does by Go's, in this program.
func goCommand(t *testing.T) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self}
}

// realCases are the lookups to make with a resolver.
func realCases(resolver string, command []string) (out []realCase) {
	for _, name := range []string{"web.prod", "api.example.com", "api.example.com.", "nothing.example.com", "only6.example.com", "lame.example.com", "mute.example.com", "sick.example.com", "bare.example.com", "single"} {
		for _, n := range []int{1, 2, 5} {
			if n != 5 && strings.HasPrefix(name, "mute.") {
				continue // it takes seconds
			}
			out = append(out, realCaseOf(resolver, command, name, n, realSearch))
		}
	}
	for _, search := range [][]string{{".", "cluster.local"}, {"svc.cluster.local", "."}, {"."}} {
		if resolver == "musl" {
			break // before 1.2.4, which Debian has, it gives the lookup up at the root; the model is what it does since
		}
		for _, name := range []string{"web.prod", "api.example.com", "nothing.example.com", "single"} {
			out = append(out, realCaseOf(resolver, command, name, 1, search), realCaseOf(resolver, command, name, 5, search))
		}
	}
	label := strings.Repeat("l", 57) + "."
	long := strings.Repeat(label, 4) + "ong" // fits with the second domain, and not with the first
	return append(out, realCaseOf(resolver, command, long, 5, realSearch), realCaseOf(resolver, command, long, 1, realSearch))
}

func realCaseOf(resolver string, command []string, name string, n int, search []string) realCase {
	c := realCase{Resolver: resolver, Command: append(slices.Clone(command), name), Name: name, NDots: n, Search: search}
	if resolver == "go" {
		c.Command, c.Env = command, []string{goEnv + "=" + name}
	}
	return c
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
	times := map[string]int{}
	pc, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		return err
	}
	go func() {
		_ = (&dns.Server{PacketConn: pc, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			mu.Lock()
			n := q.Question[0].Name
			if !slices.Contains(asked, n) {
				asked = append(asked, n)
			}
			times[n+" "+dns.TypeToString[q.Question[0].Qtype]]++
			mu.Unlock()
			clusterAnswer(w, q)
		})}).ActivateAndServe()
	}()
	for i := range cases {
		c := &cases[i]
		conf := fmt.Sprintf("nameserver 127.0.0.1\nsearch %s\noptions ndots:%d timeout:1 attempts:2\n", strings.Join(c.Search, " "), c.NDots)
		if err := os.WriteFile(resolv, []byte(conf), 0o600); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
		cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, insideEnv) }), c.Env...)
		begun := time.Now()
		_ = cmd.Run() // a name that is not found is a failure of the command
		c.Took = time.Since(begun)
		cancel()
		mu.Lock()
		c.Asked, c.Times, asked, times = asked, times, nil, map[string]int{}
		mu.Unlock()
	}
	return json.NewEncoder(os.Stdout).Encode(cases)
}
