package security_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/clusterdns/clusterdns/config"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/server/servertest"
)

// said is what a server logs.
type said struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// twin is one of two servers that forward to each other.
type twin struct {
	*config.Instance
	addr string
	log  said
	path string
}

// write makes a Corefile whose server listens where the one before did.
func (w *twin) write(t *testing.T, directives, upstream string) {
	t.Helper()
	text := ".:0 {\n bind 127.0.0.1\n errors\n log\n hosts {\n  192.0.2.1 mine.example\n  fallthrough\n }\n " + strings.ReplaceAll(directives, "UPSTREAM", upstream) + "\n}\n"
	if err := os.WriteFile(w.path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *twin) start(t *testing.T, directives, upstream string) {
	t.Helper()
	w.path = filepath.Join(t.TempDir(), "Corefile")
	w.write(t, directives, upstream)
	w.Instance = config.NewInstance(config.NewShared(io.Writer(&w.log), prometheus.Build{}), config.DefaultPort)
	src, err := config.ReadSource(w.path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.Start(ctx, src); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = w.Stop(ctx)
	})
	for _, a := range w.Addrs() {
		w.addr = a.String()
	}
}

// TestTwoServersInALoop has two servers that forward to each other. A question that neither answers goes round no more often than a few times, however it is
// rewritten on the way; it ends as a failure in the time that a query has, and what each server knows itself is answered all the while. With loop, the log
// says what is wrong, and nothing goes round any more.
func TestTwoServersInALoop(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what, directives string
		most             int    // log lines of both, one for each query
		said             string // by either
	}{
		{"as it comes", "forward . UPSTREAM", 500, ""},
		{"with a cache", "forward . UPSTREAM\n cache 30", 500, ""},
		{"longer each time", "rewrite stop name regex (.*[.]x)[.] a.{1}\n forward . UPSTREAM", 3000, ""},
		{"another each time", "rewrite stop name regex ([ab]*)([a-z])[.]x[.] {2}{1}.x\n forward . UPSTREAM", 3000, ""},
		{"with search", "rewrite stop name suffix .x. .x.x. answer auto\n forward . UPSTREAM\n cache 30", 3000, ""},
		{"with loop", "loop\n forward . UPSTREAM", 500, "loop"},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			var a, b twin
			a.start(t, "whoami", "")
			b.start(t, c.directives, a.addr)
			a.write(t, c.directives, b.addr)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := a.Reload(ctx); err != nil {
				t.Fatal(err)
			}
			for end := time.Now().Add(patience); c.said != "" && !strings.Contains(a.log.String()+b.log.String(), c.said); {
				if time.Now().After(end) {
					t.Fatalf("the log says\n%s\n%s", &a.log, &b.log)
				}
				_ = exchange(t, "udp", a.addr, servertest.Query("mine.example.", dns.TypeA, 0))
			}
			if r := exchange(t, "udp", a.addr, servertest.Query("aaaaaaaaab.x.", dns.TypeA, 1232)); r.Rcode != dns.RcodeServerFailure || len(r.Answer) > 0 {
				t.Errorf("a name that nobody knows: %v", r)
			}
			for _, w := range []*twin{&a, &b} {
				if r := exchange(t, "udp", w.addr, servertest.Query("mine.example.", dns.TypeA, 0)); len(r.Answer) != 1 {
					t.Errorf("a name of its own: %v", r)
				}
			}
			all := ""
			for _, w := range []*twin{&a, &b} {
				_ = w.Stop(ctx) // which writes the rest of the log
				all += w.log.String()
			}
			if n := strings.Count(all, " SERVFAIL "); c.said == "" && n < 2 || n > c.most {
				t.Errorf("%d queries came of one:\n%.4000s", n, all)
			}
		})
	}
}
