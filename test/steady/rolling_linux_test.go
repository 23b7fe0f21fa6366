package steady_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/kubernetes/kubetest"
	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/load"
	"github.com/clusterdns/clusterdns/test/internal/process"
)

const (
	// rollingEnv has the path of the program where TestRollingReplacement runs in namespaces of its own.
	rollingEnv = "STEADY_ROLLING_PROGRAM"
	// clusterIP is the address that clients know.
	clusterIP = "10.96.0.10"
	// lameduck is the time of the Corefile.
	lameduck = time.Second
	// forgets is how long after a replica has gone not ready the node's rules still lead old sockets to it: longer than the lameduck time.
	forgets = 2 * time.Second
)

// TestRollingReplacement replaces two replicas behind a node's DNAT rules one by one, as a Deployment does, while sockets that stay open ask:
// nothing is lost. The rules are the kernel's. Like kube-proxy they give new sockets to ready replicas at once, and forget which replica an
// old socket talks to only later, when the lameduck time is over. STEADY_ROUNDS=10 does so ten times.
func TestRollingReplacement(t *testing.T) {
	if bin := os.Getenv(rollingEnv); bin != "" {
		rolling(t, bin)
		return
	}
	t.Parallel()
	for _, tool := range []string{"ip", "iptables-restore", "conntrack"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this test needs %s", tool)
		}
	}
	dir, self := t.TempDir(), os.Args[0]
	cmd := exec.Command(self, "-test.run=^TestRollingReplacement$", "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), rollingEnv+"="+process.Build(t), "XTABLES_LOCKFILE="+filepath.Join(dir, "lock"))
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		t.Skipf("this system gives no user and network namespaces to tests: %v", err)
	}
	t.Logf("%s", out)
	switch {
	case err != nil:
		t.Fatal(err)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skip("this system gives no DNAT rules to tests")
	}
}

// command runs a program of the system.
func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// node is what kube-proxy keeps: rules that lead clusterIP to replicas.
type node struct{ t *testing.T }

// lead makes new sockets reach these replicas, each its share. The rules change in one step: without one, clusterIP is nobody's.
func (n node) lead(replicas ...*replica) error {
	var rules strings.Builder
	rules.WriteString("*nat\n:OUTPUT ACCEPT [0:0]\n")
	for i, r := range replicas {
		fmt.Fprintf(&rules, "-A OUTPUT -d %s -p udp --dport 53", clusterIP)
		if rest := len(replicas) - i; rest > 1 {
			fmt.Fprintf(&rules, " -m statistic --mode nth --every %d --packet 0", rest)
		}
		fmt.Fprintf(&rules, " -j DNAT --to-destination %s:53\n", r.ip)
	}
	rules.WriteString("COMMIT\n")
	cmd := exec.Command("iptables-restore", "-w")
	cmd.Stdin = strings.NewReader(rules.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("iptables-restore: %w %s", err, out)
	}
	return nil
}

// forget makes old sockets new ones.
func (n node) forget() {
	n.t.Helper()
	if err := command("conntrack", "-F"); err != nil {
		n.t.Fatal(err)
	}
}

// flows is how many sockets are led to a replica.
func (n node) flows(r *replica) int {
	n.t.Helper()
	out, err := exec.Command("conntrack", "-L", "-p", "udp", "--orig-dst", clusterIP, "--reply-src", r.ip).Output()
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Count(string(out), "\n")
}

// replica is a server with an address of its own.
type replica struct {
	ip    string
	cmd   *exec.Cmd
	out   *process.Output
	ended chan error
}

func startReplica(t *testing.T, bin, ip, kubeconfig, upstream string) *replica {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "Corefile")
	text := fmt.Sprintf(`.:53 {
    bind %[1]s
    errors
    health %[1]s:8080 {
        lameduck %[2]s
    }
    ready %[1]s:8181
    kubernetes cluster.local {
        kubeconfig %[3]s
    }
    forward . %[4]s
    cache 30
    loadbalance
}
`, ip, lameduck, kubeconfig, upstream)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &replica{ip: ip, cmd: exec.Command(bin, "-conf", conf), out: process.NewOutput(), ended: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = r.out, r.out
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	r.await(t, true)
	return r
}

// await waits until the replica is ready, or no longer.
func (r *replica) await(t *testing.T, ready bool) {
	t.Helper()
	ask := time.NewTicker(10 * time.Millisecond)
	defer ask.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-ask.C {
		res, err := http.Get("http://" + r.ip + ":8181/ready")
		if err == nil {
			res.Body.Close()
		}
		if ready == (err == nil && res.StatusCode == http.StatusOK) {
			return
		}
	}
	t.Fatalf("ready does not become %t", ready)
}

// rolling runs in namespaces where nobody else is.
func rolling(t *testing.T, bin string) {
	n := node{t}
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", clusterIP + "/32", "dev", "lo"},
		{"addr", "add", "10.0.0.1/32", "dev", "lo"}, {"addr", "add", "10.0.0.2/32", "dev", "lo"}} {
		if err := command("ip", args...); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(n.lead(&replica{ip: "10.0.0.1"}), command("conntrack", "-L")); err != nil {
		t.Skipf("no DNAT rules: %v", err)
	}
	api := kubetest.Start(t, namespace("prod"), service("prod", "web", "10.96.0.1"))
	kubeconfig, upstream := api.Kubeconfig("", kubetest.Token), servertest.Upstream(t, answerA)
	replicas := []*replica{startReplica(t, bin, "10.0.0.1", kubeconfig, upstream), startReplica(t, bin, "10.0.0.2", kubeconfig, upstream)}
	if err := n.lead(replicas...); err != nil {
		t.Fatal(err)
	}
	rounds := 1
	if s := os.Getenv("STEADY_ROUNDS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	asking := startLoad(t, clusterIP+":53")
	asking.AwaitAll(t)
	for i := range 2 * rounds {
		old, other := replicas[i%2], replicas[(i+1)%2]
		flows := n.flows(old)
		n.replace(asking, old, other)
		replicas[i%2] = startReplica(t, bin, old.ip, kubeconfig, upstream)
		if err := n.lead(replicas...); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s replaced, to which %d of %d sockets were led; %d queries so far", old.ip, flows, sockets, asking.Sent())
		if flows == 0 {
			t.Errorf("no socket was led to %s: nothing is shown", old.ip)
		}
	}
	asking.Stop()
	result := asking.Result()
	t.Log(result)
	if result.Lost > 0 || result.Wrong > 0 || result.Sent == 0 {
		t.Error(result)
	}
}

// replace ends a replica as a rolling update does, under the load.
func (n node) replace(asking *load.Load, old, other *replica) {
	t := n.t
	t.Helper()
	if err := old.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	old.await(t, false)
	if err := n.lead(other); err != nil {
		t.Fatal(err)
	}
	select { // this is what the node's rules do late, so it takes time
	case err := <-old.ended:
		t.Fatalf("it ended (%v) although queries still arrived:\n%s", err, old.out)
	case <-time.After(forgets):
	}
	// A reply under way when the kernel forgets its socket is lost whatever a server does.
	asking.Between(n.forget)
	select {
	case err := <-old.ended:
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the server does not end after the queries have")
	}
}
