package forward

import (
	"bytes"
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/clusterdns/clusterdns/server"
)

// call is a query that waits for the reply to its question.
type call struct {
	f      *Forward
	r      *server.Reply
	q      *server.Query
	line   int           // of f's, that is being asked
	parked server.Parked // how it goes on, unless
	result chan result   // a goroutine waits, which may have gone: room for one, and nothing else of the call may be touched
}

// result is what came of a question. The message lives until the calls that wait for it have been told.
type result struct {
	msg      []byte
	partial  bool   // TC is set, and TCP did not give the rest
	from     string // the upstream that the message is of
	err      error
	panicked *caught
}

// caught is a panic and where it was.
type caught struct {
	value any
	stack []byte
}

// Park implements server.Parker: it asks the upstreams of the first line that takes q, and those of the lines behind it as far as next
// says so.
func (f *Forward) Park(p server.Parked, r *server.Reply, q *server.Query) bool {
	call{f: f, r: r, q: q, line: f.from(0, q), parked: p}.ask(p.Turn())
	return true
}

// ask asks the line of c. Nothing of c may be touched after it.
func (c call) ask(t *server.Turn) {
	g := c.f.groups[c.line]
	switch {
	case !g.enter():
		c.parked.Resume(g.refuse(c.r), t)
	case g.known():
		g.lead(c, t)
	default:
		go c.askLater()
	}
}

// askLater asks once the upstreams are known, which takes a moment after the start.
func (c call) askLater() {
	g := c.f.groups[c.line]
	patience := time.NewTimer(overall)
	defer patience.Stop()
	select {
	case <-g.loaded:
		g.lead(c, nil)
	case <-patience.C:
		c.tell(&result{err: errNotLoaded}, nil)
	}
}

// enter counts a query that waits, if max_concurrent lets it.
func (g *group) enter() bool {
	if n := g.waiting.Add(1); g.opts.MaxConcurrent > 0 && n > int64(g.opts.MaxConcurrent) {
		g.waiting.Add(-1)
		return false
	}
	return true
}

// lead begins an exchange for c and for whoever joins meanwhile, unless c itself joins one. It gives the exchange, and which use of
// it that is; nil if c joined.
func (g *group) lead(c call, t *server.Turn) (*exchange, uint64) {
	x := g.take()
	gen := x.gen
	x.fill(c.q)
	x.waiters = append(x.waiters, c)
	if g.flights.join(x, c) {
		g.put(x)
		g.metrics.shared.Inc()
		return nil, 0
	}
	x.start(c.q.Received, t)
	return x, gen
}

// land ends the flight of a decided exchange, and goes on with all that wait for it.
func (x *exchange) land(t *server.Turn) {
	res := x.result
	for _, c := range x.group.flights.land(x) {
		c.tell(&res, t)
		if res.panicked != nil {
			res.panicked = nil // the others only get no answer
		}
	}
	x.release()
}

// tell goes on with c.
func (c call) tell(res *result, t *server.Turn) {
	if c.result != nil {
		own := *res
		own.msg = bytes.Clone(res.msg)
		c.result <- own
		return
	}
	v, again := c.conclude(res)
	if again.f != nil {
		again.ask(t)
		return
	}
	if v.panicked != nil {
		c.parked.Panicked(v.panicked.value, v.panicked.stack, t)
		return
	}
	c.parked.Resume(v.verdict, t)
}

// conclusion is how a query goes on: with a verdict, or with a panic as its end.
type conclusion struct {
	verdict  server.Verdict
	panicked *caught
}

// conclude makes the reply of what came of the question, or gives the call of the next line that is to be asked.
func (c call) conclude(res *result) (v conclusion, again call) {
	defer func() {
		if p := recover(); p != nil {
			v, again = conclusion{panicked: &caught{p, debug.Stack()}}, call{}
		}
	}()
	g := c.f.groups[c.line]
	g.waiting.Add(-1)
	if res.panicked != nil {
		return conclusion{panicked: res.panicked}, call{}
	}
	if g.goesOn(res) {
		if k := c.f.from(c.line+1, c.q); k > 0 {
			c.line = k
			return conclusion{}, c
		}
	}
	return conclusion{verdict: g.answer(c.r, c.q, res)}, call{}
}

// AwaitAnswer implements server.Waiter: it does what Park does on a goroutine that waits.
func (f *Forward) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	i := f.from(0, q)
	for i >= 0 {
		g := f.groups[i]
		if !g.enter() {
			return g.refuse(r)
		}
		res := g.await(ctx, q)
		g.waiting.Add(-1)
		if res.panicked != nil {
			panic(fmt.Sprintf("%v\n\n%s", res.panicked.value, res.panicked.stack))
		}
		if g.goesOn(&res) {
			if k := f.from(i+1, q); k > 0 {
				i = k
				continue
			}
		}
		return g.answer(r, q, &res)
	}
	return server.Pass
}

// await gives the result of q's question. Its message is the caller's.
func (g *group) await(ctx context.Context, q *server.Query) result {
	if !g.known() {
		select {
		case <-g.loaded:
		case <-ctx.Done():
			return result{err: errNotLoaded}
		}
	}
	c := call{q: q, result: make(chan result, 1)}
	x, gen := g.lead(c, nil)
	select {
	case res := <-c.result:
		return res
	case <-ctx.Done():
	}
	if x == nil {
		return result{err: &unreachable{last: ctx.Err()}}
	}
	x.abandon(gen, c, ctx.Err())
	return <-c.result
}

// once asks one upstream the question that is set by fill, once, and waits for a reply until ctx ends. nil means that it replied.
func (u *upstream) once(ctx context.Context, over proto, fill func(*question)) error {
	c := call{result: make(chan result, 1)}
	x := u.group.take()
	gen := x.gen
	x.waiters = append(x.waiters, c)
	fill(&x.question)
	t, own := u.group.turnOr(nil)
	x.mu.Lock()
	x.once = true
	a := x.attempt(u, over, time.Now())
	if err := u.send(a, t); err != nil {
		a.done = true
		x.decide(nil, err)
	}
	x.moved(t, own)
	select {
	case res := <-c.result:
		return res.err
	case <-ctx.Done():
	}
	x.abandon(gen, c, ctx.Err())
	if res := <-c.result; res.err == nil {
		return nil
	}
	return ctx.Err()
}
