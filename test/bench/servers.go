//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// The two cores: one for the server under test alone, one for all else.
const (
	serverCore = "0"
	loadCore   = "1"
)

// echoName is the server that the ratios are to.
const echoName = "echo"

// subject is a server to measure.
type subject struct {
	name    string
	command []string // {addr} and {port} are replaced
	dir     string
}

// result is one workload's figures against one server.
type result struct {
	user, system float64 // CPU microseconds a query
	qps          float64
	lost         float64 // share of queries without an answer
	p50, p99     time.Duration
}

func (r result) cpu() float64 { return r.user + r.system }

// requirements says what is missing on this machine.
func requirements() error {
	if runtime.GOOS != "linux" {
		return errors.New("needs Linux: CPU time is read from /proc")
	}
	if runtime.NumCPU() < 2 {
		return errors.New("needs two cores, one for the server and one for the load")
	}
	for _, tool := range []string{"dnsperf", "taskset"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("needs %s: apt-get install dnsperf util-linux", tool)
		}
	}
	return nil
}

// corefile is the stock one of kubeadm, with the cluster from files, and the upstream that this program is.
const corefile = `.:{port} {
    errors
    health 127.0.0.1:0 {
        lameduck 1s
    }
    ready 127.0.0.1:0
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        manifests cluster.json
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus 127.0.0.1:0
    forward . {upstream} {
        max_concurrent 1000
    }
    cache 30
    loop
    reload
    loadbalance
    bind 127.0.0.1
}
`

// prepare builds clusterdns and lists the servers.
func prepare(ctx context.Context, dir string, more []string) ([]subject, error) {
	bin := filepath.Join(dir, "clusterdns")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", bin, "github.com/clusterdns/clusterdns/cmd/clusterdns")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out := []subject{
		{name: echoName, command: []string{self, "internal-echo", "{addr}:{port}"}},
		{name: "clusterdns", command: []string{bin, "-quiet", "-conf", filepath.Join(dir, "Corefile")}, dir: dir},
	}
	for _, m := range more {
		name, command, _ := strings.Cut(m, "=")
		out = append(out, subject{name: name, command: strings.Fields(command), dir: dir})
	}
	return out, nil
}

// measure starts the server and its upstream, runs all workloads, and stops both.
func (s *subject) measure(ctx context.Context, o *options, loads []workload, report func(string, result)) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	upPort, port := freePort(), freePort()
	up, err := start(ctx, "", loadCore, self, "internal-upstream", "127.0.0.1:"+upPort)
	if err != nil {
		return err
	}
	defer stop(up)
	text := strings.NewReplacer("{port}", port, "{upstream}", "127.0.0.1:"+upPort).Replace(corefile)
	if s.dir != "" {
		if err := os.WriteFile(filepath.Join(s.dir, "Corefile"), []byte(text), 0o600); err != nil {
			return err
		}
	}
	args := make([]string, len(s.command))
	for i, a := range s.command {
		args[i] = strings.NewReplacer("{addr}", "127.0.0.1", "{port}", port, "{upstream}", "127.0.0.1:"+upPort).Replace(a)
	}
	srv, err := start(ctx, s.dir, serverCore, args...)
	if err != nil {
		return err
	}
	defer stop(srv)
	if err := awaitAnswer(ctx, "127.0.0.1:"+port); err != nil {
		return fmt.Errorf("%w\n%s", err, srv.Stderr)
	}
	for _, w := range loads {
		if s.name == echoName && w.tcp {
			continue
		}
		r, err := run(ctx, o, w, port, srv.Process.Pid)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		report(w.name, r)
	}
	return nil
}

// start runs a command on one core; what it says is kept for an error message.
func start(ctx context.Context, dir, core string, command ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", core}, command...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stderr, cmd.Stdout = new(bytes.Buffer), nil
	return cmd, cmd.Start()
}

func stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed: the error says only that
}

func freePort() string {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return "0"
	}
	defer c.Close()
	return strconv.Itoa(c.LocalAddr().(*net.UDPAddr).Port)
}

// cpuTime reads what a process used, in clock ticks of a hundredth of a second (proc(5)).
func cpuTime(pid int) (user, system float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	u, err1 := strconv.ParseFloat(fields[11], 64)
	s, err2 := strconv.ParseFloat(fields[12], 64)
	return u * 1e4, s * 1e4, errors.Join(err1, err2)
}
