package cache

import (
	"bytes"
	"context"
	"time"

	"github.com/clusterdns/clusterdns/server"
	"github.com/clusterdns/clusterdns/server/wire"
)

const (
	// maxFetches bounds the refreshes in flight. Each holds a goroutine and a query's buffers, about 20 KiB. What is over it is
	// refreshed by a later query.
	maxFetches = 512
	// fetchPatience is how long a refresh may take: as long as a client would wait for it (resolv.conf(5)).
	fetchPatience = 5 * time.Second
	// verifyPatience is how long a client waits for a refresh at most: it must still get the expired answer within the five seconds
	// after which resolvers give up.
	verifyPatience = 4 * time.Second
)

// flight is one refresh. Its results may be read once done is closed.
type flight struct {
	done chan struct{}
	// msg is the reply, nil if it does not answer the question.
	msg []byte
	ede []server.ExtendedError
	ttl uint32
	// data says that it is an answer with data.
	data bool
}

// fetch starts to ask for e again, on a goroutine of its own, unless that is going on already, and says whether it did; nil if it cannot be.
func (c *Cache) fetch(q *server.Query, k *key, e *entry) (f *flight, begun bool) {
	p := c.store.part(k.hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.flights[k.hash]; f != nil {
		return f, false
	}
	ctx, ok := c.begin()
	if !ok {
		return nil, false
	}
	f = &flight{done: make(chan struct{})}
	p.flights[k.hash] = f
	r := &refresh{c: c, block: q.Block, k: k.clone(), old: e, f: f, rest: q.Rest(), question: server.Question{
		Name: bytes.Clone(q.Name.Bytes()), Type: q.Type, Class: q.Class, RD: true, AD: true, DO: q.EDNS.DO, CD: q.CD(),
	}}
	go r.run(ctx)
	return f, true
}

// refresh is what the goroutine of a flight needs. Nothing of it belongs to the query that began it.
type refresh struct {
	c        *Cache
	block    *server.Block // whose counters count
	k        key
	old      *entry
	f        *flight
	rest     server.Rest
	question server.Question
}

func (r *refresh) run(ctx context.Context) {
	defer r.c.end()
	ctx, cancel := context.WithTimeout(ctx, fetchPatience)
	defer cancel()
	r.take(r.rest.Exchange(ctx, r.question))
	p := r.c.store.part(r.k.hash)
	p.mu.Lock()
	delete(p.flights, r.k.hash)
	p.mu.Unlock()
	close(r.f.done)
}

// take judges the reply: one that answers the question replaces or ends the old entry, any other leaves it and starts the pause before the next try.
func (r *refresh) take(p *server.Packed) {
	var q server.Query
	q.Flags, q.Block = wire.FlagRD, r.block
	if q.Name.Set(r.question.Name) != nil {
		return // it has been parsed before
	}
	j := r.c.keep(&q, &r.k, p.Msg, p.EDE, r.old)
	if !j.answers {
		r.old.retry.Store(r.c.now(time.Now().Add(r.c.opts.Stale.Recheck)))
		return
	}
	r.f.msg, r.f.ede, r.f.ttl, r.f.data = p.Msg, p.EDE, j.ttl, j.kind == success
	if r.c.outdated(r.f, r.old.kind) {
		r.c.store.forget(&r.k, r.old, r.c.now(time.Now())) // the new one may not have been kept
	}
}

// outdated says whether an expired entry of a kind is of no use any more once f has brought an answer.
func (c *Cache) outdated(f *flight, k kind) bool {
	return f.data || !c.opts.Stale.PreferPositive || k != success
}

// AwaitAnswer asks again for what has expired, and serves the expired entry if that does not help in time.
func (c *Cache) AwaitAnswer(ctx context.Context, r *server.Reply, q *server.Query) server.Verdict {
	k := c.store.key(q)
	now := c.now(time.Now())
	f := c.store.find(&k, now)
	switch {
	case f.entry == nil:
		return c.miss(r, q, &k)
	case !f.stale:
		return c.serve(r, q, &k, f, now)
	}
	if flight, _ := c.fetch(q, &k, f.entry); flight != nil && flight.wait(ctx, c.opts.Stale.Timeout) && flight.msg != nil {
		if c.outdated(flight, f.kind) {
			return c.deliver(r, q, &k, flight)
		}
	}
	return c.serve(r, q, &k, f, c.now(time.Now()))
}

// wait says whether the flight is over in time.
func (f *flight) wait(ctx context.Context, patience time.Duration) bool {
	if patience <= 0 || patience > verifyPatience {
		patience = verifyPatience
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-f.done:
		return true
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// deliver makes the reply that a refresh brought the reply of a query that waited for it.
func (c *Cache) deliver(r *server.Reply, q *server.Query, k *key, f *flight) server.Verdict {
	now := c.now(time.Now())
	if e := c.store.find(k, now); e.entry != nil && !e.stale {
		return c.serve(r, q, k, e, now)
	}
	// It was not to be kept, for one of many reasons, but it is an answer.
	if err := r.Splice(f.msg, server.Splice{Age: everyTTL, MinTTL: f.ttl, Flags: wire.FlagAA | wire.FlagRA | wire.FlagAD}); err != nil {
		return c.miss(r, q, k)
	}
	c.counters(q).cell(q.Shard).misses.Add(1)
	if q.Followed() {
		r.LevelTTL(0, f.ttl)
	}
	for i := range f.ede {
		r.AddEDE(f.ede[i].Code, f.ede[i].Text)
	}
	return server.Done
}
