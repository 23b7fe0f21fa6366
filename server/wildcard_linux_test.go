package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// insideEnv makes the test program the inside of one of the tests that have a network namespace of their own.
const insideEnv = "SERVER_TEST_INSIDE"

func TestMain(m *testing.M) {
	inside := map[string]func() error{"wildcard": wildcard, "full": fullSocket}[os.Getenv(insideEnv)]
	if inside == nil {
		os.Exit(m.Run())
	}
	if err := inside(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestWildcard binds to all addresses, in a network namespace of its own: replies leave from the address that was asked, whether the query
// had to wait or not.
func TestWildcard(t *testing.T) {
	t.Parallel()
	runInside(t, "wildcard")
}

// runInside runs what TestMain knows by that name in a network namespace of its own.
func runInside(t *testing.T, what string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), insideEnv+"="+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err = cmd.Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this system gives no user and network namespaces to tests: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
}

// wildcard runs in the namespace, whose loopback addresses are nobody else's.
func wildcard() error {
	if err := ip("link set lo up"); err != nil {
		return err
	}
	s := server.New(server.DefaultLimits(), server.Hooks{})
	if err := s.Apply([]server.Listener{{Port: "0", Blocks: []*server.Block{
		servertest.Block("inline.", stage(handler(local))),
		servertest.Block("parked.", stage(waiter(func(_ context.Context, r *server.Reply, q *server.Query) server.Verdict { return local(r, q) }))),
	}}}); err != nil {
		return err
	}
	var errs []error
	_, port, err := net.SplitHostPort(s.Addrs()[":0"].String())
	if err != nil {
		return err
	}
	for _, addr := range []string{"127.0.0.1", "127.0.0.5", "::1"} {
		for _, name := range []string{"x.inline.", "x.parked."} {
			for _, proto := range []string{"udp", "tcp"} {
				// The client's socket is connected: a reply from another address would not reach it.
				m, _, err := (&dns.Client{Net: proto}).Exchange(servertest.Query(name, dns.TypeTXT, 0), net.JoinHostPort(addr, port))
				if err != nil || len(m.Answer) != 1 || !strings.Contains(m.Answer[0].String(), `"`+addr+`"`) {
					errs = append(errs, fmt.Errorf("%s at %s over %s: %v, %w", name, addr, proto, m, err))
				}
			}
		}
	}
	return errors.Join(append(errs, s.Shutdown(context.Background()))...)
}

func ip(args string) error {
	if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w %s", args, err, out)
	}
	return nil
}

// local answers with the address that was asked.
func local(r *server.Reply, q *server.Query) server.Verdict {
	r.TXT(server.Answer, server.Owner, 0, q.Local.Addr().String())
	return server.Done
}
