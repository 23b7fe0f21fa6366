package pprof

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
)

// TestProfiles takes one of each kind through a real socket.
func TestProfiles(t *testing.T) {
	t.Parallel()
	s := admin.New(slog.New(slog.DiscardHandler))
	t.Cleanup(func() { s.Shutdown(t.Context()) })
	o := Options{Address: "127.0.0.1:0"}
	if err := s.Apply(Routes(o)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "goroutine", "/": "goroutine", "/heap?debug=1": "heap profile", "/goroutine?debug=1": "goroutine profile", "/cmdline": "pprof",
		"/symbol": "num_symbols", "/block": "", "/trace?seconds=0.01": "go 1", "/profile?seconds=1": "",
	} {
		resp, err := http.Get("http://" + s.Addr(o.Address) + "/debug/pprof" + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || !bytes.Contains(b, []byte(want)) || len(b) == 0 {
			t.Errorf("%s: %s, %d bytes, %v; want %q in it", path, resp.Status, len(b), err, want)
		}
	}
}

// TestHosts asks under names: where the machine alone reaches the profiles, one that somebody makes resolve to it is not served.
func TestHosts(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]map[string]int{
		"localhost:6053":       {"localhost:6053": 200, "127.0.0.1:6053": 200, "[::1]:6053": 200, "pod.localhost": 200, "evil.example:6053": 421, "192.0.2.1": 421, "": 421},
		"127.0.0.1:6053":       {"localhost": 200, "evil.example": 421},
		"[::1]:6053":           {"[::1]:6053": 200, "evil.example": 421},
		":6053":                {"pod.example:6053": 200, "192.0.2.1:6053": 200},
		"192.0.2.1:6053":       {"pod.example:6053": 200},
		"node.example:6053":    {"other.example": 200},
		"sub.localhost:6053":   {"evil.example": 421},
		"notlocalhost:6053":    {"evil.example": 200},
		"[::ffff:127.0.0.1]:1": {"evil.example": 421},
	} {
		for _, r := range Routes(Options{Address: addr}) {
			if r.Path != Path+"/" && r.Path != Path+"/cmdline" {
				continue
			}
			for host, status := range want {
				req, w := httptest.NewRequest(http.MethodGet, r.Path, nil), httptest.NewRecorder()
				req.Host = host
				if r.Handler.ServeHTTP(w, req); w.Code != status {
					t.Errorf("%s at %s under %q: status %d, want %d", r.Path, addr, host, w.Code, status)
				}
			}
		}
	}
}

// TestBlockRate switches the sampling of blocking events on and off again. It changes the process, so nothing runs beside it.
func TestBlockRate(t *testing.T) {
	blocked := func() int {
		var mu sync.Mutex
		mu.Lock()
		time.AfterFunc(time.Millisecond, mu.Unlock)
		mu.Lock()
		return pprof.Lookup("block").Count()
	}
	SetBlockRate(Options{}, Options{BlockRate: 1}, Options{BlockRate: 1 << 30})
	before := blocked()
	if before == 0 {
		t.Error("no blocking event was sampled")
	}
	SetBlockRate()
	defer runtime.SetBlockProfileRate(0)
	var mu sync.Mutex
	mu.Lock()
	time.AfterFunc(time.Millisecond, mu.Unlock)
	mu.Lock()
	if n := pprof.Lookup("block").Count(); n != before {
		t.Errorf("%d blocking events after it was switched off, %d before", n, before)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Options{
		"pprof":                    {"localhost:6053", 0},
		"pprof 1.2.3.4:1234":       {"1.2.3.4:1234", 0},
		"pprof :1234 {\n}":         {":1234", 0},
		"pprof {\n block\n}":       {"localhost:6053", 1},
		"pprof :1 {\n block 20\n}": {":1", 20},
	} {
		if got, err := Parse(plugintest.Input(t, text, ".")); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"pprof :1234 -1":               `takes one address, found "-1" behind it`,
		"pprof /foo":                   `is not an address`,
		"pprof {\n a b\n}":             `Corefile:2: pprof: unknown option "a"; known are block`,
		"pprof {\n block 20 30\n}":     `takes no argument "30"`,
		"pprof {\n block invalid\n}":   `"invalid" is not a whole number`,
		"pprof {\n block 0\n}":         `0 is not within 1`,
		"pprof {\n block 1\n block\n}": `appears more than once`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "pprof", append(plugintest.Names(Rows()), DefaultAddress, Path)...)
}
