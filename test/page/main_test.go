// Package page_test looks at the console's page in a browser, as it is served by the program with the demo's Corefile.
package page_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/miekg/dns"
)

const repository = "../.."

// patience bounds what a test waits for; on a busy machine a browser may take long to start.
const patience = time.Minute

// shared is what all tests use: the program, compiled once, and a browser.
type shared struct {
	dir     string
	program func() (string, error)
	browser func() (context.Context, error)
	end     func()
}

var common shared

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "page")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	common = shared{dir: dir, end: func() {}}
	common.program = sync.OnceValues(common.compile)
	common.browser = sync.OnceValues(common.launch)
	code := m.Run()
	common.end()
	os.RemoveAll(dir)
	os.Exit(code)
}

func (s *shared) compile() (string, error) {
	bin := filepath.Join(s.dir, "clusterdns")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/clusterdns")
	cmd.Dir = repository
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, text)
	}
	return bin, nil
}

// launch starts the browser. It asks nobody else for anything, and keeps its files to itself.
func (s *shared) launch() (context.Context, error) {
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium()), chromedp.UserDataDir(filepath.Join(s.dir, "profile")), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.WSURLReadTimeout(patience),
	)
	alloc, endAlloc := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(alloc)
	s.end = func() {
		endBrowser()
		endAlloc()
	}
	return ctx, chromedp.Run(ctx)
}

// chromium is the path of a browser that speaks the DevTools protocol, or "".
func chromium() string {
	for _, name := range []string{os.Getenv("CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); name != "" && err == nil {
			return p
		}
	}
	return ""
}

// demo is a server that runs the demo.
type demo struct {
	dns  string // address
	page string // URL
	log  *buffer
}

// buffer collects what a process prints while a test reads it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// start copies the demo, moves it to free ports and to an upstream of the test's own, and runs it until the test ends.
func start(t *testing.T) *demo {
	t.Helper()
	if chromium() == "" {
		t.Skip("no browser here: install Debian's package chromium, or say where one is with CHROMIUM")
	}
	bin, err := common.program()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(repository+"/deploy/demo")); err != nil {
		t.Fatal(err)
	}
	corefile := filepath.Join(dir, "Corefile")
	text, err := os.ReadFile(corefile)
	if err != nil {
		t.Fatal(err)
	}
	d := &demo{dns: "127.0.0.1:" + freePort(t), page: "http://127.0.0.1:" + freePort(t) + "/", log: &buffer{}}
	moved := strings.NewReplacer(":1053 {", strings.TrimPrefix(d.dns, "127.0.0.1")+" {", "/etc/resolv.conf", upstream(t),
		":1080", ":"+freePort(t), ":1081", ":"+freePort(t), ":1082", ":"+freePort(t), "127.0.0.1:8053", strings.Trim(d.page, "htp:/"))
	if err := os.WriteFile(corefile, []byte(moved.Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, "-conf", corefile)
	cmd.Stdout, cmd.Stderr = d.log, d.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the server said:\n%s", d.log)
		}
	})
	eventually(t, "the page is served", func() error {
		resp, err := http.Get(d.page)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", resp.Status)
		}
		return d.ask("kubernetes.default.svc.cluster.local.")
	})
	return d
}

// ask makes one query.
func (d *demo) ask(name string) error {
	m := new(dns.Msg)
	m.SetQuestion(name, dns.TypeA)
	_, _, err := new(dns.Client).Exchange(m, d.dns)
	return err
}

// upstream is a server that knows a few names outside of the cluster.
func upstream(t *testing.T) string {
	t.Helper()
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	started := make(chan struct{})
	s := &dns.Server{PacketConn: pc, NotifyStartedFunc: func() { close(started) }, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg)
		m.SetReply(q)
		name := strings.ToLower(q.Question[0].Name)
		switch {
		case !strings.HasSuffix(name, ".example.com.") && !strings.HasSuffix(name, ".example.org."):
			m.Rcode = dns.RcodeNameError
		case q.Question[0].Qtype == dns.TypeA:
			rr, _ := dns.NewRR(name + " 20 IN A 192.0.2.80")
			m.Answer = append(m.Answer, rr)
		}
		_ = w.WriteMsg(m)
	})}
	go func() { _ = s.ActivateAndServe() }()
	<-started
	t.Cleanup(func() { _ = s.Shutdown() })
	return pc.LocalAddr().String()
}

// load asks a mix of questions, some more at a time than at others, until the test ends.
func (d *demo) load(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	names := []string{"web-svc.service-lab.svc.cluster.local.", "mysql.service-lab.svc.cluster.local.", "api.example.com.",
		"api.example.com.default.svc.cluster.local.", "kubernetes.default.svc.cluster.local.", "www.example.org.", "nothing.invalid."}
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			for k := range 1 + i/200%4*3 {
				_ = d.ask(names[(i+k)%len(names)]) // what is lost is lost
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}

// freePort is a port that is free for UDP and TCP at the moment.
func freePort(t *testing.T) string {
	t.Helper()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		pc, err := net.ListenPacket("udp", ln.Addr().String())
		ln.Close()
		if err != nil {
			continue
		}
		pc.Close()
		_, port, _ := net.SplitHostPort(pc.LocalAddr().String())
		return port
	}
	t.Fatal("no free port")
	return ""
}

// eventually asks again until f gives no error.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	var last error
	for {
		err := f()
		if err == nil {
			return
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("not in %s: %s: %v", patience, what, last)
		}
	}
}
