package config

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"

	prom "github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/cache"
	"github.com/clusterdns/clusterdns/forward"
	"github.com/clusterdns/clusterdns/kubernetes"
	"github.com/clusterdns/clusterdns/plugin/acl"
	"github.com/clusterdns/clusterdns/plugin/admin"
	"github.com/clusterdns/clusterdns/plugin/autopath"
	"github.com/clusterdns/clusterdns/plugin/dns64"
	errorlog "github.com/clusterdns/clusterdns/plugin/errors"
	"github.com/clusterdns/clusterdns/plugin/health"
	"github.com/clusterdns/clusterdns/plugin/hosts"
	"github.com/clusterdns/clusterdns/plugin/local"
	querylog "github.com/clusterdns/clusterdns/plugin/log"
	"github.com/clusterdns/clusterdns/plugin/prometheus"
	"github.com/clusterdns/clusterdns/plugin/ratelimit"
	"github.com/clusterdns/clusterdns/plugin/ready"
	"github.com/clusterdns/clusterdns/plugin/template"
	"github.com/clusterdns/clusterdns/server"
)

// Shared is what a process has one of, whatever it is configured to do: it outlives configurations.
type Shared struct {
	out      *querylog.Writer
	level    *slog.LevelVar
	log      *slog.Logger
	registry *prom.Registry
	admin    *admin.Server
	ready    *ready.State
	build    prometheus.Build
	stacks   atomic.Bool // stack traces of panics are logged
	takeover bool

	// Explain makes what answers GET /explain?name=NAME for the server and what it serves at the moment; nil for nothing. It is set before
	// NewInstance. What explains stands above this package, which it is told of here.
	Explain func(s *server.Server, listeners func() []server.Listener) http.Handler
	explain http.Handler // what Explain made
	// Dump makes what answers GET /dump with the clusters of what is served at the moment; nil for nothing. It is set as Explain is.
	Dump func(listeners func() []server.Listener) http.Handler
	dump http.Handler // what Dump made

	// source says where kubernetes directives read from; nil for what their options name.
	source func(kubernetes.Options) kubernetes.Source

	// The metrics of directives.
	prometheus *prometheus.Metrics
	reload     *reloadMetrics
	health     *health.Metrics
	ratelimit  *ratelimit.Metrics
	local      *local.Metrics
	acl        *acl.Metrics
	autopath   *autopath.Metrics
	dns64      *dns64.Metrics
	template   *template.Metrics
	hosts      *hosts.Metrics
	kubernetes *kubernetes.SourceMetrics
	cache      *cache.Metrics
	forward    *forward.Metrics
}

// NewShared makes what a process shares, with a log that goes to out. It starts nothing.
func NewShared(out io.Writer, build prometheus.Build) *Shared {
	s := &Shared{out: querylog.NewWriter(out), level: new(slog.LevelVar), registry: prom.NewRegistry(), build: build}
	s.log = slog.New(querylog.NewHandler(s.out, s.level))
	s.admin = admin.New(s.log)
	s.ready = ready.New(s.Logger("ready"))
	s.prometheus = prometheus.NewMetrics(s.registry, build)
	s.reload = newReloadMetrics(s.registry)
	s.health = health.NewMetrics(s.registry)
	s.ratelimit = ratelimit.NewMetrics(s.registry)
	s.local = local.NewMetrics(s.registry)
	s.acl = acl.NewMetrics(s.registry)
	s.autopath = autopath.NewMetrics(s.registry)
	s.dns64 = dns64.NewMetrics(s.registry)
	s.template = template.NewMetrics(s.registry)
	s.hosts = hosts.NewMetrics(s.registry)
	s.kubernetes = kubernetes.NewSourceMetrics(s.registry)
	s.cache = cache.NewMetrics(s.registry)
	s.forward = forward.NewMetrics(s.registry)
	return s
}

// TakeOver is called before NewInstance where the process starts beside another one with the same addresses, which is about to end: those of
// HTTP are shared as well (admin.Server.Share), and that they are is no reason to warn.
func (s *Shared) TakeOver() {
	s.takeover = true
	s.admin.Share(server.SharePort)
}

// Registry is where all metrics are registered.
func (s *Shared) Registry() *prom.Registry { return s.registry }

// Logger is the log for lines of one directive.
func (s *Shared) Logger(name string) *slog.Logger {
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
			s.prometheus.Panic()
			errorlog.LogPanic(s.log, s.stacks.Load(), v, stack)
		},
		Limit: s.prometheus.Limit,
		HTTPS: s.prometheus.HTTPSResponse,
		Shared: func(addr string) {
			if s.takeover {
				s.log.Info("taking over " + addr + " from another process: queries are split between both until that one ends")
				return
			}
			s.log.Warn(fmt.Sprintf("another process serves %s too: queries are split between both until one of them ends", addr))
		},
	}
}

// reloadMetrics are those of the reload directive, under CoreDNS's names.
type reloadMetrics struct {
	failed prom.Counter
	info   *prom.GaugeVec
}

func newReloadMetrics(reg prom.Registerer) *reloadMetrics {
	m := &reloadMetrics{
		failed: prom.NewCounter(prom.CounterOpts{
			Namespace: "coredns", Subsystem: "reload", Name: "failed_total",
			Help: "Attempts to take up a changed configuration that failed.",
		}),
		info: prom.NewGaugeVec(prom.GaugeOpts{
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
