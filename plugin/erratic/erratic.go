// Package erratic is the directive of that name: a server that drops, delays and truncates replies, to test clients with.
package erratic

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/clusterdns/clusterdns/config/directive"
	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

// Options are those of the directive. Of so many queries one is treated so; 0 is none.
type Options struct {
	Drop, Truncate, Delay uint64
	Duration              time.Duration
	Large                 bool
}

// Rows are the directive's options.
func Rows() []directive.Option[Options] {
	return []directive.Option[Options]{
		{Name: "drop", Usage: "[AMOUNT]", Max: 1, Help: "drops one of AMOUNT queries; 2 by default",
			Set: func(o *Options, l *directive.Line) error { return amount(&o.Drop, l) }},
		{Name: "truncate", Usage: "[AMOUNT]", Max: 1, Help: "sets TC in one of AMOUNT replies; 2 by default",
			Set: func(o *Options, l *directive.Line) error { return amount(&o.Truncate, l) }},
		{Name: "delay", Usage: "[AMOUNT [DURATION]]", Max: 2, Help: "delays one of AMOUNT replies by DURATION; 2 and 100ms by default", Set: setDelay},
		{Name: "large", Help: "makes replies large", Set: func(o *Options, _ *directive.Line) error { o.Large = true; return nil }},
	}
}

func amount(to *uint64, l *directive.Line) error {
	*to = 2
	if len(l.Args) == 0 {
		return nil
	}
	n, err := l.Args[0].Int(0, 1<<30)
	*to = uint64(n)
	return err
}

func setDelay(o *Options, l *directive.Line) (err error) {
	o.Duration = 100 * time.Millisecond
	if err = amount(&o.Delay, l); err == nil && len(l.Args) == 2 {
		o.Duration, err = l.Args[1].Duration(0, time.Hour, 0)
	}
	return err
}

// Parse reads the directive. Without options it drops every second query.
func Parse(in *directive.Input) (Options, error) {
	var o Options
	if err := in.NoArgs(); err != nil {
		return o, err
	}
	if err := directive.ParseOptions(in, &o, Rows()); err != nil {
		return o, err
	}
	for _, l := range in.Lines {
		if l.Name.Text != "large" {
			return o, nil
		}
	}
	o.Drop = 2
	return o, nil
}

// Erratic answers A and AAAA with fixed addresses.
type Erratic struct {
	o     Options
	count atomic.Uint64
}

// New makes the handler.
func New(o Options) *Erratic { return &Erratic{o: o} }

// Ready is always true: the directive needs nothing.
func (*Erratic) Ready() bool { return true }

// Answer drops the query, waits with it, or answers it. The first query is one of those that are treated badly.
func (e *Erratic) Answer(r *server.Reply, q *server.Query) server.Verdict {
	n := e.count.Add(1) - 1
	if every(n, e.o.Drop) {
		return server.Drop
	}
	if every(n, e.o.Truncate) {
		r.SetFlags(wire.FlagTC)
	}
	if every(n, e.o.Delay) {
		return server.Wait
	}
	return e.reply(r, q)
}

func every(n, amount uint64) bool { return amount > 0 && n%amount == 0 }

// AwaitAnswer answers after the delay.
func (e *Erratic) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	t := time.NewTimer(e.o.Duration)
	defer t.Stop()
	select {
	case <-t.C:
		return e.reply(r, q)
	case <-ctx.Done():
		return r.Fail(ctx.Err())
	}
}

// The addresses of documentation (RFC 5737, RFC 3849).
func v4(last byte) [4]byte { return [4]byte{192, 0, 2, last} }

func v6() [16]byte { return [16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 15: 0x53} }

func (e *Erratic) reply(r *server.Reply, q *server.Query) server.Verdict {
	r.SetAA()
	switch q.Type {
	case wire.TypeA:
		r.A(server.Answer, server.Owner, 0, v4(53))
		for i := byte(2); e.o.Large && i < 30; i++ {
			r.A(server.Answer, server.Owner, 0, v4(i))
		}
	case wire.TypeAAAA:
		r.AAAA(server.Answer, server.Owner, 0, v6())
	case wire.TypeAXFR:
		return e.zone(r, q)
	default:
		return r.Fail(nil)
	}
	return server.Done
}

// zone is a small zone, in one message. Truncated, it lacks the SOA record at its end.
func (e *Erratic) zone(r *server.Reply, q *server.Query) server.Verdict {
	if q.Transport == server.UDP {
		r.SetRCode(wire.RCodeRefused)
		return server.Done
	}
	truncated := r.Truncated()
	e.soa(r, q)
	r.A(server.Answer, server.Owner, 0, v4(53))
	r.AAAA(server.Answer, server.Owner, 0, v6())
	if !truncated {
		e.soa(r, q)
	}
	return server.Done
}

func (e *Erratic) soa(r *server.Reply, q *server.Query) {
	name := q.Name.Bytes()
	r.SOA(server.Answer, name, 0, &server.SOA{MName: name, RName: name, Serial: 1, Refresh: 3600, Retry: 3600, Expire: 3600, Negative: 3600})
}
