package node_test

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
	"time"

	"github.com/clusterdns/clusterdns/cmd/clusterdns/node"
)

// insideEnv makes the test program the inside of TestAddresses.
const insideEnv = "NODE_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Getenv(insideEnv) != "" {
		if err := inside(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestAddresses runs the command in a network namespace of its own.
func TestAddresses(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("this test needs ip")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this system gives no user and network namespaces to tests: %v", err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// command runs the command and gives its exit code and what it said.
func command(args ...string) (int, string) {
	var out strings.Builder
	code := node.Run(context.Background(), args, &out, &out)
	return code, out.String()
}

// inside runs in the namespace.
func inside() error {
	if code, said := command("198.18.0.1"); code != 0 { // a namespace without any address takes every one for its own
		return fmt.Errorf("exit %d, %s", code, said)
	}
	if err := exec.Command("ip", "link", "set", "lo", "up").Run(); err != nil {
		return fmt.Errorf("ip link: %w", err)
	}
	if err := listen("169.254.20.10:0"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return fmt.Errorf("the address before the command: %w", err)
	}
	for range 2 { // it may be there already
		if code, said := command("169.254.20.10", "fd00::a:10"); code != 0 || said != "" {
			return fmt.Errorf("exit %d, %s", code, said)
		}
		for _, addr := range []string{"169.254.20.10:0", "[fd00::a:10]:0"} {
			// An address of IPv6 is there a moment later: the kernel asks whether it is somebody else's, which on loopback takes no time.
			if err := eventually(func() error { return listen(addr) }); err != nil {
				return err
			}
		}
	}
	// What nobody listens on is refused at once.
	if _, err := net.Dial("tcp", "169.254.20.10:53"); !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("connecting: %w, want it refused", err)
	}
	for range 2 { // it may be gone already
		if code, said := command("-remove", "169.254.20.10"); code != 0 || said != "" {
			return fmt.Errorf("-remove: exit %d, %s", code, said)
		}
		if err := listen("169.254.20.10:0"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return fmt.Errorf("the address after -remove: %w", err)
		}
	}
	return listen("[fd00::a:10]:0") // the other one is still there
}

// eventually repeats f until it gives no error, for a while.
func eventually(f func() error) error {
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	var err error
	for range 5000 {
		if err = f(); err == nil {
			return nil
		}
		<-again.C
	}
	return err
}

// listen says whether an address is this host's.
func listen(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err == nil {
		err = ln.Close()
	}
	return err
}

// TestUsage: what makes no sense is said and changes nothing.
func TestUsage(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":             "no address",
		"169.254.20":   `"169.254.20" is not an address`,
		"fe80::1%eth0": "is not an address",
		"127.0.0.1":    "127.0.0.1 can be no node's own address",
		"0.0.0.0":      "0.0.0.0 can be no node's own address",
		"-remove":      "no address",
		"-nothing":     "flag provided but not defined",
	} {
		if code, said := command(strings.Fields(args)...); code != 2 || !strings.Contains(said, want) {
			t.Errorf("%q: exit %d, %q, want %q", args, code, said, want)
		}
	}
	if code, said := command("-h"); code != 0 || !strings.Contains(said, "Usage: clusterdns node-address") {
		t.Errorf("-h: exit %d, %q", code, said)
	}
}

// TestNeedsRights: without NET_ADMIN the error says so.
func TestNeedsRights(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root has the right")
	}
	if code, said := command("169.254.20.10"); code != 1 || !strings.Contains(said, "NET_ADMIN") {
		t.Errorf("exit %d, %q", code, said)
	}
}
