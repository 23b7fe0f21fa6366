package config

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/plugin/errors"
	"github.com/clusterdns/clusterdns/plugin/health"
	"github.com/clusterdns/clusterdns/plugin/log"
	"github.com/clusterdns/clusterdns/plugin/ready"
	"github.com/clusterdns/clusterdns/server"
)

// Shared is what a process has one of, whatever it is configured to do: it outlives configurations.
type Shared struct {
	out      *log.Writer
	level    *slog.LevelVar
	log      *slog.Logger
	registry *prometheus.Registry
	admin    *admin.Server
	ready    *ready.State
	health   *health.Metrics
	reload   *reloadMetrics

	stacktrace atomic.Bool // an errors directive wants stacks of panics
}

// NewShared makes what a process shares, with a log that goes to out. It starts nothing.
func NewShared(out io.Writer) *Shared {
	s := &Shared{out: log.NewWriter(out), level: new(slog.LevelVar), registry: prometheus.NewRegistry()}
	s.log = slog.New(log.NewHandler(s.out, s.level))
	s.admin = admin.New(s.log)
	s.ready = ready.New(s.logger("ready"))
	s.health = health.NewMetrics(s.registry)
	s.reload = newReloadMetrics(s.registry)
	return s
}

// Log is the log of the process.
func (s *Shared) Log() *slog.Logger { return s.log }

// logger is the one of a directive.
func (s *Shared) logger(name string) *slog.Logger {
	return slog.New(prefixed{s.log.Handler(), name})
}

// prefixed is a handler that puts "plugin/NAME: " before messages that do not have it, as CoreDNS does.
type prefixed struct {
	slog.Handler
	name string
}

// Handle implements slog.Handler.
func (p prefixed) Handle(ctx context.Context, r slog.Record) error {
	if !strings.HasPrefix(r.Message, "plugin/") {
		r.Message = "plugin/" + p.name + ": " + strings.TrimPrefix(r.Message, p.name+": ")
	}
	return p.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (p prefixed) WithAttrs(attrs []slog.Attr) slog.Handler {
	return prefixed{p.Handler.WithAttrs(attrs), p.name}
}

// WithGroup implements slog.Handler.
func (p prefixed) WithGroup(name string) slog.Handler {
	return prefixed{p.Handler.WithGroup(name), p.name}
}

// hooks are what the server tells of.
func (s *Shared) hooks() server.Hooks {
	return server.Hooks{
		Panic: func(v any, stack []byte) {
			errors.LogPanic(s.log, s.stacktrace.Load(), v, stack)
		},
	}
}

// reloadMetrics are those of the reload directive, under CoreDNS's names.
type reloadMetrics struct {
	failed prometheus.Counter
	info   *prometheus.GaugeVec
}

func newReloadMetrics(reg prometheus.Registerer) *reloadMetrics {
	m := &reloadMetrics{
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: "coredns", Subsystem: "reload", Name: "failed_total",
			Help: "Attempts to take up a changed configuration that failed.",
		}),
		info: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "coredns", Subsystem: "reload", Name: "version_info",
			Help: "Always 1; the labels say the hash of the configuration in use.",
		}, []string{"hash", "value"}),
	}
	reg.MustRegister(m.failed, m.info)
	return m
}

// running says which configuration is in use.
func (m *reloadMetrics) running(hash string) {
	m.info.Reset()
	m.info.WithLabelValues("sha512", hash).Set(1)
}
