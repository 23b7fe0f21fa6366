// Package health is the health directive: an HTTP end point that says that the process lives, a probe that the process makes of itself to
// see whether it keeps up, and how long it goes on answering once it is told to end.
package health

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/plugin/admin"
)

// DefaultAddress is where health is served unless the directive names an address.
const DefaultAddress = ":8080"

// Path is where health is served on each address.
const Path = "/health"

const (
	// probeEvery is how often the process probes itself: CoreDNS's interval, which the rate of its metrics shows.
	probeEvery = time.Second
	// probePatience is when a probe has failed. A process that takes longer to answer one request on loopback is overloaded.
	probePatience = 3 * time.Second
	// slow is when a probe that succeeded is worth a line in the log.
	slow = time.Second
	// maxLameduck is far over any grace period, so that a slip of the pen does not keep a process from ending.
	maxLameduck = time.Hour
)

// Options are what one occurrence of the directive says.
type Options struct {
	Address  string
	Lameduck time.Duration // how long to go on answering when told to end; 0 for not at all
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{{
		Name: "lameduck", Usage: "DURATION", Min: 1, Max: 1,
		Help: "how long to go on answering once told to end",
		Set: func(o *Options, l *directive.Line) (err error) {
			o.Lameduck, err = l.Args[0].Duration(0, maxLameduck, 0)
			return err
		},
	}}
}

// Parse reads one occurrence of the directive.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	var err error
	if o.Address, err = admin.ParseAddress(in, DefaultAddress); err != nil {
		return Options{}, err
	}
	return o, directive.ParseOptions(in, &o, Rows())
}

// Metrics are those of the probes of itself. There is one in a process.
type Metrics struct {
	duration prometheus.Histogram
	failures prometheus.Counter
}

// NewMetrics makes and registers them.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	m := &Metrics{
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "coredns_health_request_duration_seconds",
			Help:                        "Time that requests of the process to its own health end point took.",
			Buckets:                     []float64{.00025, .0025, .025, .25, 2.5},
			NativeHistogramBucketFactor: 1.05,
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "coredns_health_request_failures_total",
			Help: "Requests of the process to its own health end point that failed.",
		}),
	}
	reg.MustRegister(m.duration, m.failures)
	return m
}

// Health is one occurrence of the directive at work.
type Health struct {
	options Options
	served  *admin.Server
	metrics *Metrics
	log     *slog.Logger
}

// New makes what serves o on served and probes it there.
func New(o Options, served *admin.Server, m *Metrics, log *slog.Logger) *Health {
	return &Health{options: o, served: served, metrics: m, log: log}
}

// Route is where health is served.
func (h *Health) Route() admin.Route {
	return admin.Route{Addr: h.options.Address, Path: Path, Handler: http.HandlerFunc(serveOK)}
}

// serveOK answers a probe. It says OK during lameduck too: that the process is about to end is for readiness to tell, and a liveness
// probe that failed would only end it sooner.
func serveOK(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, http.StatusText(http.StatusOK)) // who does not read the answer does not get it
}

// Run probes the end point every second until ctx ends. The address has been applied to the admin server before.
func (h *Health) Run(ctx context.Context) error {
	transport := &http.Transport{Proxy: nil} // never through a proxy that the environment names: the probe is of this process
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			h.probe(ctx, client)
		}
	}
}

// probe makes one request and counts it.
func (h *Health) probe(ctx context.Context, client *http.Client) {
	url := "http://" + admin.Reachable(h.served.Addr(h.options.Address)) + Path
	start := time.Now()
	err := get(ctx, client, url)
	if ctx.Err() != nil {
		return // the process is ending, which is no failure
	}
	took := time.Since(start)
	h.metrics.duration.Observe(took.Seconds())
	switch {
	case err != nil:
		h.metrics.failures.Inc()
		h.log.Warn(fmt.Sprintf("plugin/health: Local health request to %q failed: %v", url, err))
	case took > slow:
		h.log.Warn(fmt.Sprintf("plugin/health: Local health request to %q took more than 1s: %s", url, took))
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10))
	return err
}

// Lameduck is how long a process with these occurrences of the directive goes on answering: the longest of them.
func Lameduck(all ...Options) time.Duration {
	var d time.Duration
	for _, o := range all {
		d = max(d, o.Lameduck)
	}
	return d
}

// Wait is the lameduck time: it is called when the process is told to end, after readiness has gone, and returns after d or when ctx
// ends. Everything is answered as before meanwhile.
func Wait(ctx context.Context, d time.Duration, log *slog.Logger) {
	if d <= 0 {
		return
	}
	log.Info("plugin/health: Going into lameduck mode for " + d.String())
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
