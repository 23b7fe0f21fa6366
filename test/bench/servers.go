//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/clusterdns/clusterdns/test/internal/process"
)

// The two cores: one for the server under test alone, one for all else.
const (
	serverCore = "0"
	loadCore   = "1"
)

// The servers that are there always: echoName is what the ratios are to. loggingName is there with -log.
const (
	echoName    = "echo"
	ownName     = "clusterdns"
	loggingName = "clusterdns+log"
)

// subject is a server to measure.
type subject struct {
	name    string
	command []string     // placeholders are replaced
	files   bool         // it wants a folder with the cluster in other servers' formats
	foreign bool         // it came by -server, and need not know every workload
	log     bool         // it logs every query
	reader  *exec.Cmd    // who reads that
	read    bytes.Buffer // and says how much it was
	cores   int          // that it runs on; 0 for one
	port    string
	cmd     *exec.Cmd
	took    time.Duration // from its start to its first answer
	skips   map[string]bool
}

// result is one workload's figures against one server.
type result struct {
	user, system float64 // CPU microseconds a query
	qps          float64
	completed    float64 // queries that were answered while qps was measured
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
    errors{log}
    health 127.0.0.1:0 {
        lameduck 1s
    }
    ready 127.0.0.1:0
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        manifests {cluster}
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

// prepare builds clusterdns as it is released, and lists the servers.
func prepare(ctx context.Context, dir string, o *options) ([]*subject, error) {
	bin := filepath.Join(dir, "clusterdns")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "github.com/clusterdns/clusterdns/cmd/clusterdns")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	out := []*subject{
		{name: echoName, command: []string{self, "internal-echo", "{addr}:{port}"}},
		{name: ownName, command: []string{bin, "-quiet", "-conf", "{dir}/Corefile"}},
	}
	if o.log {
		out = append(out, &subject{name: loggingName, command: out[1].command, log: true})
	}
	for _, m := range o.servers {
		name, command, _ := strings.Cut(m, "=")
		out = append(out, &subject{name: name, command: strings.Fields(command), files: true, foreign: true})
	}
	for _, s := range out {
		s.skips = map[string]bool{}
	}
	return out, nil
}

// startAll starts the upstream that all share, and the servers, one after the other. It gives the upstream's port.
func startAll(ctx context.Context, o *options, dir string, servers []*subject) (upstream string, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if upstream, err = process.Port(); err != nil {
		return "", err
	}
	if _, err := start(ctx, "", loadCore, 1, nil, self, "internal-upstream", "127.0.0.1:"+upstream); err != nil {
		return "", err
	}
	for _, s := range servers {
		if err := s.start(ctx, o, dir, upstream); err != nil {
			return "", fmt.Errorf("%s: %w", s.name, err)
		}
		o.progress("%s answers after %s", s.name, s.took.Round(time.Millisecond))
	}
	return upstream, nil
}

// start writes the server's files, starts it, and waits for its first answer.
func (s *subject) start(ctx context.Context, o *options, dir, upstream string) error {
	var err error
	if s.port, err = process.Port(); err != nil {
		return err
	}
	own := filepath.Join(dir, "of-"+s.name)
	if err := os.Mkdir(own, 0o700); err != nil {
		return err
	}
	fill := strings.NewReplacer("{addr}", "127.0.0.1", "{port}", s.port, "{upstream}", "127.0.0.1:"+upstream, "{dir}", own,
		"{upstream-port}", upstream, "{cluster}", filepath.Join(dir, "cluster.json"), "{user}", currentUser(), "{log}", s.directive())
	if err := os.WriteFile(filepath.Join(own, "Corefile"), []byte(fill.Replace(corefile)), 0o600); err != nil {
		return err
	}
	if s.files {
		if err := writeForeign(own, o.services, fill); err != nil {
			return err
		}
	}
	args := make([]string, len(s.command))
	for i, a := range s.command {
		args[i] = fill.Replace(a)
	}
	var lines *os.File
	if s.log {
		var err error
		if lines, err = s.readLog(ctx); err != nil {
			return err
		}
		defer lines.Close()
	}
	begin := time.Now()
	if s.cmd, err = start(ctx, own, s.cpus(), max(1, s.cores), lines, args...); err != nil {
		return err
	}
	if err := awaitAnswer(ctx, "127.0.0.1:"+s.port); err != nil {
		stop(s.cmd)
		return fmt.Errorf("%w\n%s", err, s.cmd.Stderr)
	}
	s.took = time.Since(begin)
	return nil
}

// directive is the line of the Corefile by which the server logs.
func (s *subject) directive() string {
	if s.log {
		return "\n    log"
	}
	return ""
}

// readLog starts a process that reads what the server logs from a pipe, as that of a container runtime does, on the core of the load. It gives the
// end to write to.
func (s *subject) readLog(ctx context.Context) (*os.File, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer from.Close()
	s.reader = exec.CommandContext(ctx, "taskset", "-c", loadCore, self, "internal-reader", "-")
	s.reader.Stdin, s.reader.Stdout = from, &s.read
	s.reader.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.reader.Start(); err != nil {
		to.Close()
		return nil, err
	}
	return to, nil
}

// linesWritten ends the server that logs and says what became of the lines: one that drops them is cheap.
func (r *report) linesWritten() (string, error) {
	for _, s := range r.servers {
		if !s.log {
			continue
		}
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // so that it writes what it has
		if err := s.reader.Wait(); err != nil {
			return "", err
		}
		var lines, lost int
		if _, err := fmt.Sscan(s.read.String(), &lines, &lost); err != nil {
			return "", err
		}
		queries := 0.0
		for _, rs := range r.results {
			for _, one := range rs[s.name] {
				queries += one.completed
			}
		}
		return fmt.Sprintf("%s wrote %d lines, and said that %d were lost; the throughput alone was measured with %.0f queries.", s.name, lines, lost, queries), nil
	}
	return "", errors.New("no server logs")
}

func stopAll(servers []*subject) {
	for _, s := range servers {
		if s.cmd != nil {
			stop(s.cmd)
		}
	}
}

// start runs a command on some cores; what it says on standard error is kept for an error message, and what on standard output goes to a file, if
// there is one.
func start(ctx context.Context, dir, cpus string, threads int, stdout *os.File, command ...string) (*exec.Cmd, error) {
	cmd := exec.CommandContext(ctx, "taskset", append([]string{"-c", cpus}, command...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(threads))
	cmd.Stderr = new(bytes.Buffer)
	if stdout != nil {
		cmd.Stdout = stdout
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with this program however that ends
	return cmd, cmd.Start()
}

// currentUser is for servers that want to become another one.
func currentUser() string {
	u, err := user.Current()
	if err != nil {
		return "nobody"
	}
	return u.Username
}

func stop(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed: the error says only that
}
