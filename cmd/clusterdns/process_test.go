//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// patience bounds every wait of these tests; nothing takes as long unless it is broken.
const patience = 20 * time.Second

// TestMain runs the tests, or the program itself if a test started this binary for that.
func TestMain(m *testing.M) {
	if os.Getenv("CLUSTERDNS_TEST_RUN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// process is the program running.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	mu     sync.Mutex
	out    strings.Builder // standard output and error so far
	more   chan struct{}   // has something when out grew
	ended  chan struct{}
	status int
}

func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out.Write(b)
	select {
	case p.more <- struct{}{}:
	default:
	}
	return len(b), nil
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// start runs the program in dir until it ends or the test does.
func start(t *testing.T, dir, stdin string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self, args...), more: make(chan struct{}, 1), ended: make(chan struct{})}
	p.cmd.Dir = dir
	p.cmd.Env = append(os.Environ(), "CLUSTERDNS_TEST_RUN=1")
	p.cmd.Stdin = strings.NewReader(stdin)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait()
		p.status = p.cmd.ProcessState.ExitCode()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.ended
		if t.Failed() {
			t.Logf("output of clusterdns %s:\n%s", strings.Join(args, " "), p.output())
		}
	})
	return p
}

// find waits until the output has what the expression matches, n times, and gives the groups of the last match.
func (p *process) find(expr string, n int) []string {
	p.t.Helper()
	re := regexp.MustCompile(expr)
	end := time.After(patience)
	for {
		if m := re.FindAllStringSubmatch(p.output(), -1); len(m) >= n {
			return m[len(m)-1]
		}
		select {
		case <-p.more:
		case <-p.ended:
			if m := re.FindAllStringSubmatch(p.output(), -1); len(m) >= n {
				return m[len(m)-1]
			}
			p.t.Fatalf("it ended with status %d before it said %q", p.status, expr)
		case <-end:
			p.t.Fatalf("it did not say %q", expr)
		}
	}
}

// addr waits until it serves and gives its address.
func (p *process) addr() string {
	p.t.Helper()
	return "127.0.0.1:" + p.find(`(?m)^\S*\.:(\d+)( on \S+)?$`, 1)[1]
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait waits until it ends and gives its status.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("it does not end")
	}
	return p.status
}

// ask asks for an A record and gives the rcode and how many records came.
func ask(addr, name string) (rcode, records int, err error) {
	m := new(dns.Msg)
	m.SetQuestion(name, dns.TypeA)
	c := dns.Client{Timeout: 3 * time.Second}
	r, _, err := c.Exchange(m, addr)
	if err != nil {
		return 0, 0, err
	}
	return r.Rcode, len(r.Answer) + len(r.Extra), nil
}

// until asks until the rcode is as wanted.
func (p *process) until(addr, name string, rcode int) {
	p.t.Helper()
	var last string
	for end := time.Now().Add(patience); time.Now().Before(end); {
		got, _, err := ask(addr, name)
		if err == nil && got == rcode {
			return
		}
		last = fmt.Sprint(dns.RcodeToString[got], " ", err)
	}
	p.t.Fatalf("%s at %s stays %s, want %s", name, addr, last, dns.RcodeToString[rcode])
}

// write puts a whole file in place at once: a server that looks at it must not see half of it.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// corefile makes a folder with a Corefile.
func corefile(t *testing.T, text string) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "Corefile")
	write(t, path, text)
	return dir, path
}

const (
	whoami = ". {\n    bind 127.0.0.1\n    whoami\n}\n"
	// The interval is longer than any test: what changes is noticed as the system tells of it, or not at all.
	orgOnly   = "example.org {\n    bind 127.0.0.1\n    reload 1h\n    whoami\n}\n"
	everybody = ". {\n    bind 127.0.0.1\n    reload 1h\n    whoami\n}\n"
)

func TestServesAndStops(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir, _ := corefile(t, whoami)
		p := start(t, dir, "", "-p", "0", "-pidfile", "pid")
		if rcode, n, err := ask(p.addr(), "example.org."); rcode != dns.RcodeSuccess || n != 2 || err != nil {
			t.Errorf("rcode %d, %d records, %v", rcode, n, err)
		}
		p.find(`(?m)^clusterdns-\S+\n\w+/\w+, go\S+, [\w -]+$`, 1)
		pid, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil || strings.TrimSpace(string(pid)) != fmt.Sprint(p.cmd.Process.Pid) {
			t.Errorf("pid file %q, %v", pid, err)
		}
		p.signal(syscall.SIGHUP) // does nothing
		p.signal(sig)
		if status := p.wait(); status != 0 {
			t.Errorf("status %d after %v", status, sig)
		}
		if _, err := os.Stat(filepath.Join(dir, "pid")); !os.IsNotExist(err) {
			t.Errorf("the pid file is still there: %v", err)
		}
	}
}

func TestStandardInput(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir(), whoami, "-conf", "stdin", "-dns.port", "0")
	if rcode, _, err := ask(p.addr(), "example.org."); rcode != dns.RcodeSuccess || err != nil {
		t.Errorf("rcode %d, %v", rcode, err)
	}
	p.signal(syscall.SIGUSR1)
	p.find("came from standard input and cannot be read again", 1)
	if rcode, _, err := ask(p.addr(), "example.org."); rcode != dns.RcodeSuccess || err != nil {
		t.Errorf("after a reload that cannot be: rcode %d, %v", rcode, err)
	}
}

func TestRefusesToStart(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	for _, c := range []struct {
		name, corefile string
		args           []string
		status         int
		says           string
	}{
		{"no Corefile", "", nil, 1, "there is no file ./Corefile; say where the Corefile is with -conf FILE"},
		{"no such file", "", []string{"-conf", "nowhere/Corefile"}, 1, "cannot read the Corefile: open nowhere/Corefile: no such file"},
		{"unknown directive", ". {\n    whomi\n}\n", nil, 1, `Corefile:2: unknown directive "whomi"; did you mean "whoami"?`},
		{"two errors", ". {\n    debug x\n    whoami y\n}\n", nil, 1, "clusterdns: Corefile:3: whoami"},
		{"empty", "", []string{"-conf", "/dev/null"}, 1, "there is no server block"},
		{"taken port", ".:" + port + " {\n    bind 127.0.0.1\n    whoami\n}\n", nil, 1, "cannot listen on TCP 127.0.0.1:" + port},
		{"no interface", ". {\n    bind nowhere0\n    whoami\n}\n", nil, 1, `Corefile:2: bind: "nowhere0" is neither an address nor an interface`},
		{"pid file", whoami, []string{"-p", "0", "-pidfile", "no/such/folder"}, 1, "cannot write the process id"},
		{"serve", whoami, []string{"serve"}, 2, `there is no command "serve": without a command it serves`},
		{"command", whoami, []string{"chek", "-v"}, 2, `there is no command "chek"; did you mean "check"?`},
		{"version", whoami, []string{"version"}, 2, `there is no command "version"; did you mean -version? -h lists what there is`},
		{"argument", whoami, []string{"Corefile"}, 2, `unexpected argument "Corefile": a Corefile is named with -conf FILE`},
		{"argument behind", whoami, []string{"-p", "0", "Corefile"}, 2, `unexpected argument "Corefile": a Corefile is named with -conf FILE`},
		{"HTTP port", ". {\n    health 127.0.0.1:" + port + "\n    whoami\n}\n", []string{"-p", "0"}, 1, "Corefile:2: health: cannot listen on HTTP address 127.0.0.1:" + port},
		{"HTTP in use", ". {\n    prometheus 127.0.0.1:" + port + "\n}\n", []string{"-p", "0"}, 1, "is another clusterdns running?"},
		{"zone's port", ".:" + port + " {\n    whoami\n}\n", nil, 1, "Corefile:1: .:" + port + ": cannot listen on TCP :" + port},
		{"bound port", ".:" + port + " {\n    bind 127.0.0.1\n    whoami\n}\n", nil, 1, "Corefile:2: bind: cannot listen on TCP 127.0.0.1:" + port},
		{"no manifests", ". {\n    kubernetes cluster.local {\n        manifests nowhere\n    }\n}\n", []string{"-p", "0"}, 1, "clusterdns: Corefile:2: kubernetes: manifests: stat nowhere: no such file"},
		{"flag", whoami, []string{"-port", "53"}, 2, "flag provided but not defined: -port"},
		{"port", whoami, []string{"-p", "dns"}, 2, "-dns.port dns is not a port"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.corefile != "" {
				write(t, filepath.Join(dir, "Corefile"), c.corefile)
			}
			p := start(t, dir, "", c.args...)
			if status := p.wait(); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			if out := p.output(); !strings.Contains(out, c.says) {
				t.Errorf("it said %q, want %q", out, c.says)
			}
			if out := p.output(); strings.Count(out, c.says) > 1 || strings.Contains(out, "[ERROR]") || strings.Contains(out, "last good state") {
				t.Errorf("it said %q, which is more than the error once", out)
			}
		})
	}
}

func TestInformation(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"-version": "clusterdns-", "-plugins": "bind\n", "-h": "Usage: clusterdns", "help": "Usage: clusterdns",
	} {
		p := start(t, t.TempDir(), "", flag)
		if status := p.wait(); status != 0 || !strings.Contains(p.output(), want) {
			t.Errorf("%s: status %d, output %q", flag, status, p.output())
		}
		if n := strings.Count(p.output(), "\n"); flag == "-h" && n > 24 {
			t.Errorf("-h has %d lines, which fit no screen", n)
		}
	}
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	dir, _ := corefile(t, ". {\n    bind 127.0.0.1\n    whoami\n}\n")
	p := start(t, dir, "", "-p", "0", "-quiet", "-pidfile", "pid")
	for end := time.Now().Add(patience); ; {
		if _, err := os.Stat(filepath.Join(dir, "pid")); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("it does not start")
		}
	}
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 || p.output() != "" {
		t.Errorf("status %d, output %q", status, p.output())
	}
}

// TestDebug: messages of the level debug are there with the directive, and none without.
func TestDebug(t *testing.T) {
	t.Parallel()
	dir, _ := corefile(t, strings.Replace(whoami, "whoami", "debug\n    whoami", 1))
	start(t, dir, "", "-p", "0").find(`\[DEBUG\] plugin/runtime: .*threads that run Go`, 1)
	dir, _ = corefile(t, whoami)
	p := start(t, dir, "", "-p", "0")
	p.addr() // it serves: what is said at the start has been
	p.signal(syscall.SIGTERM)
	if p.wait(); strings.Contains(p.output(), "[DEBUG]") {
		t.Errorf("without the directive:\n%s", p.output())
	}
}

func TestReloadBySignal(t *testing.T) {
	t.Parallel()
	dir, path := corefile(t, whoami)
	p := start(t, dir, "", "-p", "0")
	addr := p.addr()
	stop := background(t, addr)
	const reloads = 10
	for i := range reloads {
		text := whoami
		if i%2 == 0 {
			text = strings.Replace(whoami, ".", "example.org example.net", 1)
		}
		write(t, path, text)
		p.signal(syscall.SIGUSR1)
		p.find("Reloading complete", i+1)
	}
	if asked, lost := stop(); lost > 0 || asked == 0 {
		t.Errorf("%d of %d queries lost", lost, asked)
	}
	write(t, path, strings.Replace(whoami, ".", "example.org", 1))
	p.signal(syscall.SIGUSR1)
	p.find("Reloading complete", reloads+1)
	p.until(addr, "example.com.", dns.RcodeRefused)
	p.until(addr, "example.org.", dns.RcodeSuccess)
	write(t, path, ". {\n    whomi\n}\n")
	p.signal(syscall.SIGUSR1)
	p.find(`\[ERROR\] plugin/reload: .*Corefile:2: unknown directive "whomi"`, 1)
	p.until(addr, "example.org.", dns.RcodeSuccess)
}

// TestLameduck ends a server that is told to, while clients still ask: it answers on, is not ready, and ends at a second signal.
func TestLameduck(t *testing.T) {
	t.Parallel()
	const text = ". {\n    bind 127.0.0.1\n    health 127.0.0.1:0 {\n        lameduck 1m\n    }\n    whoami\n}\n"
	dir, _ := corefile(t, text)
	p := start(t, dir, "", "-p", "0")
	addr := p.addr()
	p.signal(syscall.SIGTERM)
	p.find("Going into lameduck mode for 1m0s", 1)
	if rcode, _, err := ask(addr, "example.org."); rcode != dns.RcodeSuccess || err != nil {
		t.Errorf("rcode %d, %v", rcode, err)
	}
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 1 {
		t.Errorf("status %d after a second signal", status)
	}
	p.find("clusterdns: a second signal ended it before all queries were answered", 1)
}

// TestStopWhileReading tells a server to stop while it reads a Corefile that does not come to an end: at the start, and when it is read again.
func TestStopWhileReading(t *testing.T) {
	t.Parallel()
	dir, path := corefile(t, whoami)
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// reading returns once the server has opened the pipe. Nothing is written to it.
	reading := func() {
		t.Helper()
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
	}
	first := start(t, dir, "", "-p", "0", "-conf", pipe)
	reading()
	first.signal(syscall.SIGTERM)
	if status := first.wait(); status != 0 || first.output() != "" {
		t.Errorf("at the start: status %d, output %q", status, first.output())
	}

	second := start(t, dir, "", "-p", "0")
	addr := second.addr()
	if err := os.Rename(pipe, path); err != nil {
		t.Fatal(err)
	}
	pipe = path
	second.signal(syscall.SIGUSR1)
	reading()
	if rcode, _, err := ask(addr, "example.org."); rcode != dns.RcodeSuccess || err != nil {
		t.Errorf("meanwhile: rcode %d, %v", rcode, err)
	}
	second.signal(syscall.SIGTERM)
	if status := second.wait(); status != 0 || strings.Contains(second.output(), "[ERROR]") {
		t.Errorf("while it reads again: status %d, output %q", status, second.output())
	}
}

// background asks all the time over a few sockets until stopped, and gives how many questions were not answered.
func background(t *testing.T, addr string) (stop func() (asked, lost int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var mu sync.Mutex
	asked, lost := 0, 0
	for i := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				rcode, _, err := ask(addr, fmt.Sprintf("n%d.example.org.", i))
				mu.Lock()
				asked++
				if err != nil || rcode != dns.RcodeSuccess {
					lost++
				}
				mu.Unlock()
			}
		})
	}
	return func() (int, int) {
		cancel()
		wg.Wait()
		return asked, lost
	}
}

func TestReloadByFile(t *testing.T) {
	t.Parallel()
	dir, path := corefile(t, everybody)
	p := start(t, dir, "", "-p", "0")
	addr := p.addr()
	stop := background(t, addr)
	for i, text := range []string{orgOnly, everybody, orgOnly} {
		began := time.Now()
		write(t, path, text)
		p.find("Reloading complete", i+1)
		t.Logf("reload %d took %s", i, time.Since(began).Round(time.Millisecond)) // at the most 2 s, where the machine has time
	}
	p.until(addr, "example.com.", dns.RcodeRefused)

	write(t, path, "example.org {\n    bind 127.0.0.1\n    reload\n    whoami extra\n}\n")
	p.find(`\[ERROR\] plugin/reload: .*Corefile:4: whoami: takes no argument`, 1)
	write(t, path, orgOnly+"# as before\n") // nothing to do
	p.find(`\[INFO\] plugin/reload: the Corefile says again what is in use`, 1)
	write(t, path, everybody)
	p.find("Reloading complete", 4)
	p.until(addr, "example.com.", dns.RcodeSuccess)
	if asked, lost := stop(); lost > 0 || asked == 0 {
		t.Errorf("%d of %d queries lost", lost, asked)
	}
	if n := strings.Count(p.output(), "[ERROR]"); n != 1 {
		t.Errorf("the bad file was said %d times", n)
	}
}

// TestReloadByLink changes the Corefile as Kubernetes changes a mounted ConfigMap: the folder behind a link is another one.
func TestReloadByLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, text string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "Corefile"), text)
		if err := os.Symlink(name, filepath.Join(dir, "..tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", everybody)
	if err := os.Symlink("..data/Corefile", filepath.Join(dir, "Corefile")); err != nil {
		t.Fatal(err)
	}
	p := start(t, t.TempDir(), "", "-p", "0", "-conf", filepath.Join(dir, "Corefile"))
	addr := p.addr()
	began := time.Now()
	version("..2", orgOnly)
	p.find("Reloading complete", 1)
	t.Logf("the reload took %s", time.Since(began).Round(time.Millisecond))
	p.until(addr, "example.com.", dns.RcodeRefused)
	version("..3", everybody)
	p.find("Reloading complete", 2)
	p.until(addr, "example.com.", dns.RcodeSuccess)
}

// TestReloadByInterval changes the Corefile where nothing is watched, a link between two others: it is found by looking at it every interval.
func TestReloadByInterval(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, n := range []string{"links", "first", "second"} {
		if err := os.Mkdir(filepath.Join(dir, n), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to string) {
		t.Helper()
		next := filepath.Join(dir, "next")
		if err := errors.Join(os.Symlink(to, next), os.Rename(next, filepath.Join(dir, "links", "Corefile"))); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "first", "Corefile"), strings.Replace(everybody, "1h", "2s 1s", 1))
	write(t, filepath.Join(dir, "second", "Corefile"), orgOnly)
	link(filepath.Join("..", "first", "Corefile"))
	home := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "links", "Corefile"), filepath.Join(home, "Corefile")); err != nil {
		t.Fatal(err)
	}
	p := start(t, home, "", "-p", "0")
	addr := p.addr()
	link(filepath.Join("..", "second", "Corefile"))
	p.find("Reloading complete", 1)
	p.until(addr, "example.com.", dns.RcodeRefused)
}

func TestReloadOfImport(t *testing.T) {
	t.Parallel()
	dir, _ := corefile(t, ". {\n    bind 127.0.0.1\n    reload\n    import conf.d/*.conf\n}\n")
	p := start(t, dir, "", "-p", "0")
	p.find("(?m)^\\[WARNING\\] Corefile:4: import: no file matches", 1)
	addr := p.addr()
	p.until(addr, "example.com.", dns.RcodeRefused)
	if err := os.Mkdir(filepath.Join(dir, "conf.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "conf.d", "a.conf"), "whoami\n")
	p.find("Reloading complete", 1)
	p.until(addr, "example.com.", dns.RcodeSuccess)
	write(t, filepath.Join(dir, "conf.d", "b.conf"), "debug\n")
	p.find("Reloading complete", 2)
}

func TestCheck(t *testing.T) {
	t.Parallel()
	const (
		clean   = whoami
		warned  = ". {\n    cache 30\n    whoami\n}\n"
		tabbed  = ". {\n\twhoami\n\tlog { class x }\n}\n"
		unknown = ". {\n    whomi x\n}\n"
	)
	for _, c := range []struct {
		name, corefile string
		args           []string
		status         int
		says           []string
	}{
		{"clean", clean, nil, 0, []string{"Corefile: no errors, no warnings\n"}},
		{"strict and clean", clean, []string{"-strict"}, 0, nil},
		{"a warning", warned, nil, 0, []string{"Corefile:2:5: warning: cache keeps answers of forward", "    2 |     cache 30\n      |     ^\n", "no errors, 1 warning"}},
		{"a warning and strict", warned, []string{"-strict"}, 2, nil},
		{"an error", unknown, nil, 1, []string{`Corefile:2:5: error: unknown directive "whomi"; did you mean "whoami"?`, "1 error, no warnings"}},
		{"a tab before the caret", tabbed, nil, 1, []string{"    3 | \tlog { class x }\n      | \t      ^\n"}},
		{"in effect", clean, []string{"-v"}, 0, []string{".:53  (Corefile:1)\n  bind  (Corefile:2)\n    addresses            127.0.0.1  (Corefile:2)\n", "(default)"}},
		{"no number", ". {\n    forward . 192.0.2.1\n}\n", []string{"-v"}, 0, []string{"    max_connect_attempts -  (default)\n"}},
		{"another port", ". {\n    whoami\n}\n", []string{"-v", "-dns.port", "1053"}, 0, []string{".:1053  (Corefile:1)"}},
		{"as JSON", warned, []string{"-format", "json"}, 0, []string{`"line": 2,`, `"column": 5,`, `"severity": "warning"`}},
		{"as JSON, in effect", clean, []string{"-format", "json", "-v"}, 0, []string{`"findings": []`, `"directive": "whoami"`}},
		{"no such format", clean, []string{"-format", "xml"}, 1, []string{"-format is text or json"}},
		{"no such port", clean, []string{"-dns.port", "99999"}, 1, []string{"-dns.port 99999 is not a port"}},
		{"an argument", clean, []string{"Corefile", "-v"}, 0, []string{"Corefile: no errors, no warnings\n", "whoami  (Corefile:3)"}},
		{"two arguments", clean, []string{"Corefile", "other"}, 1, []string{`unexpected argument "other"`}},
		{"an argument and -conf", clean, []string{"-conf", "Corefile", "other"}, 1, []string{`unexpected argument "other"`}},
		{"a hyphen", "", []string{"-conf", "-"}, 1, []string{"stdin:1:1: error: ", "there is no server block"}},
		{"no Corefile", "", nil, 1, []string{"there is no file ./Corefile"}},
		{"help", "", []string{"-h"}, 0, []string{"Usage: clusterdns check"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if c.corefile != "" {
				write(t, filepath.Join(dir, "Corefile"), c.corefile)
			}
			p := start(t, dir, "", append([]string{"check"}, c.args...)...)
			if status := p.wait(); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			for _, s := range c.says {
				if !strings.Contains(p.output(), s) {
					t.Errorf("it said\n%s\nwant\n%s", p.output(), s)
				}
			}
		})
	}
}
