// Package errors is the errors directive: it logs what kept queries from being answered, and puts like errors together.
package errors

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Errors is the directive of one server block at work: a server.Observer. It is a server.Runner too.
type Errors struct {
	log      *slog.Logger
	patterns []*pattern
}

// pattern is one consolidate option and what it has collected.
type pattern struct {
	Consolidate
	expr *regexp.Regexp

	mu    sync.Mutex
	count int
	timer *time.Timer // ends the period; nil while none is under way
}

// New makes the observer of a server block. Its lines leave through log.
func New(o Options, log *slog.Logger) *Errors {
	e := &Errors{log: log}
	for _, c := range o.Consolidate {
		e.patterns = append(e.patterns, &pattern{Consolidate: c, expr: regexp.MustCompile(c.Pattern)})
	}
	return e
}

// Observe implements server.Observer.
func (e *Errors) Observe(r *server.Reply, q *server.Query) {
	faults := r.Faults()
	if len(faults) == 0 {
		return
	}
	for _, err := range faults {
		e.fault(r, q, err.Error())
	}
}

// fault logs one error, or counts it with those like it.
func (e *Errors) fault(r *server.Reply, q *server.Query, reason string) {
	for _, p := range e.patterns {
		if !p.expr.MatchString(reason) {
			continue
		}
		if e.collect(p) && p.ShowFirst {
			e.line(p.level(), r, q, reason)
		}
		return
	}
	e.line(slog.LevelError, r, q, reason)
}

// line writes one error as it is: "2 example.org. A: reason", where 2 is the rcode.
func (e *Errors) line(level slog.Level, r *server.Reply, q *server.Query, reason string) {
	ctx := context.Background() // no handler that writes lines waits for anything
	if !e.log.Enabled(ctx, level) {
		return
	}
	name := q.Question()
	name = append(make([]byte, 0, wire.MaxName), name[:max(0, len(name)-4)]...)
	wire.Fold(name)
	b := make([]byte, 0, 64+len(name)+len(reason))
	b = append(b, "plugin/errors: "...)
	b = strconv.AppendUint(b, uint64(r.RCode()), 10)
	b = append(b, ' ')
	b = wire.AppendPresentation(b, name)
	b = append(b, ' ')
	b = append(b, q.QuestionType().String()...)
	b = append(b, ": "...)
	b = append(b, oneLine(reason)...)
	e.log.Log(ctx, level, string(b))
}

// oneLine keeps what an upstream server may have a part in from beginning lines of its own.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\n\r") {
		return s
	}
	return strings.NewReplacer("\n", `\n`, "\r", `\r`).Replace(s)
}

// collect counts one error of a pattern, and says whether it is the first of its period.
func (e *Errors) collect(p *pattern) (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	if p.timer != nil {
		return false
	}
	p.timer = time.AfterFunc(p.Period, func() { e.report(p) })
	return true
}

// report ends a period and says how many errors there were. One that was shown already is not said again.
func (e *Errors) report(p *pattern) {
	p.mu.Lock()
	n := p.count
	p.count, p.timer = 0, nil
	p.mu.Unlock()
	if n == 0 || n == 1 && p.ShowFirst {
		return
	}
	e.log.Log(context.Background(), p.level(), fmt.Sprintf("plugin/errors: %d errors like '%s' occurred in last %s", n, p.Pattern, p.Period))
}

// Run waits until ctx ends, and then says what has been collected: a period that a reload or the end of the process cuts short loses
// nothing.
func (e *Errors) Run(ctx context.Context) error {
	<-ctx.Done()
	for _, p := range e.patterns {
		p.mu.Lock()
		if p.timer != nil {
			p.timer.Stop()
		}
		p.mu.Unlock()
		e.report(p)
	}
	return nil
}

// LogPanic logs that a handler panicked, with its stack if stacktrace says so: the part of the directive that is the process's and not a
// query's. It is for server.Hooks.
func LogPanic(log *slog.Logger, stacktrace bool, v any, stack []byte) {
	text := fmt.Sprintf("plugin/errors: Recovered from panic: %s", oneLine(fmt.Sprint(v)))
	if stacktrace {
		text += "\n" + string(stack)
	}
	log.Error(text)
}
