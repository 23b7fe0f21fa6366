package hosts

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/internal/metrics"
	"github.com/clusterdns/clusterdns/plugin/internal/poll"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Metrics are the directive's gauges.
type Metrics struct{ entries, reloaded prometheus.Gauge }

// NewMetrics makes them and registers them, once per process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	return &Metrics{
		entries: metrics.Register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coredns_hosts_entries", Help: "Addresses and names known from the hosts file and the Corefile."})),
		reloaded: metrics.Register(reg, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "coredns_hosts_reload_timestamp_seconds", Help: "When the hosts file was last read."})),
	}
}

// Hosts answers from a table that is replaced as a whole when the file changes.
type Hosts struct {
	*poll.Poll
	o       Options
	metrics *Metrics
	log     *slog.Logger
	inline  *table
	now     atomic.Pointer[table]

	seen os.FileInfo // the file as it was read last; only Run touches it and what follows
	said string      // why it could not be opened, when it was looked at last
}

// New makes the handler. It answers the lines of the Corefile at once; the file is read by Run. m and log may be nil.
func New(o Options, m *Metrics, log *slog.Logger) *Hosts {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Hosts{o: o, metrics: m, log: log, inline: newTable()}
	h.Poll = poll.New(o.Reload, h.look)
	_ = h.inline.read(strings.NewReader(strings.Join(o.Inline, "\n")), &o)
	h.now.Store(h.inline)
	return h
}

// stat is os.Stat for files to read: a pipe would be waited for.
func stat(path string) (os.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "read", Path: path, Err: errNoFile}
	}
	return info, err
}

// look reads the file if it is another than before. Without a file the lines of the Corefile stay.
func (h *Hosts) look() {
	info, err := stat(h.o.File)
	if err != nil {
		if h.seen != nil || !errors.Is(err, fs.ErrNotExist) || len(h.o.Inline) == 0 {
			h.warn("the hosts file cannot be read; only the lines of the Corefile are served", err)
		}
		h.seen = nil
		h.set(h.inline)
		return
	}
	if h.seen != nil && h.seen.ModTime().Equal(info.ModTime()) && h.seen.Size() == info.Size() {
		return
	}
	f, err := os.Open(h.o.File)
	if err != nil {
		h.warn("the hosts file cannot be read; what was read before is still served", err)
		return
	}
	defer f.Close()
	h.said = ""
	h.seen = info // one that is bad is not read again until it changes
	t := h.inline.clone()
	if err := t.read(f, &h.o); err != nil {
		h.log.Warn("the hosts file cannot be read; what was read before is still served", "error", err)
		return
	}
	h.set(t)
	if h.metrics != nil {
		h.metrics.reloaded.Set(float64(info.ModTime().UnixNano()) / 1e9)
	}
}

// warn says why the file cannot be opened, once and not each time that it is looked at.
func (h *Hosts) warn(text string, err error) {
	if why := text + err.Error(); why != h.said {
		h.said = why
		h.log.Warn(text, "error", err)
	}
}

func (h *Hosts) set(t *table) {
	h.now.Store(t)
	if h.metrics != nil {
		h.metrics.entries.Set(float64(t.entries))
	}
}

// Answer answers A, AAAA and PTR; other types of known names are NODATA. What is not known is SERVFAIL, because a file of
// hosts has no SOA record to say NXDOMAIN with, unless it falls through.
func (h *Hosts) Answer(r *server.Reply, q *server.Query) server.Verdict {
	if q.Class != wire.ClassIN && q.Class != wire.ClassANY {
		return server.Pass
	}
	t := h.now.Load()
	if q.Type == wire.TypePTR {
		if addr, ok := zones.Address(&q.Name); ok && len(t.names[addr]) > 0 {
			return h.pointers(r, t.names[addr])
		}
	}
	if !h.o.Zones.Contains(&q.Name) {
		return server.Pass
	}
	if e := t.find(&q.Name); e != nil {
		return h.addresses(r, q, e)
	}
	if q.Type == wire.TypePTR || h.o.Fallthrough.For(&q.Name) {
		return server.Pass // reverse zones are seldom named: what is not here may well be elsewhere
	}
	r.AddEDE(server.EDEOther, "no line of hosts has this name, and hosts has no fallthrough for it")
	return r.Fail(nil)
}

// addresses answers for a known name.
func (h *Hosts) addresses(r *server.Reply, q *server.Query, e *entry) server.Verdict {
	switch q.Type {
	case wire.TypeA:
		for _, i := range r.Order(len(e.v4)) {
			r.A(server.Answer, server.Owner, h.o.TTL, e.v4[i])
		}
	case wire.TypeAAAA:
		for _, i := range r.Order(len(e.v6)) {
			r.AAAA(server.Answer, server.Owner, h.o.TTL, e.v6[i])
		}
	default:
		if h.o.Unsupported && h.o.Fallthrough.For(&q.Name) {
			return server.Pass
		}
	}
	r.SetAA()
	return server.Done
}

func (h *Hosts) pointers(r *server.Reply, names [][]byte) server.Verdict {
	r.SetAA()
	for _, n := range names {
		r.PTR(server.Owner, h.o.TTL, n)
	}
	return server.Done
}
