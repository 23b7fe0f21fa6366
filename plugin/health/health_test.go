package health

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/plugin/internal/plugintest"
)

var quiet = slog.New(slog.DiscardHandler)

const anyPort = "127.0.0.1:0"

// fixture serves the directive on a free port.
func fixture(t *testing.T, log *slog.Logger) (h *Health, s *admin.Server, reg *prometheus.Registry) {
	t.Helper()
	reg = prometheus.NewRegistry()
	s = admin.New(log)
	t.Cleanup(func() { s.Shutdown(context.Background()) })
	h = New(Options{Address: anyPort}, s, NewMetrics(reg), log)
	if err := s.Apply([]admin.Route{h.Route()}); err != nil {
		t.Fatal(err)
	}
	return h, s, reg
}

func TestOK(t *testing.T) {
	t.Parallel()
	_, s, _ := fixture(t, quiet)
	resp, err := http.Get("http://" + s.Addr(anyPort) + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || string(b) != "OK" {
		t.Errorf("%s %q %v", resp.Status, b, err)
	}
}

// counts gives how many probes were made, and how many of them failed.
func counts(t *testing.T, reg *prometheus.Registry) (probes uint64, failures float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		switch f.GetName() {
		case "coredns_health_request_duration_seconds":
			probes = f.Metric[0].Histogram.GetSampleCount()
		case "coredns_health_request_failures_total":
			failures = f.Metric[0].Counter.GetValue()
		}
	}
	return probes, failures
}

// TestProbe: a probe that is answered counts, and one that is not counts as failed and is said. It goes to the real end point.
func TestProbe(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	h, s, reg := fixture(t, slog.New(slog.NewTextHandler(&said, nil)))
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	h.probe(t.Context(), c)
	if n, failed := counts(t, reg); n != 1 || failed != 0 {
		t.Errorf("%d probes, %g failed; want 1, 0", n, failed)
	}
	if said.Len() > 0 {
		t.Errorf("said %s", &said)
	}
	bad := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	if err := s.Apply([]admin.Route{{Addr: anyPort, Path: Path, Handler: bad}}); err != nil {
		t.Fatal(err)
	}
	h.probe(t.Context(), c)
	if n, failed := counts(t, reg); n != 2 || failed != 1 {
		t.Errorf("%d probes, %g failed; want 2, 1", n, failed)
	}
	if !strings.Contains(said.String(), "plugin/health: Local health request to ") || !strings.Contains(said.String(), "failed: status 503") {
		t.Errorf("said %s", &said)
	}
	if err := s.Apply(nil); err != nil {
		t.Fatal(err)
	}
	h.probe(t.Context(), c)
	if n, failed := counts(t, reg); n != 3 || failed != 2 {
		t.Errorf("nobody listens: %d probes, %g failed; want 3, 2", n, failed)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.probe(ctx, c)
	if n, failed := counts(t, reg); n != 3 || failed != 2 {
		t.Errorf("the process ends: %d probes, %g failed; want 3, 2", n, failed)
	}
}

// slowly is a transport whose end point answers after a while, if at all.
type slowly time.Duration

func (s slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(time.Duration(s)):
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// TestOverload: a process that answers late says so, and one that answers too late has failed.
func TestOverload(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		takes    time.Duration
		failures float64
		said     string
	}{
		{900 * time.Millisecond, 0, ""}, {2 * time.Second, 0, "took more than 1s: 2s"}, {time.Hour, 1, "context deadline exceeded"},
	} {
		t.Run(tt.takes.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var said bytes.Buffer
				log := slog.New(slog.NewTextHandler(&said, nil))
				reg := prometheus.NewRegistry()
				h := New(Options{Address: anyPort}, admin.New(log), NewMetrics(reg), log)
				h.probe(t.Context(), &http.Client{Transport: slowly(tt.takes)})
				if n, failed := counts(t, reg); n != 1 || failed != tt.failures {
					t.Errorf("%d probes, %g failed; want 1, %g", n, failed, tt.failures)
				}
				if !strings.Contains(said.String(), tt.said) || tt.said == "" && said.Len() > 0 {
					t.Errorf("said %q, want %q", said.String(), tt.said)
				}
			})
		})
	}
}

// TestRunProbesEverySecond until it is told to end.
func TestRunProbesEverySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		// Nothing is served, so each probe fails at once, without a socket.
		h := New(Options{Address: anyPort}, admin.New(quiet), NewMetrics(reg), quiet)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		<-time.After(10500 * time.Millisecond)
		synctest.Wait()
		if n, failed := counts(t, reg); n != 10 || failed != 10 {
			t.Errorf("%d probes in 10.5 s, %g failed; want 10, 10", n, failed)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestLameduck(t *testing.T) {
	t.Parallel()
	if got := Lameduck(); got != 0 {
		t.Errorf("without the directive: %s", got)
	}
	if got := Lameduck(Options{Lameduck: time.Second}, Options{Lameduck: 5 * time.Second}, Options{}); got != 5*time.Second {
		t.Errorf("of several the longest counts: %s", got)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		Wait(t.Context(), 0, quiet)
		if d := time.Since(start); d != 0 {
			t.Errorf("no lameduck time took %s", d)
		}
		Wait(t.Context(), 5*time.Second, quiet)
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("waited %s, want 5s", d)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		Wait(ctx, time.Hour, quiet)
		if d := time.Since(start); d != 6*time.Second {
			t.Errorf("waited %s on although it was told to end", d-5*time.Second)
		}
	})
}

// TestMetrics are CoreDNS's, with native histograms, and clean.
func TestMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	NewMetrics(reg)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Error(problems, err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var h *dto.Histogram
	for _, f := range families {
		if f.GetName() == "coredns_health_request_duration_seconds" {
			h = f.Metric[0].Histogram
		}
	}
	var bounds []float64
	for _, b := range h.GetBucket() {
		bounds = append(bounds, b.GetUpperBound())
	}
	if len(bounds) != 5 || bounds[0] != .00025 || bounds[4] != 2.5 || h.Schema == nil {
		t.Errorf("buckets %v, native %v", bounds, h.Schema)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Options{
		"health":                {":8080", 0},
		"health localhost:1234": {"localhost:1234", 0},
		"health localhost:1234 {\n lameduck 4s\n}": {"localhost:1234", 4 * time.Second},
		"health {\n lameduck 0s\n}":                {":8080", 0},
	} {
		if got, err := Parse(plugintest.Input(t, text, ".")); err != nil || got != want {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"health bla":                 `Corefile:1: health: "bla" is not an address`,
		"health :1 :2":               `takes one address`,
		"health {\n lameduck a\n}":   `Corefile:2: health: lameduck: "a" is not a duration`,
		"health {\n lameduck 5\n}":   `"5" is not a duration; write it like 30s or 5m`,
		"health {\n lameduck -1s\n}": `-1s is not within`,
		"health {\n lameduck\n}":     `needs more arguments: lameduck DURATION`,
		"health {\n lamedudk 4s\n}":  `unknown option "lamedudk"; did you mean "lameduck"?`,
	} {
		if _, err := Parse(plugintest.Input(t, text, ".")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	plugintest.Mentions(t, "health", append(plugintest.Names(Rows()), DefaultAddress, Path)...)
}
