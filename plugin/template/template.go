package template

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clusterdns/clusterdns/plugin/internal/match"
	"github.com/clusterdns/clusterdns/plugin/internal/metrics"
	"github.com/clusterdns/clusterdns/plugin/internal/records"
	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Metrics are the directive's counters.
type Metrics struct{ matches, templates, rrs *prometheus.CounterVec }

// NewMetrics makes them and registers them, once per process.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.Register(reg, prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coredns_template_" + name, Help: help},
			append([]string{"server", "zone", "view", "class", "type"}, labels...)))
	}
	return &Metrics{
		matches:   vec("matches_total", "Queries that a template answered."),
		templates: vec("template_failures_total", "Templates that could not be executed.", "section", "template"),
		rrs:       vec("rr_failures_total", "Templates whose result was no resource record.", "section", "template"),
	}
}

// Template is one template directive.
type Template struct {
	o       Options
	match   []match.Pattern
	parts   []part
	metrics *Metrics
	counts  metrics.PerBlock[map[label]prometheus.Counter]
	texts   zones.Texts
}

// label tells the counters of a block apart.
type label struct {
	zone wire.Zone
	typ  wire.Type
}

// part is one record, in the order of sections.
type part struct {
	section server.Section
	text    string
	tmpl    *sync.Pool     // of *program
	fixed   *server.Record // of a template without actions: the record itself
}

// New makes the handler of one template directive. o must have come from Parse.
func New(o Options, m *Metrics) (*Template, error) {
	h := &Template{o: o, metrics: m}
	for _, s := range o.Match {
		h.match = append(h.match, match.MustCompile(s))
	}
	for section, texts := range [][]string{o.Answer, o.Authority, o.Additional} {
		for _, text := range texts {
			p := part{section: server.Section(section), text: text, tmpl: &sync.Pool{}}
			tmpl, err := compile(text)
			if err != nil {
				return nil, err
			}
			p.tmpl.Put(tmpl)
			if plain(tmpl.Template) {
				rr, err := records.Parse(text)
				if err != nil {
					return nil, fmt.Errorf("template: %q is not a resource record: %w", text, err)
				}
				rr.Section = p.section
				p.fixed = &rr
			}
			h.parts = append(h.parts, p)
		}
	}
	h.counts.Resolve = h.resolve
	return h, nil
}

// plain says whether a template is text only.
func plain(t *template.Template) bool {
	for _, n := range t.Root.Nodes {
		if n.Type() != parse.NodeText {
			return false
		}
	}
	return true
}

// resolve makes the counters of a block for the types that clients ask for most.
func (h *Template) resolve(b *server.Block) map[label]prometheus.Counter {
	types := []wire.Type{h.o.Type}
	if h.o.Type == wire.TypeANY {
		types = []wire.Type{wire.TypeA, wire.TypeAAAA, wire.TypeSRV, wire.TypePTR, wire.TypeHTTPS, wire.TypeTXT, wire.TypeMX, wire.TypeNS, wire.TypeSOA}
	}
	class := h.o.Class
	if class == wire.ClassANY {
		class = wire.ClassIN
	}
	out := map[label]prometheus.Counter{}
	for _, z := range h.o.Zones {
		for _, t := range types {
			out[label{z, t}] = h.metrics.matches.WithLabelValues(b.Server, z.String(), b.View, class.String(), t.String())
		}
	}
	return out
}

// Answer answers what is of the directive's zones, class and type and matches one of its expressions.
func (h *Template) Answer(r *server.Reply, q *server.Query) server.Verdict {
	zone, _, ok := h.o.Zones.Find(&q.Name)
	if !ok || !h.asked(q) {
		return server.Pass
	}
	re := -1
	if len(h.match) > 0 {
		if re = h.first(q); re < 0 {
			if h.o.Fallthrough.For(&q.Name) {
				return server.Pass
			}
			r.AddEDE(server.EDEOther, "no expression of the template matches this name, and it has no fallthrough for it")
			return r.Fail(nil)
		}
	}
	h.count(q, zone)
	return h.reply(r, q, zone, re)
}

// asked says whether class and type are the directive's.
func (h *Template) asked(q *server.Query) bool {
	return (h.o.Class == wire.ClassANY || q.Class == wire.ClassANY || q.Class == h.o.Class) &&
		(h.o.Type == wire.TypeANY || q.Type == wire.TypeANY || q.Type == h.o.Type)
}

// first is the index of the first expression that matches, or -1.
func (h *Template) first(q *server.Query) int {
	text := h.texts.Of(&q.Name)
	defer h.texts.Done(text)
	for i := range h.match {
		if h.match[i].Match(text.B) {
			return i
		}
	}
	return -1
}

func (h *Template) count(q *server.Query, zone wire.Zone) {
	if h.metrics == nil {
		return
	}
	if c, ok := h.counts.Of(q)[label{zone, q.Type}]; ok && (h.o.Class != wire.ClassANY || q.Class == wire.ClassIN) {
		c.Inc()
		return
	}
	class, typ := h.labels(q)
	h.metrics.matches.WithLabelValues(q.Block.Server, zone.String(), q.Block.View, class, typ).Inc()
}

// labels are the class and type that a query is counted under. Those without a name are one, so that clients cannot make as many series as there are
// numbers.
func (h *Template) labels(q *server.Query) (class, typ string) {
	class, typ = q.Class.String(), q.Type.String()
	if strings.HasPrefix(class, "CLASS") {
		class = other
	}
	if strings.HasPrefix(typ, "TYPE") && q.Type != h.o.Type {
		typ = other
	}
	return class, typ
}

// other is the label of classes and types that have no name.
const other = "other"

// reply writes the records. A CNAME at the end of the answer is followed, unless it was what the client wanted.
func (h *Template) reply(r *server.Reply, q *server.Query, zone wire.Zone, re int) server.Verdict {
	if h.o.HasError {
		r.AddEDE(h.o.ErrorCode, h.o.ErrorText)
	}
	if h.o.RCode == wire.RCodeServFail {
		return r.Fail(nil)
	}
	var d *data
	before := r.Mark()
	r.SetAA()
	r.SetRCode(h.o.RCode)
	for i := range h.parts {
		p := &h.parts[i]
		rr := p.fixed
		if rr == nil {
			if d == nil {
				d = newData(q, zone, h.expression(re))
			}
			made, err := h.execute(p, d, q)
			if err != nil {
				r.Rewind(before)
				r.AddEDE(server.EDEOther, "the template makes no record of this name")
				return r.Fail(err)
			}
			rr = &made
		}
		last := i+1 == len(h.parts) || h.parts[i+1].section != server.Answer
		if last && p.section == server.Answer && rr.Type == wire.TypeCNAME && h.follows(q) {
			return follow(r, q, rr)
		}
		put(r, q, rr)
	}
	return server.Done
}

func (h *Template) expression(i int) *regexp.Regexp {
	if i < 0 {
		return nil
	}
	return h.match[i].Regexp
}

// follows says whether the client wants what stands behind a CNAME.
func (h *Template) follows(q *server.Query) bool {
	return q.Type != wire.TypeCNAME && q.Type != wire.TypeANY && h.o.RCode == wire.RCodeNoError
}

// put writes a record. The name that is looked for keeps the letter case in which it stands in the reply.
func put(r *server.Reply, q *server.Query, rr *server.Record) {
	if own(q, rr) {
		rr = &server.Record{Section: rr.Section, Owner: q.Name.Bytes(), Type: rr.Type, Class: rr.Class, TTL: rr.TTL, Data: rr.Data}
	}
	r.Record(rr)
}

func own(q *server.Query, rr *server.Record) bool {
	if len(rr.Owner) != q.Name.Len() {
		return false
	}
	var b [wire.MaxName]byte
	folded := b[:copy(b[:], rr.Owner)]
	wire.Fold(folded)
	return string(folded) == string(q.Name.Folded())
}

func follow(r *server.Reply, q *server.Query, rr *server.Record) server.Verdict {
	put(r, q, rr)
	if err := q.SetTarget(rr.Data, server.NoRef); err != nil {
		return r.Fail(err)
	}
	q.MayEnd()
	return server.Follow
}

// maxShown is how much of a text that is no record is told.
const maxShown = 200

// execute makes the record of a template.
func (h *Template) execute(p *part, d *data, q *server.Query) (server.Record, error) {
	tmpl, ok := p.tmpl.Get().(*program)
	if !ok {
		tmpl, _ = compile(p.text) // it has been compiled before
	}
	text, err := tmpl.run(d)
	p.tmpl.Put(tmpl)
	if err != nil {
		h.failed(q, d, p, func(m *Metrics) *prometheus.CounterVec { return m.templates })
		return server.Record{}, fmt.Errorf("template: %q: %w", p.text, err)
	}
	rr, err := records.Parse(text)
	if err != nil {
		h.failed(q, d, p, func(m *Metrics) *prometheus.CounterVec { return m.rrs })
		return rr, fmt.Errorf("template: %q gave %q, which is not a resource record: %w", p.text, text[:min(len(text), maxShown)], err)
	}
	rr.Section = p.section
	return rr, nil
}

func (h *Template) failed(q *server.Query, d *data, p *part, vec func(*Metrics) *prometheus.CounterVec) {
	if h.metrics == nil {
		return
	}
	class, typ := h.labels(q)
	section := [...]string{"answer", "authority", "additional"}[p.section]
	vec(h.metrics).WithLabelValues(q.Block.Server, d.Zone, q.Block.View, class, typ, section, p.text).Inc()
}

// data is what templates see.
type data struct {
	Zone, Name, Class, Type string
	Match                   []string
	Group                   map[string]string
	Remote                  string

	q *server.Query
}

func newData(q *server.Query, zone wire.Zone, re *regexp.Regexp) *data {
	d := &data{
		Zone: zone.String(), Name: q.Name.Canonical().String(), Class: q.Class.String(), Type: q.Type.String(),
		Remote: q.Client.Addr().String(), Group: map[string]string{}, q: q,
	}
	if re == nil {
		d.Match = []string{d.Name}
		d.Group["0"] = d.Name
		return d
	}
	d.Match = re.FindStringSubmatch(d.Name)
	for i, name := range re.SubexpNames() {
		d.Group[fmt.Sprint(i)] = d.Match[i]
		if name != "" {
			d.Group[name] = d.Match[i]
		}
	}
	return d
}

// Meta is the value of a metadata label.
func (d *data) Meta(label string) string { return d.q.Metadata(label) }

// Message is the query as miekg/dns reads it; it is made for templates that use it only.
func (d *data) Message() (*dns.Msg, error) {
	m := new(dns.Msg)
	return m, m.Unpack(d.q.Raw())
}

// Question is the question that is looked for.
func (d *data) Question() *dns.Question {
	return &dns.Question{Name: d.Name, Qtype: uint16(d.q.Type), Qclass: uint16(d.q.Class)}
}
