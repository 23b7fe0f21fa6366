// Package demo_test starts the binary with the Corefile that the README starts it with, and holds every dig command in the README and
// in the demo's own comments to what they promise.
package demo_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/server/servertest"
	"github.com/clusterdns/clusterdns/test/internal/process"
)

const (
	demo   = "../../deploy/demo"
	readme = "../../README.md"
	// patience bounds what a test waits for; on a busy machine a process may take seconds to start.
	patience = 30 * time.Second
	lab      = ".service-lab.svc.cluster.local."
)

// build makes the program, once and only for tests that run it.
type build struct {
	once sync.Once
	dir  string
	err  error
}

var program build

// binary is the path of the program.
func (b *build) binary() (string, error) {
	out := filepath.Join(b.dir, "clusterdns")
	if runtime.GOOS == "windows" {
		out += ".exe"
	}
	b.once.Do(func() {
		if text, err := exec.Command("go", "build", "-o", out, "../../cmd/clusterdns").CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go build: %w\n%s", err, text)
		}
	})
	return out, b.err
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "clusterdns-demo")
	if err != nil {
		panic(err)
	}
	program.dir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// run is a demo server: its address, and the copy of the demo's folder that it reads.
type run struct {
	addr string
	dir  string
	log  *process.Output
}

// start copies the demo, moves it to free ports and to an upstream of the test's own, and runs it until the test ends.
func start(t *testing.T, upstream string) *run {
	t.Helper()
	bin, err := program.binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(demo)); err != nil {
		t.Fatal(err)
	}
	corefile := filepath.Join(dir, "Corefile")
	b, err := os.ReadFile(corefile)
	if err != nil {
		t.Fatal(err)
	}
	port := process.FreePort(t)
	text := strings.NewReplacer(":1053 {", ":"+port+" {", "/etc/resolv.conf", upstream, ":1080", ":"+process.FreePort(t), ":1081", ":"+process.FreePort(t), ":1082", ":"+process.FreePort(t), ":8053", ":"+process.FreePort(t)).Replace(string(b))
	write(t, corefile, text)
	r := &run{addr: "127.0.0.1:" + port, dir: dir, log: process.NewOutput()}
	cmd := exec.Command(bin, "-conf", corefile)
	cmd.Stdout, cmd.Stderr = r.log, r.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() { stop(t, cmd, exited, r) })
	eventually(t, "the demo answers", func() error {
		select {
		case err := <-exited:
			exited <- err
			t.Fatalf("the demo ended: %v\n%s", err, r.log)
		default:
		}
		_, err := exchange(r.addr, "kubernetes.default.svc.cluster.local.", dns.TypeA, false)
		return err
	})
	return r
}

func stop(t *testing.T, cmd *exec.Cmd, exited chan error, r *run) {
	if err := cmd.Process.Signal(os.Interrupt); err != nil { // Windows knows no signal
		_ = cmd.Process.Kill()
		<-exited
		return
	}
	select {
	case err := <-exited:
		if err != nil {
			t.Errorf("the demo ended: %v", err)
		}
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		t.Error("the demo does not stop")
	}
	if t.Failed() {
		t.Logf("the demo said:\n%s", r.log)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// eventually asks again until f gives no error.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not in %s: %s: %v", patience, what, err)
		}
	}
}

func exchange(addr, name string, typ uint16, tcp bool) (*dns.Msg, error) {
	c := dns.Client{Timeout: 5 * time.Second, UDPSize: dns.MaxMsgSize} // dig's own time-out
	if tcp {
		c.Net = "tcp"
	}
	r, _, err := c.Exchange(servertest.Query(name, typ, 1232), addr)
	return r, err
}

func ask(t *testing.T, addr, name string, typ uint16, tcp bool) *dns.Msg {
	t.Helper()
	r, err := exchange(addr, name, typ, tcp)
	if err != nil {
		t.Fatalf("%s %s: %v", name, dns.TypeToString[typ], err)
	}
	return r
}

// upstream answers www.example.com and nothing else.
func upstream(t *testing.T) string {
	return servertest.Upstream(t, func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		m.RecursionAvailable = true
		if q.Question[0].Name == "www.example.com." && q.Question[0].Qtype == dns.TypeA {
			rr, _ := dns.NewRR("www.example.com. 300 IN A 192.0.2.80")
			m.Answer = append(m.Answer, rr)
		} else {
			m.Rcode = dns.RcodeNameError
		}
		_ = w.WriteMsg(m)
	})
}

// TestClaims holds the comments of the demo and the README to what they say.
func TestClaims(t *testing.T) {
	t.Parallel()
	r := start(t, upstream(t))
	files, err := filepath.Glob(demo + "/cluster/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	total := 0
	for _, f := range append(files, readme) {
		claims := readClaims(t, f)
		if len(claims) == 0 {
			t.Errorf("%s makes no claim", f)
		}
		for _, c := range claims {
			c.check(t, r.addr)
		}
		total += len(claims)
	}
	t.Logf("%d claims", total)
}

// TestClaimsFire shows that a false claim is found.
func TestClaimsFire(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.yaml")
	write(t, file, "# text\n#   $ dig +short a.example SRV\n#   0 100 80 b.example.\n# text\nkey: value\n#   $ dig +noall +comments -x 192.0.2.1\n#   status: NXDOMAIN\n")
	got := readClaims(t, file)
	if len(got) != 2 || len(got[0].want) != 1 || got[0].typ != dns.TypeSRV || got[1].rcode != "NXDOMAIN" || got[1].typ != dns.TypePTR {
		t.Errorf("read %+v", got)
	}
}

// TestCommands: the README says what the tests and .ci/run do.
func TestCommands(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\ngo run ./cmd/clusterdns -conf deploy/demo/Corefile\n", "\ngo test ./...\n"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the README does not say %q", strings.TrimSpace(want))
		}
	}
	cluster, err := os.ReadFile(demo + "/cluster/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// The line to change is the first endpoint of web-headless.
	before, _, _ := strings.Cut(string(cluster), "name: web-headless-w5xqm")
	first := strings.Count(before, "\n") + 1
	for i, line := range strings.Split(string(cluster), "\n")[first:] {
		if strings.Contains(line, "ready: true") {
			if want := fmt.Sprintf("in line %d of `deploy/demo/cluster/web.yaml`", first+i+1); !bytes.Contains(text, []byte(want)) {
				t.Errorf("the README does not say %q", want)
			}
			break
		}
	}
	ci, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	step := string(ci[bytes.Index(ci, []byte("\nstep "))+1:])
	if step, _, _ = strings.Cut(step, "\n"); step != "step test go test ./..." {
		t.Errorf(".ci/run begins with %q", step)
	}
}

// TestExternal: names outside of the cluster work where there is an upstream.
func TestExternal(t *testing.T) {
	t.Parallel()
	r := start(t, upstream(t))
	if m := ask(t, r.addr, "www.example.com.", dns.TypeA, false); len(m.Answer) != 1 || m.Rcode != dns.RcodeSuccess {
		t.Errorf("www.example.com: %v", m)
	}
	m := ask(t, r.addr, "external-api"+lab, dns.TypeA, false)
	if len(m.Answer) != 2 || m.Rcode != dns.RcodeSuccess {
		t.Errorf("external-api: %v", m)
	}
}

// TestNoUpstream: without one they fail before dig gives up after 5 seconds, and the cluster's names work.
func TestNoUpstream(t *testing.T) {
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for what, addr := range map[string]string{"silent": silent.LocalAddr().String(), "closed": "127.0.0.1:" + process.FreePort(t)} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := start(t, addr)
			for _, name := range []string{"www.example.com.", "external-api" + lab} {
				if m := ask(t, r.addr, name, dns.TypeA, false); m.Rcode != dns.RcodeServerFailure {
					t.Errorf("%s: %v", name, m)
				}
			}
			if m := ask(t, r.addr, "web-svc"+lab, dns.TypeA, true); len(m.Answer) != 1 {
				t.Errorf("web-svc: %v", m)
			}
		})
	}
}

// TestEdit: changes of the files show, and a broken one keeps the last good state.
func TestEdit(t *testing.T) {
	t.Parallel()
	r := start(t, upstream(t))
	file := filepath.Join(r.dir, "cluster", "web.yaml")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	addresses := func(want int) func() error {
		return func() error {
			m, err := exchange(r.addr, "web-headless"+lab, dns.TypeA, false)
			if err == nil && len(m.Answer) != want {
				err = fmt.Errorf("%d addresses, want %d", len(m.Answer), want)
			}
			return err
		}
	}
	at := strings.Index(good, "name: web-headless-w5xqm")
	write(t, file, good[:at]+strings.Replace(good[at:], "ready: true", "ready: false", 1))
	eventually(t, "a pod that is not ready leaves", addresses(2))
	write(t, file, good[:at]+"\n  broken: [\n")
	eventually(t, "the broken file is named", func() error {
		if !strings.Contains(r.log.String(), "web.yaml") {
			return fmt.Errorf("the log does not name web.yaml: %s", r.log)
		}
		return addresses(2)()
	})
	write(t, file, good)
	eventually(t, "the pod returns", addresses(3))
}

// TestCorefiles: the Corefiles that documentation and manifests show are accepted as they stand.
func TestCorefiles(t *testing.T) {
	t.Parallel()
	bin, err := program.binary()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := []string{demo + "/Corefile", "../../deploy/kubernetes/Corefile"}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range append(pages, readme) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for i, block := range blocks(string(text)) {
			file := filepath.Join(dir, fmt.Sprintf("%s-%d", filepath.Base(page), i))
			write(t, file, block)
			files = append(files, file)
		}
	}
	for _, f := range files {
		if text, err := exec.Command(bin, "check", "-conf", f).CombinedOutput(); err != nil {
			t.Errorf("check %s: %v\n%s", f, err, text)
		}
	}
	if len(files) < 3 {
		t.Errorf("saw only %v", files)
	}
}

// blocks are the code blocks of a Markdown page that are whole Corefiles: they begin with a server block for a port.
func blocks(text string) []string {
	var out []string
	for i, block := range strings.Split(text, "\n```") {
		_, body, _ := strings.Cut(block, "\n")
		if first, _, _ := strings.Cut(body, "\n"); i%2 == 1 && strings.HasPrefix(first, ".:") && strings.HasSuffix(first, "{") {
			out = append(out, body+"\n")
		}
	}
	return out
}
