// Package log is the log directive: one line per query, as CoreDNS writes it or as JSON. It also has what the whole process logs
// through, so that its own messages and the lines of queries share one buffered output.
package log

import (
	"time"

	"github.com/clusterdns/clusterdns/plugin/internal/zones"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Log is the directive of one server block at work: a server.Observer.
type Log struct {
	w     *Writer
	rules []rule
}

// rule is one occurrence of the directive, ready for use.
type rule struct {
	zones   zones.Set
	format  []op
	classes Class
	sample  uint32
	slow    time.Duration
	json    bool
}

// New makes the observer of a server block from all occurrences of the directive there, in their order: the first one that names a
// zone of the query's name decides.
func New(w *Writer, occurrences ...Options) *Log {
	l := &Log{w: w}
	for _, o := range occurrences {
		r := rule{zones: o.Zones, classes: o.Classes, sample: uint32(max(o.Sample, 1)), slow: o.Slow, json: o.JSON}
		if o.JSON {
			r.format = compileJSON(o.Labels)
		} else {
			r.format = compile(o.Format)
		}
		l.rules = append(l.rules, r)
	}
	return l
}

// Observe implements server.Observer.
func (l *Log) Observe(r *server.Reply, q *server.Query) {
	rule := l.find(q)
	if rule == nil {
		return
	}
	class := classify(r, q)
	took := q.Took()
	if rule.classes&class == 0 && (rule.slow == 0 || took < rule.slow) {
		return
	}
	s := l.w.shard(q.Shard)
	defer s.unlock()
	if !s.lock() || !s.chosen(rule, class) {
		return
	}
	s.entry.r, s.entry.q, s.entry.took = r, q, took
	b := s.buf
	if !rule.json {
		b = append(b, "[INFO] "...)
	}
	for i := range rule.format {
		b = rule.format[i].add(b, &s.entry, rule.format[i].text)
	}
	s.buf = append(b, '\n')
	s.entry.r, s.entry.q = nil, nil // both are used for another query from now on
}

// chosen says whether a line is among those that sampling writes.
func (s *shard) chosen(r *rule, class Class) bool {
	if r.sample <= 1 || class == Failure {
		return true
	}
	s.seen++
	return s.seen%r.sample == 0
}

// find gives the rule for a query: it goes by the name that the client asked, whatever rewriting or CNAMEs made of it.
func (l *Log) find(q *server.Query) *rule {
	for i := range l.rules {
		if l.rules[i].zones.Asked(q) {
			return &l.rules[i]
		}
	}
	return nil
}

// questionName is the name of the question as it came, in wire form.
func questionName(q *server.Query) []byte {
	b := q.Question()
	return b[:max(0, len(b)-4)]
}

// label is the value of a label of metadata. Two are of the log itself, because only at its end is it known what a reply is.
func (e *entry) label(name string) string {
	switch name {
	case "log/class":
		return classify(e.r, e.q).String()
	case "log/type":
		return kind(e.r, e.q)
	}
	return e.q.Metadata(name)
}

// kind is what a reply says, in the words that CoreDNS has for it.
func kind(r *server.Reply, q *server.Query) string {
	switch rcode := r.RCode(); {
	case r.Dropped():
		return ""
	case rcode == wire.RCodeNXDomain:
		return "NXDOMAIN"
	case rcode == wire.RCodeServFail || rcode == wire.RCodeNotImp:
		return "SERVERERROR"
	case rcode != wire.RCodeNoError:
		return "OTHERERROR"
	case classify(r, q) == Denial:
		return "NODATA"
	case r.Count(server.Answer) == 0 && delegation(r, q):
		return "DELEGATION"
	}
	return "NOERROR"
}

// classify sorts a reply into one of the classes.
func classify(r *server.Reply, q *server.Query) Class {
	switch {
	case r.Dropped():
		return Failure
	case r.RCode() == wire.RCodeNXDomain:
		return Denial
	case r.RCode() != wire.RCodeNoError:
		return Failure
	case r.Count(server.Answer) == 0 && !r.Truncated() && !delegation(r, q):
		return Denial
	}
	return Success
}

// delegation says whether a reply without answers refers to other name servers, which is no denial.
func delegation(r *server.Reply, q *server.Query) bool {
	if r.Count(server.Authority) == 0 {
		return false
	}
	rr, err := wire.ReadRR(r.Bytes(), wire.HeaderLen+len(q.Question()))
	return err == nil && rr.Type == wire.TypeNS
}
